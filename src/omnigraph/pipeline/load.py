"""A load from beginning to end: files in, one commit out, or nothing.

Read all inputs as tasks, check the rows together, fill vectors, publish once. Nothing is visible
before the last step, and the load's folder is gone after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from omnigraph.base.clock import Clock
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.commit import Terms, commit_changes
from omnigraph.engine.write.embed import fill_vectors
from omnigraph.engine.write.validate import find_violations
from omnigraph.engine.write.violations import ConstraintError, Violation, Violations
from omnigraph.errors import ConflictError, InternalError
from omnigraph.pipeline.check import (
    Places,
    Tables,
    independent,
    places_of,
    row_faults,
    sound_part,
    with_place,
    without_repeats,
)
from omnigraph.pipeline.model import InputError, LoadOptions, LoadResult, Mode, TableLoaded
from omnigraph.pipeline.progress import Progress, Silence
from omnigraph.pipeline.row_ids import MAX_SOURCES
from omnigraph.pipeline.rows import AT
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.sources import Data, Source, find_sources
from omnigraph.pipeline.staging import staging_folder
from omnigraph.pipeline.tasks import Job, Parsed, Task, plan_tasks, run_task
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore, ReadOnlyError
from omnigraph.storage.write import WriteSession

Choose = Callable[[int], "tuple[Runner, str]"]
"""Picks who runs a load of so many bytes, and says why."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The graph a load goes into, and who does it."""

    store: GraphStore
    catalog_of: Callable[[Snapshot], Catalog]
    branch: str
    actor: str | None
    embedder: Embedder | None
    clock: Clock


@dataclass(slots=True)
class _Timer:
    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.clock.monotonic() - started


@dataclass(frozen=True, slots=True)
class _Read:
    """Everything the tasks found."""

    tables: dict[str, pa.Table]
    generated: frozenset[str]
    """Tables whose ids were all made by this load."""
    places: Places
    faults: Violations


def load_data(
    target: LoadTarget,
    data: Data,
    options: LoadOptions,
    choose: Choose,
    progress: Progress | None = None,
) -> LoadResult:
    """Load data into a branch as one commit.

    Raises:
        ConstraintError: rows are wrong; nothing was written. Knows file and line of each.
        InputError: something given cannot be read as data.
        ConflictError: someone else changed what this load relied on.
        ReadOnlyError: the graph may not be written.
    """
    if target.store.read_only:
        raise ReadOnlyError("this graph is open for reading only", hint="open it for writing")
    timer = _Timer(target.clock)
    reporter = progress or Silence()
    catalog = target.catalog_of(target.store.snapshot(target.branch))
    operation_id = target.store.kernel.new_operation_id()
    with staging_folder(target.store, operation_id) as folder:
        with timer.stage("plan"):
            sources = _sources(data, catalog, folder)
            job = Job(catalog, folder, operation_id, options.max_line_bytes)
            tasks = plan_tasks(sources, job, options.split_bytes)
        with timer.stage("start"):
            runner, reason = choose(sum(source.bytes for source in sources))
        with timer.stage("read"):
            read = _read(sources, tasks, runner, reporter)
        reporter.stage("commit", 1)
        session = _begin(target, catalog)
        written = _Writer(session, catalog, options, target.embedder, timer).write(read)
        reporter.done(sum(map(len, written.tables.values())), written.skipped.total)
    rows = {key: len(table) for key, table in sorted(written.tables.items())}
    return LoadResult(
        target.branch,
        options.mode,
        tuple(TableLoaded(key, count) for key, count in rows.items()),
        written.commit_id,
        runner.name,
        reason,
        len(sources),
        written.skipped_count,
        tuple(written.skipped.items),
        written.embedded,
        timer.seconds,
    )


def _sources(data: Data, catalog: Catalog, folder: Path) -> list[Source]:
    sources = find_sources(data, catalog, folder)
    if len(sources) > MAX_SOURCES:
        raise InputError(f"{len(sources)} files in one load", hint=f"at most {MAX_SOURCES} fit")
    return sources


def _begin(target: LoadTarget, catalog: Catalog) -> WriteSession:
    """Start the write only now: reading may have taken long, and the branch may have moved."""
    session = target.store.begin(target.branch, target.actor, writer_kind="Load")
    if target.catalog_of(session.base).schema_hash != catalog.schema_hash:
        raise ConflictError("the schema changed while the data was read", hint="load again")
    return session


def _read(sources: list[Source], tasks: list[Task], runner: Runner, progress: Progress) -> _Read:
    progress.stage("read", len(tasks))
    parsed: list[Parsed] = []
    for one in runner.map(run_task, tasks):
        parsed.append(one)
        progress.done(sum(spill.rows for spill in one.spills), one.fault_total)
    if [one.number for one in parsed] != list(range(len(tasks))):
        raise InternalError("the tasks of a load did not report once each")
    places = places_of(sources, tasks, parsed)
    parts: dict[str, list[pa.Table]] = {}
    given: set[str] = set()
    for spill in (spill for one in parsed for spill in one.spills):
        rows = spill.read()
        if len(rows) != spill.rows:
            raise InternalError(f"{spill.path} holds {len(rows)} rows, not {spill.rows}")
        parts.setdefault(spill.table_key, []).append(rows)
        if not spill.generated_ids:
            given.add(spill.table_key)
    tables = {key: pa.concat_tables(found) for key, found in parts.items()}
    return _Read(tables, frozenset(tables) - given, places, row_faults(parsed, places))


@dataclass(frozen=True, slots=True)
class _Written:
    tables: Tables
    commit_id: str | None
    embedded: int
    skipped: Violations
    skipped_count: int


class _Writer:
    """Checks what was read and commits it."""

    def __init__(
        self,
        session: WriteSession,
        catalog: Catalog,
        options: LoadOptions,
        embedder: Embedder | None,
        timer: _Timer,
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._options = options
        self._embedder = embedder
        self._timer = timer

    def write(self, read: _Read) -> _Written:
        with self._timer.stage("embed"):
            filled = self._filled(read.tables)
            embedded = _nulls(read.tables, self._catalog) - _nulls(filled, self._catalog)
        with self._timer.stage("check"):
            tables, skipped, count = self._checked(filled, read)
        with self._timer.stage("write"):
            commit_id = self._commit(tables, read)
        return _Written(tables, commit_id, embedded, skipped, count)

    def _changes(self, tables: Tables, generated: frozenset[str]) -> ChangeSet:
        return ChangeSet(
            {
                key: _change(rows.drop_columns(AT), self._options.mode, key in generated)
                for key, rows in sorted(tables.items())
                if len(rows)
            }
        )

    def _filled(self, tables: Tables) -> dict[str, pa.Table]:
        changes = ChangeSet({key: TableChange(rows) for key, rows in tables.items()})
        done = fill_vectors(changes, self._catalog, self._embedder)
        return {key: change.upserts for key, change in done.tables.items()}

    def _checked(self, tables: Tables, read: _Read) -> tuple[dict[str, pa.Table], Violations, int]:
        found = read.faults
        refused = found.total
        unique = without_repeats(tables, read.generated, read.places, found)
        given = sum(map(len, tables.values())) + refused

        def find(current: Tables) -> Iterable[Violation]:
            changes = self._changes(current, read.generated)
            return find_violations(changes, self._session.base, self._catalog)

        if self._options.on_error == "skip":
            kept = sound_part(unique, find, self._catalog, read.places, found)
            kept = {key: rows for key, rows in kept.items() if len(rows)}
            return kept, found, given - sum(map(len, kept.values()))
        broken = find(unique)
        for one in independent(broken) if found.total else broken:
            found.add(with_place(one, unique, self._catalog, read.places))
        found.raise_if_any()
        return unique, found, 0

    def _commit(self, tables: Tables, read: _Read) -> str | None:
        changes = self._changes(tables, read.generated)
        if changes.is_empty:
            return None
        counts = {key: len(rows) for key, rows in tables.items()}
        try:
            commit, outcome = commit_changes(
                self._session, changes, self._catalog, Terms(), counts, is_checked=True
            )
        except ConstraintError as error:  # the branch moved meanwhile
            placed = [
                with_place(one, tables, self._catalog, read.places) for one in error.violations
            ]
            raise ConstraintError(placed, error.total) from None
        return commit.id if outcome == "committed" else None


def _change(rows: pa.Table, mode: Mode, generated: bool) -> TableChange:
    match mode:
        case Mode.OVERWRITE:
            return TableChange(rows, replaces=True)
        case Mode.APPEND:
            return TableChange(rows, inserts_new=generated, must_be_new=not generated)
        case Mode.MERGE:
            return TableChange(rows, inserts_new=generated)


def _nulls(tables: Mapping[str, pa.Table], catalog: Catalog) -> int:
    """Return how many vectors are missing that a schema asks to be made from text."""
    return sum(
        tables[node.table_key][embed.target].null_count
        for node in catalog.nodes.values()
        if node.table_key in tables
        for embed in node.embeds.values()
    )

"""A load from beginning to end: files in, one commit out, or nothing.

Three stages on a runner: read and check single rows; check rows together; write fragments. The
driver alone commits, once. Nothing is visible before that, and the load's folder is gone after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never, cast

from omnigraph.api.progress import Progress, listening
from omnigraph.api.words import Mode
from omnigraph.api.writes import LoadResult, TableLoaded
from omnigraph.base.budget import passing
from omnigraph.base.calls import Watch
from omnigraph.base.clock import Clock
from omnigraph.base.runner import InlineRunner
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.maintain import WORTH_ROWS, reconcile_indexes
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.search.spaces import Filled
from omnigraph.engine.write.violations import Violations
from omnigraph.errors import ConflictError, InternalError, OmniGraphError
from omnigraph.pipeline.checks.recheck import CollidedError
from omnigraph.pipeline.checks.spark_checks import SparkChecks
from omnigraph.pipeline.checks.together import (
    Checks,
    InlineChecks,
    check_all,
    compared_rows,
    row_faults,
    sound_part,
)
from omnigraph.pipeline.inputs.row_ids import MAX_SOURCES
from omnigraph.pipeline.inputs.sources import Data, Source, find_sources
from omnigraph.pipeline.load.commit import Commitment, commit_rows
from omnigraph.pipeline.load.embedding_cache import KeepingEmbedder
from omnigraph.pipeline.load.fill import Fills, filled
from omnigraph.pipeline.load.request import request_of
from omnigraph.pipeline.model import ColumnMap, InputError, LoadOptions
from omnigraph.pipeline.run.engines import Engines, require_shared_folder
from omnigraph.pipeline.run.spark import SparkRunner
from omnigraph.pipeline.stages.loaded import Gone, Loaded, loaded_rows, places_of
from omnigraph.pipeline.stages.staging import staging_folder
from omnigraph.pipeline.stages.tasks import Job, Parsed, Task, plan_tasks, run_task
from omnigraph.storage.commit.session import UNCONDITIONAL, Preconditions, WriteSession
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import S3Options
from omnigraph.storage.store import GraphStore, ReadOnlyError

log = logging.getLogger(__name__)

AnyRunner = InlineRunner | SparkRunner
_ATTEMPTS = 3
_MADE = "the load was made before"
# Up to here Arrow compares keys in one process, twenty times as fast as Spark shuffles them, in
# well under two gigabytes.
ROWS_IN_ONE_PROCESS = 12_000_000


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The graph a load goes into, and who does it."""

    store: GraphStore
    catalog_of: Callable[[Snapshot], Catalog]
    branch: str
    actor: str | None
    embedder: Embedder | None
    clock: Clock
    s3: Callable[[], S3Options] = S3Options
    """Says how to reach object stores that inputs are in."""
    message: str | None = None


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
            spent = self.clock.monotonic() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + spent


@dataclass(frozen=True, slots=True)
class _Read:
    """Everything the first stage found."""

    loaded: Loaded
    faults: Violations
    refused: int


@dataclass(frozen=True, slots=True)
class _Done:
    rows: Mapping[str, int]
    commit_id: str | None
    embedded: int
    skipped: Violations
    skipped_count: int
    replayed: bool = False


def load_data(
    target: LoadTarget,
    data: Data,
    options: LoadOptions,
    engines: Engines,
    progress: Progress | None = None,
    idempotency_key: str | None = None,
) -> LoadResult:
    """Load data into a branch as one commit; under a key that was used, return what it did then.

    Raises:
        ConstraintError: rows are wrong; nothing was written. Knows file and line of each.
        InputError: something given cannot be read as data.
        ConflictError: someone else changed what this load relied on.
        IdempotencyConflictError: the key stands for another load.
        ReadOnlyError: the graph may not be written.
    """
    with Watch(target.clock).job("load") as seen:
        done = _load_data(target, data, options, engines, progress, idempotency_key)
        seen.rows = 0 if done.replayed else sum(table.rows_loaded for table in done.tables)
    return done


def _load_data(
    target: LoadTarget,
    data: Data,
    options: LoadOptions,
    engines: Engines,
    progress: Progress | None,
    idempotency_key: str | None,
) -> LoadResult:
    if target.store.read_only:
        raise ReadOnlyError("this graph is open for reading only", hint="open it for writing")
    told = listening(progress)
    timer = _Timer(target.clock)
    catalog = target.catalog_of(target.store.snapshot(target.branch))
    operation_id = target.store.kernel.new_operation_id()
    with staging_folder(target.store, operation_id, options.staging) as folder:
        with timer.stage("plan"):
            sources = _sources(
                target,
                data,
                catalog,
                folder,
                fingerprints=idempotency_key is not None,
                mapping=options.mapping,
            )
            asked = UNCONDITIONAL
            if idempotency_key is not None:
                asked = request_of(idempotency_key, sources, options, target.actor)
                if (done := _done_before(_session(target), asked)) is not None:
                    return _result(target, options, done, ("none", _MADE), len(sources), timer)
            engine = engines.choose(sum(source.bytes for source in sources))
            require_shared_folder(engine.runner, target.store.kernel.root, options.staging)
            job = Job(
                catalog,
                folder,
                operation_id,
                options.max_line_bytes,
                options.max_errors,
                will_fill=target.embedder is not None,
            )
            tasks = plan_tasks(sources, job, options.split_bytes)
        load = _Load(target, job, options, told, timer, asked)
        with timer.stage("read"):
            read = load.read(sources, tasks, engine.runner)
        engine = engines.reconsider(engine)
        done = load.write(read, engine.runner)
        if sum(done.rows.values()) >= WORTH_ROWS and not done.replayed:
            with timer.stage("index"):
                _index(target, engine.runner, told)
    who = (engine.runner.name, engine.reason)
    return _result(target, options, done, who, len(sources), timer)


def _index(target: LoadTarget, runner: AnyRunner, told: Progress) -> None:
    """See to the indexes of what was loaded: by the same tasks elsewhere, or behind the caller.

    The load stands, whatever becomes of them.
    """
    store = target.store
    if not isinstance(runner, SparkRunner):
        store.look_after(target.branch)
        return
    told.stage("index", 1)
    try:
        catalog = target.catalog_of(store.snapshot(target.branch))
        reconcile_indexes(store, catalog, target.branch, runner=runner)
    except OmniGraphError as error:
        log.warning("indexes of '%s' are left to upkeep: %s", target.branch, error)
    told.done(0, 0)


def _result(
    target: LoadTarget,
    options: LoadOptions,
    done: _Done,
    engine: tuple[str, str],
    files: int,
    timer: _Timer,
) -> LoadResult:
    return LoadResult(
        str(target.store.kernel.root),
        target.branch,
        options.mode,
        tuple(TableLoaded(key, count) for key, count in sorted(done.rows.items())),
        done.commit_id,
        *engine,
        files,
        done.skipped_count,
        tuple(done.skipped.items),
        done.embedded,
        timer.seconds,
        actor_id=target.actor,
        replayed=done.replayed,
    )


def _session(target: LoadTarget) -> WriteSession:
    return target.store.begin(
        target.branch, target.actor, writer_kind="Load", message=target.message
    )


def _done_before(session: WriteSession, asked: Preconditions) -> _Done | None:
    """Return what the request has already done, if it is known by now."""
    commit = session.require(asked)
    return None if commit is None else _replayed(commit)


def _replayed(commit: Commit) -> _Done:
    """Return what a load did when it was made first; which rows it left out is not kept."""
    told = cast("Mapping[str, Any]", commit.result)
    return _Done(
        told["rows"], commit.id, told["embedded"], Violations(), told["skipped"], replayed=True
    )


def _sources(
    target: LoadTarget,
    data: Data,
    catalog: Catalog,
    folder: Path,
    *,
    fingerprints: bool,
    mapping: ColumnMap,
) -> list[Source]:
    sources = find_sources(
        data, catalog, folder, target.s3, fingerprints=fingerprints, mapping=mapping
    )
    if len(sources) > MAX_SOURCES:
        raise InputError(f"{len(sources)} files in one load", hint=f"at most {MAX_SOURCES} fit")
    return sources


@dataclass(frozen=True, slots=True)
class _Load:
    """The stages of one load, in order."""

    target: LoadTarget
    job: Job
    options: LoadOptions
    progress: Progress
    timer: _Timer
    preconditions: Preconditions

    def read(self, sources: list[Source], tasks: list[Task], runner: AnyRunner) -> _Read:
        self.progress.stage("read", len(tasks))
        parsed: list[Parsed] = []
        for one in runner.map(run_task, tasks):
            parsed.append(one)
            rows = sum(spill.rows for spill in one.spills)
            self.progress.done(rows, one.fault_total, tasks[one.number].bytes)
        if [one.number for one in parsed] != list(range(len(tasks))):
            raise InternalError("the tasks of a load did not report once each")
        places = places_of(sources, tasks, parsed)
        faults = row_faults(parsed, places, self.options.max_errors)
        loaded = loaded_rows(self.job.catalog, parsed, places)
        return _Read(loaded, faults, sum(one.refused for one in parsed))

    def write(self, read: _Read, runner: AnyRunner) -> _Done:
        """Check and commit, again if ids that were new to the check are not to the commit."""
        with self._embedder() as embedder:
            for attempt in range(_ATTEMPTS):
                try:
                    return self._write(read, runner, embedder)
                except CollidedError:
                    if attempt + 1 == _ATTEMPTS:
                        raise
        raise InternalError("unreachable: the last attempt returns or raises")

    def _embedder(self) -> AbstractContextManager[Embedder | None]:
        """Return one that makes no vector twice, however often the load is checked."""
        inner = self.target.embedder
        return nullcontext() if inner is None else KeepingEmbedder(inner, self.job.folder)

    def _write(self, read: _Read, runner: AnyRunner, embedder: Embedder | None) -> _Done:
        """Check and commit on top of the branch as it is now: reading may have taken long."""
        session = self._begin()
        if (done := _done_before(session, self.preconditions)) is not None:
            return done  # carried out while we read: its rows would be in the way of our own
        loaded = read.loaded
        self.progress.stage("check", 1)
        with self.timer.stage("check"), passing():
            gone, skipped = self._checked(read, session.base, runner)
        rows = {key: loaded.count(key, gone) for key in loaded.keys}
        rows = {key: count for key, count in rows.items() if count}
        self.progress.done(sum(rows.values()), skipped.total)
        with self.timer.stage("embed"):
            whole, made = filled(loaded, gone, embedder, self.job.folder)
        left_out = read.refused + sum(map(len, gone.values()))
        embedded, commit_id = sum(one.made for one in made.values()), None
        if rows:
            told = {"rows": rows, "skipped": left_out, "embedded": embedded}
            written = commit_rows(
                Commitment(
                    session,
                    whole,
                    gone,
                    rows,
                    self.options,
                    self.target.catalog_of,
                    self._fills(loaded.catalog, made),
                    self.preconditions,
                    told,
                ),
                runner,
                self.progress,
                self.timer.stage,
            )
            if written.outcome == "replayed":
                return _replayed(written.commit)
            commit_id = written.id if written.outcome == "committed" else None
        return _Done(rows, commit_id, embedded, skipped, left_out)

    def _fills(self, catalog: Catalog, made: Fills) -> tuple[Filled, ...]:
        """Return which columns were filled, and by whom; an overwritten table has no others."""
        embedder = self.target.embedder
        if embedder is None:
            return ()
        nodes = {node.table_key: node for node in catalog.nodes.values()}
        whole = self.options.mode is Mode.OVERWRITE
        return tuple(
            Filled(nodes[key], target, embedder.space, whole, beside_given=one.given > 0)
            for (key, target), one in made.items()
        )

    def _begin(self) -> WriteSession:
        target, session = self.target, _session(self.target)
        if target.catalog_of(session.base).schema_hash != self.job.catalog.schema_hash:
            raise ConflictError("the schema changed while the data was read", hint="load again")
        return session

    def _checked(self, read: _Read, base: Snapshot, runner: AnyRunner) -> tuple[Gone, Violations]:
        found = Violations(self.options.max_errors)
        found.items, found.total = list(read.faults.items), read.faults.total
        checks = self._checks(read.loaded, base, runner)
        if self.options.on_error == "skip":
            return sound_part(checks, read.loaded, found), found
        check_all(checks, read.loaded, found)
        return {}, found

    def _checks(self, loaded: Loaded, base: Snapshot, runner: AnyRunner) -> Checks:
        """Return who compares the rows: Spark only where one process could not hold their keys."""
        mode = self.options.mode
        match runner:
            case SparkRunner() if compared_rows(loaded, mode, base) > ROWS_IN_ONE_PROCESS:
                return SparkChecks(loaded, mode, base, runner, self.job.folder)
            case InlineRunner() | SparkRunner():
                return InlineChecks(loaded, mode, base)
            case _:
                assert_never(runner)

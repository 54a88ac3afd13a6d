"""Tables of which more changed than fits into memory, merged range by range of their ids.

The rows that may differ are written to disk, cut at the same ids for both sides; then every range
is decided by itself, and what becomes of it is written as fragments of the target, which nobody
sees before the commit. Both steps are tasks that may run twice, here or on Spark. Held at once are
one range, and of all changed rows their ids and the columns by which rows can be in the way.

Rows in which several bases differ are few, and not decided here.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint
from omnigraph.base.ids import TableKey
from omnigraph.base.runner import InlineRunner, Runner
from omnigraph.compiler.catalog.model import EdgeType, NodeType
from omnigraph.engine.merge.images import ID, changed_ids, joined, only
from omnigraph.engine.merge.resolve import Resolutions, settle
from omnigraph.engine.merge.rows import RowConflicts, TableMerge, all_conflicts, decide
from omnigraph.engine.write.validate import key_columns
from omnigraph.storage.commit.session import WriteSession
from omnigraph.storage.delta.confirm import Changed
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.delta.sorted_spill import SpilledRows, boundaries, disk_errors
from omnigraph.storage.delta.table import MEMORY, SidePart, TableDelta, table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.options import StorageOptions
from omnigraph.storage.store import GraphStore, open_store
from omnigraph.storage.tables.foreign import ForeignFragment, FragmentTarget, write_foreign
from omnigraph.storage.tables.stage import conform

LARGE = MEMORY
"""Bytes of rows that may differ from which on a table is merged range by range."""
RANGE = 8 << 20
"""Bytes of one range, of all sides together: ids are not spread evenly, and rows are copied."""
_SQUEEZED = 8
"""Rows take this much more room in memory than in files, if they are few; more are looked at."""
_FEW = 100_000
_RUN = 8 << 20
_PARTS_PER_WORKER = 2
_BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Means:
    """Who goes through large tables, given how many bytes they are, and where rows are kept."""

    runner: Callable[[int], Runner] = lambda _: InlineRunner()
    staging: Path | None = None
    """A folder that all processes see, if not beside the graph."""


BY_ITSELF = Means()


@dataclass(frozen=True, slots=True)
class _Job:
    """What all tasks of one table share."""

    uri: str
    options: StorageOptions
    columns: Sequence[ColumnPair] | None
    base: TableVersion | None
    theirs: TableVersion
    ours_columns: Sequence[ColumnPair] | None
    ours: TableVersion
    without: frozenset[int]
    disputed: pa.Array
    kind: NodeType | EdgeType
    said: Resolutions
    folder: Path
    cuts: pa.Array
    target: FragmentTarget | None
    """Where rows are written; None if nothing is to be."""

    def deltas(self, store: GraphStore) -> tuple[TableDelta, TableDelta]:
        """Return what both sides did since the base."""
        delta = partial(table_delta, store.kernel, self.base)
        return (
            delta(self.theirs, columns=self.columns),
            delta(self.ours, columns=self.ours_columns),
        )

    def left_out(self, side: int) -> frozenset[int]:
        """Return the fragments of a side that are taken over as they are."""
        return self.without if side == 0 else frozenset()


@dataclass(frozen=True, slots=True)
class _SpillTask:
    """Write some candidates of one delta to disk: 0 is that of theirs, 1 that of ours."""

    job: _Job
    delta: int
    part: SidePart


@dataclass(frozen=True, slots=True)
class _DecideTask:
    """Decide some ranges, and write what becomes of them."""

    job: _Job
    spilled: tuple[tuple[int, int, SpilledRows], ...]
    """Files of rows, each with its delta and its side."""
    ranges: tuple[int, ...]

    def files(self, delta: int, side: int) -> list[SpilledRows]:
        """Return the files of one side of one delta."""
        return [rows for of, at, rows in self.spilled if (of, at) == (delta, side)]


@dataclass(slots=True)
class _Decided:
    """What becomes of some ranges: written rows by their keys, and what is still to be told."""

    written: tuple[ForeignFragment, ...] = ()
    changes: list[Changed] = field(default_factory=list)
    settled: list[pa.Table] = field(default_factory=list)
    kept: list[pa.Table] = field(default_factory=list)
    kept_away: list[pa.Array] = field(default_factory=list)
    agreed: list[pa.Array] = field(default_factory=list)
    conflicts: list[RowConflicts] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Large:
    """What it takes to merge large tables of one target."""

    store: GraphStore
    means: Means
    said: Resolutions
    folder: Callable[[], Path]
    target: Callable[[TableKey], FragmentTarget] | None
    """Where rows of a table are written; None for a preview."""

    def merged(
        self,
        kind: NodeType | EdgeType,
        sides: tuple[TableVersion | None, TableVersion, TableVersion],
        found: TableMerge,
        delta: TableDelta,
        other: TableDelta,
        without: Collection[int],
        disputed: pa.Array,
    ) -> bool:
        """Decide all rows that theirs changed, but those in dispute, if they are too many to hold.

        Args:
            kind: the type.
            sides: the table at the base, on the side that is merged in, and on the other.
            found: what is known of the table; what is decided is added.
            delta: what theirs did since the base.
            other: what ours did.
            without: fragments of theirs that are taken over as they are.
            disputed: ids of rows in which several bases differ.
        """
        stored, rows = delta.stored_bytes(without=without), sum(delta.candidates)
        if rows <= _FEW and stored * _SQUEEZED <= LARGE:
            return False
        if sum(delta.sizes(without=without)) <= LARGE:
            return False
        deltas = (delta, other)
        out = (frozenset(without), frozenset[int]())
        size = sum(sum(one.sizes(without=left)) for one, left in zip(deltas, out, strict=True))
        samples = itertools.chain(delta.some_ids(without=without), other.some_ids())
        job = _Job(
            str(self.store.kernel.root),
            self.store.kernel.options,
            delta.columns,
            sides[0],
            sides[1],
            other.columns,
            sides[2],
            out[0],
            disputed,
            kind,
            self.said,
            self.folder(),
            boundaries(samples, 1 + size // RANGE),
            None if self.target is None else self.target(found.key),
        )
        runner = self.means.runner(size)
        parts = max(runner.parallelism * _PARTS_PER_WORKER, 1)
        spills = [
            _SpillTask(job, at, SidePart(side, number, parts))
            for at, one in enumerate(deltas)
            for side in (0, 1)
            if one.candidates[side]
            for number in range(parts)
        ]
        spilled = tuple(runner.map(_spill, spills))
        ranges = range(len(job.cuts) + 1)
        count = 1 if runner.parallelism == 1 else parts
        tasks = [
            _DecideTask(job, spilled, tuple(some))
            for number in range(count)
            if (some := ranges[len(ranges) * number // count : len(ranges) * (number + 1) // count])
        ]
        for done in runner.map(_decide_ranges, tasks):
            _take_in(found, done)
        return True


@contextmanager
def large_tables(
    store: GraphStore, session: WriteSession | None, means: Means, said: Resolutions
) -> Iterator[Large]:
    """Return how large tables are merged; what is kept on disk for it goes with the block.

    Args:
        store: of the graph.
        session: the write that rows are written for, which has to end within; none for a preview.
        means: who does it, and where.
        said: how conflicts are settled.
    """
    with ExitStack() as stack:

        @cache
        def folder() -> Path:
            made = _scratch(store, means.staging)
            stack.callback(shutil.rmtree, made, ignore_errors=True)
            return made

        def target(key: TableKey) -> FragmentTarget:
            assert session is not None
            return stack.enter_context(session.load([key])).target(key)

        yield Large(store, means, said, folder, None if session is None else target)


def _scratch(store: GraphStore, staging: Path | None) -> Path:
    kernel = store.kernel
    operation = kernel.new_operation_id()
    if staging is not None:
        folder = staging.absolute() / operation
    elif kernel.root.is_local:
        folder = kernel.objects.path(layout.staging(operation)).absolute()
    else:
        return Path(tempfile.mkdtemp(prefix="omnigraph-merge-"))
    with disk_errors(folder):
        folder.mkdir(parents=True)
    return folder


def _spill(task: _SpillTask) -> tuple[int, int, SpilledRows]:
    job = task.job
    with open_store(job.uri, read_only=True, options=job.options) as store:
        delta = job.deltas(store)[task.delta]
        file = job.folder / f"{uuid.uuid4().hex}.arrow"
        left_out = job.left_out(task.delta)
        rows = delta.spill(task.part, file, job.cuts, _RUN, without=left_out)
    return task.delta, task.part.side, rows


def _decide_ranges(task: _DecideTask) -> _Decided:
    job, done = task.job, _Decided()
    with open_store(job.uri, read_only=True, options=job.options) as store:
        pieces = _pieces(task, job.deltas(store), done)
        if job.target is None:
            for _ in pieces:
                pass
        elif (first := next(pieces, None)) is not None:
            rows = _batches(itertools.chain([first], pieces), job.target.schema)
            reader = pa.RecordBatchReader.from_batches(job.target.schema, rows)
            done.written = tuple(write_foreign(job.target, reader))
    return done


def _batches(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in pieces:
        yield from conform(rows, schema).cast(schema).to_batches(_BATCH_ROWS)


def _pieces(
    task: _DecideTask, deltas: tuple[TableDelta, TableDelta], done: _Decided
) -> Iterator[pa.Table]:
    """Yield the rows to write, range by range; everything else is noted."""
    job, names = task.job, key_columns(task.job.kind)
    for number in task.ranges:
        found = TableMerge(TableKey(job.kind.table_key))
        _decide_range(found, task, deltas, number)
        settle(found, job.said, job.kind)
        for rows in (*found.inserted, *found.updated):
            if len(rows):
                checkpoint("merging", rows.nbytes)
                yield rows
        _note(found, names, done)


def _decide_range(
    found: TableMerge,
    task: _DecideTask,
    deltas: tuple[TableDelta, TableDelta],
    number: int,
) -> None:
    """Apply the truth table to one range."""
    sides = [
        deltas[at].compared(
            task.files(at, 0), task.files(at, 1), number, without=task.job.left_out(at)
        )
        for at in (0, 1)
    ]
    disputed = task.job.disputed
    ours = joined(sides[1])
    shared = disputed if ours is None else pa.concat_arrays([disputed, changed_ids(ours)])
    aside: list[Changed] = []
    for part in sides[0]:
        mine = only(part, disputed, inverted=True) if len(disputed) else part
        both = only(mine, shared)
        found.take(only(mine, shared, inverted=True) if both.rows else mine)
        aside += [both] if both.rows else []
    contested = joined(aside)
    if contested is not None:
        ids = changed_ids(contested)
        decide(found, ids, contested, None if ours is None else only(ours, ids))


def _note(found: TableMerge, names: Sequence[str], done: _Decided) -> None:
    """Keep what a range comes to, of its written rows only the columns that rules ask for."""
    put = [[rows.select(names) for rows in some] for some in (found.inserted, found.updated)]
    gone = found.own_deletes
    before = pa.concat_tables(found.before) if found.before else None
    if before is not None:
        is_gone = pc.is_in(before[ID], value_set=gone)
        stays, goes = before.filter(pc.invert(is_gone)), before.filter(is_gone)
        nothing = before.select([ID]).slice(0, 0)
    else:
        stays = goes = nothing = pa.table({ID: pa.array([], pa.string())})
    inserted, updated = (pa.concat_tables(some) if some else nothing for some in put)
    if len(inserted) or len(updated) or before is not None:
        done.changes.append(Changed(inserted, stays, updated, goes))
    done.settled += found.settled
    done.kept += [rows.select(names) for rows in found.kept]
    done.kept_away += found.kept_away
    done.agreed.append(found.agreed)
    if found.conflicts is not None:
        done.conflicts.append(found.conflicts)


def _take_in(found: TableMerge, done: _Decided) -> None:
    found.written = (*found.written, *done.written)
    found.elsewhere += done.changes
    found.settled += done.settled
    found.kept += done.kept
    found.kept_away += done.kept_away
    found.agreed = pa.concat_arrays([found.agreed, *done.agreed])
    known = [] if found.conflicts is None else [found.conflicts]
    found.conflicts = all_conflicts([*known, *done.conflicts])

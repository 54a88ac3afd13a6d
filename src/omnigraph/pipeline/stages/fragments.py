"""Fragments of tables in tasks: some of a committed table's are read, new ones are written.

Both are told where a table is, not which graph it belongs to. What is written is reported and not
visible before the driver commits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import AT
from omnigraph.pipeline.stages.loaded import without
from omnigraph.pipeline.stages.staging import Spill
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.foreign import ForeignFragment, FragmentTarget, write_foreign
from omnigraph.storage.tables.stage import conform
from omnigraph.storage.tables.tasks import DatasetAt, dataset_at

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class TablePiece:
    """Some fragments of one table at one version."""

    dataset: DatasetAt
    fragments: tuple[int, ...]

    def batches(
        self, columns: Sequence[str] | None = None, *, blobs: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of the fragments, in storage order; blobs whole or described."""
        with lance_errors(f"reading {self.dataset.uri}"):
            dataset = self.dataset.open()
            chosen = [dataset.get_fragment(number) for number in self.fragments]
            yield from dataset.scanner(
                columns=None if columns is None else list(columns),
                fragments=[one for one in chosen if one is not None],
                scan_in_order=True,
                blob_handling="all_binary" if blobs else None,
            ).to_batches()


def table_pieces(snapshot: Snapshot, key: str, wanted: int) -> list[TablePiece]:
    """Return a table in about as many pieces as wanted, whole fragments each."""
    handle = snapshot.handle(key)
    with lance_errors(f"looking at the fragments of {handle}"):
        numbers = [part.fragment_id for part in handle.dataset.get_fragments()]
    size = max(-(-len(numbers) // max(wanted, 1)), 1)
    place = dataset_at(snapshot.kernel.tables, handle)
    return [
        TablePiece(place, tuple(numbers[start : start + size]))
        for start in range(0, len(numbers), size)
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one spilled file."""

    path: Path
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Write rows as fragments of one table; `gone` are the numbers of rows to leave out."""

    table_key: str
    target: FragmentTarget
    parts: tuple[Part, ...]
    gone: Ints


@dataclass(frozen=True, slots=True)
class Written:
    """The fragments one task wrote."""

    table_key: str
    fragments: tuple[ForeignFragment, ...]

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(fragment.rows for fragment in self.fragments)


def plan_writes(
    key: str, target: FragmentTarget, spills: Sequence[Spill], gone: Ints, tasks: int
) -> list[WriteTask]:
    """Return tasks of whole fragments each, about as many as asked for."""
    total = sum(spill.rows for spill in spills)
    fragments = -(-total // target.max_rows_per_file)
    rows = max(-(-fragments // max(tasks, 1)), 1) * target.max_rows_per_file
    return [WriteTask(key, target, parts, gone) for parts in _cut(spills, rows)]


def _cut(spills: Sequence[Spill], rows: int) -> Iterator[tuple[Part, ...]]:
    """Yield runs of spilled rows, in order, of `rows` rows each."""
    parts: list[Part] = []
    room = rows
    for spill in spills:
        start = 0
        while start < spill.rows:
            count = min(room, spill.rows - start)
            parts.append(Part(spill.path, start, count))
            start, room = start + count, room - count
            if not room:
                yield tuple(parts)
                parts, room = [], rows
    if parts:
        yield tuple(parts)


def write_part(task: WriteTask) -> Written:
    """Write the rows of a task; they are streamed, whatever their number."""
    schema = task.target.schema
    reader = pa.RecordBatchReader.from_batches(schema, _batches(task))
    return Written(task.table_key, tuple(write_foreign(task.target, reader)))


def _batches(task: WriteTask) -> Iterator[pa.RecordBatch]:
    for part in task.parts:
        with pa.memory_map(str(part.path)) as source:
            rows = pa.ipc.open_file(source).read_all().slice(part.start, part.count)
        for batch in without(rows, task.gone).to_batches(_BATCH_ROWS):
            found = pa.Table.from_batches([batch]).drop_columns(AT)
            yield from conform(found, task.target.schema).cast(task.target.schema).to_batches()

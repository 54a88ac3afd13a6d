"""Key columns of loaded and of committed rows, written as Parquet by tasks for Spark to join."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.engine.write.validate import key_columns
from omnigraph.pipeline.inputs.rows import AT, Kind, key_table
from omnigraph.pipeline.stages.fragments import TablePiece, table_pieces
from omnigraph.pipeline.stages.staging import Spill
from omnigraph.storage.manifest.snapshot import Snapshot

_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Write the key columns of some rows."""

    kind: Kind
    rows: TablePiece | Spill
    folder: Path


def committed_keys(base: Snapshot, kind: Kind, folder: Path, tasks: int) -> list[KeysTask]:
    """Return tasks that write the keys of a whole table."""
    pieces = table_pieces(base, kind.table_key, tasks)
    return [KeysTask(kind, piece, folder) for piece in pieces]


def loaded_keys(spills: Sequence[Spill], kind: Kind, folder: Path) -> list[KeysTask]:
    """Return tasks that write the keys of loaded rows, with their numbers."""
    return [KeysTask(kind, spill, folder) for spill in spills]


def write_keys(task: KeysTask) -> Path:
    """Write the keys and return where; a second run writes another file."""
    path = task.folder / f"keys.{uuid.uuid4().hex}.parquet"
    empty, pieces = _read(task)
    texts = key_table(task.kind, empty).schema
    with pq.ParquetWriter(path, texts, compression="snappy") as writer:
        for rows in pieces:
            writer.write_table(key_table(task.kind, rows))
    return path


def _read(task: KeysTask) -> tuple[pa.Table, Iterator[pa.Table]]:
    """Return an empty table with the columns of the rows, and the rows piece by piece."""
    names = key_columns(task.kind)
    if isinstance(task.rows, TablePiece):
        batches = task.rows.batches(names)
        empty = arrow_schema(task.kind).empty_table()
        return empty, (pa.Table.from_batches([batch]) for batch in batches)
    mapped = task.rows.read().select([AT, *names])
    starts = range(0, len(mapped), _ROWS_AT_ONCE)
    return mapped.slice(0, 0), (mapped.slice(start, _ROWS_AT_ONCE) for start in starts)

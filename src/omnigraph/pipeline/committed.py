"""Keys of committed rows, written as Parquet by tasks for Spark to join with a load's own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.engine.write.validate import key_columns
from omnigraph.pipeline.fragments import TablePiece, table_pieces
from omnigraph.pipeline.rows import Kind, key_table
from omnigraph.storage.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Write the key columns of some committed rows."""

    kind: Kind
    piece: TablePiece
    folder: Path


def plan_keys(base: Snapshot, kind: Kind, folder: Path, tasks: int) -> list[KeysTask]:
    """Return tasks that write the keys of a whole table."""
    pieces = table_pieces(base, kind.table_key, tasks)
    return [KeysTask(kind, piece, folder) for piece in pieces]


def write_keys(task: KeysTask) -> Path:
    """Write the keys and return where; a second run writes another file."""
    path = task.folder / f"committed.{uuid.uuid4().hex}.parquet"
    texts = key_table(task.kind, _empty(task.kind)).schema
    with pq.ParquetWriter(path, texts, compression="snappy") as writer:
        for batch in task.piece.batches(key_columns(task.kind)):
            writer.write_table(key_table(task.kind, pa.Table.from_batches([batch])))
    return path


def _empty(kind: Kind) -> pa.Table:
    return arrow_schema(kind).empty_table()

"""The unit of work: read one piece of input, spill typed rows, report.

A task runs anywhere and any number of times; it knows files and the schema, never the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.pipeline.faults import Fault, Faults
from omnigraph.pipeline.lines import Compression, read_blocks
from omnigraph.pipeline.records import read_rows
from omnigraph.pipeline.rows import AT, Kind, Origin, Rows, to_table
from omnigraph.pipeline.sources import LinesSource, Source, TableFormat
from omnigraph.pipeline.staging import Spill, SpillWriter
from omnigraph.pipeline.tables import read_table

ROW_BITS = 40
"""`AT` of a spilled row is its task's number above its row number, which has this many bits."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a load share."""

    catalog: Catalog
    folder: Path
    operation_id: str
    max_line_bytes: int


@dataclass(frozen=True, slots=True)
class LinesTask:
    """Read the lines that start in `[start, end)` of a file."""

    job: Job
    number: int
    source: int
    path: Path
    compression: Compression | None
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class TableTask:
    """Read a file that holds rows of one type."""

    job: Job
    number: int
    source: int
    name: str
    path: Path
    format: TableFormat
    table_key: str


Task = LinesTask | TableTask


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a task found."""

    number: int
    spills: tuple[Spill, ...]
    lines: int
    faults: tuple[Fault, ...]
    fault_total: int


def plan_tasks(sources: list[Source], job: Job, split_bytes: int) -> list[Task]:
    """Return the tasks that read all sources; only plain text files are worth splitting."""
    tasks: list[Task] = []
    for at, source in enumerate(sources):
        match source:
            case LinesSource(_, path, None, size) if size > split_bytes:
                for start in range(0, size, split_bytes):
                    end = None if start + split_bytes >= size else start + split_bytes
                    tasks.append(LinesTask(job, len(tasks), at, path, None, start, end))
            case LinesSource(_, path, compression, _):
                tasks.append(LinesTask(job, len(tasks), at, path, compression, 0, None))
            case _:
                tasks.append(
                    TableTask(
                        job,
                        len(tasks),
                        at,
                        source.name,
                        source.path,
                        source.format,
                        source.table_key,
                    )
                )
    return tasks


def run_task(task: Task) -> Parsed:
    """Read, check row by row, spill."""
    faults = Faults()
    writer = SpillWriter(task.job.folder)
    lines = 0
    match task:
        case LinesTask():
            lines = _run_lines(task, writer, faults)
        case TableTask():
            kind = kind_by_key(task.job.catalog, task.table_key)
            for rows in read_table(task.path, task.name, task.format, kind, faults):
                _spill(rows, task, writer, faults)
        case _:
            assert_never(task)
    items = tuple(sorted(faults.items, key=lambda fault: fault.row))
    return Parsed(task.number, writer.close(), lines, items, faults.total)


def _run_lines(task: LinesTask, writer: SpillWriter, faults: Faults) -> int:
    job, count = task.job, 0
    for block in read_blocks(
        task.path, task.compression, task.start, task.end, max_line_bytes=job.max_line_bytes
    ):
        found, lines = read_rows(block, count + 1, job.catalog, job.max_line_bytes, faults)
        for rows in found:
            _spill(rows, task, writer, faults)
        count += lines
    return count


def _spill(rows: Rows, task: Task, writer: SpillWriter, faults: Faults) -> None:
    table = to_table(rows, Origin(task.job.operation_id, task.source), faults)
    numbered = pa.array(np.asarray(table[AT]) | (task.number << ROW_BITS))
    table = table.set_column(table.schema.get_field_index(AT), AT, numbered)
    keyed = bool(getattr(rows.kind, "key", ()))
    generated = not keyed and rows.ids.null_count == len(rows.ids)
    if len(table):
        writer.write(rows.kind, table, generated_ids=generated)


def kind_by_key(catalog: Catalog, table_key: str) -> Kind:
    """Return the type of a table."""
    word, _, name = table_key.partition(":")
    return catalog.nodes[name] if word == "node" else catalog.edges[name]

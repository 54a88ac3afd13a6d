"""The first stage's unit of work: read one piece of input, check row by row, spill, report.

A task runs anywhere and any number of times; it knows files and the schema, never the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import checkpoint
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import MAX_REPORTED
from omnigraph.pipeline.inputs.dialect import PLAIN, Dialect
from omnigraph.pipeline.inputs.faults import Fault, Faults
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import Compression, read_blocks
from omnigraph.pipeline.inputs.records import read_rows
from omnigraph.pipeline.inputs.rows import AT, Origin, TypedRows, tell_more, to_table
from omnigraph.pipeline.inputs.sources import LinesSource, Source, TableFormat
from omnigraph.pipeline.inputs.tables import read_table
from omnigraph.pipeline.model import AS_THEY_ARE, Columns
from omnigraph.pipeline.stages.staging import Spill, SpillWriter

ROW_BITS = 40
"""`AT` of a spilled row is its task's number above its row number, which has this many bits."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a load share."""

    catalog: Catalog
    folder: Path
    operation_id: str
    max_line_bytes: int
    max_errors: int = MAX_REPORTED
    will_fill: bool = False
    """Whether missing `@embed` vectors will be made from their text later."""


@dataclass(frozen=True, slots=True)
class LinesTask:
    """Read the lines that start in `[start, end)` of a file."""

    job: Job
    number: int
    source: int
    path: InputFile
    compression: Compression | None
    start: int
    end: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class TableTask:
    """Read a file that holds rows of one type."""

    job: Job
    number: int
    source: int
    name: str
    path: InputFile
    format: TableFormat
    table_key: str
    bytes: int
    columns: Columns = AS_THEY_ARE
    dialect: Dialect = PLAIN


Task = LinesTask | TableTask


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a task found."""

    number: int
    spills: tuple[Spill, ...]
    lines: int
    faults: tuple[Fault, ...]
    fault_total: int
    refused: int
    """How many rows were refused."""


def plan_tasks(sources: list[Source], job: Job, split_bytes: int) -> list[Task]:
    """Return the tasks that read all sources; only plain text files are worth splitting."""
    tasks: list[Task] = []
    for at, source in enumerate(sources):
        match source:
            case LinesSource(_, path, None, size) if size > split_bytes:
                for start in range(0, size, split_bytes):
                    stop = min(start + split_bytes, size)
                    end = None if stop == size else stop
                    number, length = len(tasks), stop - start
                    tasks.append(LinesTask(job, number, at, path, None, start, end, length))
            case LinesSource(_, path, compression, size):
                tasks.append(LinesTask(job, len(tasks), at, path, compression, 0, None, size))
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
                        source.bytes,
                        source.columns,
                        source.dialect,
                    )
                )
    return tasks


def run_task(task: Task) -> Parsed:
    """Read, check row by row, spill."""
    faults = Faults(task.job.max_errors)
    writer = SpillWriter(task.job.folder)
    lines = 0
    match task:
        case LinesTask():
            lines = _run_lines(task, writer, faults)
        case TableTask():
            kind = task.job.catalog.type_named(task.table_key)
            columns, dialect = task.columns, task.dialect
            for rows in read_table(
                task.path, task.name, task.format, kind, faults, columns, dialect
            ):
                _spill([rows], task, writer, faults)
        case _:
            assert_never(task)
    return Parsed(task.number, writer.close(), lines, faults.items, faults.total, faults.refused)


def _run_lines(task: LinesTask, writer: SpillWriter, faults: Faults) -> int:
    job, count = task.job, 0
    for block in read_blocks(
        task.path, task.compression, task.start, task.end, max_line_bytes=job.max_line_bytes
    ):
        found, lines = read_rows(block, count + 1, job.catalog, job.max_line_bytes, faults)
        by_type: dict[str, list[TypedRows]] = {}
        for rows in found:
            by_type.setdefault(rows.kind.table_key, []).append(rows)
        for parts in by_type.values():
            _spill(parts, task, writer, faults)
        count += lines
    return count


def _spill(parts: list[TypedRows], task: Task, writer: SpillWriter, faults: Faults) -> None:
    """Write rows of one type that break no rule by themselves, in the order of the input."""
    for rows in parts:
        if rows.misfits is not None:
            tell_more(rows, _origin(task), faults, filled=not task.job.will_fill)
    parts = [rows for rows in parts if rows.misfits is None]
    if not parts:
        return
    kind = parts[0].kind
    table = _in_order([_sound(rows, task, faults) for rows in parts])
    checkpoint("load", 3 * table.nbytes)  # as text, as values, and in the order of the input
    if not len(table):
        return
    numbered = pa.array(np.asarray(table[AT]) | (task.number << ROW_BITS))
    table = table.set_column(table.schema.get_field_index(AT), AT, numbered)
    keyed = bool(getattr(kind, "key", ()))
    generated = not keyed and all(rows.ids.null_count == len(rows.ids) for rows in parts)
    writer.write(kind, table, generated_ids=generated)


def _sound(rows: TypedRows, task: Task, faults: Faults) -> pa.Table:
    table = to_table(rows, _origin(task), faults)
    found = broken_values(rows.kind, table, filled=not task.job.will_fill)
    bad = faults.add_broken(found, np.asarray(table[AT]))
    return table.filter(pa.array(~bad)) if bad.any() else table


def _origin(task: Task) -> Origin:
    return Origin(task.job.operation_id, task.source)


def _in_order(tables: list[pa.Table]) -> pa.Table:
    """Return rows that were sorted by how they are written in the order they came in."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).sort_by(AT)

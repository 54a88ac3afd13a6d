"""Columns that are computed from others: one more file per fragment, nothing else is written.

Rows keep their place, their id and their other columns' files; memory holds one batch at a time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from lance import LanceOperation
from lance.fragment import FragmentMetadata, LanceFragment

from omnigraph.base.budget import checkpoint
from omnigraph.errors import StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.tables.alter import Alter, edited, require_columns
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle

_BATCH_ROWS = 16_384
_AT_ONCE = 3
"""Fragments written side by side: each holds a batch, and one waits for the disk."""
_FRESH = "_new-"
"""Before the name of a computed column, until the one it replaces is gone; in no own name."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A column and how its values come from others, which are called as they are stored now."""

    column: pa.Field
    reads: tuple[str, ...]
    compute: Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Change the columns of a table, and fill some; a filled one may replace one of its name."""

    columns: tuple[Computed, ...]
    alter: Alter = field(default_factory=Alter)
    """What else happens to the columns: without those that are computed."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The operation that makes it visible, and the files it adds."""

    operation: LanceOperation.BaseOperation
    files: tuple[str, ...]


def rewrite_operation(base: Handle, change: Rewrite) -> Rewritten:
    """Compute the columns of every fragment and return the operation that changes the table.

    Lance lets files come only by `Merge`, which lets no column be null that was not, and gives no
    column the name that another had: such columns are computed as well, as copies.
    """
    change = _with_copies(base, change)
    reads = sorted({name for one in change.columns for name in one.reads})
    fragments, files, schema = [], [], base.dataset.lance_schema
    with lance_errors(f"computing columns of {base}"):
        parts = base.dataset.get_fragments()
        columns = reads or [_cheapest(base.dataset.schema)]
        filled = _filled(change, parts, columns)
        schema = filled[-1][1] if filled else schema
        for part, (made, _) in zip(parts, filled, strict=True):
            known = {file.path for file in part.metadata.files}
            fragments.append(made)
            files += [file.path for file in made.files if file.path not in known]
        fresh = {_FRESH + one.column.name: one.column.name for one in change.columns}
        if not fragments:  # no rows: nothing to compute, and the columns are as good as new
            added = tuple(one.column.with_nullable(True) for one in change.columns)
            later = replace(change.alter, add=(*change.alter.add, *added))
            require_columns(base.dataset.schema.names, later, base)
            return Rewritten(
                LanceOperation.Project(edited(schema, base.dataset.max_field_id, later)), ()
            )
        later = replace(change.alter, rename={**change.alter.rename, **fresh})
        require_columns(_names(schema), later, base)
        newest = max(base.dataset.max_field_id, *_numbers(schema.fields()))
        after = edited(schema, newest, later)
        kept = [_without_dead_files(part, after) for part in fragments]
        operation = LanceOperation.Merge(kept, after)
    home = f"{base.files_at}/{layout.DATA_DIR}"
    return Rewritten(operation, tuple(f"{home}/{path}" for path in files))


def _filled(
    change: Rewrite, parts: Sequence[LanceFragment], columns: list[str]
) -> list[tuple[FragmentMetadata, Any]]:
    """Write the columns of every fragment, a few at a time; return them with the columns there are.

    A failure of one ends the others before their next batch.
    """
    stopped = threading.Event()

    def fill(part: LanceFragment) -> tuple[FragmentMetadata, Any]:
        if stopped.is_set():
            raise StorageError("writing columns ended with another fragment")
        try:
            return part.merge_columns(
                lambda batch: _computed(change, batch), columns=columns, batch_size=_BATCH_ROWS
            )
        except BaseException:
            stopped.set()
            raise

    if len(parts) < 2:
        return [fill(part) for part in parts]
    with ThreadPoolExecutor(_AT_ONCE, "omnigraph-columns") as pool:
        running = [pool.submit(copy_context().run, fill, part) for part in parts]
        wait(running, return_when=FIRST_EXCEPTION)
        failed = next((one for one in running if one.done() and one.exception()), None)
        return [(failed or one).result() for one in running]


def _with_copies(base: Handle, change: Rewrite) -> Rewrite:
    alter, schema = change.alter, base.dataset.schema
    taken = {*schema.names}
    moved = {old for old, new in alter.rename.items() if new in taken}
    copied = sorted({*alter.relax} | moved)
    copies = [
        Computed(
            schema.field(name).with_name(alter.rename.get(name, name)).with_nullable(True),
            (name,),
            lambda batch, name=name: batch[name],  # type: ignore[misc]  # bound now
        )
        for name in copied
    ]
    kept = {old: new for old, new in alter.rename.items() if old not in copied}
    left = Alter(kept, (*alter.drop, *copied), alter.add, (), alter.order)
    return Rewrite((*change.columns, *copies), left)


def _computed(change: Rewrite, batch: pa.RecordBatch) -> pa.RecordBatch:
    checkpoint("computing columns", batch.nbytes)
    arrays = [one.compute(batch) for one in change.columns]
    fields = [
        one.column.with_name(_FRESH + one.column.name).with_nullable(True) for one in change.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _without_dead_files(part: FragmentMetadata, schema: Any) -> FragmentMetadata:  # noqa: ANN401 - Lance's own class
    """Return a fragment without files of which no column is left; a `Project` takes them out."""
    stated = part.to_json()
    alive = set(_numbers(schema.fields()))
    stated["files"] = [file for file in stated["files"] if alive & {*file["fields"]}]
    return FragmentMetadata.from_json(json.dumps(stated))


def _cheapest(schema: pa.Schema) -> str:
    """Return the column that costs least to read where only the number of rows is asked for."""

    def width(column: pa.Field) -> int:
        try:
            return int(column.type.bit_width)
        except ValueError:  # of no fixed width
            return 1 << 16

    return str(min(schema, key=width).name)


def _names(schema: Any) -> list[str]:  # noqa: ANN401 - Lance's own class
    return [field.name() for field in schema.fields()]


def _numbers(fields: Iterable[Any]) -> list[int]:
    return [number for one in fields for number in (one.id(), *_numbers(one.children()))]

"""What an image of a table's older version lacks to be one of a newer version.

A few candidates are compared by content. Many candidates mean that files were rewritten, mostly by
a compaction, which changes nothing: a thousand times faster than comparing all of them is to ask
Lance, which knows the version every row is from. It is wrong across restores and overwrites and
far back, and is not asked there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.storage.delta.side import ID, ColumnPair
from omnigraph.storage.delta.table import TableDelta, table_delta
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.differ import blob_columns, plain_blobs, same_columns, sized
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.scan import Reader

_FEW = 10_000
"""Candidates that are compared rather than asked about."""
_MAX_STEPS = 256
"""Versions whose operations are looked at before Lance is trusted with them."""


@dataclass(frozen=True, slots=True)
class OtherColumns:
    """The columns of a version, and what they are called in an older one of its lineage."""

    names: Mapping[str, str | None]
    empty: pa.Table
    """No rows of them."""


@dataclass(frozen=True, slots=True)
class RowsSince:
    """Rows that are new or changed, whole, a blob as its size; and the ids of those gone.

    So many of the first rows as `inserted` says are certainly new.
    """

    upserts: pa.Table
    deleted: pa.Array
    inserted: int = 0
    columns: OtherColumns | None = None
    """How the columns are called, if not as before."""

    @property
    def count(self) -> int:
        """Return how many rows changed."""
        return len(self.upserts) + len(self.deleted)


def rows_since(kernel: Kernel, before: TableVersion, after: TableVersion) -> RowsSince | None:
    """Return what changed between two versions of one lineage of a table.

    None if that takes as much as reading the newer version.
    """
    try:
        old, new = kernel.tables.open(*before.place), kernel.tables.open(*after.place)
        if not same_columns(old, new):
            return _under_other_columns(kernel, before, after)
        delta = table_delta(kernel, before, after)
        if max(delta.candidates) <= _FEW:
            return _by_content(delta, new.dataset.schema.names)
        told = _by_lineage(delta, Reader(new), before, after)
        if told is None and max(delta.candidates) <= after.row_count // 2:
            return _by_content(delta, new.dataset.schema.names)
    except SnapshotExpiredError:
        return None  # the older version was cleaned up
    return told


def _under_other_columns(
    kernel: Kernel, before: TableVersion, after: TableVersion
) -> RowsSince | None:
    """Return the same where columns were renamed, came or went: one keeps its number by that."""
    old, new = kernel.tables.open(*before.place), kernel.tables.open(*after.place)
    known = {field.id(): field.name() for field in old.dataset.lance_schema.fields()}
    names = {field.name(): known.get(field.id()) for field in new.dataset.lance_schema.fields()}
    pairs = [ColumnPair(now, was, now) for now, was in names.items()]
    delta = table_delta(kernel, before, after, columns=pairs)
    if max(delta.candidates) > _FEW:
        return None
    found = _by_content(delta, list(names))
    return replace(found, columns=OtherColumns(names, new.dataset.schema.empty_table()))


def _by_content(delta: TableDelta, columns: list[str]) -> RowsSince:
    pieces = list(delta.batches())
    if not pieces:
        return RowsSince(pa.table({ID: pa.array([], pa.string())}), pa.array([], pa.string()))
    new = [one.inserted for one in pieces]
    upserts = pa.concat_tables([*new, *(one.after for one in pieces)])
    gone = [chunk for one in pieces for chunk in one.deleted[ID].chunks]
    deleted = pa.concat_arrays(gone) if gone else pa.array([], pa.string())
    return RowsSince(upserts.select(columns), deleted, sum(map(len, new)))


def _by_lineage(
    delta: TableDelta, reader: Reader, before: TableVersion, after: TableVersion
) -> RowsSince | None:
    """Return what Lance tells, where it can be trusted; which rows are gone tell their ids."""
    if before.place[:2] != after.place[:2] or not 0 <= after.version - before.version <= _MAX_STEPS:
        return None
    if reader.has_rewrites_since(before.version):
        return None
    told = reader.delta(before.version)
    names = reader.schema.names
    apart = blob_columns(reader.handle, names)
    found = [part.select(names) for part in (told.inserted, told.updated)]
    parts = [sized(part, [*apart, *plain_blobs(part)]) for part in found]
    # Without promises about null: inserted and updated rows state them differently.
    loose = pa.schema([pa.field(field.name, field.type) for field in parts[0].schema])
    upserts = pa.concat_tables([part.cast(loose) for part in parts])
    return RowsSince(upserts, delta.touched().deleted)

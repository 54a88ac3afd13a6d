"""Comparing candidates of both sides by content: what was inserted, updated and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.delta.side import ID, Side
from omnigraph.storage.tables.differ import plain_blobs, sized
from omnigraph.storage.tables.equal import cells_unequal
from omnigraph.storage.tables.scan import ROW_ADDRESS

Rows = TypeVar("Rows", pa.Table, pa.ListArray)
_BLOB_BYTES = 16 << 20
"""Bytes of blobs held at once of each side while they are compared."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that differ, sorted by id; row i of `after` is what became of row i of `before`."""

    inserted: pa.Table
    before: pa.Table
    after: pa.Table
    deleted: pa.Table

    @property
    def rows(self) -> int:
        """Return how many rows differ."""
        return len(self.inserted) + len(self.after) + len(self.deleted)


@dataclass(frozen=True, slots=True)
class Difference(Changed):
    """The same, and where updated rows differ."""

    differing: pa.ListArray
    """Per row of `after` the columns whose values differ, in the order of the columns."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares rows of two sides by the columns that the later one has."""

    before: Side
    after: Side

    def confirm(self, before: pa.Table, after: pa.Table) -> Difference:
        """Return what differs between candidates of both sides; ids are unique on each."""
        old_ids, new_ids = _one(before[ID]), _one(after[ID])
        at = pc.index_in(new_ids, value_set=old_ids)
        in_both = at.is_valid()
        new = after.filter(in_both)
        old = before.take(at.drop_null())
        cells = self._unlike(old, new)
        rows = np.flatnonzero(cells.any(axis=1))
        rows = rows[np.asarray(pc.sort_indices(new[ID].take(pa.array(rows))))]
        gone = pc.invert(pc.is_in(old_ids, value_set=new_ids))
        return Difference(
            after.filter(pc.invert(in_both)).sort_by(ID),
            old.take(pa.array(rows)),
            new.take(pa.array(rows)),
            before.filter(gone).sort_by(ID),
            named(cells[rows], self._compared),
        )

    @property
    def _compared(self) -> list[str]:
        return [name for name, _, _ in self.after.stored if name != ID]

    def _unlike(self, before: pa.Table, after: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which cells differ; blobs are read only where sizes do not tell."""
        names = self._compared
        unlike = cells_unequal(before, after, names)
        for name in self.after.blobs:
            column = unlike[:, names.index(name)]
            for rows in self._of_one_size(after[name], ~column):
                old = before.take(pa.array(rows))
                new = after.take(pa.array(rows))
                column[rows] |= self._bytes_unlike(name, old, new)
        return unlike

    def _of_one_size(
        self, blobs: pa.ChunkedArray, asked: npt.NDArray[np.bool_]
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows asked for that have bytes, in groups that fit into memory."""
        sizes = np.asarray(pc.fill_null(pc.struct_field(_one(blobs), "size"), 0))
        rows = np.flatnonzero(asked & (sizes > 0))
        groups = np.cumsum(sizes[rows]) // _BLOB_BYTES
        if len(rows):
            yield from np.split(rows, np.flatnonzero(np.diff(groups)) + 1)

    def _bytes_unlike(self, name: str, old: pa.Table, new: pa.Table) -> npt.NDArray[np.bool_]:
        before = self.before.bytes_of(name, _one(old[ROW_ADDRESS]))
        after = self.after.bytes_of(name, _one(new[ROW_ADDRESS]))
        return np.asarray(pc.fill_null(pc.not_equal(before, after), True))

    def finished(self, piece: Difference) -> Difference:
        """Return a piece without what only comparing needed: a blob is its size."""
        return _each(piece, _shown, _shown)

    def with_bytes(self, piece: Difference) -> Iterator[Difference]:
        """Yield a piece, in parts, with the bytes of its blobs in place of their sizes."""
        held = sum(_blob_bytes(rows, self.before.blobs) for rows in (piece.before, piece.deleted))
        held += sum(_blob_bytes(rows, self.after.blobs) for rows in (piece.inserted, piece.after))
        parts = 1 + held // _BLOB_BYTES
        for number in range(parts):
            part = partial(_part, number=number, parts=parts)
            filled = _each(_each(piece, part, part), self.before.with_bytes, self.after.with_bytes)
            yield _each(filled, _without_address, _without_address)


def _each(
    piece: Difference,
    before: Callable[[pa.Table], pa.Table],
    after: Callable[[pa.Table], pa.Table],
) -> Difference:
    return replace(
        piece,
        inserted=after(piece.inserted),
        before=before(piece.before),
        after=after(piece.after),
        deleted=before(piece.deleted),
    )


def named(cells: npt.NDArray[np.bool_], names: Sequence[str]) -> pa.ListArray:
    """Return, row by row, the names of the columns that are set."""
    ends = np.concatenate([[0], np.cumsum(cells.sum(axis=1))])
    _, columns = np.nonzero(cells)
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(names, pa.string()).take(pa.array(columns))
    )


def _shown(rows: pa.Table) -> pa.Table:
    return _without_address(sized(rows, plain_blobs(rows)))


def _without_address(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([ROW_ADDRESS]) if ROW_ADDRESS in rows.column_names else rows


def _part(rows: Rows, *, number: int, parts: int) -> Rows:
    start, end = len(rows) * number // parts, len(rows) * (number + 1) // parts
    return rows.slice(start, end - start)


def _blob_bytes(rows: pa.Table, blobs: Sequence[str]) -> int:
    return sum(pc.sum(pc.struct_field(_one(rows[name]), "size")).as_py() or 0 for name in blobs)


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

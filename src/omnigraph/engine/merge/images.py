"""Rows of one state by their ids: what a row is there, or that it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import Ints, Mask, one_array
from omnigraph.storage.delta.confirm import Changed
from omnigraph.storage.tables.equal import rows_unequal

ID = "id"


@dataclass(frozen=True, slots=True)
class Images:
    """Some rows of a table, each id once; an id without a row is absent there."""

    rows: pa.Table

    def places(self, ids: pa.Array) -> Ints:
        """Return where the row of every id is; -1 where there is none."""
        found = pc.index_in(ids, value_set=one_array(self.rows[ID]))
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    def has(self, ids: pa.Array) -> Mask:
        """Return which ids have a row."""
        return self.places(ids) >= 0

    def only(self, ids: pa.Array) -> Images:
        """Return the rows of some ids."""
        return Images(self.rows.filter(pc.is_in(self.rows[ID], value_set=ids)))

    def without(self, ids: pa.Array) -> Images:
        """Return the rows of all other ids."""
        return Images(self.rows.filter(pc.invert(pc.is_in(self.rows[ID], value_set=ids))))

    def with_rows(self, rows: pa.Table) -> Images:
        """Return these rows, replaced by id or joined by others."""
        return Images(pa.concat_tables([self.without(one_array(rows[ID])).rows, rows]))

    def after(self, changed: Changed) -> Images:
        """Return what becomes of these rows by a change."""
        gone = self.without(one_array(changed.deleted[ID]))
        return gone.with_rows(pa.concat_tables([changed.inserted, changed.after]))


def same(ids: pa.Array, one: Images, other: Images) -> Mask:
    """Return which ids are the same in two states; absent in both is the same."""
    here, there = one.places(ids), other.places(ids)
    alike: Mask = (here < 0) & (there < 0)
    both = np.flatnonzero((here >= 0) & (there >= 0))
    if len(both):
        names = [name for name in one.rows.column_names if name != ID]
        left = one.rows.take(pa.array(here[both]))
        right = other.rows.take(pa.array(there[both]))
        alike[both] = ~rows_unequal(left, right, names)
    return alike


def joined(pieces: Iterable[Changed], ids: pa.Array | None = None) -> Changed | None:
    """Return changes in one piece, of all rows or of some; None if there are none."""
    kept = [piece if ids is None else only(piece, ids) for piece in pieces]
    kept = [piece for piece in kept if piece.rows]
    if not kept:
        return None
    return Changed(
        _concat([piece.inserted for piece in kept]),
        _concat([piece.before for piece in kept]),
        _concat([piece.after for piece in kept]),
        _concat([piece.deleted for piece in kept]),
    )


def only(piece: Changed, ids: pa.Array, *, inverted: bool = False) -> Changed:
    """Return the part of a change that is about some ids, or about all others."""

    def pick(rows: pa.Table) -> pa.Array:
        if not len(rows):
            return pa.array([], pa.bool_())  # the ids would be looked through for nothing
        wanted = pc.is_in(one_array(rows[ID]), value_set=ids)
        return pc.invert(wanted) if inverted else wanted

    updated = pick(piece.after)
    return Changed(
        piece.inserted.filter(pick(piece.inserted)),
        piece.before.filter(updated),
        piece.after.filter(updated),
        piece.deleted.filter(pick(piece.deleted)),
    )


def columns_of(piece: Changed, names: Sequence[str]) -> Changed:
    """Return a change with some of its columns."""
    parts = (piece.inserted, piece.before, piece.after, piece.deleted)
    return Changed(*(rows.select(names) for rows in parts))


def changed_ids(piece: Changed) -> pa.Array:
    """Return the ids of the rows that differ."""
    return pa.concat_arrays(
        [one_array(rows[ID]) for rows in (piece.inserted, piece.after, piece.deleted)]
    )


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

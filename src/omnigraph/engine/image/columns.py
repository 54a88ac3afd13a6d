"""One property by row position: a base array, and what changed since the base was read.

Positions are stable. An updated row keeps its position and is patched; an added row gets the next
position behind the base. Gathering a few rows therefore costs a few rows, whatever the size of
the table and however it changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.pieces import PIECE, dense_codes, taken


@dataclass(frozen=True)
class Patch:
    """Where overlay rows belong: `updated` (ascending positions) first, then added rows.

    Overlay row i replaces position `updated[i]` for i < len(updated), and is the new position
    `base_rows + i - len(updated)` otherwise.
    """

    base_rows: int
    updated: Ints
    added: int

    @property
    def rows(self) -> int:
        """Number of positions, dead ones included."""
        return self.base_rows + self.added

    def slots(self, positions: Ints) -> Ints:
        """Return the overlay row of each position, -1 where the base row still holds."""
        slots = np.where(
            positions >= self.base_rows, positions - self.base_rows + len(self.updated), -1
        )
        if len(self.updated):
            at = np.searchsorted(self.updated, positions)
            at_most = np.minimum(at, len(self.updated) - 1)
            slots = np.where(self.updated[at_most] == positions, at_most, slots)
        return slots


def no_patch(base_rows: int) -> Patch:
    """Return the patch of a table nothing happened to."""
    return Patch(base_rows, np.empty(0, np.int64), 0)


@dataclass(frozen=True)
class Column:
    """Values by position. `overlay` holds the rows a `Patch` talks about, in its order."""

    base: pa.Array
    patch: Patch
    overlay: pa.Array | None = None

    def take(self, positions: Ints) -> pa.Array:
        """Return the values at the given positions, in their order."""
        if self.overlay is None:
            return take(self.base, positions)
        slots = self.patch.slots(positions)
        fresh = slots >= 0
        if not fresh.any():
            return take(self.base, positions)
        if fresh.all():
            return take(self.overlay, slots)
        both = pa.concat_arrays(
            [take(self.base, positions[~fresh]), take(self.overlay, slots[fresh])]
        )
        order = np.empty(len(positions), np.int64)
        order[~fresh] = np.arange(len(positions) - int(fresh.sum()))
        order[fresh] = np.arange(len(positions) - int(fresh.sum()), len(positions))
        return taken(both, order)

    def one(self, position: int) -> pa.Array:
        """Return the value at one position, as an array of one."""
        if self.overlay is None:
            return self.base.slice(position, 1)
        return self.take(np.asarray([position]))

    @cached_property
    def full(self) -> pa.Array:
        """All values by position; costs the size of the table when there is an overlay."""
        if self.overlay is None:
            return self.base
        return self.take(np.arange(self.patch.rows))

    @property
    def derived_nbytes(self) -> int:
        """Memory held beside the base and the overlay."""
        if self.overlay is None or "full" not in self.__dict__:
            return 0
        return int(self.full.nbytes)


def take(values: pa.Array, positions: Ints) -> pa.Array:
    """Return values by position; one row is a slice, which costs a tenth of a gather."""
    if len(positions) == 1:
        return values.slice(int(positions[0]), 1)
    return taken(values, positions)


def dense_ranks(values: pa.Array) -> Ints:
    """Return integers from 1 that sort like the values; equal values share one, null is lowest.

    NaN comes between null and the numbers; lists and vectors compare item by item.
    """
    if pa.types.is_nested(values.type):
        return _list_ranks(values)
    if pa.types.is_date64(values.type):
        values = values.view(pa.int64())
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return dense_codes(values, _plain_ranks)


def _plain_ranks(values: pa.Array) -> Ints:
    found = pc.rank(values, sort_keys=[("", "ascending", "at_start")], tiebreaker="dense")
    return np.asarray(found.to_numpy())


def _list_ranks(values: pa.Array) -> Ints:
    """Rank the items of all lists together, then the lists as tuples of those ranks."""
    items = dense_ranks(values.flatten()).tolist()
    lengths = pc.list_value_length(values).to_pylist()
    keys: list[tuple[int, ...] | None] = []
    start = 0
    for row, length in enumerate(lengths):
        if not row % PIECE:
            checkpoint("order")
        end = start + (length or 0)
        keys.append(None if length is None else tuple(items[start:end]))
        start = end
    known = sorted({key for key in keys if key is not None})
    place = {key: rank for rank, key in enumerate(known, start=2)}
    return np.asarray([1 if key is None else place[key] for key in keys], np.int64)

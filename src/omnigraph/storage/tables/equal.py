"""Whether values are the same, typed: what `delta` means by "this row did not change".

Null is not the empty text nor the empty list; floats are compared by their bits, so that NaN equals
itself and -0.0 is not 0.0; lists, vectors and structs by what is in them. Knows no tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask: TypeAlias = npt.NDArray[np.bool_]

_BLOCK = 65_536
"""Rows looked at together: text and vectors of more could overflow the offsets of one array."""
_SAME_WIDTH_INTS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def rows_unequal(before: pa.Table, after: pa.Table, names: Sequence[str]) -> Mask:
    """Return which rows differ in one of the named columns; row i is compared with row i."""
    return np.asarray(cells_unequal(before, after, names).any(axis=1))


def cells_unequal(before: pa.Table, after: pa.Table, names: Sequence[str]) -> Mask:
    """Return which cells differ, row by row and named column by column; row i against row i."""
    unlike = np.zeros((len(after), len(names)), dtype=bool)
    for start in range(0, len(after), _BLOCK):
        old, new = before.slice(start, _BLOCK), after.slice(start, _BLOCK)
        for at, name in enumerate(names):
            unlike[start : start + _BLOCK, at] = unequal(_one(old[name]), _one(new[name]))
    return unlike


def unequal(before: pa.Array, after: pa.Array) -> Mask:
    """Return at which places two arrays of one length hold different values."""
    if isinstance(before, pa.ExtensionArray):
        before = before.storage
    if isinstance(after, pa.ExtensionArray):
        after = after.storage
    if before.type != after.type:
        # Nobody can say that values of two types are the same; null is null in any.
        return ~np.asarray(pc.and_(before.is_null(), after.is_null()))
    here, there = np.asarray(before.is_valid()), np.asarray(after.is_valid())
    unlike: Mask = here != there
    both: Mask = here & there
    if both.any():
        unlike |= both & _contents_unequal(before, after, both)
    return unlike


def _contents_unequal(before: pa.Array, after: pa.Array, both: Mask) -> Mask:
    """Return where values differ; what it says of places that are null on a side is ignored."""
    kind = before.type
    if pa.types.is_floating(kind):
        ints = _SAME_WIDTH_INTS[kind.bit_width]
        return _plain_unequal(before.view(ints), after.view(ints))
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
        if not width:
            return np.zeros(len(before), dtype=bool)
        items = unequal(_items(before, width), _items(after, width))
        return np.asarray(items.reshape(len(before), width).any(axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists_unequal(before, after, both)
    if pa.types.is_struct(kind):
        unlike = np.zeros(len(before), dtype=bool)
        for at in range(kind.num_fields):
            unlike |= unequal(before.field(at), after.field(at))
        return unlike
    if pa.types.is_dictionary(kind):
        return unequal(before.dictionary_decode(), after.dictionary_decode())
    return _plain_unequal(before, after)


def _plain_unequal(before: pa.Array, after: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(pc.not_equal(before, after), False))


def _items(values: pa.FixedSizeListArray, width: int) -> pa.Array:
    """Return all items, also those below null, so that there are `width` of every value."""
    return values.values.slice(values.offset * width, len(values) * width)


def _lists_unequal(before: pa.Array, after: pa.Array, both: Mask) -> Mask:
    unlike = np.zeros(len(before), dtype=bool)
    rows = np.flatnonzero(both)
    old, new = before.take(pa.array(rows)), after.take(pa.array(rows))
    lengths = np.asarray(pc.list_value_length(new))
    same = np.asarray(pc.list_value_length(old)) == lengths
    unlike[rows[~same]] = True
    old, new = old.filter(pa.array(same)), new.filter(pa.array(same))
    owners = np.repeat(rows[same], lengths[same])
    unlike[owners[unequal(old.flatten(), new.flatten())]] = True
    return unlike


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

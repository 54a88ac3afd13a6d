"""Names for the array types that flow through the engine, and sets of integers as arrays.

`np.unique` hashes, which takes seconds for a million different numbers; sorting takes a tenth.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def distinct(values: Ints) -> Ints:
    """Return each number once, ascending."""
    if len(values) <= 1:
        return values
    ordered = np.sort(values)
    first = np.empty(len(ordered), dtype=bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def members(values: Ints, known: Ints) -> Mask:
    """Return which values are among `known`, which ascends."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[at] == values)


def renumbered(codes: Ints, width: int) -> tuple[Ints, Ints]:
    """Return codes from 0 without gaps that sort as before, and where each code comes first.

    Args:
        codes: numbers from 0 to below `width`.
        width: how many codes there could be; a table of that size is used while it is small.
    """
    if width > 4 * len(codes) + 1_024:
        _, first, dense = np.unique(codes, return_index=True, return_inverse=True)
        return dense, first
    found = np.full(width, -1, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last to be written is the first
    used = np.flatnonzero(found >= 0)
    place = np.empty(width, np.int64)
    place[used] = np.arange(len(used))
    return place[codes], found[used]

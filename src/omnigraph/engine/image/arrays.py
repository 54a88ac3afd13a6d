"""Names for the array types that flow through the engine, and sets of integers as arrays.

`np.unique` hashes, which takes seconds for a million different numbers; sorting takes a tenth.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.image.pieces import PIECE, ascending, gathered, sorted_rows, spans

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]

_GROUP = 32


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def distinct(values: Ints, width: int | None = None) -> Ints:
    """Return each number once, ascending.

    Args:
        values: any numbers; from 0 to below `width`, if that is given.
        width: how many numbers there could be; a table of that size is used while it is small.
    """
    if len(values) <= 1:
        return values
    if width is not None and width <= 64 * len(values):
        seen = np.zeros(width, dtype=bool)
        seen[values] = True
        return np.flatnonzero(seen)
    ordered = ascending(values)
    first = np.empty(len(ordered), dtype=bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def members(values: Ints, known: Ints) -> Mask:
    """Return which values are among `known`, which ascends."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    found = np.empty(len(values), dtype=bool)
    for start, end in spans(len(values), 4 * PIECE):
        some = values[start:end]
        at = np.minimum(np.searchsorted(known, some), len(known) - 1)
        found[start:end] = known[at] == some
    return found


def at_least_kth(values: Floats | Ints, wanted: int) -> float:
    """Return a number that at least `wanted` of the values reach, close to the best such.

    The greatest of every group is looked at instead of every value: `wanted` groups whose
    greatest reach a number hold `wanted` values that do. Exact for short arrays.
    """
    if len(values) < wanted or wanted <= 0:
        return -np.inf if wanted > 0 else np.inf
    groups = len(values) // _GROUP
    if groups > 4 * wanted:
        # A group is a column: numbers far apart, so good neighbours do not hide each other.
        tops = values[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
        values = np.concatenate([tops, values[groups * _GROUP :]])
    return float(np.partition(values, len(values) - wanted)[len(values) - wanted])


def renumbered(codes: Ints, width: int) -> tuple[Ints, Ints]:
    """Return codes from 0 without gaps that sort as before, and where each code comes first.

    Args:
        codes: numbers from 0 to below `width`.
        width: how many codes there could be; a table of that size is used while it is small.
    """
    if width > 4 * len(codes) + 1_024:
        return renumbered_values(codes)
    found = np.full(width, -1, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last to be written is the first
    used = np.flatnonzero(found >= 0)
    place = np.empty(width, np.int64)
    place[used] = np.arange(len(used))
    return gathered(place, codes), found[used]


def renumbered_values(codes: Ints | Floats) -> tuple[Ints, Ints]:
    """Return codes from 0 for any numbers that sort like them, and where each code comes first."""
    order = sorted_rows([codes], len(codes))
    ordered = gathered(codes, order)
    starts = np.append(True, ordered[1:] != ordered[:-1])[: len(codes)]
    dense = np.empty(len(codes), np.int64)
    dense[order] = np.cumsum(starts) - 1
    return dense, order[starts]

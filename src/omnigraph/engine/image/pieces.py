"""Work on long arrays in pieces, so that a call can be stopped while it sorts, ranks or gathers.

One call into NumPy or Arrow cannot be interrupted, so none is given more than `PIECE` rows where it
takes long for them. Short arrays take the direct way; results are the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint

PIECE = 1 << 18
"""Rows for which sorting by a few keys takes some tens of milliseconds."""
_LONG = 1 << 22
"""Numbers that can be copied in some tens of milliseconds."""
_PIVOTS = 15
_SAMPLE = 1_024

Numbers = npt.NDArray[Any]


def spans(size: int, piece: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the pieces of an array, asking before each if the call may go on."""
    piece = piece or PIECE
    for start in range(0, size, piece):
        checkpoint("the query")
        yield start, min(start + piece, size)


def gathered(values: Numbers, at: Numbers) -> Numbers:
    """Return `values[at]`."""
    if len(at) <= _LONG:
        return np.asarray(values[at])
    found = np.empty(len(at), values.dtype)
    for start, end in spans(len(at), _LONG):
        found[start:end] = values[at[start:end]]
    return found


def repeated(values: Numbers, times: int) -> Numbers:
    """Return every value so many times, one after another."""
    if len(values) * times <= _LONG:
        return np.repeat(values, times)
    found = np.empty(len(values) * times, values.dtype)
    by_value = found.reshape(len(values), times)
    for start, end in spans(len(values), max(1, _LONG // times)):
        by_value[start:end] = values[start:end, None]
    return found


def tiled(values: Numbers, times: int) -> Numbers:
    """Return all values so many times."""
    if len(values) * times <= _LONG:
        return np.tile(values, times)
    found = np.empty(len(values) * times, values.dtype)
    by_time = found.reshape(times, len(values))
    for start, end in spans(times, max(1, _LONG // len(values))):
        by_time[start:end] = values
    return found


def taken(values: pa.Array, at: Numbers) -> pa.Array:
    """Return the values at some positions, asking for memory as they become more."""
    if len(at) <= PIECE:
        return values.take(pa.array(at))
    parts: list[pa.Array] = []
    held = 0
    for start, end in spans(len(at)):
        parts.append(values.take(pa.array(at[start:end])))
        held += parts[-1].nbytes
        checkpoint("the query", held)
    checkpoint("the query", 2 * held)
    return pa.concat_arrays(parts)


def sorted_rows(keys: Sequence[Numbers], size: int) -> npt.NDArray[np.int64]:
    """Return row numbers in ascending order of the keys, the first key deciding first; stable."""
    if size <= 1 or not keys:
        return np.arange(size)
    if size <= PIECE:
        return np.lexsort(tuple(reversed(keys)))
    found = np.empty(size, np.int64)
    at = 0
    for rows in _ordered(list(keys), None, size):
        found[at : at + len(rows)] = rows
        at += len(rows)
    return found


def _ordered(
    keys: list[Numbers], rows: npt.NDArray[np.int64] | None, size: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the given rows, or all, sorted by the keys, in pieces that follow each other.

    Rows are dealt out by their first key to ranges between sampled values and to these values
    themselves. Within the latter the next key decides, so equal values cannot go round for ever.
    """
    if not keys:
        yield np.arange(size) if rows is None else rows
        return
    if rows is not None and size <= PIECE:
        checkpoint("order")
        yield rows[np.lexsort(tuple(key[rows] for key in reversed(keys)))]
        return
    first = keys[0]
    pivots = _pivots(first, rows, size)
    places = np.empty(size, np.uint8)
    for start, end in spans(size):
        some = first[start:end] if rows is None else first[rows[start:end]]
        left = np.searchsorted(pivots, some)
        places[start:end] = left + np.searchsorted(pivots, some, side="right")
    for place in range(2 * len(pivots) + 1):
        checkpoint("order")
        here = np.flatnonzero(places == place)
        if len(here):
            inside = here if rows is None else rows[here]
            yield from _ordered(keys[1:] if place % 2 else keys, inside, len(inside))


def _pivots(key: Numbers, rows: npt.NDArray[np.int64] | None, size: int) -> Numbers:
    """Return some values that cut the key into parts of like sizes."""
    at = np.linspace(0, size - 1, _SAMPLE).astype(np.int64)
    sample = np.sort(key[at] if rows is None else key[rows[at]])
    cuts = np.linspace(0, _SAMPLE - 1, _PIVOTS + 2).astype(np.int64)[1:-1]
    return np.unique(sample[cuts])


def ascending(values: Numbers) -> Numbers:
    """Return the values sorted."""
    if len(values) <= 2 * PIECE:  # plain numbers sort several times as fast as rows by keys
        return np.sort(values)
    pivots = _pivots(values, None, len(values))
    places = np.empty(len(values), np.uint8)
    for start, end in spans(len(values), _LONG):
        places[start:end] = np.searchsorted(pivots, values[start:end])
    parts = []
    for place in range(len(pivots) + 1):
        checkpoint("order")
        part = values[places == place]
        if len(part):
            # A part that is one value, or all there was, gets no shorter.
            is_plain = len(part) == len(values) or part.min() == part.max()
            parts.append(np.sort(part) if is_plain else ascending(part))
    return np.concatenate(parts)


def dense_codes(values: pa.Array, rank: Callable[[pa.Array], Numbers]) -> npt.NDArray[np.int64]:
    """Return `rank(values)` for any length: integers from 1 that sort like the values.

    Args:
        values: plain values, null and NaN among them.
        rank: ranks a short array: equal values share a number, none is left out, null comes
            first and NaN behind it.
    """
    size = len(values)
    if size <= PIECE:
        return rank(values).astype(np.int64)
    found = np.empty(size, np.int64)
    below = 0
    for rows in _parts(values):
        some = rank(values.take(pa.array(rows)))
        found[rows] = some + below
        below += int(some.max())
    return found


def _parts(values: pa.Array) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the rows in short parts; the values of each lie above those of the parts before."""
    odd = np.asarray(pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False))
    strange = np.flatnonzero(odd)
    if len(strange):
        # Of nulls and NaNs there are two kinds at most, in any number.
        kinds = values.take(pa.array(strange)).is_null().to_numpy(zero_copy_only=False)
        for part in (strange[kinds], strange[~kinds]):
            if len(part):
                yield part
    yield from _split(values, np.flatnonzero(~odd), equal=False)


def _split(
    values: pa.Array, rows: npt.NDArray[np.int64], *, equal: bool
) -> Iterator[npt.NDArray[np.int64]]:
    checkpoint("order")
    if len(rows) <= PIECE or equal:
        if len(rows):
            yield rows
        return
    at = rows[np.linspace(0, len(rows) - 1, 63).astype(np.int64)]
    sample = values.take(pa.array(at))
    pivot = sample[pc.sort_indices(sample)[31].as_py()]
    signs = np.empty(len(rows), np.int8)
    for start, end in spans(len(rows)):
        some = values.take(pa.array(rows[start:end]))
        below = pc.less(some, pivot).to_numpy(zero_copy_only=False)
        above = pc.greater(some, pivot).to_numpy(zero_copy_only=False)
        signs[start:end] = above.astype(np.int8) - below.astype(np.int8)
    for sign in (-1, 0, 1):
        yield from _split(values, rows[signs == sign], equal=sign == 0)

"""Grouping rows and computing one value per group, on integer codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import checkpoint
from omnigraph.compiler.operations import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Expr, Prop, Scalarish
from omnigraph.engine.image.arrays import Floats, Ints, distinct, renumbered
from omnigraph.engine.image.pieces import PIECE, gathered, sorted_rows, spans
from omnigraph.engine.image.table import ID
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.order import ranks
from omnigraph.engine.read.rows import Rows


def group(keys: Sequence[Scalarish], rows: Rows, ctx: ReadContext) -> tuple[Ints, Ints]:
    """Return `(group of each row, first row of each group)`; groups come by key, null first."""
    if not keys:
        first = np.zeros(1 if rows.size else 0, np.int64)
        return np.zeros(rows.size, np.int64), first
    codes, first = np.zeros(rows.size, np.int64), np.zeros(min(rows.size, 1), np.int64)
    for key in keys:
        ctx.budget.check("group")
        fresh = key_codes(key, rows, ctx)
        width = int(fresh.max()) + 1 if rows.size else 1
        # Renumber after every key, so the product never leaves 64 bits.
        codes, first = renumbered(codes * width + fresh, len(first) * width)
    return codes, first


def key_codes(key: Scalarish, rows: Rows, ctx: ReadContext) -> Ints:
    """Return integers that are equal for equal values and sort like them; null is lowest."""
    if isinstance(key, Prop) and rows.size:
        image = ctx.image(key.var)
        if rows.size >= image.positions:
            by_position = image.sort_codes(key.name)
            return gathered(by_position, rows.at[key.var])
    return ranks(values(key, rows, ctx))


def sort_key(expr: Expr, descending: bool, rows: Rows, ctx: ReadContext) -> Ints:
    """Return the integers that order rows by an expression."""
    assert not isinstance(expr, Aggregate), "aggregates are ordered after grouping"
    codes = key_codes(expr, rows, ctx)
    return -codes if descending else codes


def aggregate(expr: Aggregate, groups: Ints, count: int, rows: Rows, ctx: ReadContext) -> pa.Array:
    """Return the aggregate's value for each of `count` groups."""
    if expr.fn is AggregateFn.COUNT:
        return pa.array(_counts(expr, groups, count, rows, ctx), pa.int64())
    assert expr.arg is not None
    column = values(expr.arg, rows, ctx)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        column, groups = column.filter(pa.array(valid)), groups[valid]
    match expr.fn:
        case AggregateFn.SUM | AggregateFn.AVG:
            return _total(column, groups, count, mean=expr.fn is AggregateFn.AVG)
        case AggregateFn.MIN | AggregateFn.MAX:
            return _extreme(column, groups, count, largest=expr.fn is AggregateFn.MAX)
        case _:
            assert_never(expr.fn)


def _counts(expr: Aggregate, groups: Ints, count: int, rows: Rows, ctx: ReadContext) -> Ints:
    """Return how many values, or different values, each group has; null is none."""
    if expr.arg is not None and not (isinstance(expr.arg, Prop) and not expr.arg.type.nullable):
        valid = values(expr.arg, rows, ctx).is_valid().to_numpy(zero_copy_only=False)
        rows, groups = rows.keep(valid), groups[valid]
    if expr.arg is not None and expr.distinct:
        codes = _value_codes(expr.arg, rows, ctx)
        width = int(codes.max()) + 1 if rows.size else 1
        groups = distinct(groups * width + codes) // width
    return np.bincount(groups, minlength=count)


def _value_codes(expr: Scalarish, rows: Rows, ctx: ReadContext) -> Ints:
    """Return integers that are equal for equal values; a node or edge is known by its position."""
    if isinstance(expr, Prop) and expr.name == ID:
        return rows.at[expr.var]
    return key_codes(expr, rows, ctx)


def _total(column: pa.Array, groups: Ints, count: int, *, mean: bool) -> pa.Array:
    sizes = np.bincount(groups, minlength=count)
    totals = _sums(column, groups, sizes)
    empty = sizes == 0
    if mean:
        totals = np.divide(totals, sizes, out=np.zeros(count), where=~empty)
    return pa.array(totals, pa.float64(), mask=empty)


_SLICE = 26
"""Bits of a number added at a time: 2^27 of them still fit the 53 bits of a double."""
_MAX_SLICES = 6
_LISTED_BYTES = 40
"""What a number in a list takes, about."""


def _sums(column: pa.Array, groups: Ints, sizes: Ints) -> Floats:
    """Return the sum of each group, rounded once: the order of rows must not show in it."""
    numbers = column.to_numpy(zero_copy_only=False)
    doubles = numbers.astype(np.float64)
    largest = float(np.abs(doubles).max(initial=0.0))
    whole = pa.types.is_integer(column.type)
    if whole and largest * len(doubles) < 2.0**53:
        return np.asarray(np.bincount(groups, weights=doubles, minlength=len(sizes)), np.float64)
    if not whole and 1e-200 < largest < 1e200 and len(doubles) < 2 ** (53 - _SLICE):
        sliced = _sliced_sums(doubles, groups, len(sizes), largest)
        if sliced is not None:
            return sliced
    add = _add_whole if whole else _add
    checkpoint("aggregate", _LISTED_BYTES * len(numbers))
    values = numbers[sorted_rows([groups], len(groups))].tolist()
    ends = np.cumsum(sizes)
    bounds = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    return np.asarray([_added(add, values, start, end) for start, end in bounds], np.float64)


def _added(add: Callable[[list[Any]], float], values: list[Any], start: int, end: int) -> float:
    if not start % PIECE or end - start >= PIECE:
        checkpoint("aggregate")
    return add(values[start:end])


def _sliced_sums(doubles: Floats, groups: Ints, count: int, largest: float) -> Floats | None:
    """Sum a few bits of every number at a time, which needs no rounding, from the top down.

    None when the numbers differ so much in size that there would be too many slices.
    """
    totals: list[Floats] = []
    unit = 2.0 ** (math.frexp(largest)[1] - _SLICE)
    rest = doubles
    while rest.any():
        checkpoint("aggregate", 8 * doubles.nbytes)
        if len(totals) == _MAX_SLICES:
            return None
        top = np.rint(rest / unit)
        totals.append(np.bincount(groups, weights=top, minlength=count) * unit)
        rest = rest - top * unit
        unit *= 2.0**-_SLICE
    if len(totals) <= 1:
        return totals[0] if totals else np.zeros(count)
    found = np.empty(count)
    for start, end in spans(count):
        slices = zip(*(some[start:end] for some in totals), strict=True)
        found[start:end] = [math.fsum(parts) for parts in slices]
    return found


def _add_whole(values: list[int]) -> float:
    return float(sum(values))


def _add(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:  # a partial sum left the range; the whole one may not
        return math.fsum(value * 2.0**-64 for value in values) * 2.0**64
    except ValueError:  # both infinities
        return math.nan


def _extreme(column: pa.Array, groups: Ints, count: int, *, largest: bool) -> pa.Array:
    order = sorted_rows([groups, ranks(column)], len(groups))
    ordered = groups[order]
    edges = np.flatnonzero(np.diff(ordered)) if len(ordered) else np.empty(0, np.int64)
    if not len(ordered):
        at = np.full(count, -1)
    else:
        picks = np.append(edges, len(ordered) - 1) if largest else np.insert(edges + 1, 0, 0)
        at = np.full(count, -1)
        at[ordered[picks]] = order[picks]
    return column.take(pa.array(at, mask=at < 0))

"""Grouping rows and computing one value per group, on integer codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.compiler.query.ast import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Prop, Scalarish
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.order import ranks
from omnigraph.engine.read.rows import Rows


def group(keys: Sequence[Scalarish], rows: Rows, ctx: ReadContext) -> tuple[Ints, Ints]:
    """Return `(group of each row, first row of each group)`; groups come by key, null first."""
    if not keys:
        first = np.zeros(1 if rows.size else 0, np.int64)
        return np.zeros(rows.size, np.int64), first
    codes = np.zeros(rows.size, np.int64)
    for key in keys:
        fresh = key_codes(key, rows, ctx)
        width = int(fresh.max()) + 1 if rows.size else 1
        # Renumber after every key, so the product never leaves 64 bits.
        _, codes = np.unique(codes * width + fresh, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    return codes, first


def key_codes(key: Scalarish, rows: Rows, ctx: ReadContext) -> Ints:
    """Return integers that are equal for equal values and sort like them; null is lowest."""
    if isinstance(key, Prop) and rows.size:
        image = ctx.image(key.var)
        if rows.size >= image.positions:
            by_position = image.sort_codes(key.name)
            return np.asarray(by_position[rows.at[key.var]])
    return ranks(values(key, rows, ctx))


def aggregate(expr: Aggregate, groups: Ints, count: int, rows: Rows, ctx: ReadContext) -> pa.Array:
    """Return the aggregate's value for each of `count` groups."""
    if expr.arg is None:
        return pa.array(np.bincount(groups, minlength=count), pa.int64())
    column = values(expr.arg, rows, ctx)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        column, groups = column.filter(pa.array(valid)), groups[valid]
    if expr.distinct:
        codes = ranks(column)
        pairs = groups * (int(codes.max()) + 1 if len(codes) else 1) + codes
        _, first = np.unique(pairs, return_index=True)
        column, groups = column.take(pa.array(first)), groups[first]
    match expr.fn:
        case AggregateFn.COUNT:
            return pa.array(np.bincount(groups, minlength=count), pa.int64())
        case AggregateFn.SUM | AggregateFn.AVG:
            return _total(column, groups, count, mean=expr.fn is AggregateFn.AVG)
        case AggregateFn.MIN | AggregateFn.MAX:
            return _extreme(column, groups, count, largest=expr.fn is AggregateFn.MAX)
        case _:
            assert_never(expr.fn)


def _total(column: pa.Array, groups: Ints, count: int, *, mean: bool) -> pa.Array:
    sizes = np.bincount(groups, minlength=count)
    totals = _sums(column, groups, sizes)
    empty = sizes == 0
    if mean:
        totals = np.divide(totals, sizes, out=np.zeros(count), where=~empty)
    return pa.array(totals, pa.float64(), mask=empty)


_EXACT = 2.0**53
"""Whole doubles add up without rounding as long as they stay below this."""


def _sums(column: pa.Array, groups: Ints, sizes: Ints) -> Floats:
    """Return the sum of each group, rounded once: the order of rows must not show in it."""
    numbers = column.to_numpy(zero_copy_only=False)
    doubles = numbers.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.abs(doubles).sum() < _EXACT and bool((doubles == np.rint(doubles)).all())
    if exact:
        return np.asarray(np.bincount(groups, weights=doubles, minlength=len(sizes)), np.float64)
    values = numbers[np.argsort(groups, kind="stable")].tolist()
    ends = np.cumsum(sizes)
    add = _add_whole if pa.types.is_integer(column.type) else _add
    spans = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    return np.asarray([add(values[start:end]) for start, end in spans], np.float64)


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
    order = np.lexsort((ranks(column), groups))
    ordered = groups[order]
    edges = np.flatnonzero(np.diff(ordered)) if len(ordered) else np.empty(0, np.int64)
    if not len(ordered):
        at = np.full(count, -1)
    else:
        picks = np.append(edges, len(ordered) - 1) if largest else np.insert(edges + 1, 0, 0)
        at = np.full(count, -1)
        at[ordered[picks]] = order[picks]
    return column.take(pa.array(at, mask=at < 0))

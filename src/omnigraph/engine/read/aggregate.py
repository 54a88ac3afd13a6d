"""Grouping rows and computing one value per group, on integer codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.query.ast import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Prop, Scalarish
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import arrow_type, values
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
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    sizes = np.bincount(groups, minlength=count)
    totals = np.bincount(groups, weights=numbers, minlength=count)
    empty = sizes == 0
    if mean:
        totals = np.divide(totals, sizes, out=np.zeros(count), where=~empty)
    return pa.array(totals, pa.float64(), mask=empty)


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


def result_type(expr: Aggregate) -> pa.DataType:
    """Return the Arrow type of an aggregate column."""
    return arrow_type(expr.type)


def cast_to(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the column in the declared type; a no-op for all but empty extremes."""
    return column if column.type == kind else pc.cast(column, kind)

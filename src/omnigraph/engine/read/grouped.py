"""Results that are one row per group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.compiler.operations import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Prop
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.pieces import sorted_rows
from omnigraph.engine.read.aggregate import aggregate, group, sort_key
from omnigraph.engine.read.answer import Answer, named
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.order import ranks
from omnigraph.engine.read.prepare import Prepared
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.read.window import Window

GROUPING = 6
"""Numbers per row that grouping holds beside the rows and their keys: codes and their order."""


def aggregated(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> tuple[Rows, Answer]:
    """Return one value per column and group, and one row of each group that is returned."""
    ir = plan.ir
    keys = [column.expr for column in ir.columns if not isinstance(column.expr, Aggregate)]
    if not keys:
        return _totals(plan, rows, window, ctx)
    ctx.budget.check("group", rows.size, len(rows.at) + len(keys) + GROUPING)
    groups, first = group(keys, rows, ctx)
    heads, count = rows.take(first), len(first)
    found: dict[Aggregate, pa.Array] = {}
    for expr in (*(c.expr for c in ir.columns), *(key.expr for key in ir.order)):
        if isinstance(expr, Aggregate):
            ctx.budget.check("aggregate")
            found[expr] = aggregate(expr, groups, count, rows, ctx)
    sort_keys = [
        ranks(found[key.expr], descending=key.descending)
        if isinstance(key.expr, Aggregate)
        else sort_key(key.expr, key.descending, heads, ctx)
        for key in ir.order
    ]
    # Groups are numbered by their keys, which settles ties.
    order = sorted_rows([*sort_keys, np.arange(count)], count)
    shown = order if ir.distinct else window.of(order)
    kept = heads.take(shown)
    arrays = [
        found[column.expr].take(pa.array(shown))
        if isinstance(column.expr, Aggregate)
        else values(column.expr, kept, ctx)
        for column in ir.columns
    ]
    answer = named(ir.columns, arrays)
    if not ir.distinct:
        return kept, answer
    different = _different(answer, [key[order] for key in sort_keys], window)
    return kept.take(different), answer.take(different)


def _totals(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> tuple[Rows, Answer]:
    """Aggregate all rows together: always one value each, unless they are skipped."""
    groups = np.zeros(rows.size, np.int64)
    arrays = []
    for column in plan.ir.columns:
        expr = column.expr
        assert isinstance(expr, Aggregate)
        ctx.budget.check("aggregate", rows.size, len(rows.at) + 3)
        if plan.is_set and _counts_nodes(expr, rows):
            arrays.append(pa.array([rows.size], pa.int64()))
        else:
            arrays.append(aggregate(expr, groups, 1, rows, ctx))
    if window.offset > 0 or window.limit == 0:
        rows, arrays = rows.slice(0, 0), [array.slice(0, 0) for array in arrays]
    return rows.slice(0, 1), named(plan.ir.columns, arrays)


def _counts_nodes(expr: Aggregate, rows: Rows) -> bool:
    """Whether every row is one of the different nodes, or edges, an aggregate counts."""
    match expr:
        case Aggregate(fn=AggregateFn.COUNT, arg=Prop(var, "id")):
            return rows.at.keys() == {var}
        case _:
            return False


def _different(answer: Answer, keys: list[Ints], window: Window) -> Ints:
    """Return one of equal groups each; they come by their keys, then by their columns."""
    columns = [ranks(array) for array in answer.arrays]
    order = sorted_rows([*keys, *columns], answer.rows)
    same = np.zeros(answer.rows, dtype=bool)
    same[1:] = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    return window.of(order[~same])

"""The executor: a read IR over one snapshot's images to columns of a result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.base.budget import Budget
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.query.typed import Aggregate, Prop, Scalarish
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.pieces import sorted_rows
from omnigraph.engine.read.aggregate import group, key_codes, sort_key
from omnigraph.engine.read.answer import Answer, named
from omnigraph.engine.read.context import Images, ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.grouped import GROUPING, aggregated
from omnigraph.engine.read.operators import run_stages
from omnigraph.engine.read.order import by_ids, contenders
from omnigraph.engine.read.point import look_up
from omnigraph.engine.read.prepare import Prepared
from omnigraph.engine.read.rank import fused, members
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows
from omnigraph.engine.read.top_k import top_k_rows
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.read.window import Window

_NUMBER = "~number"
"""Names the number of a row among those that were matched."""


def run_read(
    plan: Prepared,
    images: Images,
    bound: BoundQuery,
    budget: Budget | None = None,
    trace: Trace | None = None,
) -> Answer:
    """Return the result of a read query.

    Args:
        plan: the query, made ready.
        images: resident state of the snapshot to read.
        bound: checked parameter values, limit and offset.
        budget: limits of this run.
        trace: where to keep what every operator did.
    """
    budget = budget or Budget()
    if plan.point is not None and trace is None:
        return look_up(plan.point, images, bound)
    ctx = ReadContext(images, bound.params, plan.types, budget, trace=trace)
    window = Window(bound.offset, bound.limit)
    rows = _matched(plan, window, ctx)
    if trace is None:
        return _answer(plan, rows, window, ctx)
    with trace.step("return") as step:
        answer = _answer(plan, rows, window, ctx)
        step.rows = answer.rows
    return answer


def stream_read(
    plan: Prepared, images: Images, bound: BoundQuery, budget: Budget, batch_rows: int
) -> Iterator[Answer]:
    """Return the result of a read query piece by piece, in order; there is at least one piece.

    The match is made, ranked and ordered before this returns; values are fetched as the pieces
    are asked for. Groups come in one go.
    """
    ctx = ReadContext(images, bound.params, plan.types, budget)
    window = Window(bound.offset, bound.limit)
    found = _ordered(plan, _matched(plan, window, ctx), window, ctx)
    if isinstance(found, tuple):
        _, answer = found
        return (answer.slice(at, batch_rows) for at in range(0, max(answer.rows, 1), batch_rows))
    return (
        _projected(plan.ir, found.slice(at, batch_rows), ctx)
        for at in range(0, max(found.size, 1), batch_rows)
    )


def rows_behind(plan: Prepared, window: Window, ctx: ReadContext) -> Rows:
    """Return the rows of the match that a result is made of, in its order.

    They are one for each row of a plain result; a distinct or grouped row is made of several.
    """
    rows = _matched(plan, window, ctx)
    rows = rows.bind(_NUMBER, np.arange(rows.size))
    found = _ordered(plan, rows, window, ctx)
    shown = found[0] if isinstance(found, tuple) else found
    if not (plan.is_aggregate or plan.ir.distinct):
        return shown
    keys = [column.expr for column in plan.ir.columns if not isinstance(column.expr, Aggregate)]
    groups, first = group(keys, rows, ctx)
    place = np.full(len(first), -1)
    place[groups[shown.at[_NUMBER]]] = np.arange(shown.size)
    at = place[groups]
    kept = np.flatnonzero(at >= 0)
    return rows.take(kept[np.argsort(at[kept], kind="stable")])


def _matched(plan: Prepared, window: Window, ctx: ReadContext) -> Rows:
    """Run the operators; where a ranking leads, only as far as its best rows need."""
    if plan.is_led and window.end is not None:
        return top_k_rows(plan, window.end, ctx)
    return run_stages(plan.stages, ONE_EMPTY_ROW, ctx)


def _answer(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> Answer:
    found = _ordered(plan, rows, window, ctx)
    return found[1] if isinstance(found, tuple) else _projected(plan.ir, found, ctx)


def _ordered(
    plan: Prepared, rows: Rows, window: Window, ctx: ReadContext
) -> Rows | tuple[Rows, Answer]:
    """Rank and order what the operators matched; what is left is to fetch values.

    Groups have theirs already; beside them stands a row of each.
    """
    ir = plan.ir
    for score in plan.fusions:
        ctx.fused[score] = fused(score, rows, window.end, ctx, best=plan.needs_best_only(score))
    if plan.is_aggregate:
        return aggregated(plan, rows, window, ctx)
    rank: list[Ints] = []
    if ir.ranking is not None:
        rows, best = members(ir.ranking, rows, None if ir.distinct else window.end, ctx)
        rank = [best]
    if ir.order and not ctx.budget.is_small(rows.size, len(rows.at) + 2):
        ctx.budget.check("order", rows.size, len(rows.at) + len(ir.order) + 2)
    keys = rank + [sort_key(key.expr, key.descending, rows, ctx) for key in ir.order]
    if ir.distinct:
        return _distinct(plan, rows, keys, window, ctx)
    if keys and window.end is not None:
        ahead = contenders(keys[0], window.end)
        rows, keys = rows.take(ahead), [key[ahead] for key in keys]
    # Keys, the order itself, and rows in that order beside those before.
    columns = 2 * len(rows.at) + len(keys) + len(plan.tie_breakers) + 1
    ctx.budget.check("order", rows.size, columns)
    order = sorted_rows([*keys, *by_ids(plan.tie_breakers, rows, ctx)], rows.size)
    return rows.take(window.of(order))


def _projected(ir: ReadIr, rows: Rows, ctx: ReadContext) -> Answer:
    arrays = []
    held = 0
    for column in ir.columns:
        assert not isinstance(column.expr, Aggregate)
        arrays.append(values(column.expr, rows, ctx))
        if rows.size > 1:  # a single value is a view of its column
            held += arrays[-1].get_total_buffer_size()
            ctx.budget.hold("return", held)
    return named(ir.columns, arrays)


def _distinct(
    plan: Prepared, rows: Rows, keys: list[Ints], window: Window, ctx: ReadContext
) -> Rows:
    """Keep one of equal rows; they come by their keys, then by their columns."""
    columns = len(rows.at) + len(keys) + len(plan.ir.columns) + GROUPING
    ctx.budget.check("distinct", rows.size, columns)
    exprs = [column.expr for column in plan.ir.columns if not isinstance(column.expr, Aggregate)]
    telling = _telling(exprs, rows)
    if telling is not None:
        order = sorted_rows([*keys, *(key_codes(expr, rows, ctx) for expr in telling)], rows.size)
        return rows.take(window.of(order))
    groups, first = group(exprs, rows, ctx)
    best = [_least(key, groups, len(first)) for key in keys]
    order = sorted_rows([*best, np.arange(len(first))], len(first))
    return rows.take(first[window.of(order)])


def _telling(exprs: list[Scalarish], rows: Rows) -> list[Scalarish] | None:
    """Return the leading columns that tell all rows apart, or None if they are not ids.

    No two rows bind the same nodes and edges, so the ids of all variables tell them apart.
    """
    found: list[Scalarish] = []
    missing = set(rows.at)
    for expr in exprs:
        if not missing:
            return found
        found.append(expr)
        match expr:
            case Prop(var, "id"):
                missing.discard(var)
            case _:
                pass
    return None if missing else found


def _least(key: Ints, groups: Ints, count: int) -> Ints:
    """Return the least key among equal rows: they differ only in a fused rank."""
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, key)
    return least

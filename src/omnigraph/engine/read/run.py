"""The executor: a read IR over one snapshot's images to columns of a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import Budget
from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.operations import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Column, Expr, Prop, Scalarish
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.image.pieces import sorted_rows
from omnigraph.engine.read.aggregate import aggregate, group, key_codes
from omnigraph.engine.read.answer import Answer
from omnigraph.engine.read.context import Images, ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.operators import run_stages
from omnigraph.engine.read.order import by_ids, contenders, ranks
from omnigraph.engine.read.point import look_up
from omnigraph.engine.read.prepare import Prepared
from omnigraph.engine.read.rank import fused, members
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows
from omnigraph.engine.read.top_k import top_k_rows
from omnigraph.engine.read.trace import Trace

_GROUPING = 6
"""Numbers per row that grouping holds beside the rows and their keys: codes and their order."""


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
    if isinstance(found, Answer):
        return (found.slice(at, batch_rows) for at in range(0, max(found.rows, 1), batch_rows))
    return (
        _projected(plan.ir, found.slice(at, batch_rows), ctx)
        for at in range(0, max(found.size, 1), batch_rows)
    )


def _matched(plan: Prepared, window: Window, ctx: ReadContext) -> Rows:
    """Run the operators; where a ranking leads, only as far as its best rows need."""
    if plan.is_led and window.end is not None:
        return top_k_rows(plan, window.end, ctx)
    return run_stages(plan.stages, ONE_EMPTY_ROW, ctx)


def _answer(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> Answer:
    found = _ordered(plan, rows, window, ctx)
    return found if isinstance(found, Answer) else _projected(plan.ir, found, ctx)


def _ordered(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> Rows | Answer:
    """Group, rank and order what the operators matched; what is left is to fetch values."""
    ir = plan.ir
    for score in plan.fusions:
        ctx.fused[score] = fused(score, rows, window.end, ctx, best=plan.needs_best_only(score))
    if plan.is_aggregate:
        return _aggregated(plan, rows, window, ctx)
    rank: list[Ints] = []
    if ir.ranking is not None:
        rows, best = members(ir.ranking, rows, None if ir.distinct else window.end, ctx)
        rank = [best]
    if ir.order and not ctx.budget.is_small(rows.size, len(rows.at) + 2):
        ctx.budget.check("order", rows.size, len(rows.at) + len(ir.order) + 2)
    keys = rank + [_sort_key(key.expr, key.descending, rows, ctx) for key in ir.order]
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


@dataclass(frozen=True, slots=True)
class Window:
    """Which of the ordered rows are returned."""

    offset: int
    limit: int | None

    @property
    def end(self) -> int | None:
        """How many rows from the top can matter; None is all."""
        return None if self.limit is None else self.offset + self.limit

    def of(self, order: Ints) -> Ints:
        """Return the part of an ordering that is returned."""
        return order[self.offset : self.end]


def _sort_key(expr: Expr, descending: bool, rows: Rows, ctx: ReadContext) -> Ints:
    assert not isinstance(expr, Aggregate), "aggregates are ordered after grouping"
    codes = key_codes(expr, rows, ctx)
    return -codes if descending else codes


def _projected(ir: ReadIr, rows: Rows, ctx: ReadContext) -> Answer:
    arrays = []
    held = 0
    for column in ir.columns:
        assert not isinstance(column.expr, Aggregate)
        arrays.append(values(column.expr, rows, ctx))
        if rows.size > 1:  # a single value is a view of its column
            held += arrays[-1].get_total_buffer_size()
            ctx.budget.hold("return", held)
    return _named(ir.columns, arrays)


def _named(columns: tuple[Column, ...], arrays: list[pa.Array]) -> Answer:
    """Return arrays under their names; without rows, of the type the query declares."""
    typed = arrays if len(arrays[0]) else list(map(_typed, columns, arrays))
    return Answer(tuple(column.name for column in columns), tuple(typed))


def _typed(column: Column, array: pa.Array) -> pa.Array:
    return array.cast(arrow_type(column.type)) if pa.types.is_null(array.type) else array


def _aggregated(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> Answer:
    ir = plan.ir
    keys = [column.expr for column in ir.columns if not isinstance(column.expr, Aggregate)]
    if not keys:
        return _totals(plan, rows, window, ctx)
    ctx.budget.check("group", rows.size, len(rows.at) + len(keys) + _GROUPING)
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
        else _sort_key(key.expr, key.descending, heads, ctx)
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
    answer = _named(ir.columns, arrays)
    if not ir.distinct:
        return answer
    return _distinct_groups(answer, [key[order] for key in sort_keys], window)


def _totals(plan: Prepared, rows: Rows, window: Window, ctx: ReadContext) -> Answer:
    """Aggregate all rows together: always one row, unless it is skipped."""
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
        arrays = [array.slice(0, 0) for array in arrays]
    return _named(plan.ir.columns, arrays)


def _counts_nodes(expr: Aggregate, rows: Rows) -> bool:
    """Whether every row is one of the different nodes, or edges, an aggregate counts."""
    match expr:
        case Aggregate(fn=AggregateFn.COUNT, arg=Prop(var, "id")):
            return rows.at.keys() == {var}
        case _:
            return False


def _distinct(
    plan: Prepared, rows: Rows, keys: list[Ints], window: Window, ctx: ReadContext
) -> Answer:
    """Keep one of equal rows; they come by their keys, then by their columns."""
    columns = len(rows.at) + len(keys) + len(plan.ir.columns) + _GROUPING
    ctx.budget.check("distinct", rows.size, columns)
    exprs = [column.expr for column in plan.ir.columns if not isinstance(column.expr, Aggregate)]
    telling = _telling(exprs, rows)
    if telling is not None:
        order = sorted_rows([*keys, *(key_codes(expr, rows, ctx) for expr in telling)], rows.size)
        return _projected(plan.ir, rows.take(window.of(order)), ctx)
    groups, first = group(exprs, rows, ctx)
    best = [_least(key, groups, len(first)) for key in keys]
    order = sorted_rows([*best, np.arange(len(first))], len(first))
    return _projected(plan.ir, rows.take(first[window.of(order)]), ctx)


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


def _distinct_groups(answer: Answer, keys: list[Ints], window: Window) -> Answer:
    """Keep one of equal groups; they come by their keys, then by their columns."""
    columns = [ranks(array) for array in answer.arrays]
    order = sorted_rows([*keys, *columns], answer.rows)
    same = np.zeros(answer.rows, dtype=bool)
    same[1:] = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    kept = pa.array(window.of(order[~same]))
    return Answer(answer.names, tuple(array.take(kept) for array in answer.arrays))

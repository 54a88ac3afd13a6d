"""The executor: a read IR over one snapshot's images to one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Ranking, ReadIr
from omnigraph.compiler.query.typed import Aggregate, Column, Expr, Rrf
from omnigraph.engine.image.arrays import Ints, distinct, renumbered
from omnigraph.engine.read.aggregate import aggregate, group, key_codes
from omnigraph.engine.read.context import Budget, Images, ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.operators import run_ops, variable_types
from omnigraph.engine.read.order import by_ids, contenders, ranks, sorted_rows
from omnigraph.engine.read.rank import rank_nodes
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows
from omnigraph.engine.read.trace import Trace


def run_read(
    ir: ReadIr,
    images: Images,
    bound: BoundQuery,
    budget: Budget | None = None,
    trace: Trace | None = None,
) -> pa.Table:
    """Return the result of a read query.

    Args:
        ir: the compiled query.
        images: resident state of the snapshot to read.
        bound: checked parameter values, limit and offset.
        budget: limits of this run.
        trace: where to keep what every operator did.
    """
    ctx = ReadContext(images, bound.params, variable_types(ir.ops), budget or Budget(), trace=trace)
    rows = run_ops(ir.ops, ONE_EMPTY_ROW, ctx)
    window = Window(bound.offset, bound.limit)
    if trace is None:
        return _answer(ir, rows, window, ctx)
    with trace.step("return") as step:
        table = _answer(ir, rows, window, ctx)
        step.rows = table.num_rows
    return table


def _answer(ir: ReadIr, rows: Rows, window: Window, ctx: ReadContext) -> pa.Table:
    """Group, rank, order and project what the operators matched."""
    for score in _fusions(ir):
        ctx.fused[score] = rank_nodes(score, distinct(rows.at[score.var]), window.end, ctx)
    if ir.is_aggregate:
        return _aggregated(ir, rows, window, ctx)
    rank: list[Ints] = []
    if ir.ranking is not None:
        rows, best = _members(ir.ranking, rows, window, ctx)
        rank = [best]
    keys = rank + [_sort_key(key.expr, key.descending, rows, ctx) for key in ir.order]
    if ir.distinct:
        return _distinct(ir, rows, keys, window, ctx)
    if keys and window.end is not None:
        ahead = contenders(keys[0], window.end)
        rows, keys = rows.take(ahead), [key[ahead] for key in keys]
    order = sorted_rows([*keys, *by_ids(_tie_breakers(ir), rows, ctx)], rows.size)
    return _projected(ir, rows.take(window.of(order)), ctx)


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


def _fusions(ir: ReadIr) -> set[Rrf]:
    """Return the fused scores a query speaks of: they are known only for the match as a whole."""
    exprs: list[Expr | None] = [column.expr for column in ir.columns]
    exprs += [key.expr for key in ir.order]
    exprs += [expr.arg for expr in exprs if isinstance(expr, Aggregate)]
    exprs += [] if ir.ranking is None else [ir.ranking.score]
    return {expr for expr in exprs if isinstance(expr, Rrf)}


def _members(ranking: Ranking, rows: Rows, window: Window, ctx: ReadContext) -> tuple[Rows, Ints]:
    """Return the rows of the ranked nodes, and integers that sort them as the ranking asks."""
    score = ranking.score
    at = rows.at[score.var]
    positions = ctx.image(score.var).positions
    ranked = ctx.fused[score] if isinstance(score, Rrf) else None
    if ranked is None:
        _, first = renumbered(at, positions)
        wanted = window.end if ranking.best_first else None
        ranked = rank_nodes(score, at[first], wanted, ctx)
    place = np.full(positions, -1, np.int64)
    place[ranked.positions] = np.unique(ranked.keys, return_inverse=True)[1]
    places = place[at]
    members = np.flatnonzero(places >= 0)
    chosen = places[members]
    return rows.take(members), chosen if ranking.best_first else -chosen


def _tie_breakers(ir: ReadIr) -> Sequence[str]:
    """Return the variables whose ids settle ties.

    Without an order, as they were declared; with one, by name; in a ranking its own node first,
    so that the rows of one node stay together.
    """
    if ir.ranking is None:
        return sorted(ir.variables) if ir.order else ir.variables
    var = ir.ranking.score.var
    return [var, *(name for name in sorted(ir.variables) if name != var)]


def _projected(ir: ReadIr, rows: Rows, ctx: ReadContext) -> pa.Table:
    arrays = []
    for column in ir.columns:
        assert not isinstance(column.expr, Aggregate)
        arrays.append(values(column.expr, rows, ctx))
    return _table(ir.columns, arrays)


def _table(columns: tuple[Column, ...], arrays: list[pa.Array]) -> pa.Table:
    fields = [
        pa.field(column.name, array.type if len(array) else _type(column, array))
        for column, array in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _type(column: Column, array: pa.Array) -> pa.DataType:
    return array.type if not pa.types.is_null(array.type) else arrow_type(column.type)


def _aggregated(ir: ReadIr, rows: Rows, window: Window, ctx: ReadContext) -> pa.Table:
    keys = [column.expr for column in ir.columns if not isinstance(column.expr, Aggregate)]
    groups, first = group(keys, rows, ctx)
    count = len(first) if keys else 1
    heads = rows.take(first)
    found = {
        expr: aggregate(expr, groups, count, rows, ctx)
        for expr in (*(c.expr for c in ir.columns), *(key.expr for key in ir.order))
        if isinstance(expr, Aggregate)
    }
    sort_keys = [
        ranks(found[key.expr], descending=key.descending)
        if isinstance(key.expr, Aggregate)
        else _sort_key(key.expr, key.descending, heads, ctx)
        for key in ir.order
    ]
    # Groups are numbered by their keys, which settles ties.
    order = sorted_rows([*sort_keys, np.arange(count)], count)
    shown = order if ir.distinct else window.of(order)
    kept = heads.take(shown) if keys else heads
    arrays = [
        found[column.expr].take(pa.array(shown))
        if isinstance(column.expr, Aggregate)
        else values(column.expr, kept, ctx)
        for column in ir.columns
    ]
    table = _table(ir.columns, arrays)
    return (
        _distinct_groups(table, [key[order] for key in sort_keys], window) if ir.distinct else table
    )


def _distinct(
    ir: ReadIr, rows: Rows, keys: list[Ints], window: Window, ctx: ReadContext
) -> pa.Table:
    """Keep one of equal rows; they come by their keys, then by their columns."""
    exprs = [column.expr for column in ir.columns if not isinstance(column.expr, Aggregate)]
    groups, first = group(exprs, rows, ctx)
    best = [_least(key, groups, len(first)) for key in keys]
    order = sorted_rows([*best, np.arange(len(first))], len(first))
    return _projected(ir, rows.take(first[window.of(order)]), ctx)


def _least(key: Ints, groups: Ints, count: int) -> Ints:
    """Return the least key among equal rows: they differ only in a fused rank."""
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, key)
    return least


def _distinct_groups(table: pa.Table, keys: list[Ints], window: Window) -> pa.Table:
    """Keep one of equal groups; they come by their keys, then by their columns."""
    columns = [ranks(column.combine_chunks()) for column in table.columns]
    order = sorted_rows([*keys, *columns], table.num_rows)
    same = np.zeros(table.num_rows, dtype=bool)
    same[1:] = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    return table.take(pa.array(window.of(order[~same])))

"""The executor: a read IR over one snapshot's images to one Arrow table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Expand, NodeScan, ReadIr, iter_ops
from omnigraph.compiler.query.typed import Aggregate, Column, Expr, Rrf
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.read.aggregate import aggregate, group
from omnigraph.engine.read.context import Budget, Images, ReadContext
from omnigraph.engine.read.evaluate import arrow_type, values
from omnigraph.engine.read.operators import run_ops
from omnigraph.engine.read.order import by_ids, ranks, sorted_rows
from omnigraph.engine.read.rank import rank_nodes
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows
from omnigraph.errors import BadRequestError


def run_read(
    ir: ReadIr, images: Images, bound: BoundQuery, budget: Budget | None = None
) -> pa.Table:
    """Return the result of a read query.

    Args:
        ir: the compiled query.
        images: resident state of the snapshot to read.
        bound: checked parameter values, limit and offset.
        budget: limits of this run.
    """
    ctx = ReadContext(images, bound.params, variable_types(ir), budget or Budget())
    rows = run_ops(ir.ops, ONE_EMPTY_ROW, ctx)
    window = Window(bound.offset, bound.limit)
    if ir.is_aggregate:
        return _aggregated(ir, rows, window, ctx)
    if ir.distinct:
        return _distinct(ir, rows, window, ctx)
    if ir.ranking is not None:
        return _ranked(ir, rows, window, ctx)
    keys = [_sort_key(key.expr, key.descending, rows, ctx) for key in ir.order]
    # With an order, ties go by the variables' names; without one, by their declaration.
    ties = sorted(ir.variables) if ir.order else ir.variables
    order = sorted_rows([*keys, *by_ids(ties, rows, ctx)], rows.size)
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


def variable_types(ir: ReadIr) -> dict[str, tuple[str, bool]]:
    """Return the table behind every variable of a query: its name, and whether it is an edge."""
    types: dict[str, tuple[str, bool]] = {}
    for op in iter_ops(ir.ops):
        if isinstance(op, NodeScan):
            types[op.var] = (op.type_name, False)
        elif isinstance(op, Expand):
            types[op.dst] = (op.dst_type, False)
            if op.edge_var is not None:
                types[op.edge_var] = (op.edge, True)
    return types


def _sort_key(expr: Expr, descending: bool, rows: Rows, ctx: ReadContext) -> Ints:
    assert not isinstance(expr, Aggregate), "aggregates are ordered after grouping"
    return ranks(values(expr, rows, ctx), descending=descending)


def _ranked(ir: ReadIr, rows: Rows, window: Window, ctx: ReadContext) -> pa.Table:
    assert ir.ranking is not None
    score, var = ir.ranking.score, ir.ranking.score.var
    nodes, node_of = np.unique(rows.at[var], return_inverse=True)
    ranked = rank_nodes(score, nodes, window.end if ir.ranking.best_first else None, ctx)
    sign = 1.0 if ir.ranking.best_first else -1.0
    key_of = np.full(len(nodes), np.nan)
    at = np.searchsorted(nodes, ranked.positions)
    key_of[at] = sign * ranked.keys
    members = np.flatnonzero(~np.isnan(key_of[node_of]))
    kept = rows.take(members)
    best = np.unique(key_of[node_of][members], return_inverse=True)[1]
    keys = [best, *(_sort_key(key.expr, key.descending, kept, ctx) for key in ir.order)]
    ties = [var, *(name for name in sorted(ir.variables) if name != var)]
    order = window.of(sorted_rows([*keys, *by_ids(ties, kept, ctx)], kept.size))
    scores = dict(zip(ranked.positions.tolist(), ranked.scores.tolist(), strict=True))
    return _projected(ir, kept.take(order), ctx, fused=scores)


def _projected(
    ir: ReadIr, rows: Rows, ctx: ReadContext, fused: Mapping[int, float] | None = None
) -> pa.Table:
    columns = []
    for column in ir.columns:
        if isinstance(column.expr, Rrf):
            # A fused score exists only in its ranking.
            places = rows.at[column.expr.var].tolist()
            columns.append(pa.array([(fused or {})[place] for place in places], pa.float64()))
        else:
            assert not isinstance(column.expr, Aggregate)
            columns.append(values(column.expr, rows, ctx))
    return _table(ir.columns, columns)


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
    arrays = [
        aggregate(column.expr, groups, count, rows, ctx)
        if isinstance(column.expr, Aggregate)
        else values(column.expr, heads, ctx)
        for column in ir.columns
    ]
    table = _table(ir.columns, arrays)
    by_expr = {column.expr: at for at, column in enumerate(ir.columns)}
    sort_keys = []
    for key in ir.order:
        at = by_expr.get(key.expr)
        if at is not None:
            array = arrays[at]
        elif isinstance(key.expr, Aggregate):
            array = aggregate(key.expr, groups, count, rows, ctx)
        else:
            raise BadRequestError("an aggregate query is ordered by its columns")
        sort_keys.append(ranks(array, descending=key.descending))
    if ir.distinct:
        return _distinct_table(table, sort_keys, window)
    order = sorted_rows([*sort_keys, np.arange(count)], count)
    return table.take(pa.array(window.of(order)))


def _distinct(ir: ReadIr, rows: Rows, window: Window, ctx: ReadContext) -> pa.Table:
    arrays = [values(column.expr, rows, ctx) for column in ir.columns]  # type: ignore[arg-type] # no aggregates here
    table = _table(ir.columns, arrays)
    keys = [_sort_key(key.expr, key.descending, rows, ctx) for key in ir.order]
    return _distinct_table(table, keys, window)


def _distinct_table(table: pa.Table, keys: list[Ints], window: Window) -> pa.Table:
    """Keep the first of equal rows; order keys are projected, ties go by the columns."""
    codes = np.zeros(table.num_rows, np.int64)
    columns = [ranks(_comparable(column.combine_chunks())) for column in table.columns]
    for fresh in columns:
        width = int(fresh.max()) + 1 if len(fresh) else 1
        _, codes = np.unique(codes * width + fresh, return_inverse=True)
    _, first = np.unique(codes, return_index=True)
    order = sorted_rows([key[first] for key in [*keys, *columns]], len(first))
    return table.take(pa.array(first[window.of(order)]))


def _comparable(column: pa.Array) -> pa.Array:
    """Return lists and vectors as text, the only nested values a result can hold."""
    if pa.types.is_nested(column.type):
        return pa.array([None if one is None else repr(one) for one in column.to_pylist()])
    return column

"""The four operators that make rows: scan, expand, filter, anti-join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from omnigraph.compiler.ir.ops import AntiJoin, Expand, Filter, NodeScan, Op
from omnigraph.compiler.query.ast import CompareOp
from omnigraph.compiler.query.typed import Compare, Direction, Predicate, Prop
from omnigraph.engine.image.arrays import Ints, Mask
from omnigraph.engine.image.ids import MISSING
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import Constant, constant, holds
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import distinct_pairs, walk

_TAG = "~row"
"""Names the outer row inside an anti-join; one more `~` per nesting level."""


def run_ops(ops: Sequence[Op], rows: Rows, ctx: ReadContext) -> Rows:
    """Run operators one after another; an empty intermediate result ends early."""
    for op in ops:
        rows = run_op(op, rows, ctx) if ctx.trace is None else _traced(op, rows, ctx, ctx.trace)
        ctx.budget.check(type(op).__name__, rows.size)
    return rows


def _traced(op: Op, rows: Rows, ctx: ReadContext, trace: Trace) -> Rows:
    with trace.step(op) as step:
        found = run_op(op, rows, ctx)
        step.rows = found.size
    return found


def variable_types(ops: Sequence[Op]) -> dict[str, tuple[str, bool]]:
    """Return the table behind every variable operators bind: its name, and whether it is an edge.

    What an anti-join binds stays inside it.
    """
    types: dict[str, tuple[str, bool]] = {}
    for op in ops:
        if isinstance(op, NodeScan):
            types[op.var] = (op.type_name, False)
        elif isinstance(op, Expand):
            types[op.dst] = (op.dst_type, False)
            if op.edge_var is not None:
                types[op.edge_var] = (op.edge, True)
    return types


def run_op(op: Op, rows: Rows, ctx: ReadContext) -> Rows:
    """Run one operator."""
    match op:
        case NodeScan():
            return scan(op, rows, ctx)
        case Expand():
            return expand(op, rows, ctx)
        case Filter():
            return rows.keep(holds(op.predicate, rows, ctx))
        case AntiJoin():
            return anti_join(op, rows, ctx)
        case _:
            assert_never(op)


def scan(op: NodeScan, rows: Rows, ctx: ReadContext) -> Rows:
    """Bind a variable to every node that passes; beside other rows, to their product."""
    positions = _matching(ctx.images.node(op.type_name), op.var, op.filters, ctx)
    if not rows.at:
        return Rows(len(positions), {op.var: positions})
    ctx.budget.check("NodeScan", rows.size * len(positions))
    return rows.times(op.var, positions)


def _matching(
    image: TableImage, var: str, filters: tuple[Predicate, ...], ctx: ReadContext
) -> Ints:
    """Return the positions of the rows of a table that pass every filter."""
    rest = list(filters)
    positions = None
    for predicate in filters:
        found = _by_id(image, predicate, ctx)
        if found is not None:
            positions = found
            rest.remove(predicate)
            break
    if positions is None:
        positions = image.live_positions
    rows = Rows(len(positions), {var: positions})
    for predicate in rest:
        rows = rows.keep(holds(predicate, rows, ctx))
    return rows.at[var]


def _by_id(image: TableImage, predicate: Predicate, ctx: ReadContext) -> Ints | None:
    """Return the position an id equality selects, or None for any other predicate."""
    match predicate:
        case Compare(Prop(name="id"), CompareOp.EQ, other) | Compare(
            other, CompareOp.EQ, Prop(name="id")
        ) if isinstance(other, Constant):
            wanted = constant(other, ctx)
            position = MISSING if wanted is None else image.find(wanted)
            return np.asarray([] if position == MISSING else [position], np.int64)
        case _:
            return None


def expand(op: Expand, rows: Rows, ctx: ReadContext) -> Rows:
    """Bind the destination (and the edge) of every step from the source variable."""
    if not rows.size:
        empty = np.empty(0, np.int64)
        rows = rows.bind(op.dst, empty)
        return rows if op.edge_var is None else rows.bind(op.edge_var, empty)
    if op.edge_var is not None:
        return _expand_edges(op, rows, ctx)
    nodes = ctx.images.node(op.dst_type)
    starts = rows.at[op.src]
    same_type = ctx.types[op.src][0] == op.dst_type
    if op.max_hops == 1:
        at, targets = _hop(op, starts, ctx)
    elif not same_type:
        # The far end is of another type, so no second step exists.
        at, targets = _hop(op, starts, ctx) if op.min_hops == 1 else (np.empty(0, np.int64),) * 2
    else:
        at, targets = walk(
            lambda positions: _hop(op, positions, ctx),
            nodes.positions,
            starts,
            op.min_hops,
            op.max_hops,
        )
    if op.dst_filters:
        kept = _passing(nodes, op.dst, op.dst_filters, targets, ctx)
        if kept is not None:
            at, targets = at[kept], targets[kept]
    ctx.budget.check("Expand", len(at))
    return rows.take(at).bind(op.dst, targets)


def _hop(op: Expand, positions: Ints, ctx: ReadContext) -> tuple[Ints, Ints]:
    """Return `(rows, targets)` of one step; each target once per row, none of them dead."""
    nodes = ctx.images.node(op.dst_type)
    ways = [op.direction] if op.direction is not Direction.BOTH else [Direction.OUT, Direction.IN]
    steps = []
    for way in ways:
        adjacency = ctx.images.adjacency(op.edge, way)
        _check_reach(adjacency, positions, ctx)
        steps.append(adjacency.neighbours_of(positions, nodes.positions))
    at, targets = steps[0]
    if len(steps) > 1:
        (out_at, out), (in_at, back) = steps
        both = np.concatenate([out_at, in_at]), np.concatenate([out, back])
        at, targets = distinct_pairs(*both, nodes.positions)
    if nodes.live is not None:
        live = nodes.live[targets]
        at, targets = at[live], targets[live]
    return at, targets


def _check_reach(adjacency: Adjacency, positions: Ints, ctx: ReadContext) -> None:
    """Ask whether as many rows may be held as the positions have edges."""
    limited = ctx.budget.limits.rows is not None
    ctx.budget.check("Expand", adjacency.count(positions) if limited else 0)


def _expand_edges(op: Expand, rows: Rows, ctx: ReadContext) -> Rows:
    """Bind one row per stored edge; a self-loop walked both ways is still one edge."""
    assert op.edge_var is not None
    starts = rows.at[op.src]
    out = Direction.OUT if op.direction is Direction.BOTH else op.direction
    adjacency = ctx.images.adjacency(op.edge, out)
    _check_reach(adjacency, starts, ctx)
    at, targets, edges = adjacency.edges_of(starts)
    if op.direction is Direction.BOTH:
        into = ctx.images.adjacency(op.edge, Direction.IN)
        _check_reach(into, starts, ctx)
        back_at, back_targets, back = into.edges_of(starts)
        other = back_targets != starts[back_at]
        at = np.concatenate([at, back_at[other]])
        targets = np.concatenate([targets, back_targets[other]])
        edges = np.concatenate([edges, back[other]])
    kept = _passing(ctx.images.edge(op.edge), op.edge_var, op.edge_filters, edges, ctx)
    if kept is not None:
        at, targets, edges = at[kept], targets[kept], edges[kept]
    kept = _passing(ctx.images.node(op.dst_type), op.dst, op.dst_filters, targets, ctx)
    if kept is not None:
        at, targets, edges = at[kept], targets[kept], edges[kept]
    ctx.budget.check("Expand", len(at))
    return rows.take(at).bind(op.dst, targets).bind(op.edge_var, edges)


def _passing(
    image: TableImage, var: str, filters: tuple[Predicate, ...], positions: Ints, ctx: ReadContext
) -> Mask | None:
    """Return which positions are live and pass every filter; None when all do."""
    mask: Mask | None = None if image.live is None else image.live[positions]
    if not filters:
        return mask
    if len(positions) > image.positions:
        # More visits than nodes: deciding each node once is cheaper.
        passing = np.zeros(image.positions, dtype=bool)
        passing[_matching(image, var, filters, ctx)] = True
        return passing[positions]
    rows = Rows(len(positions), {var: positions})
    for predicate in filters:
        one = holds(predicate, rows, ctx)
        mask = one if mask is None else mask & one
    return mask


def anti_join(op: AntiJoin, rows: Rows, ctx: ReadContext) -> Rows:
    """Keep the rows from which the inner operators reach nothing."""
    if not rows.size:
        return rows
    tag = _TAG
    while tag in rows.at:
        tag = "~" + tag
    # Two negations may use one name for different things, so a name means what it does here.
    inside = replace(ctx, types={**ctx.types, **variable_types(op.inner)})
    inner = run_ops(op.inner, rows.bind(tag, np.arange(rows.size)), inside)
    keep = np.ones(rows.size, dtype=bool)
    keep[inner.at[tag]] = False
    return rows.keep(keep)

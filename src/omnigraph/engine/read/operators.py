"""The operators that make rows: scan, expand, filter, join, anti-join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

import numpy as np

from omnigraph.base.budget import NUMBER_BYTES
from omnigraph.compiler.ir.ops import AntiJoin, Expand, Filter, Join, NodeScan
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query.typed import Compare, Direction, Predicate, Prop
from omnigraph.engine.image.arrays import Ints, Mask, distinct, members
from omnigraph.engine.image.ids import MISSING
from omnigraph.engine.image.pieces import gathered
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import Constant, constant, holds
from omnigraph.engine.read.join import joined
from omnigraph.engine.read.prepare import Stage
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.engine.topology.csr import distinct_pairs, walk

_STEP_EDGES = 1 << 20
"""Edges that are followed between two looks at the clock."""
_STEP_COLUMNS = 3
"""Numbers per edge that a step holds: its row and its target, and both again while parts are
put together."""
_BOTH_COLUMNS = 8
"""The same for both directions at once, whose pairs are sorted to tell them apart."""


def run_stages(stages: Sequence[Stage], rows: Rows, ctx: ReadContext) -> Rows:
    """Run operators one after another."""
    for stage in stages:
        if ctx.trace is None:
            rows = run_stage(stage, rows, ctx)
        else:
            rows = _traced(stage, rows, ctx, ctx.trace)
        ctx.budget.check(stage.name, rows.size, len(rows.at))
    return rows


def _traced(stage: Stage, rows: Rows, ctx: ReadContext, trace: Trace) -> Rows:
    with trace.step(stage.op) as step:
        found = run_stage(stage, rows, ctx)
        step.rows = found.size
    return found


def run_stage(stage: Stage, rows: Rows, ctx: ReadContext) -> Rows:
    """Run one operator; what it leaves is what is needed behind it."""
    op = stage.op
    match op:
        case NodeScan():
            found = scan(op, rows, ctx)
        case Expand():
            if stage.into is None:
                return expand(stage, op, rows, ctx)
            found = rows.keep(leads_to(op, rows.at[op.src], rows.at[stage.into], ctx))
        case Filter():
            found = rows.keep(holds(op.predicate, rows, ctx))
        case AntiJoin():
            found = anti_join(stage, rows, ctx)
        case Join():
            inner = run_stages(stage.inner, ONE_EMPTY_ROW, ctx)
            found = joined(op.on, rows, inner, stage.keep, ctx)
            # It made no more than is needed, so rows may be equal already.
            is_less = len(found.at) < len(rows.at) + len(inner.at)
            return _merged(found, ctx) if stage.once and is_less else found
        case _:
            assert_never(op)
    return _settled(stage, found, ctx)


def _settled(stage: Stage, rows: Rows, ctx: ReadContext) -> Rows:
    """Drop the variables nobody needs any more, and rows that became equal by that."""
    dropped = rows.at.keys() - stage.keep
    if not dropped:
        return rows
    rows = Rows(rows.size, {var: at for var, at in rows.at.items() if var in stage.keep})
    return _merged(rows, ctx) if stage.once else rows


def _merged(rows: Rows, ctx: ReadContext) -> Rows:
    """Return each row once."""
    if rows.size <= 1:
        return rows
    # A variable that is the same in every row tells none apart.
    varied = [var for var, at in rows.at.items() if (at != at[0]).any()]
    if not varied:
        return rows.take(np.zeros(1, np.int64))
    if len(varied) == len(rows.at) == 1:
        return Rows.of(varied[0], distinct(rows.at[varied[0]], _width(varied[0], rows, ctx)))
    keys = rows.at[varied[0]].astype(np.int64)
    for var in varied[1:]:
        width = _width(var, rows, ctx)
        if int(keys.max()) >= 2**62 // width:
            _, keys = np.unique(keys, return_inverse=True)
        keys = keys * width + rows.at[var]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.append(True, ordered[1:] != ordered[:-1])
    return rows if first.all() else rows.take(order[first])


def _width(var: str, rows: Rows, ctx: ReadContext) -> int:
    """Return a number all positions of a variable are below."""
    if var in ctx.types:
        return max(1, ctx.image(var).positions)
    return int(rows.at[var].max()) + 1  # the number of an outer row


def scan(op: NodeScan, rows: Rows, ctx: ReadContext) -> Rows:
    """Bind a variable to every node that passes; beside other rows, to their product."""
    positions = matching(ctx.images.node(op.type_name), op.var, op.filters, ctx)
    if rows.size == 1 and not rows.at:
        return Rows.of(op.var, positions)
    _make_room("NodeScan", rows, rows.size * len(positions), len(rows.at) + 1, ctx)
    return rows.times(op.var, positions)


def matching(image: TableImage, var: str, filters: tuple[Predicate, ...], ctx: ReadContext) -> Ints:
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


def expand(stage: Stage, op: Expand, rows: Rows, ctx: ReadContext) -> Rows:
    """Bind the destination (and the edge) of every step from the source variable."""
    if not rows.size:
        return Rows(0, {var: np.empty(0, np.int64) for var in stage.keep})
    if op.edge_var is not None:
        return _settled(stage, _expand_edges(op, rows, ctx), ctx)
    if op.max_hops == 1 and op.dst in stage.keep:
        # One row reaches every neighbour once; many do if nobody asks from where.
        alike = rows.size == 1 or (stage.once and op.src not in stage.keep)
        others = {var: at for var, at in rows.at.items() if var in stage.keep} if alike else {}
        if alike and (rows.size == 1 or all((at == at[0]).all() for at in others.values())):
            return _reach(op, rows, others, ctx)
    nodes = ctx.images.node(op.dst_type)
    starts = rows.at[op.src]
    if op.max_hops == 1:
        at, targets = _hop(op, starts, nodes, ctx)
    elif ctx.types[op.src][0] != op.dst_type:
        # The far end is of another type, so no second step exists.
        at, targets = (np.empty(0, np.int64),) * 2
        if op.min_hops == 1:
            at, targets = _hop(op, starts, nodes, ctx)
    else:
        at, targets = walk(
            lambda positions: _hop(op, positions, nodes, ctx),
            nodes.positions,
            starts,
            op.min_hops,
            op.max_hops,
        )
    if op.dst_filters:
        kept = _passing(nodes, op.dst, op.dst_filters, targets, ctx)
        if kept is not None:
            at, targets = at[kept], targets[kept]
    others = {var: known for var, known in rows.at.items() if var in stage.keep}
    _make_room("Expand", rows, len(at), len(others) + 2, ctx)
    bound = {var: gathered(known, at) for var, known in others.items()}
    if op.dst in stage.keep:
        bound[op.dst] = targets
    found = Rows(len(at), bound)
    # With both ends kept no two rows are equal: a step yields each destination once.
    told_apart = {op.src, op.dst} <= stage.keep
    return _merged(found, ctx) if stage.once and not told_apart else found


def _reach(op: Expand, rows: Rows, others: Mapping[str, Ints], ctx: ReadContext) -> Rows:
    """Bind each node one step from any row; the other variables are the same in all rows."""
    nodes = ctx.images.node(op.dst_type)
    starts = rows.at[op.src]
    both = (Direction.OUT, Direction.IN)
    ways = both if op.direction is Direction.BOTH else (op.direction,)
    found = []
    for way in ways:
        adjacency = ctx.images.adjacency(op.edge, way)
        _check_reach(adjacency, starts, ctx)
        found.append(adjacency.reached_from(starts, nodes.positions))
    targets = found[0]
    if len(found) > 1:
        targets = distinct(np.concatenate(found), nodes.positions)
    kept = _passing(nodes, op.dst, op.dst_filters, targets, ctx)
    if kept is not None:
        targets = targets[kept]
    bound = {var: np.repeat(at[:1], len(targets)) for var, at in others.items()}
    return Rows(len(targets), {**bound, op.dst: targets})


def _hop(op: Expand, positions: Ints, nodes: TableImage, ctx: ReadContext) -> tuple[Ints, Ints]:
    """Return `(rows, targets)` of one step; each target once per row, none of them dead."""
    both = (Direction.OUT, Direction.IN)
    ways = both if op.direction is Direction.BOTH else (op.direction,)
    adjacencies = [ctx.images.adjacency(op.edge, way) for way in ways]
    for adjacency in adjacencies:
        _check_reach(adjacency, positions, ctx)
    if len(adjacencies) > 1:
        edges = sum(adjacency.most(len(positions)) for adjacency in adjacencies)
        if not ctx.budget.is_small(edges, _BOTH_COLUMNS):
            edges = sum(adjacency.count(positions) for adjacency in adjacencies)
            ctx.budget.hold("Expand", edges * _BOTH_COLUMNS * NUMBER_BYTES)
    if adjacencies[0].most(len(positions)) <= _STEP_EDGES:
        return _step(adjacencies, positions, nodes)
    parts = []
    # What one row reaches does not depend on the others.
    for start, end in pairwise(adjacencies[0].cuts(positions, _STEP_EDGES)):
        ctx.budget.check("Expand")
        at, targets = _step(adjacencies, positions[start:end], nodes)
        parts.append((at + start, targets))
    return np.concatenate([at for at, _ in parts]), np.concatenate([found for _, found in parts])


def _step(
    adjacencies: Sequence[Adjacency], positions: Ints, nodes: TableImage
) -> tuple[Ints, Ints]:
    at, targets = adjacencies[0].neighbours_of(positions, nodes.positions)
    if len(adjacencies) > 1:
        back_at, back = adjacencies[1].neighbours_of(positions, nodes.positions)
        either = np.concatenate([at, back_at]), np.concatenate([targets, back])
        at, targets = distinct_pairs(*either, nodes.positions)
    if nodes.live is not None:
        live = nodes.live[targets]
        at, targets = at[live], targets[live]
    return at, targets


def leads_to(op: Expand, starts: Ints, ends: Ints, ctx: ReadContext) -> Mask:
    """Return for which pairs of nodes the step exists; every start is walked once."""
    if not len(starts):
        return np.zeros(0, dtype=bool)
    nodes = ctx.images.node(op.dst_type)
    if (starts == starts[0]).all():
        _, targets = _hop(op, starts[:1], nodes, ctx)
        return members(ends, distinct(targets, nodes.positions))
    sources = distinct(starts, int(starts.max()) + 1)
    at, targets = _hop(op, sources, nodes, ctx)
    width = max(1, nodes.positions)
    steps = np.sort(at.astype(np.int64) * width + targets)
    return members(np.searchsorted(sources, starts) * width + ends, steps)


def _check_reach(adjacency: Adjacency, positions: Ints, ctx: ReadContext) -> None:
    """Ask whether as many rows may be held as the positions have edges, and for more time."""
    if ctx.budget.is_small(adjacency.most(len(positions)), _STEP_COLUMNS):
        ctx.budget.check("Expand")
    else:
        ctx.budget.check("Expand", adjacency.count(positions), _STEP_COLUMNS)


def _make_room(step: str, rows: Rows, made: int, columns: int, ctx: ReadContext) -> None:
    """Ask whether so many rows may be made, beside those they are made of."""
    budget = ctx.budget
    if not budget.is_small(rows.size + made, columns):
        budget.check(step, made, columns)
        budget.hold(step, (rows.size * len(rows.at) + made * columns) * NUMBER_BYTES)


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
    _make_room("Expand", rows, len(at), len(rows.at) + 4, ctx)
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
        passing[matching(image, var, filters, ctx)] = True
        return passing[positions]
    rows = Rows(len(positions), {var: positions})
    for predicate in filters:
        one = holds(predicate, rows, ctx)
        mask = one if mask is None else mask & one
    return mask


def anti_join(stage: Stage, rows: Rows, ctx: ReadContext) -> Rows:
    """Keep the rows from which the inner operators reach nothing."""
    if not rows.size:
        return rows
    assert stage.types is not None
    if len(stage.inner) == 1 and stage.inner[0].into is not None:
        # All it asks is whether a step exists between two nodes of every row.
        step = stage.inner[0].op
        assert isinstance(step, Expand)
        inside = replace(ctx, types=stage.types)
        return rows.keep(~leads_to(step, rows.at[step.src], rows.at[stage.inner[0].into], inside))
    # Two negations may use one name for different things, so a name means what it does here.
    inside = replace(ctx, types=stage.types)
    outer = {var: rows.at[var] for var in stage.uses}
    starts, number = Rows(rows.size, outer), None
    if len(outer) == 1:  # what happens inside depends on one node: ask once for each
        ((var, at),) = outer.items()
        nodes = distinct(at, _width(var, rows, ctx))
        starts, number = Rows.of(var, nodes), np.searchsorted(nodes, at)
    inner = run_stages(stage.inner, starts.bind(stage.tag, np.arange(starts.size)), inside)
    keep = np.ones(starts.size, dtype=bool)
    keep[inner.at[stage.tag]] = False
    return rows.keep(keep if number is None else keep[number])

"""Ranked matches from the top: rank the nodes first, then match only around the best of them.

A ranking orders whole nodes, so the rows of better nodes come before those of worse ones whatever
the rest of the match does. If the match around the best nodes already yields enough rows, no other
node can add one that counts; if not, more nodes are taken.
"""

from __future__ import annotations

from omnigraph.compiler.query.typed import Rrf
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.operators import run_stages
from omnigraph.engine.read.prepare import Prepared
from omnigraph.engine.read.rank import rank_nodes
from omnigraph.engine.read.rows import ONE_EMPTY_ROW, Rows

_GROWTH = 16


def top_k_rows(plan: Prepared, wanted: int, ctx: ReadContext) -> Rows:
    """Return rows of a led match that hold its `wanted` best, ties included."""
    ranking = plan.ir.ranking
    assert ranking is not None
    assert not isinstance(ranking.score, Rrf)
    var, image = ranking.score.var, ctx.image(ranking.score.var)
    start = run_stages(plan.stages[:1], ONE_EMPTY_ROW, ctx)
    nodes: Ints | None = start.at[var]
    if nodes is image.live_positions:
        nodes = None
    taken = max(wanted, 1)
    while True:
        best = rank_nodes(ranking.score, nodes, taken, ctx).positions
        rows = run_stages(plan.stages[1:], Rows.of(var, best), ctx)
        # Fewer nodes than asked for are all there are.
        if rows.size >= wanted or len(best) < taken or taken >= start.size:
            return rows
        taken *= _GROWTH

"""Ranking: which rows come first when a query orders by a score.

Declarative: the full match is taken, the distinct nodes of the ranked variable are ranked, and
their rows come in that order. A score decides membership (nearest needs a vector, bm25 a matching
term, fusion either arm), never a plan. What cannot come first is left out as early as that is
certain.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from omnigraph.compiler.ir.ops import Ranking
from omnigraph.compiler.query.typed import Bm25, Nearest, Rrf
from omnigraph.engine.image.analyzer import analyze
from omnigraph.engine.image.arrays import Ints, distinct, renumbered_values
from omnigraph.engine.image.postings import Bm25 as Relevance
from omnigraph.engine.image.postings import bm25, bm25_best
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.read.context import Ranked, ReadContext
from omnigraph.engine.read.evaluate import constant, distances, query_vector
from omnigraph.engine.read.fuse import FEW, fused_all, fused_best
from omnigraph.engine.read.order import contenders
from omnigraph.engine.read.rows import Rows
from omnigraph.errors import BadRequestError

_NONE = np.empty(0)


def fused(score: Rrf, rows: Rows, wanted: int | None, ctx: ReadContext, *, best: bool) -> Ranked:
    """Return the fused ranking of the match as a whole.

    Args:
        score: the fusion.
        rows: the whole match.
        wanted: where the vector side is cut; None is nowhere.
        ctx: the running query.
        best: whether only the `wanted` best nodes will be asked for.
    """
    nodes = _nodes(rows.at[score.var], ctx.image(score.var))
    return _fused(score, nodes, wanted, ctx, best=best)


def members(
    ranking: Ranking, rows: Rows, wanted: int | None, ctx: ReadContext
) -> tuple[Rows, Ints]:
    """Return the rows of the ranked nodes, and integers that sort them as the ranking asks.

    Rows that cannot be among the first `wanted` may be left out.
    """
    score = ranking.score
    at, image = rows.at[score.var], ctx.image(score.var)
    if isinstance(score, Rrf):
        ranked = ctx.fused[score]
    else:
        ranked = rank_nodes(score, _nodes(at, image), wanted if ranking.best_first else None, ctx)
    places, _ = renumbered_values(ranked.keys)
    found, which = _rows_of(ranked.positions, at, image)
    chosen = places[which]
    return rows.take(found), chosen if ranking.best_first else -chosen


def _nodes(at: Ints, image: TableImage) -> Ints | None:
    """Return the distinct positions among `at`, ascending; None when that is every live row."""
    if at is image.live_positions:
        return None
    if len(at) < image.positions // 16:
        return distinct(at)
    seen = np.zeros(image.positions, dtype=bool)
    seen[at] = True
    return np.flatnonzero(seen)


def _rows_of(positions: Ints, at: Ints, image: TableImage) -> tuple[Ints, Ints]:
    """Return the rows that hold one of some positions, and which of them each holds."""
    if at is image.live_positions:
        found = positions if image.live is None else np.searchsorted(at, positions)
        return found, np.arange(len(positions))
    place = np.full(image.positions, -1, np.int64)
    place[positions] = np.arange(len(positions))
    which = place[at]
    found = np.flatnonzero(which >= 0)
    return found, which[found]


def rank_nodes(
    score: Bm25 | Nearest, nodes: Ints | None, wanted: int | None, ctx: ReadContext
) -> Ranked:
    """Return the members of a ranking among distinct node positions.

    Args:
        score: what to rank by.
        nodes: distinct live positions, ascending; None is every live node.
        wanted: how many nodes can matter at most; more may be returned, ties always are.
        ctx: the running query.
    """
    ctx.budget.check("rank")
    match score:
        case Nearest():
            return _nearest(score, nodes, wanted, ctx)
        case Bm25():
            return _relevant(score, nodes, wanted, ctx)
        case _:
            assert_never(score)


def _relevant(score: Bm25, nodes: Ints | None, wanted: int | None, ctx: ReadContext) -> Ranked:
    query = constant(score.query, ctx)
    terms = () if query is None else analyze(query)
    postings = ctx.images.postings(ctx.types[score.var][0], score.target.name)
    if nodes is None:
        found = bm25(postings, terms) if wanted is None else bm25_best(postings, terms, wanted)
    else:
        found = _among(nodes, bm25(postings, terms), ctx.image(score.var))
    rows, scores = found.rows, found.scores
    if wanted is not None and wanted < len(rows):
        best = contenders(-scores, wanted)
        rows, scores = rows[best], scores[best]
    return Ranked(rows, scores, -scores)


def _among(nodes: Ints, found: Relevance, image: TableImage) -> Relevance:
    if len(nodes) == image.rows:
        return found
    among = np.zeros(image.positions, dtype=bool)
    among[nodes] = True
    kept = among[found.rows]
    return Relevance(found.rows[kept], found.scores[kept])


def _nearest(score: Nearest, nodes: Ints | None, wanted: int | None, ctx: ReadContext) -> Ranked:
    query = query_vector(score, ctx)
    if query is None:
        return Ranked(np.empty(0, np.int64), _NONE, _NONE)
    image = ctx.image(score.var)
    if wanted is not None and wanted < (image.rows if nodes is None else len(nodes)):
        vectors = ctx.images.vectors(ctx.types[score.var][0], score.target.name)
        positions, found = vectors.nearest(query, wanted, nodes)
        return Ranked(positions, found, found)
    nodes = image.live_positions if nodes is None else nodes
    found = distances(score, nodes, ctx)
    known = ~np.isnan(found)
    return Ranked(nodes[known], found[known], found[known])


def _fused(
    score: Rrf, nodes: Ints | None, wanted: int | None, ctx: ReadContext, *, best: bool
) -> Ranked:
    k = constant(score.k, ctx)
    if k is None or k <= 0:
        raise BadRequestError(f"rrf: k must be positive, got {k}", hint="60 is the usual value")
    arms = []
    for arm in (score.first, score.second):
        # Every node has some distance, so that arm is cut; whatever matches a word stays.
        most = wanted if isinstance(arm, Nearest) else None
        arms.append((rank_nodes(arm, nodes, most, ctx), most))
    image = ctx.image(score.var)
    if best and wanted is not None and wanted <= FEW and any(most is not None for _, most in arms):
        return fused_best(arms, k, wanted, image)
    return fused_all(arms, k, image)

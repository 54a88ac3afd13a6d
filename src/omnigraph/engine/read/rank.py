"""Ranking: which rows come first when a query orders by a score.

Declarative: the full match is taken, the distinct nodes of the ranked variable are ranked, and
their rows come in that order. A score decides membership (nearest needs a vector, bm25 a matching
term, fusion either arm), never a plan.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.compiler.query.typed import Bm25, Nearest, Rrf, Score
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.read.context import Ranked, ReadContext
from omnigraph.engine.read.evaluate import bm25_members, constant, distances, query_vector
from omnigraph.engine.read.order import contenders, ranks
from omnigraph.errors import BadRequestError


def rank_nodes(score: Score, nodes: Ints, wanted: int | None, ctx: ReadContext) -> Ranked:
    """Return the members of a ranking among distinct node positions.

    Args:
        score: what to rank by.
        nodes: distinct positions, ascending.
        wanted: how many nodes can matter at most; more may be returned, ties always are.
        ctx: the running query.
    """
    match score:
        case Nearest():
            return _nearest(score, nodes, wanted, ctx)
        case Bm25():
            return _relevant(score, nodes, wanted, ctx)
        case Rrf():
            return _fused(score, nodes, wanted, ctx)
        case _:
            assert_never(score)


def _relevant(score: Bm25, nodes: Ints, wanted: int | None, ctx: ReadContext) -> Ranked:
    rows, found = bm25_members(score, ctx)
    image = ctx.image(score.var)
    if len(nodes) < image.rows:
        among = np.zeros(image.positions, dtype=bool)
        among[nodes] = True
        kept = among[rows]
        rows, found = rows[kept], found[kept]
    if wanted is not None and wanted < len(rows):
        best = contenders(-found, wanted)
        rows, found = rows[best], found[best]
    return Ranked(rows, found, -found)


def _nearest(score: Nearest, nodes: Ints, wanted: int | None, ctx: ReadContext) -> Ranked:
    query = query_vector(score, ctx)
    if query is None:
        empty = np.empty(0)
        return Ranked(np.empty(0, np.int64), empty, empty)
    if wanted is not None and wanted < len(nodes):
        vectors = ctx.images.vectors(ctx.types[score.var][0], score.target.name)
        image = ctx.image(score.var)
        whole = len(nodes) == image.positions
        positions, found = vectors.nearest(query, wanted, None if whole else nodes)
        return Ranked(positions, found, found)
    found = distances(score, nodes, ctx)
    members = ~np.isnan(found)
    return Ranked(nodes[members], found[members], found[members])


def _fused(score: Rrf, nodes: Ints, wanted: int | None, ctx: ReadContext) -> Ranked:
    k = constant(score.k, ctx)
    if k is None or k <= 0:
        raise BadRequestError(f"rrf: k must be positive, got {k}", hint="60 is the usual value")
    fused: dict[int, float] = {}
    primary: dict[int, int] = {}
    for arm in (score.first, score.second):
        # Every node has some distance, so that arm is cut; whatever matches a word stays.
        most = wanted if isinstance(arm, Nearest) else None
        ranked = rank_nodes(arm, nodes, most, ctx)
        order = best_first(arm.var, ranked, ctx)[:most]
        for place, node in enumerate(ranked.positions[order].tolist()):
            fused[node] = fused.get(node, 0.0) + 1.0 / (k + place + 1)
            # Ties go to the primary arm's order, then to the secondary arm's newcomers.
            primary.setdefault(node, len(primary))
    members = np.asarray(sorted(fused), np.int64)
    scores = np.asarray([fused[node] for node in members.tolist()], np.float64)
    places = np.asarray([primary[node] for node in members.tolist()], np.float64)
    order = np.lexsort((places, -scores))
    keys = np.empty(len(members), np.float64)
    keys[order] = np.arange(len(members))
    return Ranked(members, scores, keys)


def best_first(var: str, ranked: Ranked, ctx: ReadContext) -> Ints:
    """Return indices into the ranked nodes, best first; ties by id."""
    ids: pa.Array = ctx.image(var).column("id").take(ranked.positions)
    if len(ranked.positions) <= 1:
        return np.arange(len(ranked.positions))
    return np.lexsort((ranks(ids), ranked.keys))

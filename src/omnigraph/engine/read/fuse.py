"""Reciprocal rank fusion: two rankings of the same nodes become one.

A node's score is the sum of 1 / (k + place + 1) over the rankings that have it. Equal scores come
in the order of the first ranking, then in that of the second one's newcomers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import Floats, Ints, distinct
from omnigraph.engine.image.table import ID, TableImage
from omnigraph.engine.read.context import Ranked
from omnigraph.engine.read.order import contenders, ranks

Arm = tuple[Ranked, int | None]
"""A ranking, and after how many places it is cut."""

FEW = 64
"""Up to so many nodes, counting who comes before each is cheaper than sorting all."""

_ABSENT = np.iinfo(np.int64).max


def fused_all(arms: Sequence[Arm], k: int, image: TableImage) -> Ranked:
    """Return every node of either ranking with its fused score."""
    placed = []
    for ranked, most in arms:
        order = _best_first(ranked, image)[:most]
        placed.append((ranked.positions[order], np.arange(len(order))))
    nodes = distinct(np.concatenate([positions for positions, _ in placed]))
    places = [_spread(nodes, positions, at) for positions, at in placed]
    return _together(nodes, places, k)


def fused_best(arms: Sequence[Arm], k: int, wanted: int, image: TableImage) -> Ranked:
    """Return the `wanted` best nodes, perhaps some more, with the scores they have among all.

    At least one ranking must be cut at `wanted`: then whatever is in both is among its few nodes,
    and a node of the other one alone that has `wanted` better ones there cannot come first. So it
    is enough to know the places of a few nodes, and those can be counted without sorting.
    """
    short = [_best_first(ranked, image, wanted)[:wanted] for ranked, _ in arms]
    heads = [ranked.positions[order] for (ranked, _), order in zip(arms, short, strict=True)]
    nodes = distinct(np.concatenate(heads))
    places = []
    for (ranked, most), head in zip(arms, heads, strict=True):
        known = _spread(nodes, head, np.arange(len(head)))
        if most is None:
            missing = np.flatnonzero(known == _ABSENT)
            known[missing] = _counted(nodes[missing], ranked, image)
        places.append(known)
    return _together(nodes, places, k)


def _together(nodes: Ints, places: Sequence[Ints], k: int) -> Ranked:
    """Add the arms up and settle ties: by the first ranking, then by the second."""
    scores = np.zeros(len(nodes), np.float64)
    for known in places:
        here = known != _ABSENT
        scores[here] += 1.0 / (float(k) + known[here] + 1.0)
    order = np.lexsort((*reversed(places), -scores))
    keys = np.empty(len(nodes), np.float64)
    keys[order] = np.arange(len(nodes))
    return Ranked(nodes, scores, keys)


def _spread(nodes: Ints, positions: Ints, places: Ints) -> Ints:
    """Return the place of each node, which ascend; a large number for those without one."""
    known = np.full(len(nodes), _ABSENT)
    known[np.searchsorted(nodes, positions)] = places
    return known


def _counted(nodes: Ints, ranked: Ranked, image: TableImage) -> Ints:
    """Return the place of a few nodes by counting who comes before them."""
    places = np.full(len(nodes), _ABSENT)
    if not len(ranked.positions):
        return places
    # A ranking that is not cut comes by position.
    at = np.minimum(np.searchsorted(ranked.positions, nodes), len(ranked.positions) - 1)
    for which in np.flatnonzero(ranked.positions[at] == nodes).tolist():
        key = ranked.keys[at[which]]
        before = int(np.count_nonzero(ranked.keys < key))
        tied = ranked.positions[np.flatnonzero(ranked.keys == key)]
        if len(tied) > 1:
            own = image.column(ID).take(nodes[which : which + 1])[0]
            before += pc.sum(pc.less(image.column(ID).take(tied), own)).as_py()
        places[which] = before
    return places


def _best_first(ranked: Ranked, image: TableImage, wanted: int | None = None) -> Ints:
    """Return indices into the ranked nodes, best first, ties by id; `wanted` of them at least."""
    keys: Floats = ranked.keys
    ahead = np.arange(len(keys)) if wanted is None else contenders(keys, wanted)
    if len(ahead) <= 1:
        return ahead
    ids = image.column(ID).take(ranked.positions[ahead])
    return ahead[np.lexsort((ranks(ids), keys[ahead]))]

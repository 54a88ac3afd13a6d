"""Shortest paths from one node: over the fewest edges, or over those that weigh least together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.base.budget import NUMBER_BYTES, checkpoint, keep
from omnigraph.engine.algorithms.chosen import Along
from omnigraph.engine.algorithms.steps import BACK, Reached, Steps
from omnigraph.engine.image.arrays import Floats, Ints, distinct
from omnigraph.errors import NotFoundError

_UNSEEN = -1


class NoPathError(NotFoundError):
    """No edges lead from one node to the other."""


@dataclass(frozen=True, slots=True)
class Distances:
    """How far nodes are by number: what their edges weigh together, and how many they are.

    `hops` is -1 where nothing leads. Of equally light paths it counts the one of fewest edges.
    """

    weights: Floats
    hops: Ints


@dataclass(frozen=True, slots=True)
class Hop:
    """One node of a path, and the edge that led to it; the first has none."""

    node: tuple[str, str]
    edge: tuple[str, str] | None
    hops: int
    weight: float


def distances(
    steps: Steps, start: int, along: Along, *, weighted: bool, end: int | None = None
) -> Distances:
    """Return how far nodes are from one; with `end`, what is further than it may be left out."""
    keep("shortest path", 2 * steps.size * NUMBER_BYTES)
    if not weighted:
        hops = _levels(steps, start, along, None, end)
        return Distances(hops.astype(np.float64), hops)
    weights = _lightest(steps, start, along, end)
    return Distances(weights, _levels(steps, start, along, weights, end))


def shortest_path(steps: Steps, start: int, end: int, along: Along, *, weighted: bool) -> list[Hop]:
    """Return the nodes of the shortest path, both ends included.

    Of several it is the one of fewest edges; then, from its end on, the one whose node before comes
    first by type and id, and the edge between them likewise.

    Raises:
        NoPathError: there is none.
    """
    known = distances(steps, start, along, weighted=weighted, end=end)
    if known.hops[end] == _UNSEEN:
        (_, one), (_, other) = steps.named(start), steps.named(end)
        raise NoPathError(
            f"no path leads from '{one}' to '{other}'",
            hint='follow edges either way with along="both", or more types of them',
        )
    found: list[Hop] = []
    at = end
    while at != start:
        checkpoint("shortest path")
        node, edge = _before(steps, at, known, along, weighted=weighted)
        found.append(_hop(steps, at, edge, known, weighted=weighted))
        at = node
    found.append(_hop(steps, at, None, known, weighted=weighted))
    return found[::-1]


def _hop(
    steps: Steps, at: int, edge: tuple[str, str] | None, known: Distances, *, weighted: bool
) -> Hop:
    weight = float(known.weights[at]) if weighted else float(known.hops[at])
    return Hop(steps.named(at), edge, int(known.hops[at]), weight)


def _levels(
    steps: Steps, start: int, along: Along, weights: Floats | None, end: int | None
) -> Ints:
    """Return over how many edges every node is reached; with weights, over lightest paths only."""
    hops = np.full(steps.size, _UNSEEN, np.int64)
    hops[start] = 0
    frontier, depth = np.asarray([start], np.int64), 0
    while len(frontier) and (end is None or hops[end] == _UNSEEN):
        checkpoint("shortest path")
        depth += 1
        reached = steps.from_(frontier, along)
        far = reached.far if weights is None else reached.far[_is_tight(reached, weights)]
        far = distinct(far[hops[far] == _UNSEEN], steps.size)
        hops[far] = depth
        frontier = far
    return hops


def _is_tight(reached: Reached, weights: Floats) -> Ints:
    """Return which edges end a lightest path; exact, for the weights were added the same way."""
    found: Ints = weights[reached.near] + reached.weights == weights[reached.far]
    return found


def _lightest(steps: Steps, start: int, along: Along, end: int | None) -> Floats:
    """Return the least weight of a path to every node.

    Whoever got lighter is left again, until nobody does.
    """
    found = np.full(steps.size, np.inf)
    found[start] = 0.0
    frontier = np.asarray([start], np.int64)
    while len(frontier):
        checkpoint("shortest path")
        reached = steps.from_(frontier, along)
        asked = found[reached.near] + reached.weights
        better = asked < found[reached.far]
        if end is not None:  # weights only grow along a path
            better &= asked <= found[end]
        far = reached.far[better]
        np.minimum.at(found, far, asked[better])
        frontier = distinct(far, steps.size)
    return found


def _before(
    steps: Steps, at: int, known: Distances, along: Along, *, weighted: bool
) -> tuple[int, tuple[str, str]]:
    """Return the node before one on a shortest path, and the edge between them."""
    back = steps.from_(np.asarray([at], np.int64), BACK[along])
    fits = known.hops[back.far] == known.hops[at] - 1
    if weighted:
        fits &= known.weights[back.far] + back.weights == known.weights[at]
    places = np.flatnonzero(fits)
    nodes = distinct(back.far[places], steps.size)
    node = steps.first_of(nodes)
    between = places[back.far[places] == node]
    kind = int(back.kinds[between].min())
    edges = back.edges[between[back.kinds[between] == kind]]
    return node, steps.first_edge_of(kind, edges)

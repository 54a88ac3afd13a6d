"""A graph as numbers: nodes counted by type and id, edges as pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from omnigraph.base.budget import NUMBER_BYTES, checkpoint, current, keep
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.algorithms.chosen import Along, Chosen
from omnigraph.engine.algorithms.weights import weights_of
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.image.pieces import gathered, sorted_rows
from omnigraph.engine.read.context import Images

_EDGE_COLUMNS = 6
"""Numbers per edge that are held while pairs are made: rows, ends and edges, some of them twice."""


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes from 0 on, ordered by type and id; edges as pairs, every one as often as it is there.

    `positions[t]` are the positions of the nodes of the t-th type, whose numbers follow each other.
    """

    positions: tuple[Ints, ...]
    sources: Ints
    targets: Ints
    weights: Floats | None

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return sum(map(len, self.positions))

    def along(self, way: Along) -> Network:
        """Return the same nodes with edges turned round, or in both directions.

        A self-loop leads to its node both ways already and is there once.
        """
        if way == "out":
            return self
        if way == "in":
            return replace(self, sources=self.targets, targets=self.sources)
        checkpoint("edges both ways", 4 * len(self.sources) * NUMBER_BYTES)
        other = self.sources != self.targets
        weights = self.weights
        return replace(
            self,
            sources=np.concatenate([self.sources, self.targets[other]]),
            targets=np.concatenate([self.targets, self.sources[other]]),
            weights=None if weights is None else np.concatenate([weights, weights[other]]),
        )


def network_of(images: Images, chosen: Chosen, weight: str | None = None) -> Network:
    """Return the chosen part of a graph as numbers."""
    placed = [_ordered(images, kind.name) for kind in chosen.nodes]
    numbers, start = [], 0
    for kind, positions in zip(chosen.nodes, placed, strict=True):
        of_type = np.full(images.node(kind.name).positions, -1, np.int64)
        of_type[positions] = np.arange(start, start + len(positions))
        keep("numbering nodes", of_type.nbytes + positions.nbytes)
        numbers.append(of_type)
        start += len(positions)
    _count("numbering nodes", start)
    none = np.empty(0, np.int64)
    parts: list[tuple[Ints, Ints, Floats]] = [(none, none, np.empty(0))]
    for edge, near, far in chosen.ends:
        adjacency = images.adjacency(edge.name, Direction.OUT)
        count = adjacency.count(placed[near])
        _count("reading edges", count)
        checkpoint("reading edges", count * _EDGE_COLUMNS * NUMBER_BYTES)
        rows, targets, edges = adjacency.edges_of(placed[near])
        sources, ends = numbers[near][placed[near][rows]], numbers[far][targets]
        there = ends >= 0
        if not there.all():
            sources, ends, edges = sources[there], ends[there], edges[there]
        keep("reading edges", sources.nbytes + ends.nbytes)
        weights = np.empty(0) if weight is None else weights_of(images, edge, weight, edges)
        parts.append((sources, ends, weights))
    sources, targets, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Network(tuple(placed), sources, targets, None if weight is None else weights)


def _ordered(images: Images, type_name: str) -> Ints:
    """Return the positions of the nodes of a type in the order of their ids."""
    image = images.node(type_name)
    live = image.live_positions
    order = sorted_rows([gathered(image.id_order, live)], len(live))
    return gathered(live, order)


def _count(step: str, rows: int) -> None:
    """Hold rows against the limit of the call, as a query does with those of every step."""
    budget = current()
    if budget is not None:
        budget.check(step, rows=rows)

"""Following edges from a few nodes, over the adjacencies as they are: nothing is built for it.

A node is known by a number here, too: its position behind those of the types before its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from omnigraph.base.budget import NUMBER_BYTES, checkpoint
from omnigraph.compiler.query.typed import Direction
from omnigraph.engine.algorithms.chosen import Along, Chosen
from omnigraph.engine.algorithms.weights import weights_of
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.image.ids import MISSING
from omnigraph.engine.image.table import ID, TableImage
from omnigraph.engine.read.context import Images
from omnigraph.errors import NotFoundError

_STEP_COLUMNS = 6
BACK: Mapping[Along, Along] = {"out": "in", "in": "out", "both": "both"}
"""The other way round."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Edges that lead from some nodes: their near ends, far ends, types, positions and weights."""

    near: Ints
    far: Ints
    kinds: Ints
    edges: Ints
    weights: Floats


class Steps:
    """What follows from some nodes by one step along the chosen edges."""

    def __init__(self, images: Images, chosen: Chosen, weight: str | None) -> None:
        self._images, self._chosen = images, chosen
        self._weight = weight
        self._tables: list[TableImage] = [images.node(kind.name) for kind in chosen.nodes]
        sizes = [table.positions for table in self._tables]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if weight is not None:  # a bad one is told of, whether a path would take it or not
            for edge in chosen.edges:
                weights_of(images, edge, weight, images.edge(edge.name).live_positions)

    @property
    def size(self) -> int:
        """A number all nodes are below."""
        return int(self._starts[-1])

    def number_of(self, type_name: str, node_id: str) -> int:
        """Return the number of a node.

        Raises:
            NotFoundError: there is no such node.
        """
        at = self._chosen.place_of(type_name)
        position = self._tables[at].find(node_id)
        if position == MISSING:
            raise NotFoundError(f"there is no {type_name} '{node_id}'")
        return int(self._starts[at]) + position

    def split(self, numbers: Ints) -> list[Ints]:
        """Return the positions of ascending numbers, type by type."""
        cuts = np.searchsorted(numbers, self._starts)
        return [
            numbers[cuts[at] : cuts[at + 1]] - self._starts[at]
            for at in range(len(self._chosen.nodes))
        ]

    def named(self, number: int) -> tuple[str, str]:
        """Return type and id of a node."""
        at = int(np.searchsorted(self._starts, number, side="right")) - 1
        position = number - int(self._starts[at])
        return self._chosen.nodes[at].name, self._tables[at].column(ID).one(position)[0].as_py()

    def first_of(self, numbers: Ints) -> int:
        """Return which of some nodes, given by ascending numbers, comes first by type and id."""
        at = next(at for at, some in enumerate(self.split(numbers)) if len(some))
        positions = self.split(numbers)[at]
        ids = self._tables[at].column(ID).take(positions)
        return int(self._starts[at]) + int(positions[pc.sort_indices(ids)[0].as_py()])

    def first_edge_of(self, kind: int, positions: Ints) -> tuple[str, str]:
        """Return type and id of the edge among some of one type that comes first by id."""
        edge = self._chosen.edges[kind].name
        ids = self._images.edge(edge).column(ID).take(positions)
        return edge, pc.min(ids).as_py()

    def from_(self, frontier: Ints, along: Along) -> Reached:
        """Return every edge that leads on from some nodes, given by ascending numbers."""
        by_type = self.split(frontier)
        parts = []
        for kind, (edge, start, end) in enumerate(self._chosen.ends):
            for way, near, far in ((Direction.OUT, start, end), (Direction.IN, end, start)):
                if along not in ("both", way):
                    continue
                if len(by_type[near]):
                    parts.append(self._one(kind, edge.name, way, by_type[near], near, far))
        if not parts:
            none = np.empty(0, np.int64)
            return Reached(none, none, none, none, np.empty(0))
        return Reached(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _one(
        self, kind: int, edge: str, way: Direction, positions: Ints, near: int, far: int
    ) -> tuple[Ints, Ints, Ints, Ints, Floats]:
        adjacency = self._images.adjacency(edge, way)
        count = adjacency.count(positions)
        checkpoint("shortest path", count * _STEP_COLUMNS * NUMBER_BYTES)
        rows, targets, edges = adjacency.edges_of(positions)
        live = self._tables[far].live
        if live is not None:
            there = live[targets]
            rows, targets, edges = rows[there], targets[there], edges[there]
        weights = weights_of(self._images, self._chosen.edges[kind], self._weight, edges)
        return (
            positions[rows] + self._starts[near],
            targets.astype(np.int64) + self._starts[far],
            np.full(len(rows), kind, np.int64),
            edges.astype(np.int64),
            weights,
        )

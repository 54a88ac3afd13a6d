"""Adjacency of one edge type over resident images: a base CSR, added edges, dead edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from omnigraph.engine.image.arrays import Ints, Mask, distinct
from omnigraph.engine.topology.csr import (
    Csr,
    build_csr,
    cuts_of,
    distinct_pairs,
    neighbours,
    targets_of,
)


@dataclass(frozen=True)
class Adjacency:
    """One direction of an edge type. Edge positions are those of the edge table's image."""

    base: Csr
    extra: Csr | None = None
    live_edges: Mask | None = None

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.base.nbytes + (self.extra.nbytes if self.extra is not None else 0)

    @property
    def is_plain(self) -> bool:
        """Whether the base alone tells everything."""
        return self.extra is None and self.live_edges is None

    @cached_property
    def has_parallel(self) -> bool:
        """Whether a node may reach one neighbour over two edges."""
        return self.base.parallel or self.extra is not None

    def most(self, positions: int) -> int:
        """Return a number that the edges of so many nodes do not exceed; costs nothing."""
        extra = 0 if self.extra is None else self.extra.most
        return positions * (self.base.most + extra)

    def count(self, positions: Ints) -> int:
        """Return how many edges the given nodes have, dead ones included."""
        parts = (self.base,) if self.extra is None else (self.base, self.extra)
        return sum(_degrees(csr, positions) for csr in parts)

    def cuts(self, positions: Ints, edges: int) -> list[int]:
        """Return where to cut the nodes so that each part has about so many edges."""
        degrees = np.zeros(len(positions), np.int64)
        for csr in (self.base,) if self.extra is None else (self.base, self.extra):
            known = np.flatnonzero(positions < csr.size)
            at = positions[known]
            degrees[known] += csr.offsets[at + 1] - csr.offsets[at]
        return cuts_of(degrees, edges)

    def edges_of(self, positions: Ints) -> tuple[Ints, Ints, Ints]:
        """Return `(rows, targets, edges)`: every live edge of each given node position."""
        rows, slots = _slots(self.base, positions)
        targets, edges = self.base.targets[slots], self.base.edges[slots]
        if self.extra is not None:
            more, slots = _slots(self.extra, positions)
            rows = np.concatenate([rows, more])
            targets = np.concatenate([targets, self.extra.targets[slots]])
            edges = np.concatenate([edges, self.extra.edges[slots]])
            order = np.argsort(rows, kind="stable")
            rows, targets, edges = rows[order], targets[order], edges[order]
        if self.live_edges is not None:
            live = self.live_edges[edges]
            rows, targets, edges = rows[live], targets[live], edges[live]
        return rows, targets, edges

    def neighbours_of(self, positions: Ints, size: int) -> tuple[Ints, Ints]:
        """Return `(rows, targets)`: every neighbour once; `size` is that of the far side."""
        if self.is_plain:
            base = self.base.distinct
            rows, slots = _slots(base, positions)
            return rows, base.targets[slots]
        rows, targets, _ = self.edges_of(positions)
        return distinct_pairs(rows, targets, size) if self.has_parallel else (rows, targets)

    def reached_from(self, positions: Ints, size: int) -> Ints:
        """Return the nodes one step from any of the given ones, each once; ascending."""
        if self.is_plain:
            base = self.base.distinct
            return distinct(targets_of(base, positions[positions < base.size]), size)
        return distinct(self.edges_of(positions)[1], size)


def _degrees(csr: Csr, positions: Ints) -> int:
    known = positions[positions < csr.size]
    return int((csr.offsets[known + 1] - csr.offsets[known]).sum())


def _slots(csr: Csr, positions: Ints) -> tuple[Ints, Ints]:
    if csr.size and len(positions) and int(positions.max()) < csr.size:
        return neighbours(csr, positions)
    # Nodes that came after this CSR have no edges in it.
    known = np.flatnonzero(positions < csr.size)
    rows, slots = neighbours(csr, positions[known])
    return known[rows], slots


def with_added_edges(
    base: Csr,
    sources: Ints,
    targets: Ints,
    nodes: int,
    edges: Ints,
    live_edges: Mask | None,
) -> Adjacency:
    """Return the adjacency over an unchanged base; costs the added edges only.

    Args:
        base: adjacency of the base edges.
        sources: near ends of the added edges.
        targets: their far ends.
        nodes: number of positions on the near side.
        edges: positions of the added edges.
        live_edges: which edge positions are live; None is all.
    """
    extra = build_csr(sources, targets, nodes)
    placed = Csr(extra.offsets, extra.targets, edges[extra.edges], extra.parallel)
    return Adjacency(base, placed, live_edges)

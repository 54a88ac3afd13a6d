"""Adjacency of one edge type in one direction, and walking it for many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from omnigraph.base.budget import NUMBER_BYTES, checkpoint
from omnigraph.engine.image.arrays import Ints, distinct, members
from omnigraph.engine.image.pieces import ascending, gathered, sorted_rows

_WORD_BITS = 63


@dataclass(frozen=True)
class Csr:
    """For node position p, `targets[offsets[p]:offsets[p+1]]` are its neighbours.

    `edges` gives the edge row behind each target; inside one node, targets ascend by edge row.
    `parallel` says whether any node reaches one neighbour over two edges.
    """

    offsets: Ints
    targets: Ints
    edges: Ints
    parallel: bool

    @property
    def nbytes(self) -> int:
        """Memory held."""
        held = self.offsets.nbytes + self.targets.nbytes + self.edges.nbytes
        return held + (self.distinct.nbytes if self.parallel and "distinct" in vars(self) else 0)

    @cached_property
    def distinct(self) -> Csr:
        """The same neighbours, each once; its edges are those that lead there first."""
        if not self.parallel:
            return self
        sources = np.repeat(np.arange(self.size), np.diff(self.offsets))
        slots = self._first_slots(sources)
        offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum(np.bincount(sources[slots], minlength=self.size), out=offsets[1:])
        return Csr(offsets, self.targets[slots], self.edges[slots], parallel=False)

    def _first_slots(self, sources: Ints) -> Ints:
        """Return the slot that leads first from each node to each of its neighbours."""
        places = self.most.bit_length()
        width = int(self.targets.max(initial=0)).bit_length() + places
        if self.size.bit_length() + width > _WORD_BITS:
            pairs = sources << 32 | self.targets
            order = sorted_rows([pairs], len(pairs))
            ordered = gathered(pairs, order)
            firsts: Ints = order[np.append(True, ordered[1:] != ordered[:-1])]
            return firsts
        # Node, neighbour and place within the node in one number: those sort twice as fast.
        within = np.arange(len(sources)) - self.offsets[sources]
        packed = ascending(sources << width | self.targets.astype(np.int64) << places | within)
        pairs = packed >> places
        first = packed[np.append(True, pairs[1:] != pairs[:-1])]
        slots: Ints = self.offsets[first >> width] + (first & ((1 << places) - 1))
        return slots

    @cached_property
    def most(self) -> int:
        """The number of neighbours of the node that has most."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def size(self) -> int:
        """Number of source positions."""
        return len(self.offsets) - 1


def build_csr(sources: Ints, targets: Ints, size: int) -> Csr:
    """Return the adjacency of edges given as position pairs; pairs with a -1 end are left out."""
    edges = np.arange(len(sources), dtype=np.int32)
    whole = (sources >= 0) & (targets >= 0)
    if not whole.all():
        sources, targets, edges = sources[whole], targets[whole], edges[whole]
    checkpoint("reading edges", len(sources) * 5 * NUMBER_BYTES)
    # Node and row in one number: sorting those is stable by itself, and twice as fast.
    packed = ascending(sources.astype(np.int64) << 32 | np.arange(len(sources)))
    order = packed & 0xFFFFFFFF
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=size), out=offsets[1:])
    sorted_targets = gathered(targets, order).astype(np.int32)
    pairs = packed >> 32 << 32 | sorted_targets.astype(np.int64)
    parallel = len(distinct(pairs)) < len(pairs)
    return Csr(offsets, sorted_targets, gathered(edges, order), parallel)


def neighbours(csr: Csr, positions: Ints) -> tuple[Ints, Ints]:
    """Return `(rows, slots)`: for each given position, the slots of its adjacency.

    `rows` indexes into `positions` and ascends; `slots` indexes into `targets` and `edges`.
    """
    if len(positions) == csr.size and np.array_equal(positions, np.arange(csr.size)):
        return np.repeat(positions, np.diff(csr.offsets)), np.arange(len(csr.targets))
    if len(positions) == 1:
        start, end = _span(csr, positions)
        return np.zeros(end - start, np.int64), np.arange(start, end)
    starts = csr.offsets[positions]
    counts = csr.offsets[positions + 1] - starts
    return np.repeat(np.arange(len(positions)), counts), ranges(starts, counts)


def targets_of(csr: Csr, positions: Ints) -> Ints:
    """Return the neighbours of all given positions together, as often as they are neighbours."""
    if len(positions) == 1:
        start, end = _span(csr, positions)
        return csr.targets[start:end]
    starts = csr.offsets[positions]
    return csr.targets[ranges(starts, csr.offsets[positions + 1] - starts)]


def _span(csr: Csr, position: Ints) -> tuple[int, int]:
    at = int(position[0])
    return int(csr.offsets[at]), int(csr.offsets[at + 1])


def cuts_of(counts: Ints, most: int) -> list[int]:
    """Return where to cut rows of so many pairs each, so that every part has about `most`."""
    sums = np.cumsum(counts)
    total = int(sums[-1]) if len(sums) else 0
    inner = np.searchsorted(sums, np.arange(most, total, most)) + 1
    return sorted({0, *inner.tolist(), len(counts)})


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers of all ranges one after another."""
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


def walk(
    hop: Callable[[Ints], tuple[Ints, Ints]],
    size: int,
    positions: Ints,
    min_hops: int,
    max_hops: int,
) -> tuple[Ints, Ints]:
    """Return `(rows, targets)` of a breadth-first walk, one start per row.

    A target is kept iff the depth at which its row first reaches it lies in the bounds. The start
    is visited from the beginning, so cycles do not return it; a stored self-loop does, at depth 1.

    Args:
        hop: the rows and targets of one step from the given positions.
        size: number of node positions.
        positions: the start of each row.
        min_hops: shallowest depth kept.
        max_hops: deepest depth walked.
    """
    size = max(size, 1)
    rows = np.arange(len(positions))
    own = rows * size + positions
    visited = own
    frontier_rows, frontier = rows, positions
    kept: list[Ints] = []
    for depth in range(1, max_hops + 1):
        at, targets = hop(frontier)
        reached = distinct(gathered(frontier_rows, at) * size + targets)
        checkpoint("Expand", (3 * len(visited) + 8 * len(reached)) * NUMBER_BYTES)
        fresh = gathered(reached, np.flatnonzero(~members(reached, visited)))
        if depth >= min_hops:
            kept.append(fresh)
        if depth == 1 and min_hops == 1:
            kept.append(reached[members(reached, own)])
        if not len(fresh):
            break
        visited = ascending(np.concatenate([visited, fresh]))
        frontier_rows, frontier = fresh // size, fresh % size
    if not kept:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    checkpoint("Expand", (len(visited) + 4 * sum(map(len, kept))) * NUMBER_BYTES)
    keys = ascending(np.concatenate(kept))
    return keys // size, keys % size


def distinct_pairs(rows: Ints, targets: Ints, size: int) -> tuple[Ints, Ints]:
    """Return each pair once, ordered by row and then by target."""
    keys = distinct(rows * max(size, 1) + targets)
    return keys // max(size, 1), keys % max(size, 1)

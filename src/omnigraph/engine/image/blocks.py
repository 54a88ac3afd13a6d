"""A matrix of vectors sorted into blocks, so that a search need not look at most of them.

Every block has a direction and an angle within which all of its vectors lie. An angle to the
query is at least the angle to the block's direction minus that width (angles obey the triangle
inequality), so a block that cannot hold a vector as near as the k-th found is left out, and
nothing is missed: the answer is that of a full scan. Data without any clusters gains nothing, and
the search says so instead of touching everything in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.base.budget import checkpoint
from omnigraph.engine.image.arrays import Floats, Ints, Mask, at_least_kth
from omnigraph.engine.image.mapped import held_bytes

Matrix = npt.NDArray[np.float32]

_PIECE = 2_048
"""Rows gathered at once: few enough to stay in the processor's cache."""
_FIRST = 256
_HOPELESS = 0.5
"""Share of the rows from which on reading all of them in order is cheaper."""

_SAMPLE_PER_BLOCK = 16
_ROUNDS = 3
_SEEDING = 8
_ASSIGN = 16_384
_TRIALS = 32


def margin_of(dim: int) -> float:
    """Return how far a single-precision product of two unit vectors may be off, generously."""
    return float(4 * max(dim, 8) * np.finfo(np.float32).eps)


class UnitVectors(Protocol):
    """The matrix the blocks were made of."""

    @property
    def margin(self) -> float:
        """How far a product of two unit vectors may be off."""
        ...

    def similar(self, unit: Matrix, rows: Ints) -> Matrix:
        """Return the cosine similarity of a few rows, within the margin."""
        ...


@dataclass(frozen=True)
class Blocks:
    """`rows[offsets[b]:offsets[b + 1]]` lie around direction `b`, none further than its width."""

    rows: Ints
    offsets: Ints
    directions: Matrix
    width_cos: Floats
    width_sin: Floats

    @property
    def nbytes(self) -> int:
        """Memory held."""
        arrays = (self.rows, self.offsets, self.directions, self.width_cos, self.width_sin)
        return held_bytes(*arrays)

    def candidates(
        self, matrix: UnitVectors, unit: Matrix, k: int, held: Mask | None
    ) -> Ints | None:
        """Return a superset of the k rows nearest to a unit vector, or None if a scan is better.

        Args:
            matrix: what the blocks were made of.
            unit: the query.
            k: how many rows are wanted.
            held: which rows count; None is all.
        """
        slack = 2 * matrix.margin
        at_best = self._at_best(unit, matrix.margin)
        order = np.argsort(-at_best)
        at_best = at_best[order]
        sizes = np.cumsum(np.diff(self.offsets)[order])
        found_rows: list[Ints] = []
        found: list[Matrix] = []
        enough = -np.inf
        done, taken = 0, max(_FIRST, 4 * k)
        while done < len(order):
            alive = int(np.searchsorted(-at_best, -(enough - slack), side="right"))
            if alive <= done:
                break
            if found and sizes[alive - 1] > _HOPELESS * len(self.rows):
                return None
            until = min(alive, int(np.searchsorted(sizes, taken, side="left")) + 1)
            rows = self._of(order[done:until], held)
            if len(rows):
                found_rows.append(rows)
                found.append(similar_to(matrix, unit, rows))
                enough = max(enough, at_least_kth(np.concatenate(found), k))
            done, taken = until, int(sizes[until - 1]) + _PIECE
        if not found:
            return np.empty(0, np.int64)
        similar = np.concatenate(found)
        return np.sort(np.concatenate(found_rows)[similar >= enough - slack])

    def _at_best(self, unit: Matrix, margin: float) -> Floats:
        """Return the greatest similarity any vector of each block could have."""
        # In double precision: a sine near zero would lose half of its digits.
        near = np.minimum((self.directions @ unit).astype(np.float64) + margin, 1.0)
        aside = np.sqrt(np.maximum(1.0 - near * near, 0.0))
        # The cosine of the angle that is left between the query and the edge of the block.
        edge = near * self.width_cos + aside * self.width_sin
        return np.where(near >= self.width_cos, 1.0, edge)

    def _of(self, blocks: Ints, held: Mask | None) -> Ints:
        parts = [self.rows[self.offsets[one] : self.offsets[one + 1]] for one in blocks.tolist()]
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return rows if held is None else rows[held[rows]]


def similar_to(matrix: UnitVectors, unit: Matrix, rows: Ints) -> Matrix:
    """Return the similarity of some rows, gathered in pieces that stay in the cache."""
    if len(rows) <= _PIECE:
        return matrix.similar(unit, rows)
    pieces = range(0, len(rows), _PIECE)
    return np.concatenate([matrix.similar(unit, rows[at : at + _PIECE]) for at in pieces])


def build_blocks(matrix: Matrix, scale: Matrix) -> Blocks | None:
    """Return the rows of a matrix in blocks of about equal directions (spherical k-means).

    None if those of a sample would leave out too little: sorting all rows takes far longer.
    """
    count = max(1, int(2 * np.sqrt(len(matrix))))
    rng = np.random.default_rng(7)
    sampled = min(len(matrix), _SAMPLE_PER_BLOCK * count)
    chosen = np.sort(rng.choice(len(matrix), sampled, replace=False))
    sample = matrix[chosen] * scale[chosen, None]
    directions = _spread_out(sample, count, rng)
    for _ in range(_ROUNDS):
        checkpoint("sorting vectors")
        directions = _moved(sample, directions)
    if sampled < len(matrix) and not _would_help(sample, directions):
        return None
    return _assigned(matrix, scale, directions)


def _would_help(sample: Matrix, directions: Matrix) -> bool:
    """Whether most searches for something like a row could leave out half of a sample.

    The nearest other row of the sample stands for the k-th nearest of all rows, which are some
    ten times as many; widths measured in a sample are narrower than the true ones. Both flatter
    the blocks, so what is refused here is hopeless.
    """
    ones = np.ones(len(sample), np.float32)
    blocks = _assigned(sample, ones, directions)
    sizes = np.diff(blocks.offsets)
    margin, hopeless = margin_of(sample.shape[1]), 0
    for at in np.linspace(0, len(sample) - 1, _TRIALS).astype(np.int64).tolist():
        similar = sample @ sample[at]
        similar[at] = -np.inf
        reached = blocks._at_best(sample[at], margin) >= similar.max()
        hopeless += int(sizes[reached].sum()) > _HOPELESS * len(sample)
    return hopeless <= _TRIALS // 2


def _spread_out(sample: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """Return starting directions: drawn round after round, rather where none is near yet."""
    each = -(-count // _SEEDING)
    chosen = rng.choice(len(sample), min(each, len(sample)), replace=False)
    near = (sample @ sample[chosen].T).max(axis=1)
    picked = [chosen]
    for _ in range(_SEEDING - 1):
        apart = np.maximum(1.0 - near, 1e-9).astype(np.float64)
        more = rng.choice(len(sample), min(each, len(sample)), replace=False, p=apart / apart.sum())
        near = np.maximum(near, (sample @ sample[more].T).max(axis=1))
        picked.append(more)
    return sample[np.unique(np.concatenate(picked))[:count]]


def _moved(sample: Matrix, directions: Matrix) -> Matrix:
    """Return the mean direction of what is nearest to each; one that attracts nothing stays."""
    which = (sample @ directions.T).argmax(axis=1)
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    sums = np.add.reduceat(sample[order], starts, axis=0)
    moved = directions.copy()
    moved[which[order][starts]] = sums
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.where(lengths > 0, moved / np.maximum(lengths, 1e-30), directions)


def _assigned(matrix: Matrix, scale: Matrix, directions: Matrix) -> Blocks:
    which = np.empty(len(matrix), np.int32)
    near = np.empty(len(matrix), np.float32)
    for start in range(0, len(matrix), _ASSIGN):
        checkpoint("sorting vectors")
        part = slice(start, start + _ASSIGN)
        similar = matrix[part] @ directions.T
        which[part] = similar.argmax(axis=1)
        near[part] = similar[np.arange(len(similar)), which[part]] * scale[part]
    order = np.argsort(which, kind="stable").astype(np.int32)
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    used = which[order][starts]
    # The true width may be a little larger than measured in single precision.
    nearest = np.minimum.reduceat(near[order], starts).astype(np.float64)
    width_cos = np.clip(nearest - margin_of(matrix.shape[1]), -1.0, 1.0)
    return Blocks(
        rows=order,
        offsets=np.append(starts, len(matrix)),
        directions=directions[used],
        width_cos=width_cos,
        width_sin=np.sqrt(1.0 - width_cos * width_cos),
    )

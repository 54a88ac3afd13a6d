"""Vectors turned so that their first few coordinates say most: a first look at a third of them.

After a rotation onto its principal axes a product is the product of the first coordinates plus that
of the rest, and the rest is at most the product of its two lengths (Cauchy-Schwarz). Rows whose
bound does not reach the k-th best found are left out for certain. This helps where vectors have no
clusters but a few strong directions, as embeddings of text do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.base.budget import checkpoint
from omnigraph.engine.image.arrays import Ints, Mask, at_least_kth
from omnigraph.engine.image.blocks import UnitVectors, margin_of, similar_to
from omnigraph.engine.image.mapped import held_bytes

Matrix = npt.NDArray[np.float32]

_SHARE = 3
"""One coordinate of so many is looked at first."""
_LEAST_ENERGY = 0.5
"""Below this share of all squared lengths in those coordinates a first look tells too little."""
_LEAST_DIM = 32
_SAMPLE = 8_192
_CHUNK = 16_384
_FIRST = 512
_HOPELESS = 0.4
"""Share of the rows from which on reading all of them in order is cheaper."""


@dataclass(frozen=True)
class Prefix:
    """`axes` turns a vector; `heads` are the turned rows, `rests` how long what is left may be."""

    axes: Matrix
    heads: Matrix
    rests: Matrix

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return held_bytes(self.axes, self.heads, self.rests)

    def candidates(
        self, matrix: UnitVectors, unit: Matrix, k: int, held: Mask | None
    ) -> Ints | None:
        """Return a superset of the k rows nearest to a unit vector, or None if a scan is better.

        Args:
            matrix: what the prefix was made of.
            unit: the query.
            k: how many rows are wanted.
            held: which rows count; None is all.
        """
        slack = 2 * matrix.margin
        head = unit @ self.axes
        at_best = self.heads @ head
        at_best += self.rests * _rest(np.square(head).sum(keepdims=True), matrix.margin)
        if held is not None:
            at_best[~held] = -np.inf
        first = np.flatnonzero(at_best >= max(at_least_kth(at_best, max(_FIRST, 8 * k)), -4.0))
        enough = at_least_kth(similar_to(matrix, unit, first), k)
        rows = np.flatnonzero(at_best >= max(enough - slack, -4.0))
        if len(rows) > _HOPELESS * len(at_best):
            return None
        similar = similar_to(matrix, unit, rows)
        return rows[similar >= at_least_kth(similar, k) - slack]


def build_prefix(matrix: Matrix, scale: Matrix) -> Prefix | None:
    """Return the turned heads of a matrix, or None if they would not say enough."""
    dim = matrix.shape[1]
    if dim < _LEAST_DIM:
        return None
    step = max(1, len(matrix) // _SAMPLE)
    sample = (matrix[::step] * scale[::step, None]).astype(np.float64)
    energy, axes = np.linalg.eigh(sample.T @ sample)
    width = dim // _SHARE
    if energy[-width:].sum() < _LEAST_ENERGY * energy.sum():
        return None
    turn = axes[:, -width:].astype(np.float32)
    heads = np.empty((len(matrix), width), np.float32)
    for start in range(0, len(matrix), _CHUNK):
        checkpoint("turning vectors")
        part = slice(start, start + _CHUNK)
        heads[part] = (matrix[part] @ turn) * scale[part, None]
    lengths = np.einsum("ij,ij->i", heads, heads)
    return Prefix(turn, heads, _rest(lengths, margin_of(dim)))


def _rest(squared: Matrix, margin: float) -> Matrix:
    """Return how long the rest of a unit vector is at most, given the square of its head."""
    return np.asarray(np.sqrt(np.maximum(1.0 - squared, 0.0) + margin), np.float32)

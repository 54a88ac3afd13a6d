"""Vectors of one column and exact cosine distance.

A distance must not depend on how a row was found: the fast single-precision product only selects
candidates, with a margin above its rounding error; what is returned is computed row by row in
double precision, so the same row has bit-equal distances on every path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.image.arrays import Floats, Ints, Mask

_EXACT_BELOW = 2_048
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Vectors:
    """A matrix by row position; `valid` None means no nulls."""

    matrix: npt.NDArray[np.float32]
    valid: Mask | None
    scale: npt.NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Memory held beyond the column itself."""
        return self.scale.nbytes + (self.valid.nbytes if self.valid is not None else 0)

    @property
    def dim(self) -> int:
        """Width of every vector."""
        return int(self.matrix.shape[1])

    def distances(self, query: npt.NDArray[np.float32], positions: Ints) -> Floats:
        """Return the cosine distance of each given row; NaN where the vector is null.

        A zero vector points nowhere: its distance to everything is 1.
        """
        out = np.empty(len(positions), np.float64)
        for start in range(0, len(positions), _ROWS_AT_ONCE):
            part = positions[start : start + _ROWS_AT_ONCE]
            out[start : start + len(part)] = _cosine(self.matrix[part], query)
        if self.valid is not None:
            out[~self.valid[positions]] = np.nan
        return out

    def nearest(
        self, query: npt.NDArray[np.float32], k: int, allowed: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Return the k nearest rows with their distances, nearest first.

        Rows at the same distance as the k-th are all returned: which of them count is the
        caller's rule (ids), not ours. `allowed` restricts the rows; null vectors never qualify.
        """
        rows = np.arange(len(self.matrix)) if allowed is None else allowed
        if self.valid is not None:
            rows = rows[self.valid[rows]]
        if k <= 0 or not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.float64)
        if len(rows) > max(_EXACT_BELOW, 4 * k):
            rows = self._candidates(query, k, rows, whole=allowed is None and self.valid is None)
        distances = self.distances(query, rows)
        if len(rows) > k:
            worst = np.partition(distances, k - 1)[k - 1]
            kept = distances <= worst
            rows, distances = rows[kept], distances[kept]
        order = np.argsort(distances, kind="stable")
        return rows[order], distances[order]

    def _candidates(
        self, query: npt.NDArray[np.float32], k: int, rows: Ints, *, whole: bool
    ) -> Ints:
        """Return a superset of the k nearest rows, a little larger than k."""
        norm = float(np.linalg.norm(query))
        unit = (query / norm).astype(np.float32) if norm else query
        if whole:
            similar = (self.matrix @ unit) * self.scale
        else:
            similar = (self.matrix[rows] @ unit) * self.scale[rows]
        least = np.partition(similar, len(similar) - k)[len(similar) - k]
        # Each of dim products and sums may be off by half an ulp of a value of at most 1.
        margin = np.float32(4 * self.dim * np.finfo(np.float32).eps)
        return np.asarray(rows[similar >= least - margin])


def build_vectors(column: pa.FixedSizeListArray) -> Vectors:
    """Return the matrix of a vector column; the values are not copied."""
    dim = column.type.list_size
    flat = column.values.slice(column.offset * dim, len(column) * dim)
    matrix = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False).reshape(-1, dim)
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        matrix = np.where(valid[:, None], matrix, np.float32(0))
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    with np.errstate(divide="ignore"):
        scale = np.where(norms > 0, 1.0 / norms, 0.0).astype(np.float32)
    return Vectors(matrix, valid, scale)


def _cosine(rows: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> Floats:
    left, right = rows.astype(np.float64), query.astype(np.float64)
    products = (left * right).sum(axis=1)
    lengths = np.sqrt((left * left).sum(axis=1)) * np.sqrt((right * right).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        similar = np.where(lengths > 0, products / lengths, 0.0)
    return np.asarray(1.0 - np.clip(similar, -1.0, 1.0))

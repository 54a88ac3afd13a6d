"""Vectors of one column and exact cosine distance.

A distance must not depend on how a row was found: fast single-precision products only select
candidates, with a margin above their rounding error; what is returned is computed row by row in
double precision, so the same row has bit-equal distances on every path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.base.background import BACKGROUND
from omnigraph.engine.image.arrays import Floats, Ints, Mask, at_least_kth, members
from omnigraph.engine.image.blocks import Blocks, build_blocks, margin_of, similar_to
from omnigraph.engine.image.layers import Layers, unchanged
from omnigraph.engine.image.mapped import held_bytes
from omnigraph.engine.image.prefix import Prefix, build_prefix

Matrix = npt.NDArray[np.float32]

_EXACT_BELOW = 512
_ROWS_AT_ONCE = 65_536
_SMALL, _LARGE = 1e-30, 1e30
_NONE = np.empty(0, np.int64)
SHORTCUTS_FROM = 16_384
"""Matrices of fewer rows are read faster than a search is thought about."""
BLOCKS_AFTER = 48
"""Scans of a matrix after which sorting it into blocks would have paid off."""
PREFIX_AFTER = 64
"""Scans after which, blocks notwithstanding, a first look at less of every row is worth a try."""
NARROW = 5
"""If a filter leaves one row in so many, gathering those costs less than reading the matrix."""


@dataclass
class VectorBase:
    """A matrix by row, what scales its rows to length one, and which rows have a vector."""

    matrix: Matrix
    valid: Mask | None
    scale: Matrix
    tame: bool
    """Whether single precision can hold the products of every row."""
    _scans: int = 0
    _blocks: Blocks | None = None
    _prefix: Prefix | None = None
    settled: Callable[[], None] | None = None
    """Told when a shortcut was made, or found to be of no use."""
    _stage: int = 0
    """How many of the shortcuts were tried: blocks first, then a prefix."""

    @property
    def nbytes(self) -> int:
        """Memory held beyond the column itself."""
        held = held_bytes(self.scale, self.valid)
        held += self._blocks.nbytes if self._blocks is not None else 0
        return held + (self._prefix.nbytes if self._prefix is not None else 0)

    @cached_property
    def margin(self) -> float:
        """How far a product of two unit vectors may be off."""
        return margin_of(self.matrix.shape[1])

    def candidates(self, unit: Matrix, k: int, held: Mask | None) -> Ints:
        """Return a superset of the k rows nearest to a unit vector among those held."""
        if not self.tame:
            return np.arange(len(self.matrix)) if held is None else np.flatnonzero(held)
        found = self._without_scan(unit, k, held)
        if found is not None:
            return found
        self._scanned()
        similar = (self.matrix @ unit) * self.scale
        if held is not None:
            similar[~held] = -np.inf
        # The k-th best and any row may each be off by the margin.
        return np.flatnonzero(similar >= max(at_least_kth(similar, k) - 2 * self.margin, -2.0))

    def similar(self, unit: Matrix, rows: Ints) -> Matrix:
        """Return the cosine similarity of a few rows, within the margin."""
        return (self.matrix[rows] @ unit) * self.scale[rows]

    def _without_scan(self, unit: Matrix, k: int, held: Mask | None) -> Ints | None:
        """Return the candidates if they can be found without reading the whole matrix."""
        for shortcut in (self._blocks, self._prefix):
            found = None if shortcut is None else shortcut.candidates(self, unit, k, held)
            if found is not None:
                return found
        return None

    def candidates_among(self, unit: Matrix, k: int, rows: Ints) -> Ints:
        """Return the candidates among a few rows, without a look at any other."""
        if len(rows) <= k or not self.tame:
            return rows
        similar = similar_to(self, unit, rows)
        return rows[similar >= at_least_kth(similar, k) - 2 * self.margin]

    def _scanned(self) -> None:
        """Count a read of the whole matrix; after enough of them make what would spare the next.

        No search waits for it: making it takes as long as hundreds of them.
        """
        self._scans += 1
        enough = (BLOCKS_AFTER, PREFIX_AFTER)[self._stage : self._stage + 1]
        if enough and self._scans >= enough[0] and len(self.matrix) >= SHORTCUTS_FROM:
            BACKGROUND.start(("shortcut", id(self)), self._settle)

    def _settle(self) -> None:
        if self._stage == 0:
            self._blocks = build_blocks(self.matrix, self.scale)
        elif self._stage == 1:
            self._prefix = build_prefix(self.matrix, self.scale)
        self._stage += 1
        if self.settled is not None:
            self.settled()

    @property
    def shortcuts(self) -> tuple[int, Blocks | None, Prefix | None]:
        """How many shortcuts were tried, and those that are of use."""
        return self._stage, self._blocks, self._prefix

    def take_over(self, stage: int, blocks: Blocks | None, prefix: Prefix | None) -> None:
        """Use shortcuts that were made before."""
        self._stage, self._blocks, self._prefix = stage, blocks, prefix


def build_base(column: pa.FixedSizeListArray) -> VectorBase:
    """Return the matrix of a vector column; the values are not copied."""
    matrix, valid = matrix_of(column)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    tame = bool(((norms == 0) | ((norms > _SMALL) & (norms < _LARGE))).all())
    with np.errstate(divide="ignore"):
        scale = np.where((norms > 0) & tame, 1.0 / norms, 0.0).astype(np.float32)
    return VectorBase(matrix, valid, scale, tame)


def matrix_of(column: pa.FixedSizeListArray) -> tuple[Matrix, Mask | None]:
    """Return a vector column by row, zeros for null, and which rows have a vector."""
    dim = column.type.list_size
    flat = column.values.slice(column.offset * dim, len(column) * dim)
    matrix = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False).reshape(-1, dim)
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        matrix = np.where(valid[:, None], matrix, np.float32(0))
    return matrix, valid


@dataclass(frozen=True)
class Vectors:
    """The vectors of one table version: its base, and the rows changed since."""

    base: VectorBase
    layers: Layers
    changed: VectorBase | None = None

    @property
    def nbytes(self) -> int:
        """Memory held beside the base."""
        masks = (self.layers.base, self.layers.changed)
        held = sum(mask.nbytes for mask in masks if mask is not None)
        return held + (0 if self.changed is None else self.changed.nbytes)

    @property
    def dim(self) -> int:
        """Width of every vector."""
        return int(self.base.matrix.shape[1])

    @cached_property
    def _held(self) -> Mask | None:
        """Which base rows hold and have a vector; None is all."""
        return _both(self.layers.base, self.base.valid)

    @cached_property
    def _changed_rows(self) -> Ints:
        """The live overlay rows that have a vector."""
        if self.changed is None:
            return np.empty(0, np.int64)
        mask = _both(self.layers.changed, self.changed.valid)
        return np.arange(len(self.changed.matrix)) if mask is None else np.flatnonzero(mask)

    def distances(self, query: Matrix, positions: Ints) -> Floats:
        """Return the cosine distance of each given row; NaN where the vector is null.

        A zero vector points nowhere: its distance to everything is 1.
        """
        out = np.empty(len(positions), np.float64)
        for start in range(0, len(positions), _ROWS_AT_ONCE):
            part = positions[start : start + _ROWS_AT_ONCE]
            out[start : start + len(part)] = self._distances(query, part)
        return out

    def _distances(self, query: Matrix, positions: Ints) -> Floats:
        if self.changed is None:
            return _cosine(self.base, query, positions)
        out = np.empty(len(positions), np.float64)
        slots = self.layers.patch.slots(positions)
        old = slots < 0
        out[old] = _cosine(self.base, query, positions[old])
        out[~old] = _cosine(self.changed, query, slots[~old])
        return out

    def nearest(self, query: Matrix, k: int, allowed: Ints | None = None) -> tuple[Ints, Floats]:
        """Return the k nearest rows with their distances, nearest first.

        Rows at the same distance as the k-th are all returned: which of them count is the
        caller's rule (ids), not ours. `allowed` restricts the rows (live positions, ascending);
        None is every live row. Null vectors never qualify.
        """
        if k <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float64)
        rows = self._contenders(query, k, allowed)
        distances = self.distances(query, rows)
        has = ~np.isnan(distances)
        if not has.all():
            rows, distances = rows[has], distances[has]
        if len(rows) > k:
            kept = distances <= np.partition(distances, k - 1)[k - 1]
            rows, distances = rows[kept], distances[kept]
        order = np.argsort(distances, kind="stable")
        return rows[order], distances[order]

    def _contenders(self, query: Matrix, k: int, allowed: Ints | None) -> Ints:
        """Return live positions among which the k nearest are."""
        if allowed is not None and len(allowed) <= max(_EXACT_BELOW, 4 * k):
            return allowed
        norm = float(np.linalg.norm(query.astype(np.float64)))
        # A query without a direction is equally far from everything.
        unit = (query.astype(np.float64) / norm).astype(np.float32) if norm else query
        changed = self.layers.positions[self._changed_rows] if len(self._changed_rows) else _NONE
        if allowed is None:
            rows = self.base.candidates(unit, k, self._held)
        else:
            changed = changed[members(changed, allowed)] if len(changed) else changed
            rows = self._candidates_among(unit, k, allowed)
        return np.sort(np.concatenate([rows, changed])) if len(changed) else rows

    def _candidates_among(self, unit: Matrix, k: int, allowed: Ints) -> Ints:
        """Return the candidates among the base rows that are allowed."""
        held, size = self._held, len(self.base.matrix)
        if len(allowed) * NARROW < size:
            rows = allowed[: int(np.searchsorted(allowed, size))]
            return self.base.candidates_among(unit, k, rows if held is None else rows[held[rows]])
        among = np.zeros(self.layers.size, dtype=bool)
        among[allowed] = True
        return self.base.candidates(unit, k, _both(among[:size], held))


def build_vectors(column: pa.FixedSizeListArray) -> Vectors:
    """Return the vectors of a column that did not change since it was read."""
    return Vectors(build_base(column), unchanged(len(column)))


def _both(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _cosine(base: VectorBase, query: Matrix, rows: Ints) -> Floats:
    left, right = base.matrix[rows].astype(np.float64), query.astype(np.float64)
    products = (left * right).sum(axis=1)
    lengths = np.sqrt((left * left).sum(axis=1)) * np.sqrt((right * right).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        similar = np.where(lengths > 0, products / lengths, 0.0)
    out = np.asarray(1.0 - np.clip(similar, -1.0, 1.0))
    if base.valid is not None:
        out[~base.valid[rows]] = np.nan
    return out

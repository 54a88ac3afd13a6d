"""The rows of a running query: for every bound variable, a position per row. Never values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from omnigraph.engine.image.arrays import Ints, Mask
from omnigraph.engine.image.pieces import gathered, repeated, tiled


@dataclass(frozen=True, slots=True)
class Rows:
    """`size` rows; `at[var][i]` is the position of the variable's node or edge in row i."""

    size: int
    at: Mapping[str, Ints]

    @staticmethod
    def of(var: str, at: Ints) -> Rows:
        """Return rows of one variable."""
        return Rows(len(at), {var: at})

    def take(self, which: Ints) -> Rows:
        """Return the given rows, in their order; a row may be taken more than once."""
        return Rows(len(which), {var: gathered(at, which) for var, at in self.at.items()})

    def slice(self, start: int, length: int) -> Rows:
        """Return some rows that follow each other."""
        part = {var: at[start : start + length] for var, at in self.at.items()}
        return Rows(max(0, min(length, self.size - start)), part)

    def keep(self, mask: Mask) -> Rows:
        """Return the rows for which the mask is true."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def bind(self, var: str, at: Ints) -> Rows:
        """Return the same rows with one more variable."""
        return Rows(self.size, {**self.at, var: at})

    def times(self, var: str, at: Ints) -> Rows:
        """Return the product with the positions of a new variable, this side's rows outermost."""
        own = {name: repeated(known, len(at)) for name, known in self.at.items()}
        return Rows(self.size * len(at), {**own, var: tiled(at, self.size)})


ONE_EMPTY_ROW = Rows(1, {})
"""What a pipeline starts from: one row that binds nothing."""

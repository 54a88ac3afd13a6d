"""Which rows of a base still hold at a version, and where the rows changed since belong.

What is derived from a base (inverted lists, matrices, blocks) is derived once; a version only
adds what the layers say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.engine.image.arrays import Ints, Mask
from omnigraph.engine.image.columns import Patch, no_patch
from omnigraph.engine.image.table import TableImage


@dataclass(frozen=True)
class Layers:
    """`base` tells which base rows hold, `changed` which overlay rows live; None is all."""

    patch: Patch
    base: Mask | None = None
    changed: Mask | None = None

    @property
    def size(self) -> int:
        """Number of positions, dead ones included."""
        return self.patch.rows

    @property
    def positions(self) -> Ints:
        """The position of every overlay row."""
        return np.concatenate(
            [self.patch.updated, np.arange(self.patch.base_rows, self.patch.rows)]
        )


def unchanged(rows: int) -> Layers:
    """Return the layers of a base nothing happened to."""
    return Layers(no_patch(rows))


def layers_of(image: TableImage) -> Layers:
    """Return what an image keeps of its base, and what it adds."""
    patch, live = image.patch, image.live
    base: Mask | None = None
    if live is not None or len(patch.updated):
        base = np.ones(patch.base_rows, dtype=bool) if live is None else live[: patch.base_rows]
        base = base.copy()
        base[patch.updated] = False
    plain = Layers(patch, base)
    return plain if live is None else Layers(patch, base, live[plain.positions])

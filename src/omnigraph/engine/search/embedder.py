"""What the engine asks of an embedder, and what it says when it gets none.

Only the protocol lives here; implementations are adapters above the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.errors import BadRequestError

Matrix = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors of one space, named by provider and model."""

    @property
    def space(self) -> str:
        """Return `provider/model`: vectors of two spaces cannot be compared."""
        ...

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per question.

        Raises:
            EmbeddingError: the texts cannot be embedded at this width.
        """
        ...

    def embed_documents(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per stored text.

        Raises:
            EmbeddingError: the texts cannot be embedded at this width.
        """
        ...


class EmbeddingError(BadRequestError):
    """Text could not be turned into a vector."""


class EmbedderUnavailableError(EmbeddingError):
    """The embedding service did not answer, or not yet; the same request may succeed later."""


class SpaceMismatchError(EmbeddingError):
    """A column was filled by another model; distances across models mean nothing."""

    def __init__(self, column: str, filled_by: str, asked: str) -> None:
        self.column, self.filled_by, self.asked = column, filled_by, asked
        super().__init__(
            f"{column} holds vectors of {filled_by}, but the embedder is {asked}",
            hint="configure the embedder that filled the column, or fill it again",
        )


def check_space(column: str, pinned: str, embedder: Embedder) -> None:
    """Refuse an embedder other than the one a column is pinned to, by model or by full name."""
    if pinned not in (embedder.space, embedder.space.partition("/")[2]):
        raise SpaceMismatchError(column, pinned, embedder.space)

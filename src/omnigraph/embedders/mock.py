"""Vectors from a hash of the text: reproducible anywhere, without meaning. For tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph.base.hashing import fnv1a64
from omnigraph.engine.search.embedder import EmbeddingError, Matrix

_MASK = 0xFFFF_FFFF_FFFF_FFFF


class MockEmbedder:
    """FNV-1a of the text seeds a xorshift generator; the result has length one."""

    space = "mock/fnv1a-xorshift64"

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per text."""
        if dim < 1:
            raise EmbeddingError(f"a vector needs at least one dimension, not {dim}")
        return (
            np.stack([_vector(text, dim) for text in texts]) if texts else np.empty((0, dim), "f4")
        )

    embed_documents = embed_queries


def _vector(text: str, dim: int) -> Matrix:
    state = fnv1a64(text)
    values = np.empty(dim, np.float32)
    for at in range(dim):
        state ^= (state << 13) & _MASK
        state ^= state >> 7
        state ^= (state << 17) & _MASK
        values[at] = np.float32(np.float32(state / 2**64) * np.float32(2) - np.float32(1))
    norm = np.float32(np.sqrt(np.sum(values.astype(np.float64) ** 2)))
    return values / norm if norm > np.finfo(np.float32).eps else values

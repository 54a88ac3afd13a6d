"""The offline default: WordLlama's 256-dimensional word vectors, shipped with the package.

Nothing is downloaded. Narrower columns use the leading dimensions (the model is trained so that
they carry the most); wider ones need a provider.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.config.embedding import OFFLINE_WIDTH
from omnigraph.engine.search.embedder import EmbeddingError, Matrix

if TYPE_CHECKING:
    from wordllama.inference import WordLlamaInference

WIDTH = OFFLINE_WIDTH
_loading = threading.Lock()


class LocalEmbedder:
    """WordLlama, loaded on first use and shared by the process."""

    space = "wordllama/l2_supercat_256"

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per text."""
        if not 1 <= dim <= WIDTH:
            raise EmbeddingError(
                f"the offline embedder gives up to {WIDTH} dimensions, the column has {dim}",
                hint="configure an embedding provider, or declare a Vector of at most 256",
            )
        if not texts:
            return np.empty((0, dim), np.float32)
        with _loading:
            model = _model()
        whole = np.asarray(model.embed(list(texts), norm=False), dtype=np.float32)[:, :dim]
        norms = np.linalg.norm(whole, axis=1, keepdims=True)
        return np.asarray(np.divide(whole, norms, out=np.zeros_like(whole), where=norms > 0))

    embed_documents = embed_queries


@lru_cache(maxsize=1)
def _model() -> WordLlamaInference:
    with _unchanged_logging():
        import wordllama  # slow to import, and most programs never embed

        # The library looks for its own tokenizer in a cache folder; the package itself has it.
        folder = Path(wordllama.__file__).parent
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


@contextmanager
def _unchanged_logging() -> Iterator[None]:
    """Keep the program's logging as it is: the library sets up the root logger when imported."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in [one for one in root.handlers if one not in handlers]:
            root.removeHandler(handler)
        root.setLevel(level)

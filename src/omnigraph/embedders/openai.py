"""Embeddings from OpenAI, or from any service that speaks the same protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from omnigraph.embedders.http import Service, at_once, key_or_refuse, unit_rows
from omnigraph.engine.search.embedder import EmbeddingError, Matrix
from omnigraph.engine.search.options import EmbedderOptions

BASE_URL = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"
_BATCH = 128


class OpenAIEmbedder:
    """One model; questions and documents are embedded alike."""

    def __init__(self, options: EmbedderOptions) -> None:
        self._options = options
        self.model = options.model or MODEL

    @property
    def space(self) -> str:
        """Return `openai/<model>`."""
        return f"openai/{self.model}"

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per text; many texts go in several requests."""
        if dim < 1:
            raise EmbeddingError(f"a vector needs at least one dimension, not {dim}")
        batches = [list(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        parts = at_once(lambda batch: self._embed(batch, dim), batches)
        return np.concatenate(parts) if parts else np.empty((0, dim), np.float32)

    embed_documents = embed_queries

    @cached_property
    def _service(self) -> Service:
        key = key_or_refuse(self._options, "OPENAI_API_KEY")
        return Service("OpenAI", self._options, {"authorization": f"Bearer {key}"})

    def _embed(self, texts: list[str], dim: int) -> Matrix:
        url = f"{(self._options.base_url or BASE_URL).rstrip('/')}/embeddings"
        body = {"model": self.model, "input": texts, "dimensions": dim}
        return unit_rows("OpenAI", _rows(self._service.post(url, body), len(texts)), dim)


def _rows(answer: Any, count: int) -> list[Any]:  # noqa: ANN401 - any JSON
    """Return the vectors in the order of the texts; a service may send them in another one."""
    try:
        found = {int(item["index"]): item["embedding"] for item in answer["data"]}
        return [found[at] for at in range(count)]
    except (TypeError, KeyError, ValueError):
        raise EmbeddingError("OpenAI answered without a vector for every text") from None

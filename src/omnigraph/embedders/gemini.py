"""Embeddings from Gemini, which embeds questions and documents differently."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from omnigraph.embedders.http import Service, at_once, key_or_refuse, unit_rows
from omnigraph.engine.search.embedder import EmbeddingError, Matrix
from omnigraph.engine.search.options import EmbedderOptions

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
MODEL = "gemini-embedding-2-preview"


class GeminiEmbedder:
    """One model; a text is a request."""

    def __init__(self, options: EmbedderOptions) -> None:
        self._options = options
        self.model = options.model or MODEL

    @property
    def space(self) -> str:
        """Return `gemini/<model>`."""
        return f"gemini/{self.model}"

    def embed_queries(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per question."""
        return self._embed_all(texts, dim, "RETRIEVAL_QUERY")

    def embed_documents(self, texts: Sequence[str], dim: int) -> Matrix:
        """Return one row per stored text."""
        return self._embed_all(texts, dim, "RETRIEVAL_DOCUMENT")

    @cached_property
    def _service(self) -> Service:
        key = key_or_refuse(self._options, "GEMINI_API_KEY")
        return Service("Gemini", self._options, {"x-goog-api-key": key})

    def _embed_all(self, texts: Sequence[str], dim: int, task: str) -> Matrix:
        if dim < 1:
            raise EmbeddingError(f"a vector needs at least one dimension, not {dim}")
        if not texts:
            return np.empty((0, dim), np.float32)
        rows = at_once(lambda text: self._embed(text, dim, task), list(texts))
        return np.concatenate(rows)

    def _embed(self, text: str, dim: int, task: str) -> Matrix:
        base = (self._options.base_url or BASE_URL).rstrip("/")
        body = {
            "model": f"models/{self.model}",
            "content": {"parts": [{"text": text}]},
            "taskType": task,
            "outputDimensionality": dim,
        }
        answer = self._service.post(f"{base}/models/{self.model}:embedContent", body)
        return unit_rows("Gemini", [_values(answer)], dim)


def _values(answer: Any) -> Any:  # noqa: ANN401 - any JSON
    try:
        return answer["embedding"]["values"]
    except (TypeError, KeyError):
        raise EmbeddingError("Gemini answered without a vector") from None

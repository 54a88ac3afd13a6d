"""From options to the embedder they mean."""

from __future__ import annotations

from typing import assert_never

from omnigraph.embedders.gemini import GeminiEmbedder
from omnigraph.embedders.local import LocalEmbedder
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.embedders.openai import OpenAIEmbedder
from omnigraph.engine.search.embedder import Embedder, EmbeddingError
from omnigraph.engine.search.options import EmbedderOptions


def embedder_of(options: EmbedderOptions) -> Embedder:
    """Return the embedder; a service is first asked when it is first needed.

    Raises:
        EmbeddingError: the offline embedder was asked to be another model.
    """
    match options.provider:
        case "local":
            local = LocalEmbedder()
            if options.model not in (None, local.space, local.space.partition("/")[2], "wordllama"):
                raise EmbeddingError(
                    f"the offline embedder is {local.space}, not '{options.model}'",
                    hint="name the provider of that model: openai or gemini",
                )
            return local
        case "mock":
            return MockEmbedder()
        case "openai":
            return OpenAIEmbedder(options)
        case "gemini":
            return GeminiEmbedder(options)
        case _:
            assert_never(options.provider)

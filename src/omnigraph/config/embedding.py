"""Which embedder the settings file and the environment ask for."""

from __future__ import annotations

from omnigraph.config.environment import Environment
from omnigraph.config.settings import EmbeddingSettings
from omnigraph.engine.search.options import PROVIDERS, EmbedderOptions, Provider
from omnigraph.errors import BadRequestError

_PATIENCE = (
    ("OMNIGRAPH_EMBED_TIMEOUT_MS", "NANOGRAPH_EMBED_TIMEOUT_MS"),
    ("OMNIGRAPH_EMBED_RETRY_ATTEMPTS", "NANOGRAPH_EMBED_RETRY_ATTEMPTS"),
    ("OMNIGRAPH_EMBED_RETRY_BACKOFF_MS", "NANOGRAPH_EMBED_RETRY_BACKOFF_MS"),
    ("OMNIGRAPH_EMBED_DEADLINE_MS", "NANOGRAPH_EMBED_DEADLINE_MS"),
)
"""The second name is the older one, of clients that speak OpenAI's protocol."""
_MOCKS = ("OMNIGRAPH_EMBEDDINGS_MOCK", "NANOGRAPH_EMBEDDINGS_MOCK")

OFFLINE_WIDTH = 256
"""The most dimensions the offline embedder makes."""


def embedder_options(
    settings: EmbeddingSettings, environment: Environment, model: str | None = None
) -> EmbedderOptions:
    """Return the options in force: the mock flag, the file, the variable, then the model's name.

    Args:
        settings: what the file says.
        environment: keys, addresses and limits.
        model: the model somebody asks for, which may tell its provider.

    Raises:
        BadRequestError: nobody knows whose model that is.
    """
    if any(environment.flag(name) for name in _MOCKS):
        return EmbedderOptions("mock")
    asked = model or settings.model
    provider = settings.provider or _provider(environment) or provider_of_model(asked)
    match provider:
        case "openai":
            return EmbedderOptions(
                "openai",
                asked or environment.find("NANOGRAPH_EMBED_MODEL"),
                environment.find("OPENAI_API_KEY"),
                environment.find("OPENAI_BASE_URL"),
                *_patience(environment, names=2),
            )
        case "gemini":
            return EmbedderOptions(
                "gemini",
                asked,
                environment.find("GEMINI_API_KEY"),
                environment.find("OMNIGRAPH_GEMINI_BASE_URL"),
                *_patience(environment, names=1),
            )
        case _:
            return EmbedderOptions(provider, asked)


def provider_of_model(model: str | None) -> Provider:
    """Return who makes a model, by its name.

    Raises:
        BadRequestError: the name tells nothing.
    """
    if model is None or model.startswith(("wordllama", "l2_supercat")):
        return "local"
    if model.startswith("gemini-"):
        return "gemini"
    if model.startswith("text-embedding-"):
        return "openai"
    raise BadRequestError(
        f"whose embedding model is '{model}'?",
        hint="set embedding.provider in omnigraph.yaml, or OMNIGRAPH_EMBEDDER, to one of "
        + ", ".join(PROVIDERS),
    )


def _provider(environment: Environment) -> Provider | None:
    found = environment.find("OMNIGRAPH_EMBEDDER")
    if found is None:
        return None
    for provider in PROVIDERS:
        if provider == found.lower():
            return provider
    raise BadRequestError(
        f"OMNIGRAPH_EMBEDDER={found} is no embedder", hint=f"use {', '.join(PROVIDERS)}"
    )


def _patience(environment: Environment, names: int) -> tuple[float, int, float, float | None]:
    """Return timeout, attempts, pause and deadline, each by the first names that count."""
    defaults = EmbedderOptions()
    timeout, attempts, backoff, deadline = (_number(environment, of[:names]) for of in _PATIENCE)
    return (
        timeout / 1_000 if timeout else defaults.timeout_s,
        attempts or defaults.attempts,
        backoff / 1_000 if backoff else defaults.backoff_s,
        defaults.deadline_s if deadline is None else deadline / 1_000 or None,
    )


def _number(environment: Environment, names: tuple[str, ...]) -> int | None:
    """Return the first variable that is a whole number; anything else is ignored."""
    for name in names:
        given = environment.find(name)
        if given is not None and given.isdecimal():
            return int(given)
    return None

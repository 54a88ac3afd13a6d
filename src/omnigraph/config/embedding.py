"""Which embedder the settings file and the environment ask for."""

from __future__ import annotations

from omnigraph.config.environment import Environment
from omnigraph.config.settings import EmbeddingSettings
from omnigraph.engine.search.options import PROVIDERS, EmbedderOptions, Provider
from omnigraph.errors import BadRequestError

_MOCKS = ("OMNIGRAPH_EMBEDDINGS_MOCK", "NANOGRAPH_EMBEDDINGS_MOCK")


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
                *_patience(environment, "OMNIGRAPH_EMBED_", "NANOGRAPH_EMBED_"),
            )
        case "gemini":
            return EmbedderOptions(
                "gemini",
                asked,
                environment.find("GEMINI_API_KEY"),
                environment.find("OMNIGRAPH_GEMINI_BASE_URL"),
                *_patience(environment, "OMNIGRAPH_EMBED_"),
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


def _patience(environment: Environment, *prefixes: str) -> tuple[float, int, float, float | None]:
    """Return timeout, attempts, pause and deadline; what is not a number above 0 is ignored."""
    defaults = EmbedderOptions()
    timeout = _number(environment, prefixes, "TIMEOUT_MS")
    attempts = _number(environment, prefixes, "RETRY_ATTEMPTS")
    backoff = _number(environment, prefixes, "RETRY_BACKOFF_MS")
    deadline = defaults.deadline_s
    for prefix in prefixes:
        given = environment.find(f"{prefix}DEADLINE_MS")
        if given is not None and given.isdecimal():
            deadline = int(given) / 1_000 or None
            break
    return (
        defaults.timeout_s if timeout is None else timeout / 1_000,
        defaults.attempts if attempts is None else attempts,
        defaults.backoff_s if backoff is None else backoff / 1_000,
        deadline,
    )


def _number(environment: Environment, prefixes: tuple[str, ...], name: str) -> int | None:
    for prefix in prefixes:
        given = environment.find(prefix + name)
        if given is not None and given.isdecimal() and int(given) > 0:
            return int(given)
    return None

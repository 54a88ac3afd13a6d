"""Which embedder somebody wants, as plain values: settings are read before text is embedded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Provider = Literal["local", "openai", "gemini", "mock"]
PROVIDERS: tuple[Provider, ...] = ("local", "openai", "gemini", "mock")


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """Which embedder, and how patient to be with it."""

    provider: Provider = "local"
    model: str | None = None
    """The provider's own default unless given."""
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    timeout_s: float = 30.0
    """For one request."""
    attempts: int = 4
    """How often a request is made at most, the first time included."""
    backoff_s: float = 0.2
    """The pause after the first failure; it doubles after each further one."""
    deadline_s: float | None = 60.0
    """For one request with all its repetitions."""

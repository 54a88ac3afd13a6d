"""What is sent and what comes back, as values: no socket is touched here.

An `Ask` is one request with the way to read its answer. Whether it may be sent again is decided by
`pause_before`: only what changes nothing twice is repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.ids import ULIDS
from omnigraph.base.version import VERSION
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError

T = TypeVar("T")

ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_AGAIN: Final = (429, 503)
ARROW: Final = "application/vnd.apache.arrow.stream"
NDJSON: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, as a whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Answer], T]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """Whether doing it twice is the same as doing it once."""
    source: Source | None = None
    """The text it is about, which errors point into."""
    upload: Callable[[], Iterator[bytes]] | None = None
    """Makes the body anew, piece by piece."""
    is_long: bool = False
    """Whether the answer may take any time."""

    @property
    def target(self) -> str:
        """The path with its query string."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Place:
    """A server: where it is, and who asks."""

    base: str
    token: str | None = field(default=None, repr=False)

    def url(self, ask: Ask[T]) -> str:
        """Return the whole address of a request; a base may have a path of its own."""
        return self.base + ask.target

    def headers(self, ask: Ask[T]) -> dict[str, str]:
        """Return what is sent beside the body."""
        found = {"user-agent": f"omnigraph/{VERSION}", **ask.headers}
        if self.token is not None:
            found["authorization"] = f"Bearer {self.token}"
        if ask.body is not None:
            found.setdefault("content-type", "application/json")
        return found


def place_of(address: str, token: str | None) -> Place:
    """Return the server at an address.

    Raises:
        BadRequestError: it is no address of a server, or has a password in it.
    """
    parts = urlsplit(address.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequestError(
            f"'{address}' is not the address of a server", hint="http://127.0.0.1:8080"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise BadRequestError(
            "the address of a server has no user, query or fragment",
            hint="pass the token by itself",
        )
    return Place(address.strip().rstrip("/"), (token or "").strip() or None)


def segment(word: str) -> str:
    """Return one word of a path; a slash in it is none of the path."""
    return quote(word, safe="")


def new_key() -> str:
    """Return a key under which a write is done once, however often it is sent."""
    return ULIDS.next(SYSTEM_CLOCK.now_us())


def pause_before(
    attempt: int, ask: Ask[T], status: int | None, headers: Mapping[str, str], *, sent: bool
) -> float | None:
    """Return how long to wait before sending a request again, or None if it must not be.

    Args:
        attempt: how often it was sent, from 1.
        ask: the request.
        status: of the answer, or None if none came.
        headers: of the answer.
        sent: whether the server may have seen it.
    """
    if attempt >= ATTEMPTS or (status is not None and status not in _AGAIN):
        return None
    if status is None and sent and not ask.is_repeatable:
        return None
    if status == 503 and not ask.is_repeatable:
        return None
    pause: float = _PAUSE_S * 2.0 ** (attempt - 1) * (0.5 + random.random())  # noqa: S311 - spreads clients
    after = headers.get("retry-after", "")
    if after.isdecimal():
        pause = max(pause, float(after))
    return min(pause, _LONGEST_PAUSE_S)

"""How a server is started: plain values, so that they reach every worker process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omnigraph.errors import BadRequestError

Runtime = Literal["granian", "uvicorn"]
RUNTIMES: tuple[Runtime, ...] = ("granian", "uvicorn")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line and the settings file come to."""

    uri: str
    graph_id: str = "default"
    """The name behind `/graphs/`."""
    config: str | None = None
    """The settings file, which workers read again."""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    runtime: Runtime = "granian"
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Names the server goes by beside its address."""
    tools: str = "core"
    """Which tools agents are given under /mcp; `none` is no such route."""
    page: bool = True
    """Whether the page for people is served."""
    opens: bool = False
    """Whether a browser is opened at it once the server answers."""
    grace_s: int = 30
    """How long running requests may take after the server was told to stop."""


def parse_bind(text: str) -> tuple[str, int]:
    """Return the host and port of an address to listen at.

    >>> parse_bind("127.0.0.1:8080"), parse_bind("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))

    Raises:
        BadRequestError: it is none.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise BadRequestError(f"'{text}' is no address to listen at", hint="127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host in ("localhost", "::1") or host.startswith("127.")

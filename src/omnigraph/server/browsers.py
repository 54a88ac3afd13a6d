"""What a page of somebody else can make a browser send, and which of it is let in.

A browser asks whatever address a page names, from wherever its user is: a server on this machine,
or in an office, is open to every page its people look at. Nothing else stands in the way of a
server without tokens. So whoever sends something says where it comes from, and whom it means;
programs that are no browsers say neither, and pass.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from typing import Final

from omnigraph.errors import ErrorKind
from omnigraph.server.http import Exchange, Header
from omnigraph.server.options import ServeOptions, is_loopback
from omnigraph.server.problems import ProblemError

_BODIES: Final = frozenset(
    {
        "application/json",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/vnd.apache.arrow.stream",
        "application/x-tar",
        "application/octet-stream",
    }
)
"""What a body may be. A page can send text, forms and bodies without a type to any server; before
it sends one of these, the browser asks the server whether it may."""
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not listened at
_ALLOWED: Final = (
    b"authorization, content-type, idempotency-key, omnigraph-if-graph-commit, x-request-id"
)
_EXPOSED: Final = b"x-request-id, retry-after, omnigraph-commit, omnigraph-query, server-timing"


@dataclass(frozen=True, slots=True)
class Browsers:
    """Which names a server goes by, and which pages may ask it."""

    names: frozenset[str] = frozenset()
    """What it may be called beside addresses and this machine."""
    origins: frozenset[str] = field(default_factory=frozenset)
    """Pages of other servers that may ask."""
    is_strict: bool = True
    """Whether it only goes by those names even where a token is needed for everything."""

    def require_name(self, exchange: Exchange, *, is_open: bool) -> None:
        """Refuse a request that means another server.

        A page whose own name was made to lead here is, to the browser, a page of this server. An
        address cannot be made to lead anywhere else; and who needs a token anyway has none there.

        Raises:
            ProblemError: the server has no such name.
        """
        if not (is_open or self.is_strict):
            return
        name = _name_of(exchange.header(b"host"))
        if name is None or name in self.names or _is_ours(name):
            return
        raise ProblemError(
            421,
            "this server does not go by the name of the request's Host header",
            kind=ErrorKind.BAD_REQUEST,
            hint="start it with --allowed-host NAME if that is its name",
            closes=True,
        )

    def require_own(self, exchange: Exchange) -> None:
        """Refuse what a page of somebody else sends, unless that page is allowed.

        Raises:
            ProblemError: it comes from such a page, or has a body as any page could send it.
        """
        if exchange.method in ("GET", "HEAD", "OPTIONS"):
            return  # changes nothing, and no other page can read the answer
        origin = exchange.header(b"origin")
        if origin is None or origin not in self.origins:
            host = exchange.header(b"host")
            is_own = origin is None or (
                host is not None and origin.partition("://")[2].lower() == host.strip().lower()
            )
            if not is_own or exchange.header(b"sec-fetch-site") == "cross-site":
                raise ProblemError(
                    403,
                    "a page of another origin must not ask this server",
                    kind=ErrorKind.DENIED,
                    hint="start it with --cors-origin URL if that page may",
                )
        if exchange.has_body:
            _require_type(exchange)

    def headers(self, exchange: Exchange) -> list[Header]:
        """Return what tells a browser whether a page may see the answer."""
        if not self.origins:
            return []
        told: list[Header] = [(b"vary", b"origin")]
        origin = exchange.header(b"origin")
        if origin is None or origin not in self.origins:
            return told
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-expose-headers", _EXPOSED),
            *told,
        ]


def browsers_for(options: ServeOptions) -> Browsers:
    """Return what a server lets in; beyond this machine only its people know all its names."""
    names = {name.lower() for name in options.allowed_hosts}
    own = socket.gethostname() if options.host in _EVERYWHERE else options.host
    strict = bool(names) or is_loopback(options.host)
    return Browsers(frozenset({*names, own.lower()}), frozenset(options.cors_origins), strict)


def _require_type(exchange: Exchange) -> None:
    found = (exchange.header(b"content-type") or "").partition(";")[0].strip().lower()
    if found in _BODIES or (found.startswith("application/") and found.endswith("+json")):
        return
    raise ProblemError(
        415,
        f"a body of type '{found}' is not taken" if found else "the body has no Content-Type",
        kind=ErrorKind.BAD_REQUEST,
        hint="send Content-Type: application/json (curl: --json)",
    )


def _name_of(host: str | None) -> str | None:
    """Return the name a Host header means, without its port; None if there is none."""
    text = (host or "").strip().lower()
    if not text:  # as HTTP/1.0 may have it, and no browser
        return None
    name, bracket, port = text.partition("]")
    if bracket:
        return name.removeprefix("[") if not port or port.startswith(":") else text
    return text.partition(":")[0].rstrip(".")


def _is_ours(name: str) -> bool:
    """Whether a name is an address, or this machine whoever says it."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

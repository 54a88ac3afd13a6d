"""The page for people: its files, which hold no data, and the way to it from the bare address."""

from __future__ import annotations

from typing import Final

from omnigraph.errors import ErrorKind
from omnigraph.server.call import Call
from omnigraph.server.http import Header, Reply, takes_gzip
from omnigraph.server.problems import ProblemError
from omnigraph.web.files import HEADERS, START, PageFile, page_files

_HEADERS: Final[tuple[Header, ...]] = tuple(
    (name.encode(), said.encode()) for name, said in HEADERS
)


async def start(call: Call) -> Reply:
    """Return the page; its files are named relative to it, so its address ends in a slash."""
    if not call.exchange.path.endswith("/"):
        return _led("ui/")
    return _sent(call, START)


async def file(call: Call) -> Reply:
    """Return one file of the page."""
    return _sent(call, call.words["name"])


async def root(call: Call) -> Reply:
    """Lead people to the page; programs are told what every unknown route tells them."""
    accepted = call.exchange.header(b"accept") or ""
    if not call.served.has_page or "text/html" not in accepted.lower():
        raise _nothing_at("/")
    return _led("ui/")


def _sent(call: Call, name: str) -> Reply:
    found: PageFile | None = page_files().get(name) if call.served.has_page else None
    if found is None:
        raise _nothing_at(call.exchange.path)
    tag = f'"{found.tag}"'
    headers = (*_HEADERS, (b"etag", tag.encode()), (b"vary", b"accept-encoding"))
    kind = found.content_type.encode()
    if call.exchange.header(b"if-none-match") == tag:
        return Reply(b"", kind, 304, headers)
    if found.packed and takes_gzip(call.exchange.header(b"accept-encoding")):
        return Reply(found.packed, kind, headers=(*headers, (b"content-encoding", b"gzip")))
    return Reply(found.body, kind, headers=headers)


def _led(place: str) -> Reply:
    headers = ((b"location", place.encode()), (b"referrer-policy", b"no-referrer"))
    return Reply(b"", b"text/plain; charset=utf-8", 307, headers)


def _nothing_at(path: str) -> ProblemError:
    return ProblemError(404, f"there is no route '{path}'", kind=ErrorKind.NOT_FOUND)

"""One exchange: what was asked, how its body is read, how an answer is sent. Knows no graph.

A body has a clock of its own, since no runtime bounds it, and a bound that is checked before it is
read. A body that is too large is answered first and then drained, so that the answer arrives even
at a client that sends everything before it looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import threading
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import pyarrow as pa

from omnigraph.errors import ErrorKind
from omnigraph.server.problems import ProblemError, bad_request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON_LIMIT: Final = 1 << 20
LOAD_LIMIT: Final = 32 << 20
_SILENCE_S: Final = 30.0
"""A body may pause for so long."""
_SLOWEST: Final = 1_024
"""Bytes a second that a body has to make once it took longer than that."""
_DRAIN_BYTES: Final = 64 << 20
_DRAIN_S: Final = 10.0
_WORTH_PACKING: Final = 4 << 10

IF_COMMIT: Final = b"omnigraph-if-graph-commit"
"""Names the commit that a branch must still be at for a write to happen."""
JSON: Final = b"application/json"
NDJSON: Final = b"application/x-ndjson; charset=utf-8"
ARROW: Final = b"application/vnd.apache.arrow.stream"


class GoneError(Exception):
    """The client is not there any more: nobody waits for an answer."""


@dataclass(slots=True)
class Exchange:
    """One request as it came in."""

    method: str
    path: str
    """Percent-encoded, as it was sent."""
    query_string: bytes
    headers: dict[bytes, bytes]
    receive: Receive
    request_id: str
    twice: bool = False
    """Whether a header came twice that has to mean one thing."""
    was_read: bool = False
    _watcher: asyncio.Task[None] | None = None
    _query: dict[str, list[str]] | None = field(default=None)

    def header(self, name: bytes) -> str | None:
        """Return a header, or None."""
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")

    @property
    def query(self) -> dict[str, list[str]]:
        """The values of the query string, by name."""
        if self._query is None:
            self._query = {}
            try:
                text = self.query_string.decode("ascii")
                pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
            except (UnicodeDecodeError, ValueError):
                raise bad_request("the query string is not percent-encoded UTF-8") from None
            for name, value in pairs:
                self._query.setdefault(name, []).append(value)
        return self._query

    def gone(self) -> asyncio.Task[None]:
        """Return what is done when the client leaves; only after the body was read."""
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch())
        return self._watcher

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """Stop watching the client."""
        if self._watcher is not None:
            self._watcher.cancel()

    def check_headers(self) -> None:
        """Refuse a request that says one thing in two ways: whoever else reads it may differ."""
        if self.twice:
            raise ProblemError(
                400, "a header is there twice", kind=ErrorKind.BAD_REQUEST, closes=True
            )
        if b"content-length" in self.headers and b"transfer-encoding" in self.headers:
            raise ProblemError(
                400,
                "a request has either Content-Length or Transfer-Encoding, not both",
                kind=ErrorKind.BAD_REQUEST,
                closes=True,
            )

    @property
    def has_body(self) -> bool:
        """Whether the headers announce a body."""
        length = self.headers.get(b"content-length")
        return b"transfer-encoding" in self.headers or length not in (None, b"0")

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            ProblemError: it is larger than allowed, or comes too slowly.
            GoneError: the client left in the middle.
        """
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limit:
            raise too_large(limit)
        pieces: list[bytes] = []
        got = 0
        async for piece in self.pieces():
            got += len(piece)
            if got > limit:
                raise too_large(limit)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, by its own clock."""
        if self.was_read:
            return
        started, got = time.monotonic(), 0
        while True:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    message = await self.receive()
            except TimeoutError:
                raise _too_slow() from None
            if message["type"] == "http.disconnect":
                raise GoneError
            piece = message.get("body", b"")
            got += len(piece)
            if piece:
                yield piece
            if not message.get("more_body", False):
                self.was_read = True
                return
            took = time.monotonic() - started
            if took > _SILENCE_S and got < took * _SLOWEST:
                raise _too_slow()

    async def drain(self) -> None:
        """Read on what nobody wants, for a while, so that the client gets to its answer."""
        if self.was_read or self._watcher is not None:
            return
        got = 0
        try:
            async with asyncio.timeout(_DRAIN_S):
                async for piece in self.pieces():
                    got += len(piece)
                    if got > _DRAIN_BYTES:
                        return
        except (TimeoutError, GoneError, ProblemError):
            return


def too_large(limit: int) -> ProblemError:
    """Return the refusal of a body of more than `limit` bytes."""
    return ProblemError(
        413,
        f"the request body is larger than {limit} bytes",
        kind=ErrorKind.BAD_REQUEST,
        hint="load larger data through /load/ndjson" if limit >= LOAD_LIMIT else None,
        more={"resource_limit": {"resource": "body_bytes", "limit": limit}},
        closes=True,
    )


def _too_slow() -> ProblemError:
    return ProblemError(
        408, "the request body came too slowly", kind=ErrorKind.BAD_REQUEST, closes=True
    )


def segments(path: str) -> list[str]:
    """Return the words of a path, each decoded once.

    Raises:
        ProblemError: it is not UTF-8.
    """
    try:
        return [unquote(word, errors="strict") for word in path.strip("/").split("/")]
    except UnicodeDecodeError:
        raise bad_request("the path is not percent-encoded UTF-8") from None


@dataclass(slots=True)
class Reply:
    """A whole answer."""

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    headers: tuple[Header, ...] = ()
    closes: bool = False


@dataclass(slots=True)
class Flow:
    """An answer in pieces, each made when the one before it is on its way."""

    pieces: Generator[bytes, None, None]
    content_type: bytes
    headers: tuple[Header, ...] = ()
    cancel: threading.Event | None = None
    """Stops the making of a piece."""


def takes_gzip(accepted: str | None) -> bool:
    """Whether a client takes what is packed by gzip."""
    return "gzip" in _offered(accepted or "")


def _offered(accepted: str) -> set[str]:
    """Return the encodings that a client takes."""
    return {
        word.partition(";")[0].strip().lower()
        for word in accepted.split(",")
        if not word.replace(" ", "").lower().endswith((";q=0", ";q=0.0"))
    }


def packing(accepted: str | None, *, is_arrow: bool = False) -> str | None:
    """Return how an answer may be packed: zstd before gzip; Arrow packs itself."""
    if accepted is None or is_arrow:
        return None
    offered = _offered(accepted)
    return "zstd" if "zstd" in offered else "gzip" if "gzip" in offered else None


def packed(reply: Reply, accepted: str | None) -> Reply:
    """Return a reply as small as the client can take it, if that is worth the work."""
    if len(reply.body) < _WORTH_PACKING or reply.content_type == ARROW:
        return reply
    if any(name == b"content-encoding" for name, _ in reply.headers):  # said by who made it
        return reply
    how = packing(accepted)
    if how is None:
        return reply
    body = (
        gzip.compress(reply.body, 1, mtime=0)
        if how == "gzip"
        else pa.Codec("zstd", 1).compress(reply.body, asbytes=True)
    )
    headers = (*reply.headers, (b"content-encoding", how.encode()), (b"vary", b"accept-encoding"))
    return Reply(body, reply.content_type, reply.status, headers, reply.closes)


def packed_flow(flow: Flow, accepted: str | None) -> Flow:
    """Return a flow whose pieces are packed one by one: nothing waits for a later piece."""
    how = packing(accepted, is_arrow=flow.content_type == ARROW)
    if how is None:
        return flow
    pieces = _gzipped(flow.pieces) if how == "gzip" else _zstd(flow.pieces)
    headers = (*flow.headers, (b"content-encoding", how.encode()), (b"vary", b"accept-encoding"))
    return Flow(pieces, flow.content_type, headers, flow.cancel)


def _gzipped(pieces: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with contextlib.closing(pieces) as source:
        for piece in source:
            yield packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


def _zstd(pieces: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    codec = pa.Codec("zstd", 1)
    with contextlib.closing(pieces) as source:
        for piece in source:  # frames one after another are a stream
            yield codec.compress(piece, asbytes=True)

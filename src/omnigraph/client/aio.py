"""The async shell: the same questions, awaited. One file, since it says nothing by itself.

Methods are made from the functions of `asks`, so that their arguments and answers are those of the
sync shell; what is read piece by piece is written out.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack

import pyarrow as pa

from omnigraph.api.changes import ChangeGroup
from omnigraph.api.keywords import FeedKeywords, LoadKeywords
from omnigraph.api.protocols import Text
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.api.writes import LoadResult
from omnigraph.base.budget import Limits
from omnigraph.client import asks
from omnigraph.client.errors import ServerUnreachableError, closed_error, error_of
from omnigraph.client.uploads import sent, tar_of
from omnigraph.client.wire import Answer, Ask, Place, pause_before, place_of

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
P = ParamSpec("P")

_CONNECT_S, _READ_S = 10.0, 300.0


class AsyncTransport:
    """Connections to one server, kept between requests, of one event loop."""

    def __init__(self, place: Place) -> None:
        import httpx2  # only who talks to a server needs it

        self.place = place
        self._client: httpx2.AsyncClient | None = httpx2.AsyncClient()
        self._failures = (httpx2.TransportError,)
        self._unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

    async def close(self) -> None:
        """Let go of every connection; again is fine."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def open_client(self) -> httpx2.AsyncClient:
        """Return what sends; a closed one sends nothing."""
        if self._client is None:
            raise closed_error()
        return self._client

    async def ask(self, ask: Ask[T]) -> T:
        """Return what a server answers; see the sync shell."""
        attempt = 1
        while True:
            try:
                answer = await self._send(ask)
            except self._failures as error:
                sent = not isinstance(error, self._unsent)
                pause = pause_before(attempt, ask, None, {}, sent=sent)
                if pause is None:
                    raise _unreachable(self.place, error) from error
            else:
                if answer.status < 400:
                    return ask.read(answer)
                pause = pause_before(attempt, ask, answer.status, answer.headers, sent=True)
                if pause is None:
                    raise error_of(answer.status, answer.body, ask.source)
            await asyncio.sleep(pause)
            attempt += 1

    async def _send(self, ask: Ask[Any]) -> Answer:
        response = await self.open_client().request(
            ask.method,
            self.place.url(ask),
            content=ask.body if ask.upload is None else _off_the_loop(ask.upload),
            headers=self.place.headers(ask),
            timeout=_timeout(endless=ask.is_long),
        )
        return Answer(response.status_code, response.headers, response.content)

    async def pieces(self, ask: Ask[Any]) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it comes.

        Raises:
            ServerUnreachableError: nobody answers, or the answer broke off.
        """
        try:
            async with self.open_client().stream(
                ask.method,
                self.place.url(ask),
                content=ask.body,
                headers=self.place.headers(ask),
                timeout=_timeout(endless=True),
            ) as response:
                if response.status_code >= 400:
                    raise error_of(response.status_code, await response.aread(), ask.source)
                async for piece in response.aiter_bytes():
                    yield piece
        except self._failures as error:
            raise _unreachable(self.place, error) from error


async def _off_the_loop(upload: Callable[[], Any]) -> AsyncIterator[bytes]:
    pieces = upload()
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def _unreachable(place: Place, error: Exception) -> ServerUnreachableError:
    why = str(error) or type(error).__name__
    return ServerUnreachableError(
        f"{place.base} does not answer: {why}", hint="is the server running, and the address right?"
    )


def _timeout(*, endless: bool) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(_READ_S, connect=_CONNECT_S, read=None if endless else _READ_S)


class _Awaited(Generic[P, T]):
    """A method that asks what a function of `asks` says."""

    def __init__(self, make: Callable[P, Ask[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(
        self, shell: _Shell, owner: type[_Shell] | None = None
    ) -> Callable[P, Awaitable[T]]:
        transport, make = shell.transport, self._make

        def ask(*given: P.args, **named: P.kwargs) -> Awaitable[T]:
            return transport.ask(make(*given, **named))

        return ask


class _Shell:
    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport


class AsyncBranches(_Shell):
    """The branches of a graph on a server."""

    list = _Awaited(asks.list_branches)
    create = _Awaited(asks.create_branch)
    delete = _Awaited(asks.delete_branch)
    merge = _Awaited(asks.merge)
    reset = _Awaited(asks.reset)


class AsyncQueries(_Shell):
    """The stored queries of a graph on a server."""

    list = _Awaited(asks.list_queries)
    run = _Awaited(asks.run_query)


class AsyncCommits(_Shell):
    """The history of a graph on a server."""

    list = _Awaited(asks.list_commits)
    get = _Awaited(asks.get_commit)


class AsyncTags(_Shell):
    """The tags of a graph on a server."""

    list = _Awaited(asks.list_tags)
    create = _Awaited(asks.create_tag)
    delete = _Awaited(asks.delete_tag)


class AsyncGraph(_Shell):
    """A graph on a server, awaited. Get it from `omnigraph.aio.connect`.

    States are named by keywords: `branch`, and `at` with a commit id or a tag.
    """

    query = _Awaited(asks.query)
    picture = _Awaited(asks.picture)
    profile = _Awaited(asks.profile)
    explain = _Awaited(asks.explain)
    read_blob = _Awaited(asks.read_blob)
    entity = _Awaited(asks.entity)
    snapshot = _Awaited(asks.snapshot)
    mutate = _Awaited(asks.mutate)
    embed = _Awaited(asks.embed)
    cursor = _Awaited(asks.cursor)
    entity_history = _Awaited(asks.entity_history)
    blame = _Awaited(asks.blame)
    schema = _Awaited(asks.schema)
    plan_schema = _Awaited(asks.plan_schema)
    apply_schema = _Awaited(asks.apply_schema)
    diff_schema = _Awaited(asks.diff_schema)
    schema_history = _Awaited(asks.schema_history)
    optimize = _Awaited(asks.optimize)
    indices = _Awaited(asks.indices)
    ensure_indices = _Awaited(asks.ensure_indices)
    verify = _Awaited(asks.verify)
    repair = _Awaited(asks.repair)
    cleanup = _Awaited(asks.cleanup)
    locks = _Awaited(asks.list_locks)
    break_lock = _Awaited(asks.break_lock)
    disk_usage = _Awaited(asks.disk_usage)

    def __init__(self, transport: AsyncTransport) -> None:
        super().__init__(transport)
        self.queries = AsyncQueries(transport)
        self.branches = AsyncBranches(transport)
        self.commits = AsyncCommits(transport)
        self.tags = AsyncTags(transport)

    @property
    def uri(self) -> str:
        """Where the server is."""
        return self.transport.place.base

    async def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | None = None,
        limits: Limits | None = None,
    ) -> AsyncIterator[pa.RecordBatch]:
        """Run a read query and yield its rows in Arrow batches, as they come."""
        ask = asks.query(source, name, params, branch=branch, at=at, limits=limits)
        async for batch in _batches(self.transport.pieces(ask)):
            yield batch

    async def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = DEFAULT_BRANCH,
        at: str | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield everything as JSON lines, in pieces."""
        ask = asks.export(types, tables, branch=branch, at=at)
        async for piece in self.transport.pieces(ask):
            yield piece

    async def changes(
        self, branch: str = DEFAULT_BRANCH, **how: Unpack[FeedKeywords]
    ) -> AsyncIterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first, until now."""
        wanted = asks.filters(
            how.get("types"),
            how.get("kinds"),
            how.get("ops"),
            how.get("images", "after"),
            how.get("columns"),
        )
        bounds = (how.get("max_rows"), how.get("max_bytes"))
        ask = asks.changes(branch, how.get("since"), wanted, *bounds)
        left = b""
        async for piece in self.transport.pieces(ask):
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                yield asks.change_group(line)

    async def load(
        self,
        data: Any,  # noqa: ANN401 - as a local load
        mode: str = "overwrite",
        *,
        branch: str = DEFAULT_BRANCH,
        source: str | None = None,
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Send files or tables and load them; into a new branch if `source` is named."""
        asks.refuse_actor(how.get("actor"))
        asks.refuse_limits(how.get("limits"), "a load")
        with sent(data) as members:
            ask = asks.load(
                lambda: tar_of(members),
                branch=branch,
                source=source,
                mode=str(mode),
                message=how.get("message"),
                on_error=how.get("on_error", "fail"),
                max_errors=how.get("max_errors"),
                idempotency_key=how.get("idempotency_key"),
            )
            return replace(await self.transport.ask(ask), uri=self.uri)

    async def close(self) -> None:
        """Let go of every connection; the server goes on."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _batches(pieces: AsyncIterator[bytes]) -> AsyncIterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream that comes in pieces of any size.

    Arrow pulls its input; so it reads in a thread, which asks the loop for what came.
    """
    body = _Pulled(pieces, asyncio.get_running_loop())
    reader = await asyncio.to_thread(lambda: pa.ipc.open_stream(pa.PythonFile(body, mode="r")))
    while (batch := await asyncio.to_thread(next, reader, None)) is not None:
        yield batch.replace_schema_metadata(None)


class _Pulled(io.RawIOBase):
    """Pieces of a loop as a file for another thread."""

    def __init__(self, pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._pieces, self._loop = pieces, loop
        self._left = b""

    def readable(self) -> bool:
        """Tell Arrow that this is read from."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Fill a buffer as far as there is something."""
        while not self._left:
            piece = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
            if piece is None:
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    async def _next(self) -> bytes | None:
        return await anext(self._pieces, None)


def connect(address: str, token: str | None = None) -> AsyncGraph:
    """Return a graph on a server for an event loop; nothing is sent yet.

    Raises:
        BadRequestError: it is no address of a server.
    """
    return AsyncGraph(AsyncTransport(place_of(address, token)))

"""The sync shell: sends what `asks` says over httpx2, again where `wire` allows it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.base.budget import QueryCancelledError
from omnigraph.client.errors import ServerUnreachableError, closed_error, error_of
from omnigraph.client.wire import Answer, Ask, Place, pause_before

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_CONNECT_S, _READ_S = 10.0, 300.0
_LOOK_S = 0.05


class Transport:
    """Connections to one server, kept between requests. Thread-safe."""

    def __init__(self, place: Place) -> None:
        import httpx2  # only who talks to a server needs it

        self.place = place
        self._client: httpx2.Client | None = httpx2.Client(timeout=_timeout())
        self._failures = (httpx2.TransportError,)
        self._unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

    def close(self) -> None:
        """Let go of every connection; again is fine."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> httpx2.Client:
        if self._client is None:
            raise closed_error()
        return self._client

    def ask(self, ask: Ask[T], cancel: threading.Event | None = None) -> T:
        """Return what a server answers.

        Raises:
            OmniGraphError: what the server says, as a local graph would raise it.
            ServerUnreachableError: nobody answers.
        """
        if cancel is not None:
            return self._cancellable(ask, cancel)
        attempt = 1
        while True:
            try:
                answer = self._send(ask)
            except self._failures as error:
                sent = not isinstance(error, self._unsent)
                pause = pause_before(attempt, ask, None, {}, sent=sent)
                if pause is None:
                    raise unreachable(self.place, error) from error
            else:
                pause = None
                if answer.status >= 400:
                    pause = pause_before(attempt, ask, answer.status, answer.headers, sent=True)
                    if pause is None:
                        raise error_of(answer.status, answer.body, ask.source)
                else:
                    return ask.read(answer)
            time.sleep(pause)
            attempt += 1

    def _send(self, ask: Ask[Any]) -> Answer:
        response = self._open().request(
            ask.method,
            self.place.url(ask),
            content=ask.body if ask.upload is None else ask.upload(),
            headers=self.place.headers(ask),
            timeout=_timeout(endless=ask.is_long),
        )
        return Answer(response.status_code, response.headers, response.content)

    @contextlib.contextmanager
    def open(self, ask: Ask[Any]) -> Iterator[io.RawIOBase]:
        """Give the body of an answer as it comes; the connection is closed with the block.

        Raises:
            OmniGraphError: what the server says.
            ServerUnreachableError: nobody answers, or the answer broke off.
        """
        attempt = 1
        while True:
            with contextlib.ExitStack() as stack:
                try:
                    response = stack.enter_context(self._streamed(ask))
                    if response.status_code < 400:
                        yield _Body(response.iter_bytes(), self.place, self._failures)
                        return
                    body = response.read()
                except self._failures as error:
                    sent = not isinstance(error, self._unsent)
                    pause = pause_before(attempt, ask, None, {}, sent=sent)
                    if pause is None:
                        raise unreachable(self.place, error) from error
                else:
                    status = response.status_code
                    pause = pause_before(attempt, ask, status, response.headers, sent=True)
                    if pause is None:
                        raise error_of(status, body, ask.source)
            time.sleep(pause)
            attempt += 1

    def _streamed(self, ask: Ask[Any]) -> contextlib.AbstractContextManager[httpx2.Response]:
        return self._open().stream(
            ask.method,
            self.place.url(ask),
            content=ask.body,
            headers=self.place.headers(ask),
            timeout=_timeout(endless=True),
        )

    def _cancellable(self, ask: Ask[T], cancel: threading.Event) -> T:
        """Ask in a thread of its own and hang up when the event is set: the server stops, too."""
        found: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                found.append(asyncio.run(_until_cancelled(self.place, ask, cancel)))
            except BaseException as error:  # noqa: BLE001 - raised again by who asked
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]


async def _until_cancelled(place: Place, ask: Ask[T], cancel: threading.Event) -> T:
    from omnigraph.client.aio import AsyncTransport  # the shell that can hang up

    transport = AsyncTransport(place)
    task = asyncio.ensure_future(transport.ask(ask))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_S)
            if cancel.is_set() and not task.done():
                raise QueryCancelledError("the query was cancelled")
        return task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(task, return_exceptions=True)
        await transport.close()


class _Body(io.RawIOBase):
    """The body of an answer as a file that is read from front to back."""

    def __init__(
        self, pieces: Iterator[bytes], place: Place, failures: tuple[type[Exception], ...]
    ) -> None:
        self._pieces, self._place, self._failures = pieces, place, failures
        self._left = b""

    def readable(self) -> bool:
        """Tell readers that this is read from."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Fill a buffer as far as there is something."""
        while not self._left:
            piece = self.next_piece()
            if piece is None:
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def next_piece(self) -> bytes | None:
        """Return what came next, or None at the end.

        Raises:
            ServerUnreachableError: the answer broke off.
        """
        if self._left:
            left, self._left = self._left, b""
            return left
        try:
            return next(self._pieces, None)
        except self._failures as error:
            raise ServerUnreachableError(
                f"the answer of {self._place.base} broke off",
                hint="what came before it is not all there is; ask again",
            ) from error


def unreachable(place: Place, error: Exception) -> ServerUnreachableError:
    """Return the error that nobody answers; an address has no secret in it."""
    why = str(error) or type(error).__name__
    return ServerUnreachableError(
        f"{place.base} does not answer: {why}", hint="is the server running, and the address right?"
    )


def _timeout(*, endless: bool = False) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(_READ_S, connect=_CONNECT_S, read=None if endless else _READ_S)

"""Where work runs: small reads in the event loop, others in threads, writes one after another.

A read belongs to its client: when that leaves, the read is told to stop, and its slot is free once
its thread is through. A write belongs to the graph: it goes on whoever listens.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from omnigraph.base.metrics import METRICS
from omnigraph.server.admission import Slots, WriteAdmission, WriteCaps
from omnigraph.server.http import Exchange, Flow, GoneError, Send
from omnigraph.server.problems import busy

log = logging.getLogger("omnigraph.server")
T = TypeVar("T")

CANCELLED = METRICS.counter(
    "omnigraph_http_cancelled_total", "Reads that were stopped because their client left."
)
_END: Final = object()


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much runs at a time in one worker."""

    read_slots: int
    queue_per_slot: int = 8
    patience_s: float = 2.0
    flows: int = 64
    """Answers in pieces that may be under way; between two pieces they cost no thread."""
    writes: WriteCaps = field(default_factory=WriteCaps)


class Execution:
    """The threads of one worker, and who may use them."""

    def __init__(self, capacity: Capacity) -> None:
        slots = capacity.read_slots
        self.reads = Slots(slots, capacity.queue_per_slot, capacity.patience_s)
        self.writes = WriteAdmission(capacity.writes)
        self._flows_left = capacity.flows
        self._readers = ThreadPoolExecutor(slots, "omnigraph-read")
        self._lookers = ThreadPoolExecutor(2, "omnigraph-look")
        self._pumps = ThreadPoolExecutor(max(2, slots), "omnigraph-flow")
        self._writer = ThreadPoolExecutor(1, "omnigraph-write")
        self._jobs = ThreadPoolExecutor(1, "omnigraph-job")

    async def look(self, work: Callable[[], T]) -> T:
        """Run something short that reads little: a list, a commit, a name."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, work)

    async def read(
        self, exchange: Exchange, actor: str | None, work: Callable[[threading.Event], T]
    ) -> T:
        """Run a read in a slot; it is told to stop when the client leaves.

        Raises:
            GoneError: the client left.
            ProblemError: there is too much to do.
        """
        async with self.reads.slot(actor):
            cancel = threading.Event()
            running = asyncio.get_running_loop().run_in_executor(self._readers, work, cancel)
            return await self._while_wanted(exchange, running, cancel)

    async def _while_wanted(
        self, exchange: Exchange, running: asyncio.Future[T], cancel: threading.Event
    ) -> T:
        gone = exchange.gone()
        try:
            waited: set[asyncio.Future[Any]] = {running, gone}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            CANCELLED.add()
            raise GoneError
        finally:
            if not running.done():
                cancel.set()
                with suppress(Exception):  # nobody is left to be told
                    await asyncio.shield(running)

    async def write(self, actor: str | None, nbytes: int, work: Callable[[], T]) -> T:
        """Run a small write after those before it; it is done even if nobody waits for it.

        Raises:
            ProblemError: too many are under way.
        """
        return await self._write_in(self._writer, actor, nbytes, work)

    async def job(self, actor: str | None, nbytes: int, work: Callable[[], T]) -> T:
        """Run a long write, such as a load, beside the small ones."""
        return await self._write_in(self._jobs, actor, nbytes, work)

    async def _write_in(
        self, pool: ThreadPoolExecutor, actor: str | None, nbytes: int, work: Callable[[], T]
    ) -> T:
        loop = asyncio.get_running_loop()

        async def run() -> T:
            with self.writes.entered(actor, nbytes):
                return await loop.run_in_executor(pool, work)

        task = asyncio.ensure_future(run())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_told_nobody)
            raise

    async def send_flow(self, exchange: Exchange, flow: Flow, send: Send) -> int:
        """Send an answer piece by piece, the next being made meanwhile; return its bytes.

        The first piece is made before anything is sent, so that what is wrong from the beginning
        is an error and not half an answer.

        Raises:
            GoneError: the client left.
        """
        if not self._flows_left:
            raise busy("too many answers are being sent", 1)
        self._flows_left -= 1
        loop, sent, gone = asyncio.get_running_loop(), 0, exchange.gone()
        making: asyncio.Future[object] = loop.run_in_executor(self._pumps, _next, flow.pieces)
        try:
            piece = await _unless_gone(making, gone)
            headers = [(b"content-type", flow.content_type), *flow.headers]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while isinstance(piece, bytes):
                making = loop.run_in_executor(self._pumps, _next, flow.pieces)
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                sent += len(piece)
                piece = await _unless_gone(making, gone)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._flows_left += 1
            if flow.cancel is not None and not making.done():
                flow.cancel.set()
            with suppress(Exception):  # what it would say was said, or nobody hears it
                await asyncio.shield(making)
            await loop.run_in_executor(self._pumps, flow.pieces.close)
        return sent

    async def close(self) -> None:
        """Wait for what is under way."""
        pools = (self._readers, self._lookers, self._pumps, self._writer, self._jobs)
        for pool in pools:
            await asyncio.to_thread(pool.shutdown)


def _next(pieces: Iterator[bytes]) -> object:
    return next(pieces, _END)


async def _unless_gone(making: Awaitable[object], gone: asyncio.Task[None]) -> object:
    future = asyncio.ensure_future(making)
    waited: set[asyncio.Future[Any]] = {future, gone}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if not future.done():
        CANCELLED.add()
        raise GoneError
    return future.result()


def _told_nobody(task: asyncio.Task[T]) -> None:
    error = None if task.cancelled() else task.exception()
    log.info("a write ended after its client left: %s", "done" if error is None else error)

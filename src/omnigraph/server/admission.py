"""How much is let in: slots with a short queue for reads, caps for writes, shares per actor.

Whoever would wait longer than a client does is told at once when to come again. Everything here
runs in the event loop; nothing needs a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.base.metrics import METRICS
from omnigraph.server.problems import busy

REFUSED = METRICS.counter(
    "omnigraph_http_refused_total", "Requests that were told to come again, by why.", "why"
)
WAITED = METRICS.histogram("omnigraph_http_queue_seconds", "Time that reads waited for a slot.")

_LONGEST_WAIT_S: Final = 60
_WEIGHT: Final = 0.1
"""How much the newest duration counts in what is expected of the next."""


class Slots:
    """So many at a time, first come first served, and a queue that ends."""

    def __init__(self, count: int, queue: int, patience_s: float) -> None:
        self.count = count
        self._queue = queue
        self._patience_s = patience_s
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._by_actor: Counter[str] = Counter()
        self._usual_s = 0.1

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    @contextlib.asynccontextmanager
    async def slot(self, actor: str | None) -> AsyncIterator[None]:
        """Hold a slot inside the block.

        Raises:
            ProblemError: the queue is full, the actor has a fair share of it, or it took too long.
        """
        if actor is not None and self._by_actor[actor] >= max(1, (self.count + self._queue) // 2):
            raise self._busy("share", "this actor runs as many reads as are its share")
        if actor is not None:
            self._by_actor[actor] += 1
        try:
            await self._enter()
            started = time.monotonic()
            try:
                yield
            finally:
                self._usual_s += _WEIGHT * (time.monotonic() - started - self._usual_s)
                self._leave()
        finally:
            if actor is not None:
                self._by_actor[actor] -= 1
                if not self._by_actor[actor]:
                    del self._by_actor[actor]

    async def _enter(self) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        if len(self._waiting) >= self._queue * self.count:
            raise self._busy("queue", "too many reads are waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._patience_s):
                await turn
        except TimeoutError:
            if self._stops_waiting(turn):
                raise self._busy("wait", "no read ended in time") from None
        except asyncio.CancelledError:
            if not self._stops_waiting(turn):
                self._leave()
            raise
        finally:
            WAITED.observe(time.monotonic() - started)

    def _stops_waiting(self, turn: asyncio.Future[None]) -> bool:
        """Leave the queue; False if the slot was handed over in the same moment."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        return turn.cancelled() or not turn.done()

    def _leave(self) -> None:
        """Hand the slot on to whoever waits longest, or put it back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled, and has not heard of it yet
                turn.set_result(None)
                return
        self._free += 1

    def _busy(self, why: str, text: str) -> Exception:
        REFUSED.add(1, why)
        ahead = (len(self._waiting) + 1) * self._usual_s / self.count
        return busy(text, max(1, min(_LONGEST_WAIT_S, math.ceil(ahead))))


@dataclass(frozen=True, slots=True)
class WriteCaps:
    """How much may be under way."""

    per_actor: int = 16
    per_process: int = 64
    bytes_per_actor: int = 1 << 30


class WriteAdmission:
    """Counts writes under way; refuses the one too many."""

    def __init__(self, caps: WriteCaps) -> None:
        self._caps = caps
        self._count: Counter[str | None] = Counter()
        self._bytes: Counter[str | None] = Counter()
        self._total = 0
        self._usual_s = 0.05

    @property
    def under_way(self) -> int:
        """How many there are now."""
        return self._total

    @contextlib.contextmanager
    def entered(self, actor: str | None, nbytes: int) -> Iterator[None]:
        """Count as under way inside the block; everybody without a name is one actor.

        Raises:
            ProblemError: there are too many.
        """
        caps = self._caps
        if self._count[actor] >= caps.per_actor:
            raise self._busy("count", f"actor in-flight count cap {caps.per_actor} exceeded")
        if self._bytes[actor] + nbytes > caps.bytes_per_actor:
            raise self._busy("bytes", f"actor byte budget exceeded: {caps.bytes_per_actor}")
        if self._total >= caps.per_process:
            raise self._busy("count", f"the server has {caps.per_process} writes under way")
        self._count[actor] += 1
        self._bytes[actor] += nbytes
        self._total += 1
        started = time.monotonic()
        try:
            yield
        finally:
            self._usual_s += _WEIGHT * (time.monotonic() - started - self._usual_s)
            self._total -= 1
            self._bytes[actor] -= nbytes
            self._count[actor] -= 1
            if not self._count[actor]:
                del self._count[actor], self._bytes[actor]

    def _busy(self, why: str, text: str) -> Exception:
        REFUSED.add(1, why)
        return busy(text, max(1, min(_LONGEST_WAIT_S, math.ceil(self._total * self._usual_s / 2))))

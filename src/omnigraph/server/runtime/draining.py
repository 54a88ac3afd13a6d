"""Stopping a worker well: running requests first, then the runtime, and an end whatever happens.

Granian's own handler takes a lock of its threads while it holds the interpreter; with a request
under way they may be waiting for each other for ever. So it is called when nothing is under way any
more. Should it hang all the same, a watchdog that needs no interpreter ends the process.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import time
from collections.abc import Callable

from omnigraph.server.app import App

_LOOK_S = 0.02
_QUIET_S = 0.1
"""Between the last answer and the end: the runtime is still sending it."""
_SPARE_S = 5


def drain_on_signals(app: App, stop: Callable[[], None], grace_s: int) -> None:
    """On SIGTERM and SIGINT let running requests get through, then stop the runtime."""
    loop = asyncio.get_running_loop()
    drain = _Drain(app, stop, grace_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, drain.begin)


class _Drain:
    """What happens once, however often a signal comes."""

    def __init__(self, app: App, stop: Callable[[], None], grace_s: int) -> None:
        self._app, self._stop, self._grace_s = app, stop, grace_s
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Take no more requests, and stop when those under way are through."""
        if self._task is None and not self._app.stopping:
            self._app.stopping = True
            faulthandler.dump_traceback_later(self._grace_s + _SPARE_S, exit=True)
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        deadline = time.monotonic() + self._grace_s
        while self._app.running and time.monotonic() < deadline:  # noqa: ASYNC110 - it happens once
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(_QUIET_S)
        self._stop()

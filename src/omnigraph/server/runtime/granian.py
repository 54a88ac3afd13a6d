"""Granian, started from our code: its main process never opens the graph, its workers do.

Four of its ways are not ours. On SIGHUP it replaces its workers, whose images would be lost; here
they read tokens and policy again. A worker whose parent was killed would stay; here it ends. And a
worker that cannot start is started again; here the server ends if none ever could. That a
worker died it tells a log that nobody reads; here it stands in ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from granian import _signals
from granian.constants import Interfaces, Loops
from granian.http import HTTP1Settings
from granian.server.mp import MPServer

from omnigraph.server.app import App
from omnigraph.server.logs import log_to_stderr
from omnigraph.server.options import ServeOptions
from omnigraph.server.runtime.sockets import announce

_LOG = logging.getLogger("omnigraph.server")
_HEADERS_MS = 80_000
"""How long headers may take, and how long a connection may be idle: clients keep them for 75 s."""
_HEADER_BYTES = 64 << 10
_CONNECTIONS = 65_536
_PR_SET_PDEATHSIG = 1
_SPARE_S = 10


class Server(MPServer):
    """Granian with our signals."""

    _answered = False

    def signal_handler_reload(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - the library's own
        """Let every worker read tokens and policy again, in place."""
        for worker in list(self.wrks):
            with contextlib.suppress(ProcessLookupError, TypeError):  # it ended, or has not begun
                os.kill(worker.inner.pid, signal.SIGHUP)

    @property
    def respawn_failed_workers(self) -> bool:
        """Whether a worker that ends is replaced: only if one could ever begin."""
        return self._answered

    @respawn_failed_workers.setter
    def respawn_failed_workers(self, _: bool) -> None:
        """The library says it when it starts; this class knows better."""

    def answered(self) -> None:
        """Note that the server answers."""
        self._answered = True

    def _respawn_workers(self, workers: list[int], *rest: Any, **named: Any) -> None:  # noqa: ANN401 - the library's own
        for number in workers:
            _LOG.warning("worker %s ended unasked; another one takes its place", number + 1)
        super()._respawn_workers(workers, *rest, **named)

    def shutdown(self, exit_code: int = 0) -> None:
        """End; if that is because workers die faster than they are replaced, say so."""
        if self._answered and self.interrupt_children and not self.interrupt_signal:
            again = ", ".join(str(number + 1) for number in self.interrupt_children)
            _LOG.error("worker %s ended again within seconds of its start: the server ends", again)
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]


def run(options: ServeOptions) -> None:
    """Serve until told to stop; `options.port` is one that is reserved."""
    # The engine must not begin its life in a fork of a process that has threads.
    multiprocessing.set_start_method("spawn", force=True)
    log_to_stderr()
    server = Server(
        "omnigraph",
        address=options.host,
        port=options.port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,  # a third less of every request than the loop of Python
        workers=options.workers,
        websockets=False,
        backlog=1_024,
        backpressure=_CONNECTIONS,
        http1_settings=HTTP1Settings(
            header_read_timeout=_HEADERS_MS, keep_alive=True, max_buffer_size=_HEADER_BYTES
        ),
        log_enabled=False,
        log_access=False,
        workers_kill_timeout=options.grace_s + _SPARE_S,
    )
    announce(options, server.answered)
    server.serve(target_loader=partial(load_app, options, os.getpid()), wrap_loader=False)


def load_app(options: ServeOptions, parent: int) -> App:
    """Return the application, in a worker that ends with its parent."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it listens to it itself
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before that
            sys.exit(1)
    log_to_stderr()
    # The main process must not load what this loads.
    from omnigraph.server.boot import make_app
    from omnigraph.server.runtime.draining import drain_on_signals

    app, stop = make_app(options), _noted_stop()
    reload_on_hangup = app.on_started

    def started(app: App) -> None:
        if reload_on_hangup is not None:
            reload_on_hangup(app)
        drain_on_signals(app, stop, options.grace_s)

    app.on_started = started
    return app


def _noted_stop() -> Callable[[], None]:
    """Return what will stop this worker; the loop of another library does not tell its handlers."""
    told: list[Any] = []
    listen: Callable[..., Any] = _signals.set_loop_signals

    def listening(loop: asyncio.AbstractEventLoop) -> Any:  # noqa: ANN401 - the library's own
        event = listen(loop)
        told.append(event)
        return event

    _signals.set_loop_signals = listening

    def stop() -> None:
        for event in told:
            event.set()

    return stop

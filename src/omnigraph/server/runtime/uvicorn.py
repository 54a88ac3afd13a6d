"""Uvicorn, in this very process: for where granian does not run. One worker, exit code 0."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import uvicorn

from omnigraph.server.options import ServeOptions
from omnigraph.server.runtime.sockets import announce

_KEEP_ALIVE_S = 75


class Server(uvicorn.Server):
    """Uvicorn that is told to stop, and not killed, by a signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, and end with exit code 0."""
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, self._stop)
        yield

    def _stop(self) -> None:
        self.should_exit = True


def run(options: ServeOptions) -> None:
    """Serve until told to stop.

    Raises:
        SystemExit: it could not start.
    """
    from omnigraph.server.boot import make_app  # loads the engine

    config = uvicorn.Config(
        make_app(options),
        host=options.host,
        port=options.port,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=options.grace_s,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
    )
    server = Server(config)
    announce(options, lambda: None)
    server.run()
    if not server.started:
        raise SystemExit(1)

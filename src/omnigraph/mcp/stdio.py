"""One agent over standard input and output, which belong to the protocol alone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass

from mcp.server.stdio import stdio_server

from omnigraph.mcp.desk import Desk
from omnigraph.mcp.service import Service, Work
from omnigraph.mcp.toolbox import Choice


@dataclass(frozen=True, slots=True)
class _Local:
    """The only caller of this process."""

    desk: Desk

    async def run(self, work: Work, *, writes: bool) -> str:
        """Do the work in a thread; when the call is given up, what reads is told to stop."""
        cancel = threading.Event()
        try:
            return await asyncio.to_thread(work, cancel)
        finally:
            if not writes:
                cancel.set()


def serve_stdio(desk: Desk, choice: Choice) -> None:
    """Answer one client until it closes the input."""
    caller = _Local(desk)
    service = Service(lambda _: caller, choice, read_only=desk.rules.read_only)

    async def serve() -> None:
        async with stdio_server() as (reads, writes):
            server = service.server
            await server.run(reads, writes, server.create_initialization_options())

    with contextlib.suppress(KeyboardInterrupt):  # by whoever started this
        asyncio.run(serve())

"""Many agents over HTTP: one request, one answer, nothing kept between them by the protocol.

Who asks, and from where, was settled before: this is mounted behind the same checks as any route.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from omnigraph.mcp.service import Caller, Context, Service
from omnigraph.mcp.toolbox import Choice

PATH: Final = "/mcp"
_CALLER: Final = "omnigraph.caller"
Message = MutableMapping[str, Any]


@dataclass(slots=True)
class Answered:
    """What is to be sent back."""

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


class Mounted:
    """The protocol of one worker; it begins with the first request."""

    def __init__(self, choice: Choice) -> None:
        service = Service(_caller_of, choice, read_only=False)
        self._manager = StreamableHTTPSessionManager(
            service.server, json_response=True, stateless=True
        )
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._task = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._stop.wait()

    async def close(self) -> None:
        """End what is under way."""
        self._stop.set()
        await self._task

    async def answer(
        self,
        caller: Caller,
        headers: Mapping[bytes, bytes],
        body: bytes,
        gone: Callable[[], Awaitable[object]],
    ) -> Answered:
        """Answer one request whose body was read.

        Args:
            caller: who asks.
            headers: of the request.
            body: of the request.
            gone: waits until the client leaves.
        """
        await self._ready.wait()
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": list(headers.items()),
            _CALLER: caller,
        }
        unread = [body]

        async def receive() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await gone()
            return {"type": "http.disconnect"}

        found = Answered()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                found.status, found.headers = message["status"], list(message.get("headers", ()))
            else:
                found.body += message.get("body", b"")

        await self._manager.handle_request(scope, receive, send)
        return found


def _caller_of(ctx: Context) -> Caller:
    assert ctx.request is not None, "it came over HTTP"
    caller: Caller = ctx.request.scope[_CALLER]
    return caller

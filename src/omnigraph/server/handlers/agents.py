"""`/mcp`: the tools for agents, under the same tokens, limits and slots as every other route."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import ConflictError, ErrorKind
from omnigraph.server.call import Call
from omnigraph.server.http import JSON_LIMIT, Header, Reply
from omnigraph.server.problems import ProblemError

if TYPE_CHECKING:
    from omnigraph.mcp.desk import Desk

_OURS = frozenset({b"content-type", b"content-length", b"connection"})


class BusyError(ConflictError):
    """There is too much to do right now."""


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who asks over HTTP; work is done where that of other requests is."""

    call: Call
    desk: Desk

    async def run(self, work: Callable[[threading.Event], str], *, writes: bool) -> str:
        """Do the work in a slot for reads, or after the writes before it."""
        call = self.call
        try:
            if writes:
                return await call.write(lambda: work(threading.Event()))
            return await call.execution.read(call.exchange, call.actor, work)
        except ProblemError as problem:
            raise BusyError(problem.error, hint=problem.hint) from None


async def answer(call: Call) -> Reply:
    """Answer one request of the Model Context Protocol."""
    tools = call.served.agents
    if tools is None:
        raise ProblemError(404, "there is no route '/mcp'", kind=ErrorKind.NOT_FOUND)
    call.size = len(body := await call.exchange.body(JSON_LIMIT))
    mounted = await tools.mounted()
    served, session = call.served, call.exchange.request_id
    desk = await call.look(lambda: tools.desk(served, call.actor, session))

    async def gone() -> None:
        await asyncio.wait({call.exchange.gone()})  # which others wait for, too

    found = await mounted.answer(_Caller(call, desk), call.exchange.headers, body, gone)
    headers = dict(found.headers)
    more: tuple[Header, ...] = tuple(
        (name, one) for name, one in headers.items() if name not in _OURS
    )
    content = headers.get(b"content-type", b"application/json")
    return Reply(found.body, content, status=found.status, headers=more)

"""About the server itself: is it there, what does it count, what can it do."""

from __future__ import annotations

from typing import Any

from omnigraph.base.metrics import METRICS
from omnigraph.base.version import VERSION
from omnigraph.server.call import Call
from omnigraph.server.http import Reply
from omnigraph.server.page import PAGE, POLICY


async def health(call: Call) -> dict[str, Any]:
    """Say that the server answers; asks nothing of the graph."""
    del call
    return {"status": "ok", "version": VERSION}


async def metrics(call: Call) -> Reply:
    """Return what this worker counted, as Prometheus reads it."""
    del call
    return Reply(METRICS.text().encode(), b"text/plain; version=0.0.4; charset=utf-8")


async def openapi(call: Call) -> Reply:
    """Return the document of the 0.3 contract."""
    return Reply(call.served.document("contract", not call.served.rules.is_open))


async def openapi_full(call: Call) -> Reply:
    """Return the document of every route."""
    return Reply(call.served.document("full", not call.served.rules.is_open))


async def page(call: Call) -> Reply:
    """Return a page that shows every route and sends requests; it needs no other host."""
    del call
    guarded = (
        (b"content-security-policy", POLICY.encode()),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
    )
    return Reply(PAGE.encode(), b"text/html; charset=utf-8", headers=guarded)

"""The official client of the protocol, asked from tests without a loop of their own."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.streamable_http import streamable_http_client

from mcp import Client, StdioServerParameters


@dataclass(frozen=True)
class Asked:
    """A client that is connected."""

    portal: BlockingPortal
    client: Client

    def call(self, name: str, /, **given: Any):
        return self.portal.call(self.client.call_tool, name, given)

    def text(self, name: str, /, **given: Any) -> str:
        """Return what a tool says; it has to work."""
        found = self.call(name, **given)
        assert not found.is_error, found.content[0].text
        assert len(found.content) == 1
        assert found.structured_content is None
        return found.content[0].text

    def told(self, name: str, /, **given: Any) -> dict[str, Any]:
        """Return what a tool says as JSON."""
        return json.loads(self.text(name, **given))

    def refused(self, name: str, /, **given: Any) -> str:
        """Return why a tool does not work."""
        found = self.call(name, **given)
        assert found.is_error, found.content[0].text
        return found.content[0].text

    def tools(self) -> dict[str, Any]:
        return {one.name: one for one in self.portal.call(self.client.list_tools).tools}

    def resource(self, uri: str) -> str:
        return self.portal.call(self.client.read_resource, uri).contents[0].text


@contextlib.contextmanager
def asking(target: Any) -> Iterator[Asked]:
    """Connect to a server in this process, one to be started, or one at an address."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(target)) as client,
    ):
        yield Asked(portal, client)


@contextlib.contextmanager
def asking_http(address: str, token: str | None = None) -> Iterator[Asked]:
    """Connect to `/mcp` of a server."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}

    @contextlib.asynccontextmanager
    async def connected():
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{address}/mcp", http_client=http)
            async with Client(transport) as client:
                yield client

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(connected()) as client,
    ):
        yield Asked(portal, client)


def process(folder: Path, *arguments: str, **env: str) -> StdioServerParameters:
    """Return how `omnigraph mcp` is started in a folder."""
    kept = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 - for a child process
        if not name.startswith(("OMNIGRAPH_ACTOR", "OMNIGRAPH_BEARER"))
    }
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "omnigraph", "mcp", *arguments],
        cwd=folder,
        env=kept | env,
    )

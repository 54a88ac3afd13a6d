"""What a lookup through a tool costs beside a tool that does nothing, over both transports.

Run with `python -m bench.mcp`. Rounds of both take turns, so that neither has the machine for
itself; the aim is a lookup for three empty calls at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import omnigraph
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parent.parent
ROUNDS, CALLS = 6, 40
LOOKUP = "query one($h: String) { match { $p: Person { handle: $h } } return { $p.name } }"
STORED = LOOKUP.replace("query one", "query person")
NOTHING = """
import sys
from mcp.server import MCPServer
server = MCPServer("nothing", log_level="ERROR")
@server.tool(structured_output=False)
def nothing(text: str) -> str: return text
how = {"port": int(sys.argv[1]), "stateless_http": True, "json_response": True}
server.run("streamable-http", **how) if int(sys.argv[1]) else server.run("stdio")
"""
Call = tuple[str, dict[str, Any]]
EMPTY: Call = ("nothing", {"text": "x"})
READ: Call = ("read", {"query": LOOKUP, "params": {"h": "mira"}})
BY_NAME: Call = ("q_person", {"h": "mira"})


async def timed(client: Client, call: Call) -> float:
    """Return the median milliseconds of some calls."""
    taken = []
    for _ in range(CALLS):
        started = time.perf_counter()
        found = await client.call_tool(*call)
        taken.append((time.perf_counter() - started) * 1e3)
        assert not found.is_error, found.content
    return statistics.median(taken)


async def compare(label: str, nothing: Client, ours: Client) -> None:
    """Print what lookups cost, in empty calls."""
    await timed(ours, READ)  # the first ones load the tables
    await timed(ours, BY_NAME)
    rounds = [
        (await timed(nothing, EMPTY), await timed(ours, READ), await timed(ours, BY_NAME))
        for _ in range(ROUNDS)
    ]
    empty, read, stored = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{label:<6} empty {empty:6.2f} ms   read {read:6.2f} ms ({read / empty:4.2f} x)", end="")
    print(f"   stored query {stored:6.2f} ms ({stored / empty:4.2f} x)")


@contextlib.asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a Python process and stop it."""
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=folder, stdout=pipe, stderr=nowhere
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """Run the real server and give its address."""
    start = "from omnigraph.cli.app import serve; serve()"
    async with running(folder, "-c", start, "company.omni", "--bind", "127.0.0.1:0") as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        yield "http://" + line.strip().partition("=")[2]


@contextlib.asynccontextmanager
async def nothing_served(folder: Path) -> AsyncIterator[str]:
    """Run a server whose only tool does nothing and give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with running(folder, str(folder / "nothing.py"), str(port)):
        for _ in range(200):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"


async def run(folder: Path) -> None:
    """Compare both transports."""
    how: dict[str, Any] = {"command": sys.executable, "cwd": folder}
    how["env"] = dict(os.environ)  # noqa: TID251 - for child processes
    mine = ["-m", "omnigraph", "mcp", "company.omni", "--actor", "bench"]
    async with (
        Client(StdioServerParameters(args=["nothing.py", "0"], **how)) as nothing,
        Client(StdioServerParameters(args=mine, **how)) as ours,
    ):
        await compare("stdio", nothing, ours)
    async with (
        nothing_served(folder) as there,
        served(folder) as here,
        Client(f"{there}/mcp") as nothing,
        Client(f"{here}/mcp") as ours,
    ):
        await compare("HTTP", nothing, ours)


def main() -> None:
    """Lay out the company and measure."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with omnigraph.init(folder / "company.omni", ROOT / "examples" / "company.pg") as graph:
            graph.load(ROOT / "examples" / "company.jsonl")
        (folder / "stored.gq").write_text(STORED)
        (folder / "omnigraph.yaml").write_text("queries: {files: [stored.gq]}\n")
        (folder / "nothing.py").write_text(NOTHING)
        asyncio.run(run(folder))


if __name__ == "__main__":
    main()

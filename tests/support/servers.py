"""Servers for tests: processes for signals and sockets, threads of this one for the rest."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from omnigraph.server.app import App
from omnigraph.server.boot import served_by
from omnigraph.server.browsers import browsers_for
from omnigraph.server.options import ServeOptions

PATIENCE_S = 120
START = "from omnigraph.cli.app import serve; serve()"
DROPPED = ("OMNIGRAPH_SERVER", "OMNIGRAPH_BEARER", "OMNIGRAPH_ACTOR")


@dataclass
class ServerProcess:
    """One server as its own process; `notes` is where it writes what it notes."""

    process: subprocess.Popen[str]
    notes: Path
    address: str = ""
    said: list[str] = field(default_factory=list)

    def hear_address(self) -> str:
        """Wait until it says where it listens."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("OMNIGRAPH_LISTEN_ADDR="):
                self.address = "http://" + line.strip().partition("=")[2]
                return self.address
        raise AssertionError(f"it never listened:\n{self.notes.read_text()}")

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def workers(self) -> list[int]:
        """Return the processes that do the work."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                words = (folder / "cmdline").read_text()
            except OSError:  # it ended meanwhile
                continue
            if int(parent) == self.process.pid and state != "Z" and "resource_tracker" not in words:
                found.append(int(folder.name))
        return found

    def kill_all(self) -> None:
        """End every process of it at once, without a word."""
        for pid in (*self.workers(), self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a server, without what this machine may have set."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}  # noqa: TID251 - for a child process
    return found | {"PYTHONUNBUFFERED": "1", **more}


@contextlib.contextmanager
def server_process(folder: Path, *arguments: str, **env: str) -> Iterator[ServerProcess]:
    """Run a server in a folder; it is gone at the end of the block."""
    notes = folder / f"notes.{len(list(folder.glob('notes.*')))}"
    with notes.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", START, *arguments],
            cwd=folder,
            env=environment(**env),
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    found = ServerProcess(process, notes)
    try:
        yield found
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def server_thread(uri: str, **options: object) -> Iterator[str]:
    """Serve a graph from a thread of this process and give the address."""
    given = ServeOptions(uri=uri, port=0, **options)  # type: ignore[arg-type]

    async def boot():
        return served_by(given)

    app = App(boot, browsers_for(given))
    config = uvicorn.Config(app, port=0, lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listening = threading.Event()

    class Started(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets)
            listening.set()

    server = Started(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not listening.wait(0.01):
            assert thread.is_alive(), "it could not start; its log says why"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)

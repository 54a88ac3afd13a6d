"""Child processes that run one task and can be killed, frozen and resumed.

Children are forked from a template process that has only *imported* the kernel: no dataset was
ever opened in it, so there is no thread pool to lose, and a child starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import omnigraph.storage.store  # noqa: F401 - imported once, in the template
from omnigraph.base import failpoints

# The template is forked before Lance has started anything.
warnings.filterwarnings("ignore", message="lance is not fork-safe")

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.children", "tests.support.operations", "pytest"])
_PATIENCE_S = 120.0

Say = Callable[[Any], None]
Task = Callable[..., None]


@dataclass(slots=True)
class Child:
    """One running task; `said` is what it told us, also if it was killed afterwards."""

    process: Any
    connection: Connection
    said: list[Any] = field(default_factory=list)
    error: tuple[str, str] | None = None
    """Type and text of the exception that ended the task."""

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def was_killed(self) -> bool:
        return bool(self.process.exitcode == -signal.SIGKILL)

    def wait(self, timeout_s: float = _PATIENCE_S) -> Child:
        """Wait for the end; a task that does not end is killed and fails the test."""
        deadline = time.monotonic() + timeout_s
        while self.process.is_alive() and time.monotonic() < deadline:
            self._listen(0.05)
            self.process.join(0.002)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            raise AssertionError(f"a child did not end in {timeout_s} s; it said {self.said}")
        self._listen(0)
        return self

    def succeed(self, timeout_s: float = _PATIENCE_S) -> Child:
        """Wait for the end, which must be a good one."""
        self.wait(timeout_s)
        assert self.error is None, self.error
        assert self.process.exitcode == 0, self.process.exitcode
        return self

    def wait_for(self, word: Any, timeout_s: float = _PATIENCE_S) -> None:
        """Wait until the child says `word`."""
        deadline = time.monotonic() + timeout_s
        while word not in self.said and time.monotonic() < deadline and self.process.is_alive():
            self._listen(0.01)
        self._listen(0)
        assert word in self.said, (self.said, self.error, self.process.exitcode)

    def wait_frozen(self, timeout_s: float = _PATIENCE_S) -> bool:
        """Wait until the child has stopped itself; False if it ended instead."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = _state(self.pid)
            if state == "T":
                return True
            if state in ("", "Z"):
                return False
            self._listen(0.002)
        raise AssertionError("a child neither froze nor ended")

    def run_on(self) -> None:
        """Resume the child, as often as it stops itself again, until it ends."""
        while self.wait_frozen():
            os.kill(self.pid, signal.SIGCONT)

    def wake_up(self) -> None:
        """Resume the child once."""
        os.kill(self.pid, signal.SIGCONT)

    def hear(self) -> list[Any]:
        """Return what it said until now."""
        self._listen(0.01)
        return self.said

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def _listen(self, timeout_s: float) -> None:
        with contextlib.suppress(EOFError, ConnectionResetError):
            while self.connection.poll(timeout_s):
                kind, value = self.connection.recv()
                if kind == "said":
                    self.said.append(value)
                else:
                    self.error = value
                timeout_s = 0


@contextlib.contextmanager
def children() -> Iterator[Callable[..., Child]]:
    """Yield a function that starts tasks; whatever still runs at the end is killed."""
    started: list[Child] = []

    def start(task: Task, *arguments: Any, points: str = "") -> Child:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_main, args=(theirs, task, arguments, points))
        process.start()
        theirs.close()
        child = Child(process, ours)
        started.append(child)
        return child

    try:
        yield start
    finally:
        for child in started:
            if child.process.is_alive():
                child.kill()
            child.connection.close()


def _main(connection: Connection, task: Task, arguments: tuple[Any, ...], points: str) -> None:
    failpoints.enable(points)

    def say(word: Any) -> None:
        connection.send(("said", word))

    try:
        task(say, *arguments)
    except BaseException as error:  # noqa: BLE001 - reported to the parent, which judges it
        connection.send(("error", (type(error).__name__, str(error))))
    connection.close()


def _state(pid: int) -> str:
    """Return the kernel's one-letter state of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it goes between open and read
        return ""

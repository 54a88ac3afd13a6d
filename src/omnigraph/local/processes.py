"""Programs that outlive the command that started them.

A pid alone may be somebody else's by now, so a program is known by its pid and when it began.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.api.wire import Shape
from omnigraph.errors import StorageError

_SHOWN = 2_000
"""Characters of a log that an error shows."""


class LocalStackError(StorageError):
    """A program of the local stack did not start, or does not answer."""


@dataclass(frozen=True, slots=True)
class Program(Shape):
    """A running program."""

    pid: int
    began: str
    """When it began, as the system tells it; another program of that pid began at another time."""

    @property
    def is_running(self) -> bool:
        """Whether this very program runs."""
        return _began(self.pid) == self.began

    def stop(self, wait_s: float) -> bool:
        """Ask the program to end, and end it if it does not; return whether it was running."""
        if not self.is_running:
            return False
        for number, patience in ((signal.SIGTERM, wait_s), (signal.SIGKILL, 10.0)):
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return True
            if waited_for(lambda: not self.is_running, patience):
                return True
        raise LocalStackError(f"process {self.pid} does not end")


def start(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Program:
    """Start a program that goes on when this one ends; what it prints goes to a file.

    It gets a session of its own: Ctrl-C at the command that started it is not meant for it.

    Raises:
        LocalStackError: it cannot be started.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        pid = os.posix_spawn(command[0], [*command], environment, file_actions=files, setsid=True)
    except OSError as error:
        raise LocalStackError(f"cannot start {command[0]}: {error.strerror}") from error
    return Program(pid, _began(pid) or "")


def waited_for(found: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; return whether it came to be in time."""
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True


def end_of(log: Path) -> str:
    """Return the last lines of a log, for an error."""
    try:
        return log.read_text(errors="replace")[-_SHOWN:].strip()
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Return when the program of a pid began; None if none runs, or it only waits to be buried."""
    with contextlib.suppress(ChildProcessError):  # one that is no child is not ours to bury
        os.waitpid(pid, os.WNOHANG)
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        state, began = fields[0], fields[19]
        return None if state in "ZX" else began
    asked = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None

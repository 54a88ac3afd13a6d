import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).parent / "omnigraph")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def omnigraph(tmp_path):
    """Run the installed command in a pipe, in a temporary folder."""

    def run(*arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            env=clean_environment() | (env or {}),
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def terminal(tmp_path):
    """Run the installed command on a pseudo-terminal; both streams arrive together."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> Ran:
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=tmp_path,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=clean_environment() | {"TERM": "xterm-256color"} | (env or {}),
        )
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 65_536)
            except OSError:  # the other end closed: the process is done
                break
            if not piece:
                break
            shown += piece
        os.close(leader)
        return Ran(process.wait(timeout=60), shown.decode().replace("\r\n", "\n"), "")

    return run


def clean_environment() -> dict[str, str]:
    dropped = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    return {name: value for name, value in os.environ.items() if name not in dropped}  # noqa: TID251 - for a child process

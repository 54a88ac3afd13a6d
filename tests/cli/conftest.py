import os
import pty
import re
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.cli.app import run as run_command

COMMAND = str(Path(sys.executable).parent / "omnigraph")

CURSOR_REQUEST = b"\x1b[6n"

SCHEMA = """\
node Person {
  name: String @key
  age: I32?
  bio: String?
}

edge Knows: Person -> Person {
  since: Date
}
"""
QUERIES = """\
query adults($min: I32) {
  match {
    $p: Person
    $p.age >= $min
  }
  return { $p.age, $p.name }
  order { $p.age desc }
}

query person($name: String) {
  match {
    $p: Person { name: $name }
  }
  return { $p.name, $p.age, $p.bio }
}

query add($name: String, $age: I32?, $bio: String?) {
  insert Person { name: $name, age: $age, bio: $bio }
}

query meet($a: String, $b: String, $on: Date) {
  insert Knows { from: $a, to: $b, since: $on }
}
"""
CONFIG = """\
graphs:
  local:
    uri: people.omni
cli:
  graph: local
storage:
  durability: os
"""
ROWS = (
    ("Ann", 41, 'likes "tea", and\nrain'),
    ("Bob", 17, None),
    ("Cé", 30, "x"),
)


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
            timeout=120,
            check=False,
            env=clean_environment() | (env or {}),
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def terminal(tmp_path):
    """Run the installed command on a pseudo-terminal; both streams arrive together.

    `typed` are pairs: a pattern to wait for, and what is typed once it was shown.
    """

    def run(
        *arguments: str,
        env: dict[str, str] | None = None,
        typed: tuple[tuple[str, str], ...] = (),
    ) -> Ran:
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
        shown, unseen, waiting = b"", b"", list(typed)
        while piece := _read(leader, process):
            shown += piece
            unseen += piece
            if CURSOR_REQUEST in piece:  # a terminal tells where its cursor is when asked
                os.write(leader, b"\x1b[1;1R")
            if waiting and re.search(waiting[0][0].encode(), unseen, re.DOTALL):
                unseen = b""
                os.write(leader, waiting.pop(0)[1].encode())
        os.close(leader)
        return Ran(process.wait(timeout=120), shown.decode().replace("\r\n", "\n"), "")

    return run


def _read(leader: int, process: subprocess.Popen[bytes]) -> bytes:
    """Return what a terminal is shown next; nothing when the process is done."""
    ready, _, _ = select.select([leader], [], [], 120)
    if not ready:
        process.kill()
        raise TimeoutError("the command is silent for two minutes")
    try:
        return os.read(leader, 65_536)
    except OSError:  # the other end closed
        return b""


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a temporary folder: as the installed one, but at once."""
    monkeypatch.chdir(tmp_path)
    for name in (*DROPPED, "OMNIGRAPH_ACTOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = run_command(arguments)
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return run


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A graph of three people that tests copy instead of building their own."""
    import omnigraph
    from tests.support.fast import FAST

    folder = tmp_path_factory.mktemp("template")
    write_files(folder)
    with omnigraph.init(str(folder / "people.omni"), SCHEMA, options=FAST) as graph:
        for name, age, bio in ROWS:
            graph.mutate(
                QUERIES, "add", {"name": name, "age": age, "bio": bio}, actor=f"act-{name}"
            )
        graph.mutate(QUERIES, "meet", {"a": "Ann", "b": "Bob", "on": "2020-02-29"})
    return folder


@pytest.fixture
def people(template, tmp_path):
    """A folder with schema, queries, settings and a graph of three people."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


def write_files(folder: Path) -> None:
    (folder / "people.pg").write_text(SCHEMA)
    (folder / "people.gq").write_text(QUERIES)
    (folder / "omnigraph.yaml").write_text(CONFIG)


DROPPED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in DROPPED}  # noqa: TID251 - for a child process

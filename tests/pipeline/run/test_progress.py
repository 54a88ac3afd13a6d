"""What long jobs show: a bar on a terminal, lines elsewhere, nothing when quiet."""

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

from omnigraph.cli import progress
from tests.pipeline.conftest import jsonl, node


def test_quiet_jobs_show_nothing():
    with progress.shown_progress(quiet=True) as shown:
        assert shown is None


def test_short_jobs_are_silent_and_long_ones_write_lines(capsys, monkeypatch):
    for every, expected in ((60.0, ""), (0.0, "read: 1 of 2 parts, 3.0 MiB, 1,000 rows")):
        monkeypatch.setattr(progress, "_LINE_EVERY_S", every)
        with progress.shown_progress(quiet=False) as shown:
            shown.stage("read", 2)
            shown.done(1_000, 7, 3 << 20)
        written = capsys.readouterr().err
        assert written.startswith(expected)
        assert ("7 bad" in written) == bool(expected)


def test_a_terminal_gets_a_bar_that_is_gone_afterwards(tmp_path):
    command = str(Path(sys.executable).parent / "omnigraph")
    (tmp_path / "p.pg").write_text("node P {\n  name: String @key\n}\n")
    (tmp_path / "x.jsonl").write_bytes(jsonl(node("P", name="x")))
    subprocess.run([command, "init", "--schema", "p.pg", "g.omni"], cwd=tmp_path, check=True)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [command, "load", "g.omni", "--data", "x.jsonl"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=follower,
        env={"TERM": "xterm", "HOME": str(tmp_path)},
    )
    os.close(follower)
    shown = read_to_the_end(leader)  # while it runs: a terminal that nobody reads is soon full
    os.close(leader)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "read" in shown
    assert said.startswith(b"loaded g.omni on branch main")
    assert "\x1b[2K" in shown.rpartition("commit")[2]


def read_to_the_end(terminal):
    """Everything a terminal is shown until nobody writes to it any more."""
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while piece := os.read(terminal, 1 << 16):
            shown += piece
    return shown.decode()

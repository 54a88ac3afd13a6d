"""Temporary folders: gone with their process, or with the next one if that was killed."""

from __future__ import annotations

import signal
import tempfile

import pytest

from omnigraph.pipeline.run.own_folder import OwnFolder, remove_abandoned
from tests.support.children import children

PREFIX = "omnigraph-test-"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def hold_a_folder(say, place):
    """Make a folder and wait to be killed."""
    tempfile.tempdir = place
    folder = OwnFolder(PREFIX)
    (folder.path / "log").write_text("x")
    say(f"made {folder.path}")
    say("ready")
    signal.pause()


def test_a_folder_goes_when_it_is_removed(temporary):
    folder = OwnFolder(PREFIX)
    assert folder.path.is_dir()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_the_next_start_removes_the_folder_of_a_killed_process_and_of_no_living_one(temporary):
    with children() as start:
        living, killed = (start(hold_a_folder, str(temporary)) for _ in range(2))
        for child in (living, killed):
            child.wait_for("ready")
        killed.kill()
        own = OwnFolder(PREFIX)
        left = {f"made {one}" for one in temporary.glob(f"{PREFIX}*")}
        assert left == {living.said[0], f"made {own.path}"}
        assert remove_abandoned(PREFIX) == []
        own.remove()


def test_a_folder_that_nobody_marked_stays(temporary):
    (temporary / f"{PREFIX}other").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(temporary)
    (temporary / "alive").write_bytes(b"")
    assert remove_abandoned(PREFIX) == []
    assert (temporary / f"{PREFIX}other").is_dir()

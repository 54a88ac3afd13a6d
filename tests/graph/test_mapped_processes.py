"""Several processes and one folder of derived files: at once, and killed at the worst moment."""

import errno
import subprocess
import sys

import pytest

import omnigraph
from omnigraph.engine.image import mapped, shelf_upkeep
from omnigraph.engine.image.shelf_upkeep import faults_in, kept_in
from omnigraph.storage.options import Retention, StorageOptions
from tests.support import shelves
from tests.support.fast import FAST
from tests.support.shelves import COUNT, LOOKUP, TWO, opened, settle, small, ways

TIDY = StorageOptions(
    durability="os",
    maintenance="manual",
    retention=Retention(floor_s=0, newest_versions=1, manifest_versions=1),
)

pytestmark = pytest.mark.slow

CHILD = """
import os, signal, sys
import omnigraph
from omnigraph.engine.image import mapped, shelf
from omnigraph.graph import GraphOptions
shelf.LEAST_ROWS = 100
place, cache, dies_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
made, create = [], mapped._created
def counted(path):
    made.append(path)
    if len(made) == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return create(path)
mapped._created = counted
print("ready", flush=True)
sys.stdin.readline()
with omnigraph.connect(place, options=GraphOptions(cache=cache)) as graph:
    graph.build_cache()
print(len(made))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    small(monkeypatch)
    shelves.make(tmp_path / "g")
    return tmp_path / "g"


def child(place, cache, dies_at=0):
    begun = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(place), str(cache), str(dies_at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert begun.stdout.readline() == "ready\n"
    return begun


def ended(begun):
    begun.stdin.write("\n")
    begun.stdin.flush()
    return begun


def ask(graph):
    return [graph.query(COUNT).to_dicts(), graph.query(TWO, params={"k": "p7"}).to_dicts()]


def expected(place):
    with omnigraph.connect(place, options=FAST) as graph:
        return ask(graph)


def check(place, cache):
    """Everything is whole, and what is mapped answers like the graph."""
    with opened(place, cache) as graph, ways() as told:
        assert ask(graph) == expected(place)
        settle()
    assert "mapped" in told
    assert [fault for one in kept_in(cache) for fault in faults_in(one)] == []


def test_processes_that_write_the_same_files_at_once_leave_whole_ones(place, tmp_path):
    running = [child(place, tmp_path / "cache") for _ in range(2)]
    for one in running:
        ended(one)
    told = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0, 0], told
    assert sum(int(out) for out, _ in told) > 0
    check(place, tmp_path / "cache")


@pytest.mark.parametrize("dies_at", [2, 3])  # before a note, and before the next file
def test_a_writer_that_is_killed_leaves_nothing_that_is_used(place, tmp_path, monkeypatch, dies_at):
    cache = tmp_path / "cache"
    killed = ended(child(place, cache, dies_at))
    killed.communicate(timeout=120)
    assert killed.returncode == -9
    with opened(place, cache) as graph:
        assert ask(graph) == expected(place)
        settle()
        graph.build_cache()
    # What it left is swept once no writer can be at work on it any more.
    monkeypatch.setattr(shelf_upkeep, "_AT_WORK_S", -1.0)
    shelf_upkeep.sweep(cache)
    notes = [one for one in cache.rglob("*.json") if one.name != shelf_upkeep.ABOUT]
    assert {one.name for one in cache.rglob("*.data")} == {mapped._file_of(one) for one in notes}
    check(place, cache)


def test_a_base_that_is_taken_away_while_it_is_written_keeps_no_other_from_being(
    place, tmp_path, monkeypatch, caplog
):
    created, taken = mapped._created, []

    def purged_first(path):
        if not taken:
            taken.append(path.parent)
            shelf_upkeep.remove_tree(path.parent)  # a cleanup, or `cache purge`, of another process
        return created(path)

    monkeypatch.setattr(mapped, "_created", purged_first)
    with opened(place, tmp_path / "cache") as graph:
        graph.build_cache()
        assert len(kept_in(tmp_path / "cache")) == 1
        assert "not written" not in caplog.text
        graph.build_cache()
    check(place, tmp_path / "cache")
    assert len(kept_in(tmp_path / "cache")) == 2


def test_what_is_built_behind_a_query_is_begun_anew_after_a_cleanup(place, tmp_path, caplog):
    with opened(place, tmp_path / "cache") as reader, opened(place, None, storage=TIDY) as writer:
        for _ in range(2):
            reader.query(COUNT)  # looks at ids alone
            settle()
        for number in range(4):
            writer.mutate(f'query q() {{ update P set {{ n: {number} }} where k = "p1" }}')
        writer.optimize()
        writer.cleanup(keep=1, older_than="0s", preview=False)
        for _ in range(3):
            found = reader.query(LOOKUP, params={"k": "p7"}).to_dicts()
            assert found == [{"n": 7, "t": "t0"}]
            settle()
    assert "in the background failed" not in caplog.text


def test_a_full_disk_is_told_once_until_there_is_room_again(place, tmp_path, monkeypatch, caplog):
    is_full, created = [True], mapped._created

    def refused(path):
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return created(path)

    monkeypatch.setattr(mapped, "_created", refused)
    with opened(place, tmp_path / "cache") as graph:
        for told in (1, 1):
            graph.build_cache()
            assert caplog.text.count("not written") == told
        is_full.clear()
        graph.build_cache()
        assert len(kept_in(tmp_path / "cache")) == 2
    check(place, tmp_path / "cache")

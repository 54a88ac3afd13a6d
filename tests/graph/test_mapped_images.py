"""Images that were made before, by whichever process, are mapped; answers are the graph's."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.budget import checkpoint
from omnigraph.engine.image import mapped, shelf, table
from omnigraph.engine.image.folders import CacheFolderError
from omnigraph.engine.image.shelf_upkeep import ABOUT, kept_in
from omnigraph.engine.read import images
from omnigraph.engine.topology import csr
from omnigraph.errors import BudgetExceededError, StorageError
from omnigraph.storage.tables.handle import Tables as Kept
from omnigraph.storage.tables.scan import Reader
from tests.support import shelves
from tests.support.fast import FAST
from tests.support.shelves import COUNT, GROUPS, LOOKUP, ROWS, TWO, opened, settle, small, ways


@pytest.fixture
def place(tmp_path, monkeypatch):
    small(monkeypatch)
    shelves.make(tmp_path / "g")
    return tmp_path / "g"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def warm(place, folder):
    """A folder in which everything is that the queries here need."""
    with opened(place, folder) as graph:
        for _ in range(3):
            ask(graph)
            settle()
    return folder


def ask(graph):
    one = {"k": "p7"}
    return [
        graph.query(COUNT).to_dicts(),
        graph.query(TWO, params=one).to_dicts(),
        graph.query(LOOKUP, params=one).to_dicts(),
        graph.query(GROUPS).to_dicts(),
    ]


def plainly(place):
    with omnigraph.connect(place, options=FAST) as graph:
        return ask(graph)


@pytest.fixture
def work(monkeypatch):
    """Scans of columns, lookups and adjacencies that had to be made."""
    done, scan, build, walk = [], Reader.scan, table.build_ids, csr.build_csr
    monkeypatch.setattr(
        Reader, "scan", lambda self, *a, **b: done.append(f"scan {a}") or scan(self, *a, **b)
    )
    monkeypatch.setattr(table, "build_ids", lambda ids: done.append("ids") or build(ids))
    monkeypatch.setattr(images, "build_csr", lambda *a: done.append("csr") or walk(*a))
    return done


def test_a_process_that_finds_everything_reads_and_builds_nothing(place, warm, work):
    expected = plainly(place)
    work.clear()
    with opened(place, warm) as graph, ways() as told:
        assert ask(graph) == expected
    assert work == []
    assert set(told) == {"mapped"}


def test_ends_of_edges_are_not_kept_as_text(warm):
    assert len(kept_in(warm)) == 2
    said = [
        json.loads(note.read_bytes())["said"] for note in warm.rglob("*.json") if note.name != ABOUT
    ]
    assert {one.get("column") for one in said} & {"src", "dst"} == set()
    assert any("parallel" in one for one in said)


@pytest.mark.parametrize("deletes", [False, True])
def test_the_newest_base_below_the_head_is_brought_up_to_it(place, warm, work, deletes):
    with omnigraph.connect(place, options=FAST) as other:
        other.mutate('query a() { insert P { k: "new", n: 1 } insert E { from: "p7", to: "new" } }')
        other.mutate('query u() { update P set { n: 77 } where k = "p8" }')
        if deletes:
            other.mutate('query d() { delete P where k = "p9" }')
    expected = plainly(place)
    work.clear()
    with opened(place, warm) as graph, ways() as told:
        assert ask(graph) == expected
    assert set(told) == {"refreshed"}
    assert "csr" not in work
    # Only a deleted edge has to be looked for, and nobody did that before.
    assert work.count("ids") == deletes


@pytest.mark.parametrize("asked_first", [COUNT, GROUPS])
def test_what_queries_build_is_there_for_the_next_process(place, folder, asked_first):
    with opened(place, folder) as graph:
        expected = graph.query(asked_first).to_dicts()
    with opened(place, folder) as graph, ways() as told:
        assert graph.query(asked_first).to_dicts() == expected
    assert "mapped" in told


def test_optimize_keeps_what_walks_need(place, folder, work):
    with opened(place, folder) as graph:
        graph.optimize()
    work.clear()
    with opened(place, folder) as graph:
        graph.query(COUNT)
    assert work == []


def test_mapped_files_count_as_no_memory(place, warm):
    with opened(place, warm) as graph:
        ask(graph)
        held = graph._state.reader.cache.nbytes
    with opened(place, None) as graph:
        for _ in range(3):
            ask(graph)
        assert held < graph._state.reader.cache.nbytes / 4


# Hazards


def test_a_graph_made_anew_at_its_place_finds_nothing_of_the_old_one(place, warm, tmp_path):
    shutil.rmtree(place)
    shelves.make(place)
    with omnigraph.connect(place, options=FAST) as other:
        other.mutate('query u() { update P set { n: 5 } where k = "p8" }')
    with opened(place, warm) as graph, ways() as told:
        assert ask(graph) == plainly(place)
    assert "mapped" not in told


def test_a_graph_put_back_to_a_backup_goes_on_as_another(place, folder, tmp_path):
    shutil.copytree(place, tmp_path / "backup")

    def change(n):
        with omnigraph.connect(place, options=FAST) as other:
            other.load(
                {"P": pa.table({"k": [f"q{at}" for at in range(ROWS)], "n": [n] * ROWS})},
                mode="merge",
                engine="inline",
            )

    change(1)
    with opened(place, folder) as graph:
        for _ in range(3):
            before = ask(graph)
            settle()
        graph.optimize()
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "backup", place)
    change(2)
    with opened(place, folder) as graph:
        for _ in range(3):
            assert graph.query(LOOKUP, params={"k": "q1"}).to_dicts() == [{"n": 2, "t": None}]
            assert ask(graph) == plainly(place) == before
            settle()


def test_a_copy_made_by_hand_does_not_use_the_files_of_the_original(place, warm, tmp_path):
    shutil.copytree(place, tmp_path / "copy")
    with opened(tmp_path / "copy", warm) as graph, ways() as told:
        assert ask(graph) == plainly(place)
    assert "mapped" not in told


@pytest.mark.parametrize("harm", ["truncate", "flip"])
def test_damaged_files_are_made_anew(place, warm, harm, monkeypatch):
    monkeypatch.setattr(mapped, "_boot", lambda: "another")
    for path in warm.rglob("*.data"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.unlink()
        path.write_bytes(content if harm == "flip" else content[:-1])
    expected = plainly(place)
    with opened(place, warm) as graph:
        for _ in range(3):
            assert ask(graph) == expected
            settle()
    with opened(place, warm) as graph, ways() as told:
        assert ask(graph) == expected
    assert set(told) == {"mapped"}


def test_erased_rows_do_not_live_on_after_a_cleanup(place, warm):
    def words():
        return b"".join(path.read_bytes() for path in sorted(warm.rglob("*.data")))

    assert b"p1234" in words()
    with opened(place, warm) as graph:
        graph.mutate('query d() { delete P where k = "p1234" }')
        graph.optimize()
        graph.cleanup(keep=1, preview=False)
        with omnigraph.connect(place, options=FAST) as plain:
            versions = {one.version for one in kept_in(warm)}
            assert ask(graph) == ask(plain)
    assert versions, "the newest state may stay"


def test_a_deleted_branch_takes_its_files_along(place, folder):
    with opened(place, folder) as graph:
        graph.branches.create("side")
        side = graph.branch("side")
        side.load(
            {"P": pa.table({"k": [f"s{at}" for at in range(ROWS)]})}, mode="merge", engine="inline"
        )
        for _ in range(3):
            side.query(COUNT), side.query(GROUPS)
            settle()
        side.optimize()
        assert {one.about["branch"] for one in kept_in(folder)} - {None}
        graph.branches.delete("side")
        assert {one.about["branch"] for one in kept_in(folder)} <= {None}


def test_a_full_disk_changes_no_answer(place, folder, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped.os, "fsync", full)
    with opened(place, folder) as graph:
        for _ in range(3):
            assert ask(graph) == plainly(place)
            settle()
    assert "No space left" in caplog.text
    assert list(folder.rglob("*.data")) == []


@pytest.mark.parametrize("call", ["utime", "rename", "unlink", "touch"])
def test_a_disk_that_refuses_everything_changes_no_answer(place, warm, monkeypatch, call):
    def refuses(*_, **__):
        raise OSError(30, "Read-only file system")

    with omnigraph.connect(place, options=FAST) as other:
        other.mutate('query u() { update P set { n: 5 } where k = "p8" }')
    for path in warm.rglob("ids.*.data"):
        path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(mapped, "_boot", lambda: "another")
    monkeypatch.setattr(*((shelf.os, call) if call == "utime" else (Path, call)), refuses)
    with opened(place, warm) as graph:
        for _ in range(2):
            assert ask(graph) == plainly(place)
            settle()
        if call == "rename":
            monkeypatch.setattr(Kept, "version_exists", lambda *_: False)
            with pytest.raises(StorageError, match="derived files have not"):
                graph.cleanup(keep=1, preview=False)


def test_the_size_is_held_by_letting_go_of_what_was_not_used_for_longest(place, warm):
    total = sum(one.bytes for one in kept_in(warm))
    with opened(place, warm, cache_bytes=total // 2) as graph:
        graph.query(LOOKUP, params={"k": "p1"})
        graph.mutate('query a() { insert P { k: "new" } }')
        graph._state.reader.cache.store()
        assert sum(one.bytes for one in kept_in(warm)) <= total // 2
        assert ask(graph) == plainly(place)


def test_a_folder_that_was_named_and_cannot_be_used_is_an_error(place, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CacheFolderError, match="others may enter"):
        omnigraph.connect(place, options=omnigraph.GraphOptions(cache=tmp_path / "open"))


def test_a_home_that_cannot_be_written_to_is_gone_without(place, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("OMNIGRAPH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with omnigraph.connect(place, options=FAST) as graph:
        for _ in range(3):
            assert ask(graph) == plainly(place)
            settle()


def test_nothing_is_kept_where_it_is_switched_off(place, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with omnigraph.connect(place, options=FAST) as graph:
        for _ in range(3):
            ask(graph)
            settle()
    assert not (tmp_path / "home").exists()


def test_without_a_word_files_are_below_the_home(place, tmp_path, monkeypatch):
    monkeypatch.delenv("OMNIGRAPH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with omnigraph.connect(place, options=FAST) as graph:
        for _ in range(3):
            ask(graph)
            settle()
    assert kept_in(Path(tmp_path / "home" / "omnigraph" / "derived"))


# No stall


def test_a_query_that_can_be_answered_does_not_wait_for_a_build(place, monkeypatch):

    gate, begun, walk = threading.Event(), threading.Event(), images.build_csr

    def slow(*ends):
        begun.set()
        assert gate.wait(60)
        return walk(*ends)

    monkeypatch.setattr(images, "build_csr", slow)
    with opened(place, None) as graph:
        first = graph.query(TWO, params={"k": "p7"}).to_dicts()
        for at in range(5):  # the build is held up all the while
            assert graph.query(TWO, params={"k": "p7"}).to_dicts() == first
            if at:
                assert begun.wait(60)
        gate.set()
        settle()
        assert graph.query(TWO, params={"k": "p7"}).to_dicts() == first


def test_after_the_build_nothing_is_read_any_more(place, work):
    with opened(place, None) as graph:
        for _ in range(2):
            graph.query(TWO, params={"k": "p7"})
        settle()
        work.clear()
        graph.query(TWO, params={"k": "p8"})
        assert work == []


def test_a_group_by_waits_for_what_it_needs_alone(place, work):
    with opened(place, None) as graph:
        graph.query(GROUPS)
    assert "csr" not in work


def test_columns_that_were_renamed_added_and_dropped_are_seen_under_the_new_schema(place, warm):
    renamed = """node P { k: String @key  m: I64? @rename_from("n")  u: String? }\nedge E: P -> P"""
    with opened(place, None) as other:
        other.apply_schema(renamed, allow_data_loss=True)
    text = "query q($k: String) { match { $a: P { k: $k } } return { $a.m as m, $a.u as u } }"
    with opened(place, warm) as graph, ways() as told:
        for _ in range(3):
            assert graph.query(text, params={"k": "p7"}).to_dicts() == [{"m": 7, "u": None}]
            assert graph.query(COUNT).to_dicts() == [{"n": ROWS}]
            settle()
    assert "read" not in told


CHILD = """
import resource, sys
import omnigraph
from omnigraph.engine.image import shelf
from omnigraph.graph import GraphOptions
import omnigraph.engine.read.reader, omnigraph.compiler.query.parser, lance
shelf.LEAST_ROWS = 100
place, cache, text = sys.argv[1:]
def held():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1_024
with omnigraph.connect(place, read_only=True, options=GraphOptions(cache=cache or None)) as graph:
    graph.query("query q() { match { $a: P { k: \\"none\\" } } return { $a.k as k } }")
    before = held()
    found = [graph.query(text).to_dicts() for _ in range(3)][-1]
    print(held() - before, found)
"""
NEIGHBOURS = 'query q() { match { $a: P { k: "p7" } $a e $b } return { count($b) as n } }'


def test_a_process_that_maps_holds_none_of_the_tables_itself(place, tmp_path):
    rows = 400_000
    with omnigraph.init(tmp_path / "large", shelves.SCHEMA, options=FAST) as graph:
        names = pa.array([f"p{at:012d}" for at in range(rows)])
        names = pa.concat_arrays([pa.array(["p7"]), names])
        ends = {"from": names, "to": pa.concat_arrays([names[1:], names[:1]])}
        graph.load({"P": pa.table({"k": names}), "E": pa.table(ends)}, engine="inline")
    with opened(tmp_path / "large", tmp_path / "cache") as graph:
        graph.build_cache()
        settle()
    size = sum(one.bytes for one in kept_in(tmp_path / "cache"))
    told = []
    for cache in (str(tmp_path / "cache"), ""):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path / "large"), cache, NEIGHBOURS],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        grew, _, answer = done.stdout.partition(" ")
        told.append((int(grew), answer))
    (mapped_bytes, mine), (_, theirs) = told
    assert mine == theirs
    assert mapped_bytes < size / 4, "the files were copied into the memory of the process"


def test_a_build_that_fails_is_told_once_and_leaves_the_query_to_do_it(place, monkeypatch, caplog):
    failing, walk = [True], images.build_csr

    def broken(*ends):
        if failing:
            raise MemoryError("too much")
        return walk(*ends)

    monkeypatch.setattr(images, "build_csr", broken)
    with opened(place, None) as graph:
        expected = plainly_two(place)
        for _ in range(2):
            assert graph.query(TWO, params={"k": "p7"}).to_dicts() == expected
            settle()
        assert caplog.text.count("work in the background failed") == 1
        with pytest.raises(BudgetExceededError, match="too much"):
            graph.query(TWO, params={"k": "p7"})  # now it makes what it needs itself
        failing.clear()
        assert graph.query(TWO, params={"k": "p7"}).to_dicts() == expected


def plainly_two(place):
    with omnigraph.connect(place, options=FAST) as graph:
        return graph.query(TWO, params={"k": "p7"}).to_dicts()


def test_closing_a_graph_stops_what_is_built_for_it(place, monkeypatch):
    begun, walk = threading.Event(), images.build_csr

    def endless(*ends):
        begun.set()
        while True:
            checkpoint("reading edges")
        return walk(*ends)

    monkeypatch.setattr(images, "build_csr", endless)
    with omnigraph.connect(place, options=FAST) as graph:
        for _ in range(2):
            graph.query(TWO, params={"k": "p7"})
        assert begun.wait(60)
    settle()

"""A branch of an indexed table: compaction must not lose the index it has from its parent."""

import shutil
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph.api.upkeep import IndexStatus
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions
from omnigraph.storage.store import open_store
from omnigraph.storage.tables import compact, tiers
from omnigraph.storage.tables.index import IndexSpec, list_indexes
from omnigraph.storage.tables.predicate import equals
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, B, check_verified, write

INDEX = IndexSpec("id", "BTREE", "id_btree")


@pytest.fixture
def indexed(store):
    """A branch whose table has several small files of its own and an index of main's."""
    for number in range(6):
        write(store, {A: {f"m{number}": number}})
    assert store.build_index(A, INDEX)
    store.branches.create("side")
    for number in range(6):
        write(store, {A: {f"s{number}": number, "m0": 100 + number}}, "side")
    return store


def as_an_older_program(monkeypatch):
    """Compact without looking at whose an index is."""
    for module in (compact, tiers):
        monkeypatch.setattr(module, "fragments_of_inherited_indexes", lambda _: frozenset())


@pytest.fixture
def broken(indexed, monkeypatch):
    """The branch as an older program left it."""
    with monkeypatch.context() as older:
        as_an_older_program(older)
        assert any(step.committed for step in indexed.optimize("side"))
    with open_store(indexed.kernel.root.path, options=QUIET) as store:
        yield store


def values(store, branch="side"):
    """Every row, found by its key."""
    reader = store.snapshot(branch).open(A)
    found = {}
    for number in range(6):
        for name in (f"m{number}", f"s{number}"):
            found |= dict(
                zip(*reader.scan(["id", "v"], equals("id", name)).to_pydict().values(), strict=True)
            )
            assert reader.count(equals("id", name)) == (name in found)
    return found


EXPECTED = {"m0": 105} | {f"m{n}": n for n in range(1, 6)} | {f"s{n}": n for n in range(6)}


def test_compaction_on_a_branch_merges_its_own_files_and_keeps_the_index(indexed):
    files = indexed.snapshot("side").handle(A).fragment_count
    assert any(step.committed for step in indexed.optimize("side"))
    assert indexed.snapshot("side").handle(A).fragment_count < files
    assert [index.name for index in list_indexes(indexed.snapshot("side").handle(A))] == [
        "id_btree"
    ]
    assert values(indexed) == EXPECTED
    write(indexed, {A: {"m1": 7}}, "side")
    assert values(indexed) == EXPECTED | {"m1": 7}
    check_verified(indexed)


def test_a_branch_with_an_index_of_its_own_is_compacted_whole(indexed):
    assert indexed.build_index(A, INDEX, "side")
    indexed.optimize("side")
    assert indexed.snapshot("side").handle(A).fragment_count == 1
    assert values(indexed) == EXPECTED
    check_verified(indexed)


def test_upkeep_does_not_try_again_and_again_what_must_stay(indexed):
    indexed.maintain("side")
    before = indexed.snapshot("side").commit_id
    indexed.maintain("side")
    assert indexed.snapshot("side").commit_id == before


def test_verify_tells_of_a_lost_index_and_reads_go_on_without_it(broken, caplog):
    found = [finding for finding in broken.verify() if not finding.harmless]
    assert [(finding.kind, finding.subject) for finding in found] == [
        ("unreadable_index", f"{A} on 'side'")
    ]
    with open_store(broken.kernel.root.path, read_only=True, options=QUIET) as reader:
        assert values(reader) == EXPECTED
    assert "without indexes" in caplog.text


def test_the_first_write_takes_a_lost_index_out(broken):
    write(broken, {A: {"m1": 7}}, "side")
    assert values(broken) == EXPECTED | {"m1": 7}
    assert list_indexes(broken.snapshot("side").handle(A)) == []
    check_verified(broken)


def test_a_lost_index_can_be_built_again(broken):
    broken.mend("side")
    assert broken.build_index(A, INDEX, "side")
    assert values(broken) == EXPECTED
    check_verified(broken)


SCHEMA = "node P { k: String @key\n v: I64 @index }\nedge Knows: P -> P"
INSERT = (
    "query i($k: String, $v: I64) { insert P { k: $k, v: $v } insert Knows { from: $k, to: $k } }"
)
UPDATE = "query u($k: String, $v: I64) { update P set { v: $v } where k = $k }"
BY_KEY = "query q($k: String) { match { $p: P { k: $k } } return { $p.v } }"
PIECE = b'{"type":"P","data":{"k":"loaded","v":1}}'


@pytest.mark.parametrize("older", [False, True], ids=["from now on", "left by an older program"])
def test_a_branch_of_an_indexed_graph_can_be_used_for_long(older, tmp_path, monkeypatch):
    options = GraphOptions(StorageOptions(durability="os", compact_fragments=4), embedder=None)
    with omnigraph.init(tmp_path / "g", SCHEMA, options=options) as graph:
        for number in range(12):
            graph.mutate(INSERT, params={"k": f"k{number}", "v": number})
        graph.ensure_indices()
        graph.branches.create("dev")
        for number in range(9):
            graph.mutate(UPDATE, params={"k": f"k{number}", "v": 100 + number}, branch="dev")
        with monkeypatch.context() as patch:
            if older:
                as_an_older_program(patch)
            graph.optimize("dev")
    with omnigraph.connect(tmp_path / "g", options=options) as graph:
        by_key = graph.query(BY_KEY, params={"k": "k3"}, branch="dev").to_tuples()
        assert by_key == [(103,)]
        graph.load(PIECE, "append", branch="dev", engine="inline")
        for number in range(20, 40):
            graph.mutate(INSERT, params={"k": f"k{number}", "v": number}, branch="dev")
        graph.ensure_indices("dev")
        graph.optimize("dev")
        graph.mutate(UPDATE, params={"k": "k3", "v": 5}, branch="dev")
        for key, value in {"k3": 5, "k4": 104, "k10": 10, "k39": 39, "loaded": 1}.items():
            assert graph.query(BY_KEY, params={"k": key}, branch="dev").to_tuples() == [(value,)]
        assert [finding for finding in graph.verify() if not finding.harmless] == []


def test_the_first_write_to_a_branch_opens_only_the_tables_it_writes(store):
    store.branches.create("side")
    write(store, {A: {"a": 1}, B: {"b": 1}}, "side")
    with open_store(store.kernel.root.path, options=QUIET) as again:
        write(again, {A: {"a": 2}}, "side")
        others = again.snapshot("side").table(B)
        assert not again.kernel.tables.is_open(*others.place)


@pytest.mark.parametrize("how", ["another tool compacts the branch", "the files are gone"])
def test_ensure_indices_takes_out_what_is_lost_and_builds_it_again(how, tmp_path):
    options = GraphOptions(storage=QUIET)
    branch = "side" if "branch" in how else "main"
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=options) as graph:
        for number in range(6):
            graph.mutate(INSERT, params={"k": f"m{number}", "v": number})
        graph.ensure_indices()
        if branch == "side":
            graph.branches.create("side")
        for number in range(3):
            graph.mutate(INSERT, params={"k": f"s{number}", "v": number}, branch=branch)
        table = graph.store.snapshot(branch).handle("node:P").dataset
        if branch == "side":
            lance.dataset(table.uri).optimize.compact_files(target_rows_per_fragment=1_000)
        else:
            shutil.rmtree(Path(table.uri) / "_indices")
    with omnigraph.connect(tmp_path / "g.omni", options=options) as graph:
        if branch == "main":
            told = [one for one in graph.indices() if one.table_key == "node:P"]
            assert {one.status for one in told} == {IndexStatus.LOST}
            assert all(one.reason and one.unindexed_rows == one.rows for one in told)
        for _ in range(2):
            graph.ensure_indices(branch)
            check_verified(graph.store)
        assert IndexStatus.LOST not in {one.status for one in graph.indices(branch)}
        assert "v_btree" in {
            index.name for index in list_indexes(graph.store.snapshot(branch).handle("node:P"))
        }
        for name in ("m5", "s0"):
            assert len(graph.query(BY_KEY, params={"k": name}, branch=branch)) == 1

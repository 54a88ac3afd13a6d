"""A handle that was open while old versions were removed reads the newest as ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

import omnigraph
from omnigraph.engine.image import shelf
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import Retention, StorageOptions
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy

SCHEMA = """node P { k: String @key
 v: I64
 w: String? }
edge Knows: P -> P"""
INSERT = "query i($k: String, $v: I64) { insert P { k: $k, v: $v, w: $k } }"
DELETE = "query d($k: String) { delete P where k = $k }"
KEYS = "query q() { match { $p: P } return { $p.k } }"
VALUES = "query q() { match { $p: P } return { $p.v, $p.w } }"
OPTIONS = GraphOptions(
    StorageOptions(
        durability="os",
        retention=Retention(floor_s=0, newest_versions=1, manifest_versions=1),
        maintenance="manual",
    ),
    embedder=None,
)
PIECE = b'{"type":"P","data":{"k":"%d","v":%d,"w":"%d"}}'


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=OPTIONS) as made:
        for number in range(5):
            made.mutate(INSERT, params={"k": f"k{number}", "v": number})
        yield made


@pytest.fixture
def reader(graph, tmp_path):
    with omnigraph.connect(tmp_path / "g", read_only=True, options=OPTIONS) as opened:
        for _ in range(2):  # the second time the table is kept
            assert len(opened.query(KEYS)) == 5
        yield opened


def go_on(graph, how):
    for number in range(4):
        match how:
            case "inserts":
                graph.mutate(INSERT, params={"k": f"n{number}", "v": number})
            case "deletes":
                graph.mutate(DELETE, params={"k": f"k{number}"})
            case "overwrites":
                lines = b"\n".join(PIECE % (key, number, key) for key in range(3))
                graph.load(lines, "overwrite", engine="inline")


def clean(graph):
    removed = graph.store.cleanup(CleanupPolicy(keep_versions=1, older_than_s=0))
    assert any(table.versions_removed for table in removed)


def everything(graph, query):
    return sorted(graph.query(query).to_tuples())


@pytest.mark.parametrize("query", [KEYS, VALUES], ids=["known columns", "other columns"])
@pytest.mark.parametrize("how", ["inserts", "deletes", "overwrites"])
def test_a_reader_that_slept_through_a_cleanup_reads_the_head(how, query, graph, reader, tmp_path):
    go_on(graph, how)
    clean(graph)
    with omnigraph.connect(tmp_path / "g", read_only=True, options=OPTIONS) as fresh:
        assert everything(reader, query) == everything(fresh, query)
        assert everything(graph, query) == everything(fresh, query)


def test_columns_of_a_refreshed_table_can_be_read_when_its_first_version_is_gone(graph, reader):
    go_on(graph, "inserts")
    assert len(reader.query(KEYS)) == 9
    graph.optimize()
    assert len(reader.query(KEYS)) == 9
    clean(graph)
    streamed = [row for batch in reader.stream(VALUES) for row in batch.to_pylist()]
    assert len(streamed) == len(reader.query(VALUES)) == 9


def test_a_look_at_the_past_does_not_keep_the_head_from_being_read(graph, reader):
    old = graph.commits.list(all=True, reverse=True)[3]
    go_on(graph, "inserts")
    for _ in range(2):
        reader.query(KEYS, at=old.graph_commit_id)
    clean(graph)
    assert len(reader.query(VALUES)) == 9


@pytest.mark.parametrize("operation", ["revert", "cherry_pick"])
def test_a_commit_whose_rows_were_cleaned_up_can_neither_be_undone_nor_repeated(graph, operation):
    graph.branches.create("side")
    old = graph.mutate(INSERT, params={"k": "k0", "v": 8}).commit_id
    go_on(graph, "inserts")
    graph.store.cleanup(CleanupPolicy(keep_versions=1))
    with pytest.raises(SnapshotExpiredError, match="cleaned up"):
        getattr(graph, operation)(old, branch="side")


LINK = "query l($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
WALK = "query w() { match { $p: P $p knows $q } return { $p.k, $q.k as other } }"


@pytest.fixture
def other(graph, tmp_path, monkeypatch):
    """A handle that mapped edges of a version that is gone, and never looked at their ids."""
    monkeypatch.setattr(shelf, "LEAST_ROWS", 1)
    options = replace(OPTIONS, cache=tmp_path / "cache")
    for one, another in ["01", "02"]:
        graph.mutate(LINK, params={"a": f"k{one}", "b": f"k{another}"})
    with omnigraph.connect(tmp_path / "g", options=options) as first:
        first.build_cache()
    with omnigraph.connect(tmp_path / "g", options=options) as opened:
        for _ in range(2):
            assert len(opened.query(WALK)) == 2
        graph.mutate(LINK, params={"a": "k3", "b": "k2"})
        assert len(opened.query(WALK)) == 3
        clean(opened)
        yield opened


def test_a_write_that_counts_is_not_told_as_failed_when_images_cannot_follow(graph, other):
    before = graph.snapshot().commit_id
    done = other.mutate('query q() { delete Knows where from = "k0" }')
    assert done.commit_id == graph.snapshot().commit_id != before
    assert everything(other, WALK) == everything(graph, WALK) == [("k3", "k2")]


@pytest.mark.parametrize("write", ["build_cache", "optimize"])
def test_files_for_others_are_built_although_images_began_as_a_version_that_is_gone(
    graph, other, tmp_path, write
):
    for folder in (tmp_path / "cache").glob("*/*/*/csr-*"):
        shelf.remove_tree(folder)
    getattr(other, write)()
    assert everything(other, WALK) == everything(graph, WALK)

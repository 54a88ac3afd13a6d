"""Indexes are built when asked for, and never change an answer."""

from dataclasses import replace

import pytest

import omnigraph
from omnigraph.api.upkeep import IndexStatus
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.engine import maintain
from omnigraph.engine.maintain import wanted_indexes
from omnigraph.errors import StorageError
from omnigraph.graph.options import GraphOptions
from omnigraph.pipeline.load import job
from omnigraph.storage.tables.index import MOST_SEGMENTS
from tests.support.fast import FAST

SCHEMA = """node Doc {
  slug: String @key
  title: String @index
  email: String? @unique
  kind: enum(a, b) @index
  at: DateTime? @index
  size: I64 @index
  tags: [String]?
  file: Blob?
  vector: Vector(2)? @index

  label: String?
  @index(kind, size, label)
}

edge Cites: Doc -> Doc {
  page: I32? @index

  @unique(src, dst)
}
"""


def test_what_the_schema_declares_or_implies_is_wanted_once():
    found = [
        (key, spec.column, spec.kind)
        for key, spec in wanted_indexes(load_schema(Source(SCHEMA)).catalog)
    ]
    assert sorted(found) == sorted(
        [
            ("node:Doc", "id", "BTREE"),
            ("node:Doc", "slug", "BTREE"),
            ("node:Doc", "slug", "INVERTED"),
            ("node:Doc", "email", "BTREE"),
            ("node:Doc", "title", "BTREE"),
            ("node:Doc", "title", "INVERTED"),
            ("node:Doc", "kind", "BTREE"),
            ("node:Doc", "label", "BTREE"),
            ("node:Doc", "at", "BTREE"),
            ("node:Doc", "size", "BTREE"),
            ("node:Doc", "vector", "IVF_FLAT"),
            ("edge:Cites", "id", "BTREE"),
            ("edge:Cites", "src", "BTREE"),
            ("edge:Cites", "dst", "BTREE"),
            ("edge:Cites", "page", "BTREE"),
        ]
    )


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as opened:
        yield opened


def add(graph, slug, title):
    graph.mutate(
        "query m($s: String, $t: String) "
        '{ insert Doc { slug: $s, title: $t, kind: "a", size: 1 } }',
        params={"s": slug, "t": title},
    )


def status(reports):
    return {(one.table_key, one.column, one.kind): one.status for one in reports}


QUERIES = [
    'query q() { match { $d: Doc { slug: "d1" } } return { $d.slug } }',
    'query q() { match { $d: Doc  search($d.title, "graphs") } return { $d.slug } }',
    'query q() { match { $d: Doc } return { $d.slug, bm25($d.title, "graph") as score } '
    'order { bm25($d.title, "graph") } limit 5 }',
    "query q() { match { $d: Doc  $d.size >= 1 } return { $d.slug } }",
]


def answers(graph):
    return [graph.query(text).to_dicts() for text in QUERIES]


def test_building_is_idempotent_and_changes_no_answer(graph):
    assert set(status(graph.ensure_indices()).values()) == {IndexStatus.PENDING}
    add(graph, "d1", "Graphs of everything")
    add(graph, "d2", "A graph, a tree")
    before = answers(graph)
    first = status(graph.ensure_indices())
    assert first["node:Doc", "id", "BTREE"] is IndexStatus.BUILT
    assert first["node:Doc", "title", "INVERTED"] is IndexStatus.BUILT
    assert first["node:Doc", "vector", "IVF_FLAT"] is IndexStatus.PENDING
    assert first["edge:Cites", "src", "BTREE"] is IndexStatus.PENDING
    assert answers(graph) == before
    again = graph.ensure_indices()
    assert {one.status for one in again} == {IndexStatus.CURRENT, IndexStatus.PENDING}
    assert all(one.reason for one in again if one.status is IndexStatus.PENDING)


def test_rows_written_after_the_build_are_found_and_folded_in_later(graph):
    add(graph, "d1", "Graphs of everything")
    graph.ensure_indices()
    add(graph, "d2", "More graphs")
    partial = answers(graph)
    assert [row["d.slug"] for row in partial[1]] == ["d1", "d2"]
    behind = {(one.column, one.kind): one for one in graph.indices()}
    title = behind["title", "INVERTED"]
    assert (title.status, title.rows, title.unindexed_rows) == (IndexStatus.PARTIAL, 2, 1)
    assert behind["vector", "IVF_FLAT"].status is IndexStatus.PENDING
    (_, docs) = graph.optimize(preview=True)
    assert "title" in docs.pending_indexes
    assert "vector" not in docs.pending_indexes, "nothing could be built"
    found = status(graph.ensure_indices())
    assert found["node:Doc", "title", "INVERTED"] is IndexStatus.REFRESHED
    assert answers(graph) == partial
    assert status(graph.ensure_indices())["node:Doc", "title", "INVERTED"] is IndexStatus.CURRENT


def test_index_builds_are_not_logical_changes(graph):
    add(graph, "d1", "x")
    before = graph.snapshot().logical_commit_id
    graph.ensure_indices()
    assert graph.snapshot().logical_commit_id == before
    graph.mutate('query m() { update Doc set { size: 2 } where slug = "d1" }', if_head=before)
    assert [found for found in graph.verify() if not found.harmless] == []


def test_a_branch_leaves_the_files_it_shares_alone_and_says_so(graph):
    add(graph, "d1", "Graphs of everything")
    graph.branches.create("side")
    told = {one.column: one for one in graph.indices("side")}
    assert told["title"].status is IndexStatus.PENDING
    assert "the rows are those of main" in told["title"].reason
    found = {one.column: one for one in graph.ensure_indices(branch="side")}
    assert found["title"].status is IndexStatus.PENDING
    assert "the rows are those of main" in found["title"].reason
    graph.mutate('query m() { update Doc set { size: 2 } where slug = "d1" }', branch="side")
    again = status(graph.ensure_indices(branch="side"))
    assert again["node:Doc", "title", "INVERTED"] is IndexStatus.BUILT
    assert status(graph.ensure_indices())["node:Doc", "title", "INVERTED"] is IndexStatus.BUILT


def test_a_reader_follows_a_table_that_is_indexed_and_compacted(graph):
    for at in range(3):
        add(graph, f"d{at}", "Graphs of everything")
    graph.ensure_indices()
    before = [answers(graph), answers(graph)][1]
    graph.store.optimize()
    assert answers(graph) == before
    add(graph, "d9", "A last graph")
    assert len(answers(graph)[1]) == 4


def people(count, start=0):
    return {
        "Doc": [
            {"slug": f"p{at}", "title": f"Graphs number {at}", "kind": "ab"[at % 2], "size": at}
            for at in range(start, start + count)
        ]
    }


def state_of(graph, column, kind="BTREE"):
    return next(one for one in graph.indices() if (one.column, one.kind) == (column, kind))


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A graph whose upkeep takes a few rows for many."""
    monkeypatch.setattr(maintain, "WORTH_ROWS", 40)
    monkeypatch.setattr(job, "WORTH_ROWS", 40)
    options = GraphOptions(storage=replace(FAST.storage, maintenance="auto"), embedder=None)
    with omnigraph.init(str(tmp_path / "w.omni"), SCHEMA, options=options) as opened:
        yield opened


def test_a_large_load_leaves_indexes_that_nobody_asked_for(watched):
    watched.load(people(50), "append")
    watched.store.wait_for_upkeep(60)
    assert state_of(watched, "id").status is IndexStatus.CURRENT
    assert state_of(watched, "title", "INVERTED").status is IndexStatus.CURRENT
    assert state_of(watched, "src").status is IndexStatus.PENDING  # no edges yet


def test_a_small_load_leaves_none(watched):
    watched.load(people(30), "append")
    watched.store.wait_for_upkeep(60)
    assert state_of(watched, "id").status is IndexStatus.MISSING


def test_what_writers_add_is_folded_in_behind_them_by_its_rows_alone(watched):
    watched.load(people(200), "append")
    watched.store.wait_for_upkeep(60)
    whole = segments_of(watched, "id")
    watched.load(people(45, start=1000), "append")
    watched.store.wait_for_upkeep(60)
    assert state_of(watched, "id").unindexed_rows == 0
    assert segments_of(watched, "id") > whole, "the first segment was left as it is"
    text = state_of(watched, "title", "INVERTED")
    assert text.unindexed_rows == 45, "a text index is built whole, once enough is missing"
    watched.load(people(45, start=2000), "append")
    watched.store.wait_for_upkeep(60)
    assert state_of(watched, "title", "INVERTED").unindexed_rows == 0


def segments_of(graph, column):
    dataset = graph.store.snapshot().handle("node:Doc").dataset
    return next(
        {part.uuid for part in one.segments}
        for one in dataset.describe_indices()
        if one.name == f"{column}_btree"
    )


def test_an_index_of_too_many_segments_is_built_anew(watched):
    watched.load(people(50), "append")
    watched.store.wait_for_upkeep(60)
    counts = []
    for at in range(1, 12):
        watched.load(people(41, start=1000 * at), "append")
        watched.store.wait_for_upkeep(60)
        counts.append(len(segments_of(watched, "id")))
    assert max(counts) <= MOST_SEGMENTS + 2
    assert counts[-1] < max(counts)
    assert state_of(watched, "id").unindexed_rows == 0


def test_an_index_of_which_much_is_dead_is_built_anew(watched):
    watched.load(people(100), "append")
    watched.store.wait_for_upkeep(60)
    before = segments_of(watched, "id")
    watched.mutate("query m() { delete Doc where size >= 60 }")
    watched.store.maintain()
    after = segments_of(watched, "id")
    assert len(after) == 1
    assert after != before


def test_indexes_that_cannot_be_built_are_in_nobodys_way(watched, monkeypatch):
    def failing(*_, **__):
        raise StorageError("the disk is full")

    monkeypatch.setattr(type(watched.store), "build_index", failing)
    watched.load(people(50), "append")
    watched.store.wait_for_upkeep(60)
    monkeypatch.undo()
    assert len(watched.query(QUERIES[3])) == 49
    assert state_of(watched, "id").status is IndexStatus.MISSING


def test_a_large_table_is_sorted_step_by_step(graph, monkeypatch):
    monkeypatch.setattr(maintain, "WORTH_ROWS", 40)
    monkeypatch.setattr(maintain, "STEP_ROWS", 25)
    for at in range(5):
        graph.load(people(20, start=100 * at), "append")
    asked = iter([False] * 3 + [True] * 99)
    maintain.reconcile_indexes(graph.store, graph.catalog, "main", stopped=lambda: next(asked))
    assert state_of(graph, "id").unindexed_rows == 40, "three steps of a fragment each"
    maintain.reconcile_indexes(graph.store, graph.catalog, "main")
    assert state_of(graph, "id").unindexed_rows == 0
    assert len(segments_of(graph, "id")) == 5
    found = graph.query('query q() { match { $d: Doc { slug: "p317" } } return { $d.size } }')
    assert found.to_tuples() == [(317,)]


def test_upkeep_stops_between_two_indexes(graph, monkeypatch):
    monkeypatch.setattr(maintain, "WORTH_ROWS", 40)
    graph.load(people(50), "append")
    asked = iter([False] + [True] * 99)
    built = maintain.reconcile_indexes(
        graph.store, graph.catalog, "main", stopped=lambda: next(asked)
    )
    assert built == 1


def test_a_large_load_of_a_run_is_looked_after_too(watched):
    with watched.run("main") as run:
        run.load(people(50), "append")
        watched.store.wait_for_upkeep(60)
    watched.store.maintain()
    assert state_of(watched, "id").status is IndexStatus.CURRENT
    assert len(watched.query(QUERIES[3])) == 49

"""Deleting a large part of a table: its cost must not be that of a lookup per row."""

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.image.ids import IdIndex
from tests.support.fast import FAST

SCHEMA = "node P { k: String @key }\nedge E: P -> P"
COUNT = "query q() { match { $a: P $a e $b } return { count($b) as n } }"
EDGES = 20_000


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        names = ["hub", *(f"p{at}" for at in range(EDGES))]
        ends = {"from": ["hub"] * (EDGES - 1) + ["p1"], "to": names[1:]}
        opened.load({"P": pa.table({"k": names}), "E": pa.table(ends)}, engine="inline")
        yield opened


def test_a_hub_goes_with_its_edges_without_a_lookup_for_each(graph, monkeypatch):
    for _ in range(3):  # the tables become resident
        assert graph.query(COUNT).to_dicts() == [{"n": EDGES}]
    asked, find = [], IdIndex.find
    monkeypatch.setattr(IdIndex, "find", lambda self, one: asked.append(one) or find(self, one))
    done = graph.mutate('query d() { delete P where k = "hub" }')
    assert (done.affected_nodes, done.affected_edges) == (1, EDGES - 1)
    assert graph.query(COUNT).to_dicts() == [{"n": 1}]
    assert len(asked) < 100
    assert [one for one in graph.verify() if not one.harmless] == []


def test_another_handle_reads_the_rest_without_a_lookup_for_each(graph, monkeypatch):
    with omnigraph.connect(graph.uri, options=FAST) as other:
        for _ in range(3):
            assert other.query(COUNT).to_dicts() == [{"n": EDGES}]
        graph.mutate('query d() { delete P where k = "hub" }')
        asked, find = [], IdIndex.find
        monkeypatch.setattr(IdIndex, "find", lambda self, one: asked.append(one) or find(self, one))
        assert other.query(COUNT).to_dicts() == [{"n": 1}]
        assert len(asked) < 100

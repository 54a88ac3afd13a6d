"""What a resident graph does when it is written to: the work of the change, not of the table."""

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.image import cache, table
from tests.support.fast import FAST

SCHEMA = "node P { k: String @key  n: I64? }\nedge E: P -> P"
COUNT = "query q() { match { $a: P $a e $b } return { count($b) as n } }"
KNOWN = 'query q() { match { $a: P { k: "p1" } $a e $b } return { $b.k as k } }'
ADD = 'query a($k: String) { insert P { k: $k } insert E { from: $k, to: "p1" } }'
DROP = "query d($k: String) { delete P where k = $k }"
EDGES = 5_000


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        names = [f"p{at}" for at in range(EDGES)]
        ends = {"from": names, "to": names[1:] + names[:1]}
        opened.load({"P": pa.table({"k": names}), "E": pa.table(ends)}, engine="inline")
        yield opened


@pytest.fixture
def lookups(monkeypatch):
    """Sizes of the id columns that lookups were made of."""
    made, build = [], table.build_ids
    monkeypatch.setattr(table, "build_ids", lambda ids: made.append(len(ids)) or build(ids))
    return made


@pytest.fixture
def ways(monkeypatch):
    """How images came to be."""
    told = []
    monkeypatch.setattr(cache.WAYS, "add", lambda _, way: told.append(way))
    return told


def test_the_first_new_edge_makes_no_lookup_of_all_edges(graph, lookups):
    for _ in range(3):
        assert graph.query(COUNT).to_dicts() == [{"n": EDGES}]
    graph.mutate(ADD, params={"k": "new"})
    assert graph.query(COUNT).to_dicts() == [{"n": EDGES + 1}]
    assert lookups == [EDGES], "a lookup was made of the edges, not of the nodes alone"


def test_edges_others_added_make_no_lookup_of_all_edges(graph, lookups):
    with omnigraph.connect(graph.uri, options=FAST) as other:
        for _ in range(3):
            assert other.query(COUNT).to_dicts() == [{"n": EDGES}]
        graph.mutate(ADD, params={"k": "new"})
        assert other.query(COUNT).to_dicts() == [{"n": EDGES + 1}]
    assert lookups == [EDGES]


@pytest.mark.parametrize("same_process", [True, False])
def test_deletes_between_queries_never_read_a_table_again(graph, ways, same_process):
    with omnigraph.connect(graph.uri, options=FAST) as other:
        asked = graph if same_process else other
        for _ in range(3):
            assert asked.query(COUNT).to_dicts() == [{"n": EDGES}]
        ways.clear()
        for at in range(12):
            graph.mutate(ADD, params={"k": f"new{at}"})
            if at % 3 == 2:
                asked.query(COUNT)
            graph.mutate(DROP, params={"k": f"new{at}" if at % 2 else f"p{at + 10}"})
            if at % 4 == 3:
                asked.query(COUNT)
        alone = set(asked.query(COUNT).to_dicts()[0].values())
        assert "read" not in ways
    with omnigraph.connect(graph.uri, options=FAST) as fresh:
        assert {fresh.query(COUNT).to_dicts()[0]["n"]} == alone

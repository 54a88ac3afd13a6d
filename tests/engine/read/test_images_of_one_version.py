"""A version may be read into memory twice, its rows in another order; answers stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph, GraphOptions
from omnigraph.storage.options import StorageOptions

SCHEMA = """
node Doc { name: String @key
  text: String
  place: Vector(2)
  n: I64 }
"""
ADD = """query add($name: String, $text: String, $place: Vector(2)) {
  insert Doc { name: $name, text: $text, place: $place, n: 0 } }"""
MOVE = """query move($name: String, $text: String, $place: Vector(2)) {
  update Doc set { text: $text, place: $place } where name = $name }"""
COUNT = "query count($name: String, $n: I64) { update Doc set { n: $n } where name = $name }"
SEARCH = 'query s() { match { $d: Doc  search($d.text, "amber") } return { $d.name } }'
NEAR = """query v() { match { $d: Doc } return { $d.name }
  order { nearest($d.place, [1.0, 0.0]) } limit 1 }"""
ALL = "query a() { match { $d: Doc } return { $d.name, $d.n } }"


@pytest.fixture
def graph(tmp_path: Path):
    options = GraphOptions(
        embedder=None, storage=StorageOptions(durability="os", maintenance="manual")
    )
    with omnigraph.init(tmp_path / "graph", SCHEMA, options=options) as opened:
        yield opened


def _names(graph: Graph, query: str, at: str | None = None) -> list[str]:
    return [row["d.name"] for row in graph.query(query, at=at)]


@pytest.mark.parametrize("query", [SEARCH, NEAR])
def test_what_was_made_of_one_image_of_a_version_is_not_used_for_another(graph, query):
    for number in range(6):
        params = {"name": f"d{number}", "text": "birch", "place": [0.0, 1.0]}
        graph.mutate(ADD, params=params)
    for _ in range(3):  # resident from here on: later versions are this one and what changed
        graph.query(ALL)
    moved = {"name": "d0", "text": "amber", "place": [1.0, 0.0]}
    then = graph.mutate(MOVE, params=moved).commit_id
    assert _names(graph, query) == ["d0"]
    for number in range(20):  # so many versions that the image of that one is let go
        graph.mutate(COUNT, params={"name": "d5", "n": number})
        assert _names(graph, query, at=then) == ["d0"]
    graph.query(ALL)
    for _ in range(3):  # read anew: the changed row now comes last
        assert _names(graph, query, at=then) == ["d0"]

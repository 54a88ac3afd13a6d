"""Algorithms beside networkx on random graphs: loops, parallel edges, several types, branches."""

import json
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

import omnigraph
from omnigraph.base.budget import Limits
from omnigraph.errors import BadRequestError, BudgetExceededError, NotFoundError
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  rank: F64?
  group: I64?
  far: F32?
  small: I32?
}
node Town {
  name: String @key
  rank: F64?
}
edge Knows: Person -> Person {
  cost: F64
}
edge Near: Town -> Town {
  cost: F64
}
edge LivesIn: Person -> Town {
  cost: F64
}
"""
ENDS = {
    "Knows": ("Person", "Person"),
    "Near": ("Town", "Town"),
    "LivesIn": ("Person", "Town"),
}
COSTS = [0.0, 0.1, 0.2, 0.3, 1.0, 2.5]


def drawn(seed, size):
    """Return nodes by type and edges as `(type, source, target, cost)`."""
    random = Random(seed)
    nodes = {
        "Person": [f"p{n}" for n in random.sample(range(50), random.randint(1, size))],
        "Town": [f"t{n}" for n in random.sample(range(50), random.randint(0, size // 2))],
    }
    edges = []
    for name, (start, end) in ENDS.items():
        if nodes[start] and nodes[end]:
            edges += [
                (name, random.choice(nodes[start]), random.choice(nodes[end]), random.choice(COSTS))
                for _ in range(random.randint(0, 2 * size))
            ]
    return nodes, edges


def lines(nodes, edges):
    rows = [{"type": t, "data": {"name": n}} for t, names in nodes.items() for n in names]
    rows += [
        {"edge": name, "from": a, "to": b, "data": {"cost": cost}} for name, a, b, cost in edges
    ]
    return "\n".join(map(json.dumps, rows)).encode()


def as_networkx(nodes, edges, kinds=("Person", "Town"), names=tuple(ENDS)):
    found = nx.MultiDiGraph()
    found.add_nodes_from((t, n) for t in kinds for n in nodes[t])
    for name, a, b, cost in edges:
        start, end = ENDS[name]
        if name in names and start in kinds and end in kinds:
            found.add_edge((start, a), (end, b), cost=cost)
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    place = tmp_path_factory.mktemp("algorithms")
    with omnigraph.init(str(place / "g.omni"), SCHEMA, options=FAST) as made:
        yield made


def filled(graph, seed, size=12):
    nodes, edges = drawn(seed, size)
    graph.mutate('query gone() { delete Person where name != "" delete Town where name != "" }')
    graph.load(lines(nodes, edges), "append")
    return nodes, edges


def values(result):
    *_, name = result.columns
    return {(row["type"], row["id"]): row[name] for row in result}


@settings(max_examples=settings.default.max_examples // 6)
@given(seed=st.integers(0, 2**32))
def test_every_algorithm_agrees_with_networkx(graph, seed):
    nodes, edges = filled(graph, seed)
    random, algorithms = Random(seed), graph.algorithms
    for chosen in ({}, {"edges": ["Knows"]}, {"nodes": ["Town", "Person"], "edges": ["LivesIn"]}):
        kinds = ("Person",) if chosen.get("edges") == ["Knows"] else ("Person", "Town")
        other = as_networkx(nodes, edges, kinds, tuple(chosen.get("edges", ENDS)))
        assert values(algorithms.degrees(**chosen)) == dict(other.degree())
        assert values(algorithms.degrees(along="out", **chosen)) == dict(other.out_degree())
        assert values(algorithms.degrees(along="in", **chosen)) == dict(other.in_degree())
        _check_components(algorithms, other, chosen)
        for along, theirs in (("out", other), ("in", other.reverse()), ("both", undirected(other))):
            for weight in (None, "cost"):
                _check_ranks(algorithms, theirs, along, weight, chosen)
                start = random.choice(list(other))
                _check_paths(algorithms, theirs, start, along, weight, chosen)


def undirected(graph):
    found = nx.MultiGraph()  # `to_undirected` would take edges there and back for one
    found.add_nodes_from(graph)
    found.add_edges_from(graph.edges(data=True))
    return found


def _check_components(algorithms, other, chosen):
    found: dict[int, set] = {}
    for node, number in values(algorithms.connected_components(**chosen)).items():
        found.setdefault(number, set()).add(node)
    assert sorted(found) == list(range(len(found)))
    assert {frozenset(one) for one in found.values()} == {
        frozenset(one) for one in nx.weakly_connected_components(other)
    }
    firsts = [min(one) for _, one in sorted(found.items())]
    assert firsts == sorted(firsts)  # by type and id


def _check_ranks(algorithms, other, along, weight, chosen):
    ours = values(algorithms.pagerank(along=along, weight=weight, **chosen))
    # The public function needs SciPy; this one does the same in Python.
    theirs = _pagerank_python(other, weight=weight, tol=1e-12, max_iter=500)
    assert ours == pytest.approx(theirs, abs=1e-7)


def _check_paths(algorithms, other, start, along, weight, chosen):
    how = {"along": along, "weight": weight, **chosen}
    ours = values(algorithms.shortest_path(start, **how))
    theirs = (
        nx.single_source_shortest_path_length(other, start)
        if weight is None
        else nx.single_source_dijkstra_path_length(other, start, weight=weight)
    )
    assert ours == dict(theirs)
    for end in sorted(ours)[:4]:
        path = algorithms.shortest_path(start, end, **how).to_dicts()
        nodes = [(row["type"], row["id"]) for row in path]
        assert (nodes[0], nodes[-1]) == (start, end)
        assert path[-1]["distance"] == ours[end]
        assert [row["step"] for row in path] == list(range(len(path)))
        assert nx.is_path(other, nodes)
        assert path[0]["edge_id"] is None
        assert all(row["edge_type"] in ENDS for row in path[1:])


def test_a_path_is_the_first_of_equal_ones_however_rows_are_stored(tmp_path):
    nodes = {"Person": ["a", "d", "c", "b", "e"], "Town": []}
    steps = [("a", "c"), ("a", "b"), ("c", "e"), ("b", "e"), ("a", "b"), ("e", "d")]
    edges = [("Knows", a, b, 1.0) for a, b in steps]
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load(lines(nodes, edges), "append")
        where = {"nodes": ["Person"]}
        for _ in range(2):
            path = graph.algorithms.shortest_path("a", "d", **where)
            assert path["id"].to_pylist() == ["a", "b", "e", "d"]
            graph.mutate('query again() { update Person set { small: 1 } where name = "b" }')
        alone = graph.algorithms.shortest_path("a", "a", **where).to_dicts()
        assert [(row["id"], row["distance"]) for row in alone] == [("a", 0)]
        with pytest.raises(NotFoundError, match="no path leads from 'd' to 'a'"):
            graph.algorithms.shortest_path("d", "a", **where)
        assert len(graph.algorithms.shortest_path("d", "a", along="in", **where)) == 4


def test_what_is_found_becomes_a_property_in_one_commit(tmp_path):
    nodes, edges = {"Person": ["a", "b", "c"], "Town": ["t"]}, [("Knows", "a", "b", 1.0)]
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load(lines(nodes, edges), "append")
        before = graph.commits.list()
        found = graph.algorithms.pagerank(write="rank", actor="ann", message="weekly")
        (made, *_) = graph.commits.list()
        assert (made.graph_commit_id, made.actor_id, made.message) == (
            found.commit_id,
            "ann",
            "weekly",
        )
        assert len(graph.commits.list()) == len(before) + 1
        for kind in ("Person", "Town"):
            rows = graph.query(f"match {{ $n: {kind} }} return {{ $n.name as n, $n.rank as r }}")
            ranks = values(found)
            assert {row["n"]: row["r"] for row in rows} == {n: ranks[kind, n] for n in nodes[kind]}
        again = graph.algorithms.pagerank(write="rank")
        assert again.commit_id == found.commit_id  # nothing differs, so nothing is written
        people = {"nodes": ["Person"]}
        graph.algorithms.shortest_path("a", write="far", **people)
        graph.algorithms.connected_components(write="group", **people)
        graph.algorithms.degrees(write="small", **people)
        rows = graph.query("match { $n: Person } return { $n.name, $n.far, $n.group, $n.small }")
        assert rows.to_tuples() == [("a", 0.0, 0, 1), ("b", 1.0, 0, 1), ("c", None, 1, 0)]


def test_views_branches_and_the_past_have_algorithms_of_their_own(tmp_path):
    nodes, edges = {"Person": ["a", "b"], "Town": []}, [("Knows", "a", "b", 1.0)]
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load(lines(nodes, edges), "append")
        head = graph.snapshot().commit_id
        graph.branches.create("review")
        graph.branch("review").algorithms.degrees(nodes=["Person"], write="small")
        graph.mutate('query gone() { delete Person where name = "b" }')
        assert values(graph.algorithms.degrees(nodes=["Person"])) == {("Person", "a"): 0}
        assert values(graph.at(head).algorithms.degrees(nodes=["Person"])) == {
            ("Person", "a"): 1,
            ("Person", "b"): 1,
        }
        with pytest.raises(BadRequestError, match="past cannot be written"):
            graph.at(head).algorithms.degrees(nodes=["Person"], write="small")
        rows = graph.query("match { $n: Person } return { $n.small as s }", branch="review")
        assert rows.to_tuples() == [(1,), (1,)]


WRONG = [
    ("degrees", {"along": "up"}, "unknown along"),
    ("degrees", {"nodes": ["Nope"]}, "no type 'Nope'"),
    ("degrees", {"nodes": "Person"}, "not one text"),
    ("degrees", {"nodes": ["Knows"]}, "is an edge type"),
    ("degrees", {"edges": ["Person"]}, "is a node type"),
    ("degrees", {"nodes": []}, "no node type is chosen"),
    ("degrees", {"nodes": ["Town"], "edges": ["LivesIn"]}, "Person is not among the nodes"),
    ("degrees", {"write": "nope"}, "has no property 'nope'"),
    ("degrees", {"write": "name", "nodes": ["Person"]}, "part of the key"),
    ("degrees", {"actor": "ann"}, "nothing is written"),
    ("pagerank", {"write": "group", "nodes": ["Person"]}, "make it F64"),
    ("pagerank", {"damping": 1}, "from 0 to below 1"),
    ("pagerank", {"tolerance": 0}, "above 0"),
    ("pagerank", {"max_iterations": 0}, "from 1 on"),
    ("pagerank", {"weight": "nope"}, "has no property 'nope'"),
    ("shortest_path", {"source": "a"}, "of which type is 'a'"),
    ("shortest_path", {"source": ("Person", "nobody")}, "no Person 'nobody'"),
    ("shortest_path", {"source": ("Dog", "a")}, "not among the node types"),
    ("shortest_path", {"source": 7}, "a type and an id"),
    (
        "shortest_path",
        {"source": ("Person", "a"), "target": ("Person", "a"), "write": "far"},
        "no value per node",
    ),
]


@pytest.mark.parametrize(("name", "how", "message"), WRONG, ids=lambda one: str(one)[:40])
def test_wrong_arguments_are_told(graph, name, how, message):
    with pytest.raises((BadRequestError, NotFoundError), match=message):
        getattr(graph.algorithms, name)(**how)


def test_weights_limits_and_rounds_are_kept(tmp_path):
    nodes = {"Person": ["a", "b"], "Town": []}
    edges = [("Knows", "a", "b", -1.0), ("Knows", "b", "b", 1.0)]
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        graph.load(lines(nodes, edges), "append")
        algorithms, knows = graph.algorithms, {"edges": ["Knows"]}
        with pytest.raises(BadRequestError, match=r"has cost -1\.0"):
            algorithms.shortest_path("b", weight="cost", **knows)
        with pytest.raises(BadRequestError, match=r"has cost -1\.0"):
            algorithms.pagerank(weight="cost", **knows)
        with pytest.raises(BudgetExceededError, match="after 1 rounds"):
            algorithms.pagerank(max_iterations=1, **knows)
        with pytest.raises(BudgetExceededError, match="time budget"):
            algorithms.pagerank(limits=Limits(seconds=0), **knows)
        with pytest.raises(BudgetExceededError, match="memory budget"):
            algorithms.pagerank(limits=Limits(bytes=10), **knows)
        for name in ("degrees", "connected_components", "pagerank"):
            with pytest.raises(BudgetExceededError, match="2 rows; the row budget is 1"):
                getattr(algorithms, name)(limits=Limits(rows=1), **knows)

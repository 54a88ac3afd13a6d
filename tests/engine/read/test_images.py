"""Images of stored tables stay true while the tables move on."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
FAST = GraphOptions(storage=StorageOptions(durability="os", maintenance="manual"))
PEOPLE = "query q() { match { $p: Person } return { $p.name, $p.age } }"
OUT = "query q() { match { $a: Person  $a knows $b } return { $a, $b } }"
INTO = 'query q() { match { $b: Person { name: "%s" }  $a knows $b } return { $a, $b } }'


def pairs(graph, text=OUT, **where):
    return [tuple(row.values()) for row in graph.query(text, **where).to_dicts()]


def write(graph, *statements, branch="main"):
    for one in statements:
        graph.mutate(f"query m() {{ {one} }}", branch=branch)


def person(name, age=1):
    return f'insert Person {{ name: "{name}", age: {age} }}'


def knows(a, b):
    return f'insert Knows {{ from: "{a}", to: "{b}" }}'


@pytest.fixture
def graph(tmp_path: Path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as opened:
        write(opened, person("a"), person("b"), person("c"), knows("a", "b"), knows("b", "c"))
        yield opened


def test_a_node_deleted_and_inserted_again_between_two_reads_is_there(graph):
    assert len(pairs(graph, PEOPLE)) == 3
    write(graph, 'delete Person where name = "b"', person("b", 7))
    assert pairs(graph, PEOPLE) == [("a", 1), ("b", 7), ("c", 1)]
    assert pairs(graph) == []
    write(graph, knows("c", "b"))
    assert pairs(graph) == [("c", "b")]


def test_the_past_keeps_its_edges_when_the_present_was_read_first(graph):
    before = graph.snapshot().commit_id
    assert len(pairs(graph)) == 2  # the outward direction, and the tables, are resident now
    write(graph, 'delete Person where name = "b"')
    assert pairs(graph, INTO % "b") == []  # the inward direction is built from the present
    assert pairs(graph, INTO % "b", at=before) == [("a", "b")]
    assert pairs(graph, at=before) == [("a", "b"), ("b", "c")]


def test_edges_read_after_their_nodes_were_added_know_where_they_lead(graph):
    assert len(pairs(graph, PEOPLE)) == 3  # nodes resident, edges not yet
    write(graph, person("d"), knows("c", "d"), knows("d", "a"))
    assert ("c", "d") in pairs(graph)
    write(graph, person("e"), knows("d", "e"))
    assert pairs(graph, INTO % "e") == [("d", "e")]
    assert pairs(graph) == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e")]


def test_branches_that_add_different_nodes_do_not_see_each_other(graph):
    for name in ("one", "two"):
        graph.store.branches.create(name)
        write(graph, person(name), knows("a", name), branch=name)
    assert pairs(graph, branch="one") == [("a", "b"), ("a", "one"), ("b", "c")]
    assert pairs(graph, branch="two") == [("a", "b"), ("a", "two"), ("b", "c")]
    assert pairs(graph) == [("a", "b"), ("b", "c")]


def test_a_reader_that_stays_open_sees_what_another_one_commits(graph):
    with omnigraph.connect(graph.uri, read_only=True, options=FAST) as reader:
        assert len(pairs(reader)) == 2
        write(graph, person("d"), knows("a", "d"))
        assert pairs(reader) == [("a", "b"), ("a", "d"), ("b", "c")]
        write(graph, 'delete Knows where from = "a"')
        assert pairs(reader) == [("b", "c")]


def test_compaction_changes_no_answer(graph):
    first = pairs(graph), pairs(graph, PEOPLE)
    graph.store.optimize()
    assert (pairs(graph), pairs(graph, PEOPLE)) == first
    write(graph, person("d"))
    assert [row[0] for row in pairs(graph, PEOPLE)] == ["a", "b", "c", "d"]

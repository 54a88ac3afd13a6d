"""Mutations of two processes, and mutations that are killed: no orphan, no duplicate, no half."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.base import failpoints
from tests.support.fast import FAST
from tests.support.graph_tasks import SCHEMA, load_keyed, mutate_each, mutate_keyed

pytestmark = pytest.mark.crash

INSERT = "query m($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
ROUNDS = 8


@pytest.fixture
def uri(tmp_path):
    where = str(tmp_path / "g.omni")
    with omnigraph.init(where, SCHEMA, options=FAST) as graph:
        graph.mutate(INSERT, params={"n": "hub", "a": 1})
    return where


def together(start, uri, *scripts):
    running = [start(mutate_each, uri, script) for script in scripts]
    return [[word for word in child.succeed().said if word != "ready"] for child in running]


def rows(uri, text):
    with omnigraph.connect(uri, options=FAST) as graph:
        assert [found for found in graph.verify() if not found.harmless] == []
        return graph.query(text).to_dicts()


PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


def test_inserts_of_the_same_keys_leave_each_key_once(start, uri):
    script = [[(INSERT, {"n": f"k{i}", "a": who}) for i in range(ROUNDS)] for who in (1, 2)]
    together(start, uri, *script)
    found = rows(uri, PEOPLE)
    assert [row["name"] for row in found] == sorted(["hub", *(f"k{i}" for i in range(ROUNDS))])
    assert all(row["age"] in (1, 2) for row in found)


def test_updates_of_one_row_are_serialised_or_refused(start, uri):
    text = 'query m($a: I32) { update Person set { age: $a } where name = "hub" }'
    said = together(
        start, uri, *[[(text, {"a": 100 * who + i}) for i in range(ROUNDS)] for who in (1, 2)]
    )
    for words in said:
        for kind, detail in words:
            assert kind == "done" or detail == "ExpectedVersionMismatch"
    done = [detail for words in said for kind, detail in words if kind == "done"]
    with omnigraph.connect(uri, options=FAST) as graph:
        line = [commit.id for commit in graph.store.commits() if commit.kind == "logical"]
    assert set(done) <= set(line)
    assert len(done) == len(set(done))


def test_one_email_is_given_to_one_person(start, uri):
    text = "query m($n: String, $e: String) { insert Person { name: $n, email: $e } }"
    said = together(
        start,
        uri,
        *[[(text, {"n": f"{who}{i}", "e": f"e{i}@x"}) for i in range(ROUNDS)] for who in "ab"],
    )
    done = sum(kind == "done" for words in said for kind, _ in words)
    assert done == ROUNDS
    emails = rows(uri, "query q() { match { $p: Person } return { $p.email as e } }")
    kept = [row["e"] for row in emails if row["e"]]
    assert sorted(kept) == sorted(f"e{i}@x" for i in range(ROUNDS))


def test_an_edge_never_outlives_its_node(start, uri):
    names = [f"n{i}" for i in range(ROUNDS)]
    with omnigraph.connect(uri, options=FAST) as graph:
        for name in names:
            graph.mutate(INSERT, params={"n": name, "a": 1})
    link = 'query m($n: String) { insert Knows { from: "hub", to: $n } }'
    drop = "query m($n: String) { delete Person where name = $n }"
    together(start, uri, *[[(text, {"n": name}) for name in names] for text in (link, drop)])
    people = {row["name"] for row in rows(uri, PEOPLE)}
    with omnigraph.connect(uri, options=FAST) as graph:
        ends = graph.store.snapshot().open("edge:Knows").scan(["src", "dst"])
    assert set(ends["src"].to_pylist()) | set(ends["dst"].to_pylist()) <= people


def gaps():
    return sorted(name for name in failpoints.REGISTRY if name.startswith("publish."))


@pytest.mark.parametrize("gap", gaps())
def test_a_killed_mutation_is_whole_or_absent_and_its_retry_writes_once(start, uri, gap):
    text = 'query m($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "hub" } }'
    killed = start(mutate_keyed, uri, text, {"n": "new"}, "key-1", points=f"{gap}=kill").wait()
    assert killed.was_killed, (killed.said, killed.error)
    names = {row["name"] for row in rows(uri, PEOPLE)}
    edges = rows(uri, "query q() { match { $a knows $b } return { $a, $b } }")
    assert (("new" in names), len(edges)) in ((False, 0), (True, 1))
    start(mutate_keyed, uri, text, {"n": "new"}, "key-1").succeed()
    start(mutate_keyed, uri, text, {"n": "new"}, "key-1").succeed()
    assert {row["name"] for row in rows(uri, PEOPLE)} == {"hub", "new"}
    assert rows(uri, "query q() { match { $a knows $b } return { $a, $b } }") == [
        {"a": "new", "b": "hub"}
    ]


@pytest.mark.parametrize("gap", gaps())
def test_a_killed_load_and_its_retries_under_one_key_count_once(gap, start, uri):
    """The edge has no key of its own: only the key of the request keeps it from coming twice."""
    lines = (
        b'{"type":"Person","data":{"name":"new"}}\n'
        b'{"edge":"Knows","from":"new","to":"new","data":{}}\n'
    )
    killed = start(load_keyed, uri, lines, "key-1", points=f"{gap}=kill").wait()
    assert killed.was_killed
    (first,) = start(load_keyed, uri, lines, "key-1").succeed().said
    (second,) = start(load_keyed, uri, lines, "key-1").succeed().said
    assert second == (first[0], True)
    with omnigraph.connect(uri, options=FAST) as graph:
        assert [one.idempotency_key for one in graph.store.commits()].count("key-1") == 1
        assert graph.snapshot().table("edge:Knows").row_count == 1

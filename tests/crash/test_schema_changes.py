"""Schemas that change beside writers, loads, merges, branches and each other, or are killed."""

from __future__ import annotations

import pytest

import omnigraph
from tests.support.fast import FAST
from tests.support.graph_tasks import (
    BACK,
    OTHER_SCHEMA,
    SCHEMA,
    apply_each,
    branch_each,
    load_each,
    merge_own_branch,
    mutate_each,
)

pytestmark = pytest.mark.crash
GAPS = (
    "publish.after_staging",
    "publish.after_sidecar",
    "publish.after_tables",
    "publish.after_publish",
    "publish.after_manifest_sync",
)
ROUNDS = 4
RETRYABLE = {"SchemaChangedError", "SchemaOvertakenError", "LoadsRunningError", "ConflictError"}


@pytest.fixture
def uri(tmp_path):
    place = str(tmp_path / "graph")
    with omnigraph.init(place, SCHEMA, options=FAST) as graph:
        for name in ("ada", "of one"):
            graph.mutate(f'query q() {{ insert Person {{ name: "{name}", age: 7 }} }}')
    return place


def names(graph, branch="main"):
    found = graph.query("query q() { match { $p: Person } return { $p.name as n } }", branch=branch)
    return {row["n"] for row in found.to_dicts()}


def sound(graph):
    assert not [found for found in graph.verify() if not found.harmless]


def ages(graph):
    """The ages, whatever they are called."""
    word = "years" if "years" in graph.catalog.nodes["Person"].properties else "age"
    text = f"query q() {{ match {{ $p: Person }} return {{ $p.name as n, $p.{word} as a }} }}"
    return {row["n"]: row["a"] for row in graph.query(text).to_dicts()}


@pytest.mark.parametrize("gap", GAPS)
def test_a_change_that_is_killed_happened_or_did_not(gap, start, uri):
    dead = start(apply_each, uri, [OTHER_SCHEMA], points=f"{gap}=kill").wait()
    assert dead.was_killed, dead.said
    with omnigraph.connect(uri, options=FAST) as graph:
        assert graph.schema in (SCHEMA, OTHER_SCHEMA)
        assert ages(graph) == {"ada": 7, "of one": 7}
        columns = set(graph._state.snapshot("main").open("node:Person").schema.names)
        assert columns == {"id", *graph.catalog.nodes["Person"].properties}
        graph.apply_schema(OTHER_SCHEMA)
        assert graph.schema == OTHER_SCHEMA
        assert len(graph.schema_history().versions) == 2
        assert ages(graph) == {"ada": 7, "of one": 7}
        sound(graph)


@pytest.mark.parametrize("gap", ["publish.after_sidecar", "publish.after_publish"])
def test_a_merge_that_dies_after_bringing_the_schema_can_be_repeated(gap, start, uri):
    with omnigraph.connect(uri, options=FAST) as graph:
        graph.branches.create("one")
        graph.apply_schema(OTHER_SCHEMA, branch="one")
    dead = start(merge_once, uri, "one", points=f"{gap}=kill@1").wait()
    assert dead.was_killed, dead.said
    with omnigraph.connect(uri, options=FAST) as graph:
        assert graph.schema == OTHER_SCHEMA
        graph.branches.merge("one")
        assert graph.branches.merge("one").outcome == "already_up_to_date"
        assert len(graph.schema_history().versions) == 2
        sound(graph)


def merge_once(say, uri, source):
    """Write on a branch and merge it: two commits on the target, and one before them."""
    with omnigraph.connect(uri, options=FAST) as graph:
        say("ready")
        graph.branches.merge(source)
        say("merged")


def test_schemas_change_beside_everything_else(start, uri):
    applying = start(apply_each, uri, [OTHER_SCHEMA, BACK] * ROUNDS)
    insert = "query q($n: String) { insert Person { name: $n } }"
    writing = start(mutate_each, uri, [(insert, {"n": f"w{i}"}) for i in range(3 * ROUNDS)])
    loading = start(load_each, uri, "l", 2 * ROUNDS)
    branching = start(branch_each, uri, "b", ROUNDS)
    told = {}
    children = {"apply": applying, "write": writing, "load": loading, "branch": branching}
    for what, child in children.items():
        words = [one for one in child.succeed().said if one != "ready"]
        told[what] = words
        refused = {detail for kind, detail in words if kind == "refused"}
        assert refused <= RETRYABLE, (what, refused)
    with omnigraph.connect(uri, options=FAST) as graph:
        expected = {"ada", "of one"}
        expected |= {f"w{i}" for i, (kind, _) in enumerate(told["write"]) if kind == "done"}
        expected |= {f"l-{i}" for i, (kind, _) in enumerate(told["load"]) if kind == "done"}
        assert names(graph) == expected
        assert any(kind == "done" for kind, _ in told["write"])
        assert {ages(graph)[name] for name in ("ada", "of one")} == {7}
        done = [detail for kind, detail in told["apply"] if kind == "done" and detail]
        history = [one.graph_commit_id for one in graph.schema_history().versions]
        assert history == [*reversed(done), history[-1]]
        assert set(graph.branches.list()) == {"main", *(f"b-{i}" for i in range(0, ROUNDS, 2))}
        for branch in graph.branches.list():
            assert {"ada", "of one"} <= names(graph, branch)
        sound(graph)


def test_two_processes_change_one_schema_one_after_the_other(start, uri):
    others = [
        SCHEMA.replace("age: I32?", f"age: I32?\n  {word}: String?") for word in ("one", "two")
    ]
    running = [start(apply_each, uri, [text, SCHEMA] * ROUNDS) for text in others]
    done = [
        detail
        for child in running
        for kind, detail in (one for one in child.succeed().said if one != "ready")
        if kind == "done" and detail is not None
    ]
    with omnigraph.connect(uri, options=FAST) as graph:
        history = [one.graph_commit_id for one in graph.schema_history().versions]
        assert sorted(done) == sorted(history[:-1])
        columns = set(graph._state.snapshot("main").open("node:Person").schema.names)
        assert columns == {"id", *graph.catalog.nodes["Person"].properties}
        assert ages(graph) == {"ada": 7, "of one": 7}
        sound(graph)


def test_merges_and_changes_of_schema_meet(start, uri):
    merging = start(merge_own_branch, uri, "one", ROUNDS)
    note = SCHEMA.replace("age: I32?", "age: I32?\n  note: String?")
    applying = start(apply_each, uri, [note, SCHEMA] * ROUNDS)
    merging.succeed()
    applying.succeed()
    with omnigraph.connect(uri, options=FAST) as graph:
        expected = {"ada": 7, "of one": ROUNDS - 1}
        assert ages(graph) == expected | {f"one-{number}": number for number in range(ROUNDS)}
        graph.branches.merge("main", into="one")
        assert graph.branch("one").catalog.schema_hash == graph.catalog.schema_hash
        sound(graph)

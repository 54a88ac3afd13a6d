"""Merging on a real S3 server: by rows, by pointer, by copies of files; tags and undoing there."""

import threading

import pytest

import omnigraph
from omnigraph.engine.merge import large, rows
from omnigraph.errors import ConflictError
from omnigraph.graph import GraphOptions
from tests.graph.test_merges import SCHEMA, age, conflicts_of, drop, people, put

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


@pytest.mark.parametrize("way", ["by link", "by rows", "by ranges"])
def test_branches_merge_on_an_object_store(root, options, way, monkeypatch):
    monkeypatch.setattr(rows, "LINKED_FROM", 1 if way == "by link" else 1 << 40)
    if way == "by ranges":
        monkeypatch.setattr(large, "LARGE", 0)
    with omnigraph.init(root, SCHEMA, options=GraphOptions(storage=options)) as graph:
        for name in ("ada", "bo", "cy"):
            put(graph, name, 30)
        graph.branches.create("dev")
        age(graph, "ada", 31, "dev")
        put(graph, "eve", 20, "dev")
        drop(graph, "cy", "dev")
        age(graph, "bo", 32)
        merged = graph.branches.merge("dev", message="there")
        assert people(graph) == {"ada": (31, None), "bo": (32, None), "eve": (20, None)}
        assert graph.branches.merge("main", into="dev").outcome == "fast_forward"
        assert people(graph, "dev") == people(graph)
        graph.tags.create("v1")
        age(graph, "ada", 40, "dev")
        age(graph, "ada", 41)
        assert conflicts_of(graph).conflicts[0].ours["age"] == 41
        graph.revert(merged.commit_id, parent=1, strategy="ours")
        assert people(graph)["cy"] == (30, None)
        graph.branches.reset("main", to="v1")
        assert people(graph) == {"ada": (31, None), "bo": (32, None), "eve": (20, None)}
        assert not [one for one in graph.verify() if not one.harmless]


def test_runs_are_published_left_and_ended_on_an_object_store(root, options, start):
    own = GraphOptions(storage=options)
    with omnigraph.init(root, SCHEMA, options=own) as graph:
        put(graph, "ada", 30)
        with graph.run("main", operation_hash="h1") as run:
            run.mutate('query q() { insert Person { name: "bo", age: 31 } }')
            put(graph, "cy", 32)
            assert set(people(graph)) == {"ada", "cy"}
        assert set(people(graph)) == {"ada", "bo", "cy"}
        assert graph.branches.list() == ["main"]
        overtaken = graph.run("main")
        overtaken.mutate('query q() { update Person set { age: 1 } where name = "ada" }')
        age(graph, "ada", 2)
        with pytest.raises(ConflictError):
            graph.runs.publish(overtaken.run_id)
        graph.runs.abort(overtaken.run_id)
        for key, end in (("di", "publish"), ("ed", "abort")):
            child = start(begin_and_wait, root, options, key)
            child.wait_for("wrote")
            child.kill()
            left = next(one for one in graph.runs.list() if one.status == "running")
            getattr(graph.runs, end)(left.run_id)
        assert people(graph) == {
            "ada": (2, None),
            "bo": (31, None),
            "cy": (32, None),
            "di": (30, None),
        }
        told = sorted(one.status for one in graph.runs.list())
        assert told == ["aborted", "aborted", "published", "published"]
        assert not [one for one in graph.verify() if not one.harmless]


def begin_and_wait(say, root, options, name):
    """Child task: begin a run, write, and be killed."""
    own = GraphOptions(storage=options)
    with omnigraph.connect(root, options=own) as graph, graph.run() as run:
        run.mutate(f'query q() {{ insert Person {{ name: "{name}", age: 30 }} }}')
        say("wrote")
        threading.Event().wait()

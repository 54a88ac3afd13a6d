"""Merging on a real S3 server: by rows, by pointer, by copies of files; tags and undoing there."""

import pytest

import omnigraph
from omnigraph.engine.merge import rows
from omnigraph.graph import GraphOptions
from tests.graph.test_merges import SCHEMA, age, conflicts_of, drop, people, put

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


@pytest.mark.parametrize("linked_from", [1, 10_000], ids=["by link", "by rows"])
def test_branches_merge_on_an_object_store(root, options, linked_from, monkeypatch):
    monkeypatch.setattr(rows, "LINKED_FROM", linked_from)
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

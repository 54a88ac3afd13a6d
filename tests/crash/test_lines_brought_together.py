"""Whatever puts one line's changes on another, killed at every gap: it happened or it did not."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph
from omnigraph.base import failpoints
from omnigraph.engine.merge import large
from omnigraph.graph import Graph
from tests.support.fast import FAST
from tests.support.graph_tasks import SCHEMA

pytestmark = pytest.mark.crash
WAYS = ("merge", "merge by ranges", "revert", "cherry_pick", "reset", "publish", "abort")
TELLING = {
    "publish": ("publish.after_publish", "run.after_end"),
    "abort": ("run.after_end",),
}
"""Where a usual run is killed; otherwise where the tables have moved and nobody can see it."""


def put(graph: Any, name: str, age: int, branch: str = "main") -> Any:
    text = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
    return graph.mutate(text, params={"n": name, "a": age}, branch=branch)


def link(graph: Any, one: str, two: str, branch: str = "main") -> Any:
    text = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    return graph.mutate(text, params={"a": one, "b": two}, branch=branch)


def prepare(uri: str) -> None:
    with omnigraph.init(uri, SCHEMA, options=FAST) as graph:
        for name in ("ada", "bo", "cy"):
            put(graph, name, 30)
        graph.tags.create("then")
        graph.branches.create("side")
        put(graph, "di", 31, "side")
        graph.tags.create("di", branch="side")
        link(graph, "di", "ada", "side")
        graph.mutate('query q() { delete Person where name = "cy" }', branch="side")
        put(graph, "ed", 32)
        graph.tags.create("ed")
        run = graph.run("main")
        run.mutate('query q() { insert Person { name: "flo", age: 33 } }')


def act(graph: Graph, way: str) -> None:
    run = graph.runs.list()[0]
    match way:
        case "merge" | "merge by ranges":
            graph.branches.merge("side")
        case "revert":
            graph.revert("ed")
        case "cherry_pick":
            graph.cherry_pick("di", branch="main")
        case "reset":
            graph.branches.reset("main", to="then")
        case "publish":
            graph.runs.publish(run.run_id)
        case _:
            graph.runs.abort(run.run_id)


def do(say: Any, uri: str, way: str, dry: bool) -> None:
    """Child task: do it; dry, say which failpoints are passed on the way."""
    if way == "merge by ranges":
        large.LARGE = 0
    if dry:
        failpoints.enable(";".join(f"{point}=sleep:0" for point in failpoints.REGISTRY))
    with omnigraph.connect(uri, options=FAST) as graph:
        opened = failpoints.passes() if dry else {}
        act(graph, way)
        if dry:
            passed = failpoints.passes()
            say([point for point in passed if passed[point] > opened.get(point, 0)])


def state(graph: Graph) -> tuple[Any, ...]:
    snapshot = graph.store.snapshot("main")
    rows = [snapshot.open(key).scan().sort_by("id").to_pylist() for key in sorted(snapshot.tables)]
    for one in rows:
        for row in one:
            row.pop("id")
    return (rows, graph.runs.list()[0].status)


def seen(uri: str) -> tuple[Any, ...]:
    with omnigraph.connect(uri, options=FAST, read_only=True) as graph:
        return state(graph)


def walk(way: str, gaps: tuple[str, ...] | None, start: Any, tmp_path: Any) -> None:
    dry = str(tmp_path / "dry")
    prepare(dry)
    before = seen(dry)
    passed = start(do, dry, way, True).succeed().said[-1]
    after = seen(dry)
    assert before != after
    for number, gap in enumerate(gaps or passed):
        assert gap in passed, sorted(passed)
        uri = str(tmp_path / str(number))
        prepare(uri)
        dead = start(do, uri, way, False, points=f"{gap}=kill").wait()
        assert dead.was_killed, (way, gap, dead.said)
        with omnigraph.connect(uri, options=FAST) as graph:
            rows, status = state(graph)
            assert rows in (before[0], after[0]), (way, gap)
            assert status in (before[1], after[1]), (way, gap)
            if status != "aborted":
                act(graph, way)
            assert state(graph) == after, (way, gap)
            assert all(one.harmless for one in graph.verify()), (way, gap)


@pytest.mark.parametrize("way", WAYS)
def test_killed_where_it_counts_it_happened_or_did_not(way, start, tmp_path):
    walk(way, TELLING.get(way, ("publish.after_tables",)), start, tmp_path)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_killed_anywhere_it_happened_or_did_not(way, start, tmp_path):
    walk(way, None, start, tmp_path)

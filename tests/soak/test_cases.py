"""What soaks found, as short traces that show it: played step by step, judged like a soak."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph
from omnigraph.engine.image import shelf
from omnigraph.engine.merge import run as run_module
from omnigraph.graph import Graph
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.soak.judge import judge
from tests.soak.model import SCHEMA, words_of
from tests.soak.operations import (
    QUERIES,
    Turn,
    abort_runs,
    apply,
    ask,
    bring,
    load,
    mutate,
    node,
    run,
)
from tests.soak.places import FLOOR_S, graph_options


@dataclass
class Trace:
    """Handles on one graph, and what was told of what they did."""

    handles: list[Graph]
    told: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def turn(self, handle: int = 0, branch: str = "main") -> Turn:
        """Return the next turn of a handle."""

        def note(kind: str, name: str, **facts: Any) -> None:
            self.told.append({"kind": kind, "name": name, "at": time.monotonic(), **facts})

        name = f"step-{next(self.numbers)}"
        dice = random.Random(1)  # never below a tenth at once: nothing is repeated
        return Turn(self.handles[handle], name, branch, dice, note, self.numbers)

    def put(self, key: str, value: int, **where: Any) -> None:
        turn = self.turn(**where)
        mutate(turn, "put", {"k": key, "v": value}, t=words_of(value))

    def update(self, key: str, value: int, **where: Any) -> None:
        turn = self.turn(**where)
        mutate(turn, "update", {"k": key, "v": value}, t=words_of(value))

    def link(self, one: str, other: str, **where: Any) -> None:
        mutate(self.turn(**where), "link", {"a": one, "b": other, "w": next(self.numbers)})

    def unlink(self, key: str, **where: Any) -> None:
        mutate(self.turn(**where), "unlink", {"a": key})

    def ask(
        self,
        question: str,
        at: str | None = None,
        /,
        *,
        on: str = "main",
        handle: int = 0,
        **args: Any,
    ) -> None:
        ask(self.turn(handle, on), question, args, at)

    def head(self) -> str:
        return self.handles[0].snapshot().commit_id


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    options = graph_options({})
    uri = tmp_path / "graph"
    omnigraph.init(uri, SCHEMA, options=options).close()
    with (
        omnigraph.connect(uri, options=options) as first,
        omnigraph.connect(uri, options=options) as second,
    ):
        played = Trace([first, second])
        yield played
        for handle in (first, second):  # the warm ones too: each must see what there is
            verdict = judge(handle, played.told, faults=False)
            assert not verdict.wrong
    with omnigraph.connect(uri, options=options) as fresh:
        assert not judge(fresh, played.told, faults=False).wrong


def test_a_branch_of_an_indexed_graph_under_upkeep(trace):
    for number in range(12):
        trace.put(f"k{number}", number)
    trace.handles[0].ensure_indices()
    trace.handles[0].branches.create("side")
    for number in range(20):
        trace.put(f"k{number % 6}", number, branch="side")
    trace.handles[0].optimize("side")
    trace.ask("lookup", on="side", k="k3")
    trace.ask("above", on="side", v=4)
    trace.update("k3", 99, branch="side")
    trace.handles[0].ensure_indices("side")
    trace.ask("search", on="side", word="amber")


def test_a_handle_across_a_cleanup_by_another(trace):
    for number in range(12):
        trace.put(f"k{number}", number)
    for _ in range(3):
        trace.ask("nodes")
    for number in range(12):
        trace.put(f"k{number}", number + 1, handle=1)
    time.sleep(1.1 * FLOOR_S)
    trace.handles[1].store.cleanup(CleanupPolicy(keep_versions=8))
    trace.ask("nodes")
    trace.ask("search", word="birch")
    trace.put("k1", 5)
    trace.ask("nodes")


def test_a_write_on_edges_mapped_of_a_version_that_a_cleanup_took(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "LEAST_ROWS", 1)
    options = graph_options({}, cache=str(tmp_path / "derived"))
    for number in range(3):
        trace.put(f"k{number}", number)
    trace.link("k0", "k1")
    trace.link("k0", "k2")
    with omnigraph.connect(tmp_path / "graph", options=options) as first:
        first.build_cache()
    with omnigraph.connect(tmp_path / "graph", options=options) as mapping:
        trace.handles.append(mapping)
        for _ in range(2):
            trace.ask("missing", handle=2)  # walks edges, and looks at no id of any
        for _ in range(12):
            trace.link("k1", "k2")
        trace.ask("missing", handle=2)
        time.sleep(1.1 * FLOOR_S)
        mapping.store.cleanup(CleanupPolicy(keep_versions=8))
        trace.unlink("k0", handle=2)
        trace.ask("edges", handle=2)
        trace.ask("edges")


def test_time_travel_between_reads_of_the_head(trace):
    for number in range(6):
        trace.put(f"k{number}", 1)
    for _ in range(3):
        trace.ask("nodes")
    trace.update("k0", 5)
    then = trace.head()
    trace.ask("search", word="amber")
    for number in range(20):
        trace.update("k5", number % 5 + 1)
        trace.ask("search", then, word="amber")
    trace.ask("nodes")
    for _ in range(3):
        trace.ask("search", then, word="amber")
    trace.ask("search", word="amber")


class _Meanwhile:
    """Lets another load in when one is about to commit."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._actions = [action]

    def stage(self, name: str, tasks: int) -> None:
        if name == "commit" and self._actions:
            self._actions.pop()()

    def done(self, rows: int, bad: int, size: int = 0) -> None:
        pass


@pytest.mark.parametrize("before", [0, 1])
def test_two_merges_that_bring_one_key(trace, before):
    for _ in range(before):
        trace.put("k9", 9)
    mine, theirs = {"k1": 1, "k2": 1}, {"k1": 2, "k3": 2}

    def other() -> None:
        lines = [node("P", key, value) for key, value in theirs.items()]
        load(trace.turn(handle=1), "merge", lines, p=theirs, e=[])

    lines = [node("P", key, value) for key, value in mine.items()]
    load(trace.turn(), "merge", lines, _Meanwhile(other), p=mine, e=[])
    trace.ask("nodes")


@pytest.mark.parametrize("branch", ["main", "side"])
def test_another_tool_compacts_a_table_with_an_inherited_index(trace, branch):
    graph = trace.handles[0]
    for number in range(8):
        trace.put(f"k{number}", number)
    graph.ensure_indices()
    graph.branches.create("side")
    for number in range(6):
        trace.put(f"k{number}", number + 10, branch=branch)
    graph.store.wait_for_upkeep(60)  # else our own upkeep and the other tool may collide
    handle = graph.store.snapshot(branch).handle("node:P")
    lance.dataset(handle.dataset.uri).optimize.compact_files()
    trace.put("k1", 20, branch=branch)
    trace.ask("lookup", on=branch, k="k1")
    graph.ensure_indices(branch)
    assert all(one.action == "no_op" for one in graph.repair(confirm=True))
    trace.ask("above", on=branch, v=5)
    trace.update("k2", 30, branch=branch)


def test_a_branch_made_again_under_a_warm_handle(trace):
    for number in range(3):
        trace.put("k0", number)
        trace.handles[1].branches.create("side")
        trace.put("k1", number, branch="side")
        trace.ask("nodes", on="side")
        turn = trace.turn()
        turn.note("deleting", turn.name, branch="side")
        trace.handles[1].branches.delete("side")


def test_merges_in_both_directions_of_rows_changed_and_deleted(trace):
    graph = trace.handles[0]
    for number in range(6):
        trace.put(f"k{number}", number)
    mutate(trace.turn(), "link", {"a": "k1", "b": "k2", "w": 1})
    graph.branches.create("side")
    trace.update("k0", 10)
    trace.update("k0", 20, branch="side")
    mutate(trace.turn(branch="side"), "delete", {"k": "k1"})
    bring(trace.turn(), "side", "ours")
    trace.update("k3", 30)
    bring(trace.turn(handle=1, branch="side"), "main", "theirs")
    trace.put("k9", 9, branch="side")
    bring(trace.turn(), "side", "fail")
    trace.ask("nodes", on="side")
    trace.ask("edges")


def test_a_merge_whose_bases_are_two_and_whose_source_is_gone(trace):
    graph = trace.handles[0]
    for number in range(4):
        trace.put(f"k{number}", number)
    graph.branches.create("side")
    trace.update("k0", 10)
    trace.update("k1", 11, branch="side")
    for name in ("main", "side"):
        graph.branches.create(f"was-{name}", source=name)
    bring(trace.turn(), "was-side", "fail")
    bring(trace.turn(branch="side"), "was-main", "fail")
    trace.update("k0", 12, branch="side")
    bring(trace.turn(), "side", "fail")
    for name in ("was-main", "was-side", "side"):
        turn = trace.turn()
        turn.note("deleting", turn.name, branch=name)
        graph.branches.delete(name)
    trace.ask("nodes")


@pytest.mark.parametrize("strategy", ["fail", "ours", "theirs"])
def test_what_was_deleted_with_its_edges_is_brought_back_and_repeated_elsewhere(trace, strategy):
    graph = trace.handles[0]
    for number in range(3):
        trace.put(f"k{number}", number)
    mutate(trace.turn(), "link", {"a": "k0", "b": "k1", "w": 1})
    graph.branches.create("side")
    mutate(trace.turn(), "delete", {"k": "k1"})
    gone = graph.commits.list(limit=1)[0]
    apply(trace.turn(), "revert", gone, strategy)
    trace.ask("edges")
    apply(trace.turn(branch="side"), "cherry_pick", gone, strategy)
    trace.ask("edges", on="side")
    graph.tags.create("whole")
    mutate(trace.turn(), "delete", {"k": "k2"})
    trace.ask("nodes", "whole")


def test_runs_beside_other_writers_that_are_left_or_ended_by_others(trace):
    graph = trace.handles[0]
    trace.put("k0", 1)
    graph.branches.create("side")
    run(trace.turn(branch="side"))
    graph.run("side")
    run(trace.turn(handle=1))
    abort_runs(trace.turn())
    assert {one.status for one in graph.runs.list()} == {"published", "aborted"}
    bring(trace.turn(), "side", "theirs")
    trace.ask("nodes")


def test_a_merge_overtaken_by_another_that_had_seen_its_source_and_undone_it(trace, monkeypatch):
    """Both sides have more in common once the other is merged: what it undid stays undone."""
    trace.put("k0", 1)
    trace.handles[0].branches.create("side")
    trace.update("k0", 2, branch="side")
    trace.handles[0].branches.create("other", source="side")
    trace.update("k0", 1, branch="other")
    trace.put("k1", 1, branch="other")
    commit, others = run_module.commit_combined, ["other"]

    def overtaken(*args: Any, **more: Any) -> Any:
        if others:
            bring(trace.turn(handle=1), others.pop(), "fail")
        return commit(*args, **more)

    monkeypatch.setattr(run_module, "commit_combined", overtaken)
    bring(trace.turn(), "side", "fail")
    assert not others
    trace.ask("nodes")
    assert ("k0", 1) in trace.handles[0].query(QUERIES, "nodes").to_tuples()

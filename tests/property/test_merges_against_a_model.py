"""Random branches, writes, merges and upkeep, beside plain dictionaries that merge by the book."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.merges import MergeConflictError
from omnigraph.engine.merge import large, rows, run
from omnigraph.engine.merge.resolve import resolutions
from omnigraph.errors import IntegrityError
from omnigraph.graph import Graph
from omnigraph.graph.options import GraphOptions
from omnigraph.storage.options import Retention
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support import merge_model as model
from tests.support.merge_model import KNOWS, LEADS, PERSON, History
from tests.support.operations import QUIET

NAMES = ["ada", "bo", "cy", "di", "ed", "flo"]
MAILS = ["x@", "y@", "z@"]
STORAGE = replace(QUIET, retention=Retention(floor_s=0, newest_versions=1))


class Play:
    """One graph and the model of its history, changed side by side."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.dice = random.Random(seed)
        self.history = History()
        self.numbers = itertools.count()
        self.seen: dict[str, int] = {}
        self.meanwhile: list[Callable[[], None]] = []
        """What others do between the computation of a merge and its commit."""
        self._agree("main")

    def _agree(self, branch: str, *merged: str) -> None:
        """Note a commit with the state that the graph has now."""
        self.history.commit(f"c{next(self.numbers)}", branch, stored(self.graph, branch), *merged)

    def write(self, branch: str | None = None) -> None:
        dice, branch = self.dice, branch or self.branch()
        name, other = dice.choice(NAMES), dice.choice(NAMES)
        given: dict[str, Any] = {"n": name, "o": other, "v": dice.randrange(3)}
        match dice.randrange(7):
            case 0 | 1:
                given["m"] = dice.choice([*MAILS, None, None])
                text = "insert Person { name: $n, age: $v, mail: $m }"
            case 2:
                text = "update Person set { age: $v } where name = $n"
            case 3:
                text = 'update Person set { city: "rome" } where name = $n'
            case 4:
                text = "delete Person where name = $n"
            case 5:
                text = dice.choice(
                    [
                        "insert Knows { from: $n, to: $o, since: $v }",
                        "insert Leads { from: $n, to: $o }",
                    ]
                )
            case _:
                text = "delete Knows where from = $n"
        query = f"query q($n: String, $o: String, $v: I32, $m: String?) {{ {text} }}"
        given.setdefault("m", None)
        try:
            done = self.graph.mutate(query, params=given, branch=branch)
        except IntegrityError:
            return
        if done.commit_id is not None:
            self._agree(branch)

    def branch(self) -> str:
        return self.dice.choice(sorted(self.history.heads))

    def fork(self) -> None:
        if len(self.history.heads) < 4:
            source, name = self.branch(), f"b{next(self.numbers)}"
            self.graph.branches.create(name, source=source)
            self.history.heads[name] = self.history.heads[source]

    def drop(self) -> None:
        names = sorted(set(self.history.heads) - {"main"})
        if names and self.dice.random() < 0.5:
            name = self.dice.choice(names)
            try:
                self.graph.branches.delete(name)
            except omnigraph.errors.ConflictError:
                return  # another branch rests on it
            del self.history.heads[name]

    def merge_beside_others(self) -> None:
        """Merge while somebody writes to the target, or merges into it, in the last moment."""
        if len(self.history.heads) < 2:
            return
        source, target = self.dice.sample(sorted(self.history.heads), 2)
        others = sorted(self.history.heads.keys() - {target})
        for _ in range(self.dice.randrange(1, 4)):
            if self.dice.random() < 0.2:
                other = self.dice.choice(others)
                self.meanwhile.append(partial(self.merge, other, target))
            elif self.dice.random() < 0.2:
                # Without a floor a cleanup would take what a merge has read and not yet stated.
                self.meanwhile.append(partial(self.upkeep, kinds=2))
            else:
                self.meanwhile.append(partial(self.write, target))
        self.merge(source, target)
        self.meanwhile.clear()

    def others_act(self) -> None:
        """Do what was to happen in the last moment."""
        acts, self.meanwhile = self.meanwhile, []
        for act in acts:
            self.seen["meanwhile"] = self.seen.get("meanwhile", 0) + 1
            act()

    def merge(self, source: str | None = None, target: str | None = None) -> None:
        if len(self.history.heads) < 2:
            return
        if source is None or target is None:
            source, target = self.dice.sample(sorted(self.history.heads), 2)
        strategy = self.dice.choice(["fail", "fail", "theirs", "ours"])
        request = run.Request(source, target, resolutions(strategy))
        found = None
        try:
            outcome = run.merge(self.graph.store, self.graph._state.catalog, request).outcome
        except MergeConflictError as error:
            found, outcome = error, "conflict"
        before = self.history.state(target)
        expected = model.merge(self.history, source, target, strategy)
        told = [] if found is None else list(found.every)
        conflicts = [(one.table_key, one.row_id, str(one.kind)) for one in told]
        assert sorted(conflicts, key=str) == sorted(expected.conflicts, key=str)
        if found is None:
            assert outcome == expected.outcome
        else:
            assert found.total == len(conflicts)
            assert stored(self.graph, target) == before
        self.seen[outcome] = self.seen.get(outcome, 0) + 1
        if not conflicts:
            assert stored(self.graph, target) == expected.state
            if outcome != "already_up_to_date":
                self._agree(target, self.history.heads[source])

    def upkeep(self, kinds: int = 3) -> None:
        match self.dice.randrange(kinds):
            case 0:
                self.graph.optimize(self.branch())
            case 1:
                self.graph.ensure_indices(self.branch())
            case _:
                self.graph.store.cleanup(CleanupPolicy(keep_versions=1, older_than_s=0))


def stored(graph: Graph, branch: str) -> model.State:
    """Return all rows of a branch by table and id, read past every cache of the engine."""
    snapshot = graph.store.snapshot(branch)
    return {
        (key, row.pop("id")): row
        for key in (PERSON, KNOWS, LEADS)
        for row in snapshot.open(key).scan().to_pylist()
    }


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    options = GraphOptions(storage=STORAGE)
    with omnigraph.init(tmp_path / "graph", model.SCHEMA, options=options) as opened:
        yield opened


def play(graph: Graph, seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> Play:
    game = Play(graph, seed)
    commit = run.commit_combined

    def late(*args: Any, **kwargs: Any) -> Any:
        game.others_act()
        return commit(*args, **kwargs)

    monkeypatch.setattr(run, "commit_combined", late)
    for _ in range(12):
        game.write()
    moves = [game.write] * 10 + [game.merge] * 3 + [game.merge_beside_others] * 2
    moves += [game.fork] * 2 + [game.drop, game.upkeep]
    for _ in range(steps):
        game.dice.choice(moves)()
    for branch in game.history.heads:
        assert stored(graph, branch) == game.history.state(branch)
    return game


@pytest.fixture(params=["by link", "by rows", "by ranges"])
def linked_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small fragments are taken over, and small tables gone through, as large ones are."""
    monkeypatch.setattr(rows, "LINKED_FROM", 1 if request.param == "by link" else 1 << 40)
    if request.param == "by ranges":
        monkeypatch.setattr(large, "LARGE", 0)
        monkeypatch.setattr(large, "RANGE", 64)


@pytest.mark.property
@pytest.mark.usefixtures("linked_from")
@pytest.mark.parametrize("seed", range(5))
def test_merges_do_what_the_book_says(graph, seed, monkeypatch):
    play(graph, seed, 60, monkeypatch)


@pytest.mark.property
@pytest.mark.exhaustive
@pytest.mark.usefixtures("linked_from")
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_merges_do_what_the_book_says(graph, seed, monkeypatch):
    play(graph, seed, 200, monkeypatch)

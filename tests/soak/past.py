"""Every commit of a soaked graph and what it must hold, whichever branch it was made on.

A merge brings the commits of its source along, so what happened on branches that are gone is known
as well, as far as it counts. Which commits two lines have in common is found here by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omnigraph.api.history import GraphCommit
from omnigraph.engine.merge.run import SCHEMA_OF_MERGE
from tests.soak.model import Key, ModelError, Rows, State, three_way

Operations = Mapping[str, Mapping[str, Any]]
NOBODY_KNOWS = object()
"""The base of a row when bases differ and none of them is older: it equals nothing."""


class UnknownError(Exception):
    """What a commit rests on is not known."""


def brings_schema(commit: GraphCommit) -> bool:
    """Whether a commit only prepared a merge of branches with different schemas."""
    return (commit.message or "").startswith(SCHEMA_OF_MERGE)


@dataclass
class Past:
    """States by commit, made in an order in which parents come first.

    Args:
        operations: what was about to be done, by the name that signs the commit.
        find: returns a commit of any line, None if nobody knows it.
        stored: returns what a commit holds in the graph, None if that was cleaned up.
    """

    operations: Operations
    find: Callable[[str], GraphCommit | None]
    stored: Callable[[str], State | None]
    states: dict[str, State | None] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    given: int = 0
    """How many states were taken from the graph, for want of what they rest on."""
    merges: int = 0
    _commits: dict[str, GraphCommit | None] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)
    _reach: list[int] = field(default_factory=list)
    """By number, the commit and all before it, as bits."""
    _lost: int = 0
    """The commits nobody knows, as bits: what came before them is not known either."""
    _bases: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def learn(self, commits: Iterable[GraphCommit]) -> None:
        """Take in a line of commits, and all they rest on."""
        for commit in commits:
            self._commits[commit.graph_commit_id] = commit
        for commit in [one for one in self._commits.values() if one is not None]:
            for name in self._missing_first(commit.graph_commit_id):
                self._add(name)

    def _missing_first(self, last: str) -> Iterator[str]:
        """Yield what is still to be added up to a commit, parents first."""
        ahead = [last]
        while ahead:
            name = ahead[-1]
            missing = [one for one in self.rests_on(name) if one not in self.states]
            if missing and name not in self.states:
                ahead += missing
                continue
            ahead.pop()
            if name not in self.states:
                yield name

    def _commit(self, name: str) -> GraphCommit | None:
        if name not in self._commits:
            self._commits[name] = self.find(name)
        return self._commits[name]

    def _parents(self, name: str) -> list[str]:
        commit = self._commit(name)
        found = [] if commit is None else [commit.parent_commit_id, commit.merged_parent_commit_id]
        return [one for one in found if one is not None]

    def told(self, name: str) -> str:
        """Return what is known of a commit, for people."""
        operation, args = self._done(name)
        bases = {tuple(asked): found for asked, found in self._bases.items() if name in asked}
        return f"{self._commit(name)} {operation} {dict(args)} bases {bases}"

    def rests_on(self, name: str) -> list[str]:
        """Return the commits whose states decide what a commit must hold."""
        _, args = self._done(name)
        return [*self._parents(name), *(args[one] for one in ("commit", "parent") if one in args)]

    def _done(self, name: str) -> tuple[str, Mapping[str, Any]]:
        commit = self._commit(name)
        if commit is not None and brings_schema(commit):
            return "", {}
        told = self.operations.get((commit.actor_id or "") if commit is not None else "")
        return ("", {}) if told is None else (told["operation"], told["args"])

    def _add(self, name: str) -> None:
        parents = self._parents(name)
        self._numbers[name] = number = len(self._reach)
        self._names.append(name)
        self._lost |= (self._commit(name) is None) << number
        self._reach.append(1 << number | self._reach_of(parents))
        try:
            self.states[name] = self._after(name, parents)
        except UnknownError:
            self.states[name] = self.stored(name)
            self.given += 1
        except ModelError as error:
            self.wrong.append(f"{self._commit(name)}: {self._done(name)}: {error}")
            self.states[name] = self.stored(name)  # what follows is judged by itself

    def _after(self, name: str, parents: Sequence[str]) -> State:
        operation, args = self._done(name)
        if self._commit(name) is None:
            raise UnknownError(name)
        if not parents:
            return State()
        ours = self._known(parents[0])
        if operation == "merge_branch":
            self.merges += 1
            return self._merged(*parents, args["strategy"])
        if len(parents) > 1:
            raise ModelError("has two parents and is no merge")
        if operation in ("revert", "cherry_pick"):
            of, before = (self._known(args[one]).flat() for one in ("commit", "parent"))
            base, theirs = (of, before) if operation == "revert" else (before, of)
            rows = ours.flat()
            return three_way(base.get, theirs, rows, args["strategy"], {*theirs, *rows})
        if not operation:
            return ours  # upkeep
        state = ours.copy()
        state.apply(operation, args)
        return state

    def _known(self, name: str) -> State:
        state = self.states[name]
        if state is None:
            raise UnknownError(name)
        return state

    def _merged(self, parent: str, source: str, strategy: str) -> State:
        ours, theirs = self._known(parent).flat(), self._known(source).flat()
        if self._lost & self._reach_of([parent, source]):
            raise UnknownError(source)
        bases = self.bases([parent], source)
        if not bases:
            raise ModelError("merged what has nothing in common")
        images: dict[str, Rows] = {}
        return three_way(
            partial(self._image, bases, images), theirs, ours, strategy, {*theirs, *ours}
        )

    def bases(self, some: Sequence[str], other: str) -> list[str]:
        """Return the common ancestors from which no other common one comes."""
        asked = (*some, other)
        if asked not in self._bases:
            common, found = self._reach_of(some) & self._reach_of([other]), []
            while common:
                newest = common.bit_length() - 1  # parents have smaller numbers
                found.append(self._names[newest])
                common &= ~self._reach[newest]
            self._bases[asked] = sorted(found)
        return self._bases[asked]

    def _reach_of(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self._reach[self._numbers[name]]
        return found

    def _image(self, commits: Sequence[str], images: dict[str, Rows], key: Key) -> Any:
        """Return what a row was at the base that several commits are together."""
        for name in commits:
            if name not in images:
                images[name] = self._known(name).flat()
        agreed = images[commits[0]].get(key)
        for number, commit in enumerate(commits[1:], 1):
            mine = images[commit].get(key)
            base = self._image(self.bases(commits[:number], commit), images, key)
            if agreed == mine or mine == base:
                continue
            if agreed != base:
                return NOBODY_KNOWS
            agreed = mine
        return agreed

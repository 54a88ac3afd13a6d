"""Merges on plain dictionaries: a state is all rows by table and id; every rule is looked at anew.

Shares no code with the engine: its own search for bases, its own truth table, and the whole merged
graph is validated instead of what both sides changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PERSON, KNOWS, LEADS = "node:Person", "edge:Knows", "edge:Leads"
MOST_LED = 2

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  mail: String? @unique
}
edge Knows: Person -> Person {
  since: I32?
}
edge Leads: Person -> Person @card(0..2)
"""

Key = tuple[str, str]
Row = Mapping[str, Any]
State = dict[Key, Row]
Conflict = tuple[str, str | None, str]
NOBODY_KNOWS = object()


@dataclass
class History:
    """All commits with their parents and states, and the head of every branch."""

    states: dict[str, State] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)

    def commit(self, name: str, branch: str, state: State, *merged: str) -> None:
        known = (self.heads[branch],) if branch in self.heads else ()
        self.states[name], self.parents[name] = state, (*known, *merged)
        self.heads[branch] = name

    def state(self, branch: str) -> State:
        return self.states[self.heads[branch]]

    def reach(self, commit: str) -> set[str]:
        found, ahead = set(), [commit]
        while ahead:
            one = ahead.pop()
            if one not in found:
                found.add(one)
                ahead += self.parents[one]
        return found

    def bases(self, some: list[str], other: str) -> list[str]:
        common = set().union(*map(self.reach, some)) & self.reach(other)
        return sorted(
            one for one in common if not any(one in self.reach(later) - {later} for later in common)
        )

    def image(self, commits: list[str], key: Key) -> Any:
        """Return what a row was at the base that several commits are."""
        agreed = self.states[commits[0]].get(key)
        for number, commit in enumerate(commits[1:], 1):
            mine = self.states[commit].get(key)
            base = self.image(self.bases(commits[:number], commit), key)
            if agreed == mine or mine == base:
                continue
            agreed = mine if agreed == base else NOBODY_KNOWS
        return agreed


@dataclass
class Outcome:
    outcome: str
    state: State = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)


def merge(history: History, source: str, target: str, strategy: str = "fail") -> Outcome:
    """Return what merging one branch into another gives."""
    theirs, ours = history.heads[source], history.heads[target]
    if theirs in history.reach(ours):
        return Outcome("already_up_to_date", history.states[ours])
    outcome = "fast_forward" if ours in history.reach(theirs) else "merged"
    bases = history.bases([theirs], ours)
    merged, taken, conflicts = dict(history.states[ours]), set(), []
    for key in sorted({*history.states[theirs], *history.states[ours], *_keys(history, bases)}):
        base = history.image(bases, key)
        mine, here = history.states[theirs].get(key), history.states[ours].get(key)
        if mine in (here, base):
            continue
        if here != base and strategy == "fail":
            conflicts.append((*key, _kind(base, mine, here)))
        elif here == base or strategy == "theirs":
            taken.add(key)
            merged.pop(key, None)
            if mine is not None:
                merged[key] = mine
    return Outcome(outcome, merged, conflicts or sorted(broken(merged, taken), key=str))


def _keys(history: History, bases: list[str]) -> set[Key]:
    return set().union(*(history.states[one] for one in bases))


def _kind(base: Any, mine: Row | None, here: Row | None) -> str:
    if mine is None or here is None:
        return "delete_vs_update"
    return "divergent_insert" if base is None else "divergent_update"


def broken(state: State, taken: set[Key]) -> list[Conflict]:
    """Return every rule a merged state breaks, as the side that was merged in is told of it."""
    found: list[Conflict] = []
    mails: dict[str, list[str]] = {}
    led: Counter[str] = Counter()
    for (table, row_id), row in state.items():
        if table == PERSON:
            if row["mail"] is not None:
                mails.setdefault(row["mail"], []).append(row_id)
            continue
        lost = [end for end in ("src", "dst") if (PERSON, row[end]) not in state]
        found += [(table, row_id, "orphan_edge") for _ in lost]
        if table == LEADS:
            led[row["src"]] += 1
    for holders in mails.values():
        if len(holders) > 1:
            brought = [one for one in holders if (PERSON, one) in taken]
            found += [(PERSON, one, "unique_violation") for one in brought]
    found += [(LEADS, None, "cardinality_violation") for count in led.values() if count > MOST_LED]
    return found

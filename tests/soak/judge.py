"""Whether what a soak left behind, and every answer it gave, is what the plain model says."""

from __future__ import annotations

import contextlib
import random
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from omnigraph.api.history import GraphCommit
from omnigraph.errors import NotFoundError, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.storage.tables.failures import SnapshotExpiredError
from tests.soak.model import State
from tests.soak.operations import QUERIES
from tests.soak.past import Past, brings_schema

Told = list[dict[str, Any]]
Lines = dict[str, list[GraphCommit]]

NEVER = {"FormatError", "DamagedError", "InternalError", "DriftError", "BadRequestError"}
"""Errors that no fault of a soak excuses: they say that something stored is wrong."""
OF_THE_STORE = {"StorageError", "OutcomePendingError", "RunUnrecordedError"}
_SAMPLED = 16


@dataclass
class Verdict:
    """What is wrong, in words; empty means sound. `seen` counts what happened."""

    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def blame(self, text: str) -> None:
        self.wrong.append(text)


def judge(graph: Graph, told: Told, *, faults: bool) -> Verdict:
    """Replay every line of commits in the model and compare it with the graph and the answers."""
    verdict = Verdict()
    _judge_errors(told, verdict, faults=faults)
    lines = {
        branch: graph.commits.list(branch, all=True, reverse=True)
        for branch in graph.branches.list()
    }
    past = _past(graph, lines, told, verdict)
    answers: dict[str, Told] = defaultdict(list)
    for one in told:
        if one["kind"] in ("read", "exported"):
            answers[one["commit"]].append(one)
    for commit in past.states:
        for answer in answers.pop(commit, ()):
            _judge_answer(past, commit, answer, verdict)
    verdict.seen["answers at commits of deleted branches"] += sum(map(len, answers.values()))
    for branch, commits in lines.items():
        try:
            _judge_line(graph, branch, commits, past, verdict)
        except Exception:  # noqa: BLE001 - whatever keeps the end from being read is a defect
            verdict.blame(f"{branch} cannot be read: {traceback.format_exc()}")
    _judge_tags(graph, past, verdict)
    _judge_acknowledged(lines, told, verdict)
    for finding in graph.verify(deep=True):
        if not finding.harmless:
            verdict.blame(f"verify: {finding}")
    if verdict.wrong:
        verdict.wrong[:0] = _where_it_began(graph, past)
    return verdict


def _where_it_began(graph: Graph, past: Past) -> Iterator[str]:
    """Yield the commits at which graph and model part, though they agreed on what it rests on."""
    parted: set[str] = set()
    for commit, state in past.states.items():
        if state is None:
            continue
        try:
            stored = _stored(graph, "main", commit)
        except (NotFoundError, SnapshotExpiredError):
            continue
        if stored != _expected(state):
            parted.add(commit)
            if parted.isdisjoint(past.rests_on(commit)):
                yield f"began at {past.told(commit)}: {_difference(stored, _expected(state))}"


def _judge_errors(told: Told, verdict: Verdict, *, faults: bool) -> None:
    for one in told:
        kind = one["kind"]
        verdict.seen[f"{kind} {one.get('what') or one.get('operation') or ''}".strip()] += 1
        if kind in ("untyped", "unsound", "blind", "hung"):
            verdict.blame(f"{kind}: {one}")
        elif kind == "refused":
            names = {one["error"], *one["also"]}
            verdict.seen[f"  {one['error']}"] += 1
            if names & NEVER or (not faults and names & OF_THE_STORE):
                verdict.blame(f"{one['name']} {one['what']}: {one['error']}: {one['text']}")


def _past(graph: Graph, lines: Lines, told: Told, verdict: Verdict) -> Past:
    """Replay all that was done, on branches that are gone, too, if it was merged."""

    def find(commit: str) -> GraphCommit | None:
        with contextlib.suppress(NotFoundError):
            return graph.commits.get(commit)
        return None

    def stored(commit: str) -> State | None:
        with contextlib.suppress(NotFoundError):
            rows = _stored(graph, "main", commit)
            edges = {w: (a, b) for a, b, w in rows["edges"]}
            return State(dict(rows["nodes"]), dict(rows["others"]), edges)
        return None

    past = Past({one["name"]: one for one in told if one["kind"] == "begin"}, find, stored)
    for commits in lines.values():
        past.learn(commits)
    verdict.wrong += past.wrong
    verdict.seen["merges replayed"] += past.merges
    verdict.seen["states taken as they are"] += past.given
    return past


def _judge_line(
    graph: Graph, branch: str, commits: list[GraphCommit], past: Past, verdict: Verdict
) -> None:
    """Look at the head of a branch and at some of its past; nothing was done on it twice."""
    own = [one for one in commits if not brings_schema(one)]
    names = [one.actor_id for one in own if one.actor_id in past.operations]
    for name, times in Counter(names).items():
        if times > 1:
            verdict.blame(f"{branch}: {name} was committed {times} times")
    ids = [commit.graph_commit_id for commit in commits]
    dice = random.Random(branch)
    for commit in {*dice.sample(ids, min(len(ids), _SAMPLED)), *ids[-3:]}:
        _judge_state(graph, branch, commit, past.states[commit], verdict)
    head = past.states[ids[-1]]
    if head is None:
        verdict.seen["heads nobody knows"] += 1
    elif (now := _stored(graph, branch, None)) != _expected(head):
        verdict.blame(f"{branch}: the head differs: {_difference(now, _expected(head))}")


def _judge_answer(past: Past, commit: str, answer: dict[str, Any], verdict: Verdict) -> None:
    state = past.states[commit]
    if state is None:
        verdict.seen["answers nobody can check"] += 1
        return
    verdict.seen["answers checked"] += 1
    expected, given = _answers(state, answer)
    if given != expected:
        right = [name for name, one in past.states.items() if one and _is_right(one, answer)]
        verdict.blame(f"{answer}: the model says {expected}; it was true at {right[-5:]}")


def _answers(state: State, answer: dict[str, Any]) -> tuple[Any, Any]:
    """Return what should have been answered, and what was."""
    if answer["kind"] == "exported":
        return state.rows(), answer["rows"]
    return state.answer(answer["question"], answer["args"]), answer["answer"]


def _is_right(state: State, answer: dict[str, Any]) -> bool:
    expected, given = _answers(state, answer)
    return bool(expected == given)


def _judge_state(
    graph: Graph, branch: str, commit: str, state: State | None, verdict: Verdict
) -> None:
    try:
        stored = _stored(graph, branch, commit)
    except SnapshotExpiredError:
        verdict.seen["past states cleaned up"] += 1
        return
    verdict.seen["past states checked"] += 1
    if state is not None and stored != _expected(state):
        difference = _difference(stored, _expected(state))
        verdict.blame(f"{branch} at {commit} differs: {difference}")


def _judge_tags(graph: Graph, past: Past, verdict: Verdict) -> None:
    """What has a name can be read, whatever was cleaned or deleted."""
    for tag in graph.tags.list():
        verdict.seen["tags checked"] += 1
        try:
            stored = _stored(graph, "main", tag.name)
        except OmniGraphError as error:
            verdict.blame(f"{tag} cannot be read: {error}")
            continue
        state = past.states.get(tag.graph_commit_id)
        if state is not None and stored != _expected(state):
            verdict.blame(f"{tag} differs: {_difference(stored, _expected(state))}")


def _judge_acknowledged(lines: Lines, told: Told, verdict: Verdict) -> None:
    """Whatever was acknowledged on a branch that lives is in its line; what was refused is not."""
    where = {
        branch: {one.actor_id for one in line if not brings_schema(one)}
        for branch, line in lines.items()
    }
    commits = {branch: {one.graph_commit_id for one in line} for branch, line in lines.items()}
    begun = {one["name"]: one for one in told if one["kind"] == "begin"}
    deleted: dict[str, float] = {}
    for one in told:
        if one["kind"] in ("deleting", "deleted"):
            deleted[one["branch"]] = one["at"]
    for one in told:
        start = begun.get(one["name"])
        if start is None or start["branch"] not in lines:
            continue
        branch = start["branch"]
        if deleted.get(branch, 0) >= start["at"]:
            continue  # its branch was deleted since, and made again
        if one["kind"] == "wrote":
            if one["commit"] is not None and one["name"] not in where[branch]:
                verdict.blame(f"{start} was acknowledged and is not in the line of '{branch}'")
            if one["commit"] is not None and one["commit"] not in commits[branch]:
                verdict.blame(f"{one}: no such commit on '{branch}'")
            verdict.seen["acknowledged writes checked"] += 1
        elif (
            one["kind"] == "refused"
            and one["error"] not in ("OutcomePendingError", "RunUnrecordedError")
            and one["name"] in where[branch]
            and not _wrote(told, one["name"])
        ):
            verdict.blame(f"{start} was refused ({one['error']}) and is in the line all the same")


def _wrote(told: Told, name: str) -> bool:
    """Whether a first request was acknowledged before its repetition was refused."""
    return any(one["kind"] == "wrote" and one["name"] == name for one in told)


def _stored(graph: Graph, branch: str, at: str | None) -> dict[str, Any]:
    found = {}
    for question in ("nodes", "others", "edges"):
        rows = graph.query(QUERIES, question, branch=branch, at=at).to_tuples()
        found[question] = sorted(list(row) for row in rows)
    return found


def _expected(state: State) -> dict[str, Any]:
    return {question: state.answer(question, {}) for question in ("nodes", "others", "edges")}


def _difference(stored: dict[str, Any], expected: dict[str, Any]) -> str:
    parts = []
    for question, rows in stored.items():
        here, there = {tuple(row) for row in rows}, {tuple(row) for row in expected[question]}
        parts.append(
            f"{question} too many {sorted(here - there)[:5]} missing {sorted(there - here)[:5]}"
        )
    return "; ".join(parts)

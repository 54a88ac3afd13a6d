"""The judge finds what is wrong: a model that agrees with everything would prove nothing."""

from __future__ import annotations

import pytest

from omnigraph.api.history import GraphCommit
from tests.soak.model import ModelError, State, three_way
from tests.soak.past import NOBODY_KNOWS, Past


def commit(name: str, *parents: str) -> GraphCommit:
    parent, merged = (*parents, None, None)[:2]
    return GraphCommit(name, None, 1, parent, merged, name, 0)


def put(**args: int) -> dict[str, object]:
    return {"operation": "put", "args": args}


def past_of(*commits: GraphCommit, **operations: dict[str, object]) -> Past:
    found = {one.graph_commit_id: one for one in commits}
    past = Past(operations, found.get, lambda _: None)
    past.learn(commits[-1:])
    return past


def merging(strategy: str) -> dict[str, object]:
    return {"operation": "merge_branch", "args": {"strategy": strategy}}


CROSSED = (
    commit("root"),
    commit("a", "root"),
    commit("b", "root"),
    commit("ab", "a", "b"),
    commit("ba", "b", "a"),
    commit("a2", "ab"),
    commit("end", "a2", "ba"),
)


def crossed(a: int, b: int, **strategies: str) -> Past:
    told = {name: merging(strategies.get(name, "fail")) for name in ("ab", "ba", "end")}
    told |= {"a": put(k=1, v=a), "b": put(k=1, v=b), "a2": put(k=1, v=9)}
    return past_of(*CROSSED, **told)


def test_lines_that_were_merged_both_ways_have_two_bases():
    past = crossed(1, 1)
    assert past.bases(["a2"], "ba") == ["a", "b"]
    assert past.states["end"] == State({1: 9}, {1: 9})
    assert not past.wrong


def test_where_bases_differ_without_an_order_every_change_conflicts():
    past = crossed(1, 2, ab="ours", ba="ours", end="ours")
    assert past._image(["a", "b"], {}, ("P", 1)) is NOBODY_KNOWS
    assert not past.wrong
    assert past.states["end"] == State({1: 9}, {1: 9})
    assert crossed(1, 2, ab="ours", ba="ours", end="fail").wrong


def test_a_merge_that_should_have_been_refused_is_told():
    past = crossed(1, 2)
    assert len(past.wrong) == 2
    assert past.given == 2
    assert "merged ('P', 1)" in past.wrong[0]


def test_a_state_with_edges_that_lead_nowhere_is_told():
    with pytest.raises(ModelError, match="no end"):
        three_way({}.get, {("E", 1): ("x", "y")}, {}, "theirs", [("E", 1)])


def test_a_source_nobody_knows_leaves_what_is_stored():
    stored = State({"k": 1}, {"k": 1})
    commits = {one.graph_commit_id: one for one in (commit("root"), commit("end", "root", "gone"))}
    past = Past({"end": merging("fail")}, commits.get, {"end": stored}.get)
    past.learn(commits.values())
    assert past.states["end"] == stored
    assert past.given == 2

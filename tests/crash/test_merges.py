"""Merges of several processes into one branch, beside writers, and killed at every gap."""

from __future__ import annotations

import pytest

import omnigraph
from tests.support.fast import FAST
from tests.support.graph_tasks import SCHEMA, merge_own_branch, mutate_each

pytestmark = pytest.mark.crash
GAPS = (
    "publish.after_sidecar",
    "publish.between_tables",
    "publish.after_tables",
    "publish.after_publish",
)
ROUNDS = 4


@pytest.fixture
def uri(tmp_path):
    place = str(tmp_path / "graph")
    with omnigraph.init(place, SCHEMA, options=FAST) as graph:
        for name in ("one", "two", "three"):
            graph.mutate(f'query q() {{ insert Person {{ name: "of {name}", age: 0 }} }}')
    return place


def ages(graph, branch="main"):
    found = graph.query(
        "query q() { match { $p: Person } return { $p.name as n, $p.age as a } }", branch=branch
    )
    return {row["n"]: row["a"] for row in found}


def test_processes_merge_into_one_branch_beside_writers(start, uri):
    mergers = [start(merge_own_branch, uri, name, ROUNDS) for name in ("one", "two", "three")]
    writes = [("query q($n: String) { insert Person { name: $n, age: 7 } }", {"n": f"w{number}"})
              for number in range(12)]  # fmt: skip
    writer = start(mutate_each, uri, writes)
    for child in (*mergers, writer):
        child.succeed()
    expected = {f"w{number}": 7 for number in range(12)}
    for name in ("one", "two", "three"):
        expected |= {f"{name}-{number}": number for number in range(ROUNDS)}
        expected[f"of {name}"] = ROUNDS - 1
    with omnigraph.connect(uri, options=FAST) as graph:
        assert ages(graph) == expected
        merges = [one for one in graph.commits.list() if one.merged_parent_commit_id]
        assert len(merges) == 3 * ROUNDS
        assert graph.query(
            "query q() { match { $p: Person $p knows $q } return { count($q) as n } }"
        ).to_dicts() == [{"n": 3 * ROUNDS}]
        for name in ("one", "two", "three"):
            assert graph.branches.merge(name).tables == ()
        assert not [one for one in graph.verify() if not one.harmless]


@pytest.mark.parametrize("gap", GAPS)
def test_a_merge_that_is_killed_happened_or_did_not(gap, start, uri):
    with omnigraph.connect(uri, options=FAST) as graph:
        before = ages(graph)
    # The branch, and its three writes: then the merge is the one that is killed.
    dead = start(merge_own_branch, uri, "one", 1, points=f"{gap}=kill@3").wait()
    assert dead.was_killed, dead.said
    with omnigraph.connect(uri, options=FAST) as graph:
        assert ages(graph) in (before, ages(graph, "one"))
        graph.branches.merge("one")
        assert ages(graph) == ages(graph, "one") == before | {"of one": 0, "one-0": 0}
        merges = [one for one in graph.commits.list() if one.merged_parent_commit_id]
        assert len(merges) == 1
        assert not [one for one in graph.verify() if not one.harmless]

"""Runs on the command line: whatever a program left can be seen and ended."""

import json

import pytest

import omnigraph

INSERT = "query q($n: String) { insert Person { name: $n, age: 1 } }"


@pytest.fixture
def left(people):
    """The id of a run that nobody goes on with."""
    with omnigraph.connect(people / "people.omni") as graph:
        run = graph.run("main", operation_hash="h7", actor="eve")
        run.mutate(INSERT, params={"n": "Zoe"})
        return run.run_id


def test_a_run_that_was_left_is_listed_and_published(cli, left):
    listed = cli("run", "list").out
    assert listed.startswith(f"{left} running target=main at=")
    assert listed.endswith("hash=h7 actor=eve\n")
    assert json.loads(cli("run", "show", left, "--json").out)["status"] == "running"
    done = cli("run", "publish", left, "-m", "at last", "--json")
    assert done.code == 0, done.err
    newest = json.loads(cli("commit", "list", "--limit", "1", "--json").out)["commits"][0]
    assert json.loads(done.out)["published_snapshot_id"] == newest["graph_commit_id"]
    assert (newest["actor_id"], newest["message"]) == ("eve", "at last")
    assert cli("run", "abort", left).code != 0


def test_a_run_that_was_left_is_aborted(cli, left):
    assert cli("run", "abort", left).out.startswith(f"{left} aborted")
    assert [one["status"] for one in json.loads(cli("run", "list", "--json").out)["runs"]] == [
        "aborted"
    ]
    refused = cli("run", "publish", left)
    assert refused.code != 0
    assert "not publishable from status 'aborted'" in refused.err
    assert "run 'no-such' not found" in cli("run", "show", "no-such").err

"""Runs: several writes that reach their target together, or not at all."""

from __future__ import annotations

import threading

import pytest

import omnigraph
from omnigraph.api.merges import MergeConflictError
from omnigraph.engine.merge.run import Request
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from omnigraph.graph import GraphOptions
from omnigraph.graph.merging import merge_branch
from omnigraph.storage.branches import runs as records
from omnigraph.storage.branches.runs import RunUnrecordedError
from omnigraph.storage.locks.leases import LeaseLostError
from omnigraph.storage.options import Retention, StorageOptions
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.children import children
from tests.support.operations import interrupted

SCHEMA = "node P { k: String @key\n v: I64 }"
INSERT = "query i($k: String, $v: I64) { insert P { k: $k, v: $v } }"
UPDATE = "query u($k: String, $v: I64) { update P set { v: $v } where k = $k }"
ALL = "query q() { match { $p: P } return { $p.k, $p.v } }"
OPTIONS = GraphOptions(
    StorageOptions(
        durability="os",
        retention=Retention(floor_s=0, newest_versions=1, manifest_versions=1),
        maintenance="manual",
    ),
    embedder=None,
)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "graph"


@pytest.fixture
def graph(place):
    with omnigraph.init(place, SCHEMA, options=OPTIONS) as made:
        put(made, "a", 1)
        yield made


def put(graph, key, value):
    return graph.mutate(INSERT, params={"k": key, "v": value})


def rows(graph):
    return dict(graph.query(ALL).to_tuples())


def sound(graph):
    return all(finding.harmless for finding in graph.verify())


def fail_after(run):
    put(run, "b", 2)
    raise ZeroDivisionError


def test_what_a_run_wrote_is_seen_by_others_only_once_it_is_published(graph):
    base = graph.snapshot().commit_id
    with graph.run("main", operation_hash="h1", actor="eve") as run:
        put(run, "b", 2)
        run.load(b'{"type":"P","data":{"k":"c","v":3}}', "append")
        assert rows(run) == {"a": 1, "b": 2, "c": 3}
        assert rows(graph) == {"a": 1}
        assert graph.branches.list() == ["main"]
        put(graph, "d", 4)
    assert rows(graph) == {"a": 1, "b": 2, "c": 3, "d": 4}
    (record,) = graph.runs.list()
    assert record == run.record == graph.runs.get(run.run_id)
    assert (record.status, record.operation_hash, record.actor_id) == ("published", "h1", "eve")
    assert record.base_snapshot_id == base
    newest = graph.commits.list(limit=1)[0]
    assert (newest.graph_commit_id, newest.actor_id) == (record.published_snapshot_id, "eve")
    assert graph.runs.publish(run.run_id) == record
    assert graph.commits.list(limit=1) == [newest]
    assert sound(graph)


def test_a_run_whose_block_raises_is_aborted_and_leaves_nothing(graph):
    run = graph.run()
    with pytest.raises(ZeroDivisionError), run:
        fail_after(run)
    assert rows(graph) == {"a": 1}
    assert graph.runs.get(run.run_id).status == "aborted"
    assert graph.runs.abort(run.run_id).status == "aborted"
    with pytest.raises(ConflictError, match="not publishable from status 'aborted'"):
        graph.runs.publish(run.run_id)
    with pytest.raises(NotFoundError):
        rows(run)


def test_a_published_run_cannot_be_aborted(graph):
    with graph.run() as run:
        put(run, "b", 2)
    with pytest.raises(ConflictError, match="is already published"):
        graph.runs.abort(run.run_id)
    assert rows(graph) == {"a": 1, "b": 2}


def test_a_run_that_conflicts_goes_on_and_can_be_published_once_it_fits(graph):
    run = graph.run()
    run.mutate(UPDATE, params={"k": "a", "v": 10})
    graph.mutate(UPDATE, params={"k": "a", "v": 20})
    with pytest.raises(MergeConflictError):
        run.publish()
    assert (rows(graph), rows(run)) == ({"a": 20}, {"a": 10})
    assert graph.runs.get(run.run_id).status == "running"
    graph.mutate(UPDATE, params={"k": "a", "v": 1})
    assert run.publish().status == "published"
    assert rows(graph) == {"a": 10}


def test_a_run_that_wrote_nothing_makes_no_commit(graph):
    head = graph.snapshot().commit_id
    with graph.run() as run:
        pass
    assert graph.snapshot().commit_id == head
    assert (run.record.status, run.record.published_snapshot_id) == ("published", head)


def test_a_branch_that_a_run_is_meant_for_is_not_deleted_before_it_ends(graph):
    graph.branches.create("side")
    run = graph.run("side")
    with pytest.raises(ConflictError):
        graph.branches.delete("side")
    put(run, "b", 2)
    run.publish()
    graph.branches.delete("side")


def test_cleanup_keeps_what_a_run_reads_and_began_from(graph):
    run = graph.run()
    put(run, "b", 2)
    for number in range(4):
        graph.mutate(UPDATE, params={"k": "a", "v": 10 + number})
        graph.optimize()
    graph.store.cleanup(CleanupPolicy(keep_versions=1, older_than_s=0))
    assert sound(graph)
    assert rows(run) == {"a": 1, "b": 2}
    run.publish()
    assert rows(graph) == {"a": 13, "b": 2}
    graph.store.cleanup(CleanupPolicy(keep_versions=1, older_than_s=0))
    assert sound(graph)


def test_a_publisher_that_died_after_the_merge_publishes_again_without_merging_twice(graph):
    run = graph.run()
    put(run, "b", 2)
    request = Request(run.name, "main")
    merged = merge_branch(graph._state, request, delete_source=False).commit_id
    put(graph, "c", 3)
    assert graph.runs.publish(run.run_id).published_snapshot_id == merged
    assert len(graph.commits.list()) == 4


def test_a_run_that_never_had_a_branch_fails_when_it_is_published_and_can_be_aborted(graph):
    with interrupted("run.after_record=raise"):
        graph.run()
    (left,) = graph.runs.list()
    with pytest.raises(NotFoundError):
        graph.runs.publish(left.run_id)
    assert graph.runs.get(left.run_id).status == "failed"
    assert graph.runs.abort(left.run_id).status == "aborted"


def test_a_branch_that_outlived_its_run_goes_when_the_next_one_begins(graph):
    run = graph.run()
    put(run, "b", 2)
    with interrupted("run.after_end=raise"):
        run.publish()
    assert graph.runs.get(run.run_id).status == "published"
    assert rows(run) == {"a": 1, "b": 2}
    graph.run().abort()
    with pytest.raises(NotFoundError):
        rows(run)
    assert rows(graph) == {"a": 1, "b": 2}
    assert sound(graph)


@pytest.mark.parametrize("name", ["__run__01KP2Y8Z3V9Q6W4T7R5N1M0XBC", "../x", ""])
def test_an_unknown_run_is_not_found(graph, name):
    for ask in (graph.runs.get, graph.runs.publish, graph.runs.abort):
        with pytest.raises(NotFoundError):
            ask(name)


def test_the_branch_of_a_run_is_nobody_elses(graph):
    run = graph.run()
    for ask in (graph.branch, graph.branches.create, graph.branches.delete, graph.branches.merge):
        with pytest.raises(BadRequestError, match="internal"):
            ask(run.record.run_branch)


def work_and_wait(say, place):
    """Child task: begin a run, write, and be killed."""
    with omnigraph.connect(place, options=OPTIONS) as graph, graph.run(operation_hash="h") as run:
        put(run, "b", 2)
        say("wrote")
        threading.Event().wait()


@pytest.mark.parametrize("end", ["abort", "publish"])
def test_a_run_whose_process_died_is_listed_and_ended_by_another(graph, place, end):
    with children() as start:
        child = start(work_and_wait, str(place))
        child.wait_for("wrote")
        child.kill()
    (left,) = graph.runs.list()
    assert (left.status, left.operation_hash) == ("running", "h")
    done = getattr(graph.runs, end)(left.run_id)
    assert done.status == {"abort": "aborted", "publish": "published"}[end]
    assert rows(graph) == ({"a": 1} if end == "abort" else {"a": 1, "b": 2})
    assert sound(graph)


def test_a_run_that_is_merged_but_not_recorded_is_no_failure_of_its_writes(graph, monkeypatch):
    work = graph.run("main")
    work.mutate(INSERT, params={"k": "new", "v": 1})

    def taken_over(*_):
        raise LeaseLostError("the lease went to others")

    with monkeypatch.context() as lost:
        lost.setattr(records, "_keep", taken_over)
        with pytest.raises(RunUnrecordedError, match="is merged by commit") as caught:
            graph.runs.publish(work.run_id)
    head = graph.snapshot().commit_id
    assert caught.value.commit_id == head
    assert graph.runs.get(work.run_id).status == "running"
    with pytest.raises(ConflictError, match="already published"):
        graph.runs.abort(work.run_id)
    done = graph.runs.publish(work.run_id)
    assert (done.status, done.published_snapshot_id) == ("published", head)
    assert graph.snapshot().commit_id == head

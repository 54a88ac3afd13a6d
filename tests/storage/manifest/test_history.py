"""Snapshots of now and then, commits, and the projections made of them."""

import shutil
from dataclasses import replace

import pytest

from omnigraph.api.history import TableNotFoundError
from omnigraph.base import failpoints
from omnigraph.errors import NotFoundError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.history import CommitNotFoundError
from omnigraph.storage.manifest.projections import lagging_branches, reconcile
from omnigraph.storage.options import Retention
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.scan import Reader
from tests.storage.conftest import QUIET, SteeredClock
from tests.support.operations import interrupted
from tests.support.storage_model import SCHEMA, A, B, contents, empty_graph, once, rows, write


def projected(store, location=layout.COMMITS):
    return Reader(store.kernel.tables.open_latest(location, None)).scan()


def test_a_snapshot_does_not_move_when_the_graph_does(store):
    write(store, {A: {"a": 1}})
    old = store.snapshot()
    write(store, {A: {"a": 2, "b": 1}})
    assert contents(old)[A] == {"a": 1}
    assert old.open(A).scan(where=equals("id", "a"))["v"].to_pylist() == [1]


def test_another_process_sees_a_commit_at_its_next_snapshot(store, root):
    with open_store(str(root), read_only=True, options=QUIET) as other:
        assert contents(other.snapshot())[A] == {}
        write(store, {A: {"a": 1}})
        assert contents(other.snapshot())[A] == {"a": 1}


def test_every_commit_can_be_read_by_id_and_by_version(store):
    states = [contents(store.snapshot())]
    for i in range(4):
        write(store, {A: {f"k{i}": i}, B: {"b": i}})
        states.append(contents(store.snapshot()))
    for commit, state in zip(store.commits(), states, strict=True):
        assert contents(store.snapshot_at(commit_id=commit.id)) == state
        assert contents(store.snapshot_at(version=commit.manifest_version)) == state


def test_the_past_of_a_branch_includes_what_it_inherited(store):
    first = write(store, {A: {"a": 1}})
    store.branches.create("side")
    second = write(store, {A: {"s": 1}}, "side")
    write(store, {A: {"m": 1}})
    assert [commit.id for commit in store.commits("side")][1:] == [first, second]
    assert contents(store.snapshot_at(commit_id=second))[A] == {"a": 1, "s": 1}
    assert contents(store.snapshot_at(commit_id=first, branch="side"))[A] == {"a": 1}


def test_what_never_was_is_not_found(store):
    with pytest.raises(CommitNotFoundError):
        store.snapshot_at(commit_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(CommitNotFoundError):
        store.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(NotFoundError, match="newest is 1"):
        store.snapshot_at(version=99)
    with pytest.raises(TableNotFoundError, match="node:Nope"):
        store.snapshot().open("node:Nope")


def test_commits_carry_their_line_time_and_actor(store):
    session = store.begin(actor="ann")
    session.append(A, rows({"a": 1}))
    made = session.commit(result={"rows": 1})
    told = store.commit(made.id)
    assert told == made.commit
    genesis, last = store.commits()
    assert (last.parent, last.actor, last.result) == (genesis.id, "ann", {"rows": 1})
    assert last.created_at_us >= genesis.created_at_us > 1_600_000_000_000_000


def test_projections_hold_one_row_per_commit_and_actor(store, root):
    session = store.begin(actor="ann")
    session.append(A, rows({"a": 1}))
    made = session.commit()
    store.close()
    with open_store(str(root), options=QUIET) as again:
        commits = projected(again).to_pylist()
        assert [row["graph_commit_id"] for row in commits] == [c.id for c in again.commits()]
        assert (commits[1]["manifest_branch"], commits[1]["manifest_version"]) == (None, 2)
        actors = projected(again, layout.COMMIT_ACTORS).to_pylist()
        assert [(row["graph_commit_id"], row["actor_id"]) for row in actors] == [(made.id, "ann")]


@pytest.mark.parametrize("lost", [layout.COMMITS, layout.COMMIT_ACTORS])
def test_a_lost_projection_is_rebuilt_at_the_next_open(store, root, lost):
    for i in range(3):
        session = store.begin(actor="ann")
        session.append(A, rows({f"k{i}": i}))
        session.commit()
    store.close()
    open_store(str(root), options=QUIET).close()
    before = projected(store, lost).to_pylist()
    assert len(before) >= 3
    shutil.rmtree(root / lost)
    with open_store(str(root), options=QUIET) as again:
        assert projected(again, lost).to_pylist() == before


@pytest.mark.parametrize("torn", [layout.COMMITS, layout.COMMIT_ACTORS])
@pytest.mark.parametrize("part", ["_versions/*.manifest", "data/*.lance"])
def test_a_torn_projection_is_rebuilt_at_the_next_open_though_the_others_are_whole(
    store, root, torn, part
):
    session = store.begin(actor="ann")
    session.append(A, rows({"a": 1}))
    session.commit()
    store.close()
    open_store(str(root), options=QUIET).close()
    before = projected(store, torn).to_pylist()
    max((root / torn).glob(part), key=lambda path: path.stat().st_mtime_ns).write_bytes(b"")
    with open_store(str(root), options=QUIET) as again:
        assert projected(again, torn).to_pylist() == before


def test_reconciling_twice_adds_nothing(store):
    write(store, {A: {"a": 1}})
    head = store._heads.current("main")
    assert reconcile(store.kernel, head) == 1
    assert reconcile(store.kernel, head) == 0
    write(store, {A: {"b": 1}})
    assert reconcile(store.kernel, store._heads.current("main")) == 1


def test_a_projection_extended_many_times_stays_in_few_pieces(store):
    for i in range(70):
        write(store, {A: {f"k{i}": i}})
        reconcile(store.kernel, store._heads.current("main"))
    assert len(projected(store)) == 71
    handle = store.kernel.tables.open_latest(layout.COMMITS, None)
    assert handle.fragment_count < 40


def test_commits_of_branches_are_projected_with_their_branch(store):
    store.branches.create("side")
    made = write(store, {A: {"s": 1}}, "side")
    reconcile(store.kernel, store._heads.current("side"))
    told = {row["graph_commit_id"]: row for row in projected(store).to_pylist()}
    assert told[made]["manifest_branch"] == "side"


def test_an_interrupted_reconciliation_is_finished_later(store):
    write(store, {A: {"a": 1}})
    with interrupted("projections.between=raise"):
        reconcile(store.kernel, store._heads.current("main"))
    failpoints.disable_all()
    reconcile(store.kernel, store._heads.current("main"))
    assert len(projected(store)) == 2


def test_a_recovery_is_projected_and_joined_to_its_commit(store, root):
    session = store.begin(actor="ann")
    session.append(A, rows({"a": 1}))
    with interrupted("publish.after_tables=raise"):
        session.commit()
    store.close()
    with open_store(str(root), options=QUIET) as again:
        row = projected(again, layout.COMMIT_RECOVERIES).to_pylist()[0]
        audit = again.commit(row["graph_commit_id"])
        assert audit.actor == "omnigraph:recovery"
        assert (row["recovery_kind"], row["recovery_for_actor"], row["sidecar_writer_kind"]) == (
            "RolledForward",
            "ann",
            "Mutation",
        )


def test_idempotency_keys_are_forgotten_after_their_time(root):
    options = replace(QUIET, retention=Retention(idempotency_s=0, idempotency_commits=0))
    with empty_graph(root, options) as store:
        for i in range(2):
            session = store.begin()
            session.append(A, rows({f"k{i}": i}))
            made = session.commit(preconditions=once("k", "h"))
            assert made.outcome == "committed"


@pytest.mark.parametrize("skew_s", [0, 400 * 86_400, -400 * 86_400])
def test_idempotency_keys_are_remembered_whatever_the_clocks_say(root, skew_s):
    clock = SteeredClock()
    with empty_graph(root, QUIET) as store:
        session = store.begin()
        session.append(A, rows({"k": 1}))
        session.commit(preconditions=once("k", "h"))
    clock.ahead_s = skew_s
    with open_store(str(root), options=QUIET, clock=clock) as skewed:
        write(skewed, {A: {"x": 1}})
        for number in range(2):
            clock.ahead_s = skew_s * number
            session = skewed.begin()
            session.append(A, rows({"again": 1}))
            made = session.commit(preconditions=once("k", "h"))
            assert made.outcome == "replayed"


def test_a_key_counts_again_once_its_branch_has_moved_on_in_time_and_commits(root):
    clock = SteeredClock()
    options = replace(QUIET, retention=Retention(idempotency_commits=2))
    with empty_graph(root, options) as first:
        first.close()
    outcomes = []
    with open_store(str(root), options=options, clock=clock) as store:
        for number in range(5):
            session = store.begin()
            session.append(A, rows({f"k{number}": 1}))
            made = session.commit(preconditions=once("k", "h"))
            outcomes.append(made.outcome)
            clock.ahead_s += 4 * 86_400
            write(store, {A: {f"x{number}": 1}})
    assert outcomes == ["committed", "replayed", "committed", "replayed", "committed"]


def test_a_table_dropped_and_made_anew_by_one_commit_is_part_of_its_past(store):
    write(store, {A: {"old": 1}})
    session = store.begin()
    session.drop_table(A)
    session.create_table(TableSpec(A, SCHEMA), rows({"new": 1}))
    made = session.commit().id
    write(store, {B: {"b": 1}})
    assert contents(store.snapshot_at(commit_id=made))[A] == {"new": 1}
    store.branches.create("then", commit_id=made)
    assert contents(store.snapshot("then"))[A] == {"new": 1}
    assert contents(store.snapshot())[A] == {"new": 1}


def test_opening_for_writing_projects_the_commits_actors_and_recoveries_of_every_branch(
    store, root
):
    write(store, {A: {"a": 1}})
    for name in ("x", "y", "quiet"):
        store.branches.create(name)
    for name in ("x", "y"):
        session = store.begin(name, actor=f"act-{name}")
        session.append(A, rows({name: 1}))
        session.commit()
    session = store.begin("x", actor="ann")
    session.append(A, rows({"half": 1}))
    with interrupted("publish.after_tables=raise"):
        session.commit()
    store.close()
    with open_store(str(root), options=QUIET) as again:
        ids = set(projected(again)["graph_commit_id"].to_pylist())
        for name in ("main", "x", "y", "quiet"):
            assert {commit.id for commit in again.commits(name)} <= ids
        actors = set(projected(again, layout.COMMIT_ACTORS)["actor_id"].to_pylist())
        assert {"act-x", "act-y", "ann"} <= actors
        assert len(projected(again, layout.COMMIT_RECOVERIES)) == 1
        assert again.verify() == []
        assert lagging_branches(again.kernel) == []


def test_a_branch_of_an_old_name_is_projected_though_its_versions_are_known(store, root):
    write(store, {A: {"a": 1}})
    store.close()
    before = SteeredClock(ahead_s=-10.0)  # Lance states when a branch was made in whole seconds
    for clock in (before, SteeredClock()):
        with open_store(str(root), options=QUIET, clock=clock) as once:
            once.branches.create("side")
            write(once, {A: {"s": 1}}, "side")
            last = once.snapshot("side")
        with open_store(str(root), options=QUIET) as again:
            assert last.commit_id in projected(again)["graph_commit_id"].to_pylist()
            again.branches.delete("side")

"""A store that fails in the middle: "failed" means it never counts, success that it does."""

import pytest

from omnigraph.errors import ErrorKind, NotFoundError, StorageError
from omnigraph.storage import create
from omnigraph.storage.commit import window
from omnigraph.storage.files import layout
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.locks.leases import LeaseLostError
from omnigraph.storage.manifest import publish
from omnigraph.storage.manifest.rows import find_commit
from omnigraph.storage.store import open_store
from tests.storage.conftest import QUIET
from tests.support.storage_model import (
    A,
    B,
    check_lines,
    check_settled,
    check_whole,
    contents,
    empty_graph,
    once,
    rows,
    write,
)


def _failing(times, original, *, after=False):
    """Return the function as a store behaves that fails some calls, before or after doing them."""
    left = iter(times)

    def call(*arguments, **options):
        fails = next(left, False)
        if fails and not after:
            raise StorageError("the disk is full")
        done = original(*arguments, **options)
        if fails:
            raise StorageError("the answer got lost")
        return done

    return call


def _session(store):
    session = store.begin()
    session.upsert(A, rows({"n": 1}))
    session.upsert(B, rows({"n": 1}))
    return session


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
def test_a_head_swap_that_fails_once_is_finished_under_the_same_lock(store, monkeypatch, after):
    swap = _failing([True], publish.finish_publish, after=after)
    monkeypatch.setattr(publish, "finish_publish", swap)
    session = _session(store)
    commit = session.commit(preconditions=once("k", "h"))
    assert commit.outcome == "committed"
    assert contents(store.snapshot())[A] == contents(store.snapshot())[B] == {"n": 1}
    assert find_commit(store._heads.current(layout.MAIN).handle, commit.id) is not None
    again = _session(store)
    replay = again.commit(preconditions=once("k", "h"))
    assert (replay.id, replay.outcome) == (commit.id, "replayed")
    assert store.counters.get("interrupted_commits") == 1
    check_settled(store)
    check_lines(store)


def test_a_barrier_that_fails_once_does_not_lose_the_write(store, monkeypatch):
    monkeypatch.setattr(publish, "sync_versions", _failing([False, True], publish.sync_versions))
    _session(store).commit()
    assert contents(store.snapshot())[B] == {"n": 1}
    check_settled(store)


def test_a_table_that_could_not_be_moved_means_failed_for_ever(store, monkeypatch, root):
    move = _failing([False, True], publish.commit_staged)
    monkeypatch.setattr(publish, "commit_staged", move)
    with pytest.raises(StorageError, match="the disk is full") as refused:
        _session(store).commit()
    assert not isinstance(refused.value, OutcomePendingError)
    assert contents(store.snapshot())[A] == {}
    check_settled(store)
    with open_store(str(root), options=QUIET) as reopened:
        assert contents(reopened.snapshot())[A] == {}
        check_whole(reopened)


def test_what_cannot_be_settled_now_is_said_to_be_open_and_is_settled_later(
    store, monkeypatch, root
):
    swap = _failing([True] * 5, publish.finish_publish)
    monkeypatch.setattr(publish, "finish_publish", swap)
    with pytest.raises(OutcomePendingError, match="neither done nor undone") as pending:
        _session(store).commit(preconditions=once("k", "h"))
    assert pending.value.kind is ErrorKind.OUTCOME_PENDING
    assert contents(store.snapshot())[A] == {}
    monkeypatch.undo()
    again = _session(store)
    assert again.commit(preconditions=once("k", "h")).outcome == "replayed"
    assert store.commit(pending.value.commit_id).id == pending.value.commit_id
    assert contents(store.snapshot())[A] == {"n": 1}
    with open_store(str(root), options=QUIET) as reopened:
        check_whole(reopened)


def test_a_lost_lease_leaves_the_outcome_to_whoever_took_over(store, monkeypatch):
    def lost(*_):
        raise LeaseLostError("the lease is gone")

    monkeypatch.setattr(publish, "swap_head", lost)
    monkeypatch.setattr(window, "recover_branch", lost)
    with pytest.raises(OutcomePendingError):
        _session(store).commit()
    monkeypatch.undo()
    write(store, {A: {"later": 1}})
    assert contents(store.snapshot())[B] == {"n": 1}, "the tables had moved, so it counts"


def test_a_branch_whose_creation_fails_is_not_there(store, monkeypatch):
    sync = _failing([True], store.kernel.objects.sync_named)
    monkeypatch.setattr(store.kernel.objects, "sync_named", sync)
    with pytest.raises(StorageError, match="full"):
        store.branches.create("dev")
    assert [info.name for info in store.branches.list()] == ["main"]
    assert not store.kernel.objects.list(layout.BRANCH_INTENTS)
    store.branches.create("dev")
    write(store, {A: {"x": 1}}, "dev")


def test_a_branch_whose_creation_can_neither_be_finished_nor_undone_is_pending(store, monkeypatch):
    objects = store.kernel.objects
    monkeypatch.setattr(objects, "sync_named", _failing([True], objects.sync_named))
    monkeypatch.setattr(objects, "delete_prefix", _failing([True], objects.delete_prefix))
    with pytest.raises(OutcomePendingError, match="dev"):
        store.branches.create("dev")
    monkeypatch.undo()
    assert [info.name for info in store.branches.list()] == ["main"]
    store.branches.create("dev")


def test_a_branch_whose_deletion_may_not_last_is_pending(store, monkeypatch):
    store.branches.create("dev")
    objects = store.kernel.objects
    sync_dirs = objects.sync_dirs

    def but_not_refs(folders):
        if f"{layout.MANIFEST}/{layout.REFS_DIR}" in (listed := list(folders)):
            raise StorageError("the disk is full")
        sync_dirs(listed)

    monkeypatch.setattr(objects, "sync_dirs", but_not_refs)
    with pytest.raises(OutcomePendingError, match="dev"):
        store.branches.delete("dev")


def test_a_deleted_branch_stays_deleted_if_its_files_cannot_be_removed(store, monkeypatch):
    store.branches.create("dev")
    objects = store.kernel.objects
    monkeypatch.setattr(objects, "delete_prefix", _failing([True], objects.delete_prefix))
    store.branches.delete("dev")
    assert [info.name for info in store.branches.list()] == ["main"]
    store.branches.create("dev")
    assert contents(store.snapshot("dev")) == contents(store.snapshot())


def test_an_init_that_fails_leaves_no_graph(root, monkeypatch):
    monkeypatch.setattr(create, "sync_versions", _failing([False, True], create.sync_versions))
    with pytest.raises(StorageError, match="full"):
        empty_graph(root, QUIET)
    with pytest.raises(NotFoundError):
        open_store(str(root), options=QUIET)
    monkeypatch.undo()
    with empty_graph(root, QUIET) as store:
        check_whole(store)

"""A write counts once: after a crash and a retry, after a lost answer, after a branch came back."""

from __future__ import annotations

import lance
import pytest

from omnigraph.base import failpoints
from omnigraph.errors import StorageError
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.manifest.history import IdempotencyConflictError
from omnigraph.storage.store import open_store
from tests.support.operations import QUIET, interrupted
from tests.support.storage_model import A, B, check_whole, contents, new_graph, once, rows, write
from tests.support.writers import hold_and_commit

pytestmark = pytest.mark.crash
GAPS = sorted(name for name in failpoints.REGISTRY if name.startswith("publish."))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "graph"


def checked(root):
    with open_store(str(root), options=QUIET) as store:
        check_whole(store)


@pytest.mark.parametrize("gap", GAPS)
def test_a_crash_and_a_retry_with_the_same_key_write_once(gap, start, root):
    with new_graph(root, QUIET) as store:
        dead = start(hold_and_commit, str(root), QUIET, "main", "n", points=f"{gap}=kill").wait()
        assert dead.was_killed
        outcomes = [start(hold_and_commit, str(root), QUIET, "main", "n").succeed().said[-1]]
        outcomes += [start(hold_and_commit, str(root), QUIET, "main", "n").succeed().said[-1]]
        assert outcomes[1] == "committed replayed"
        line = [c for c in store.commits() if c.idempotency_key == "n"]
        assert len(line) == 1
        found = contents(store.snapshot())
        assert found[A]["n"] == found[B]["n"] == 1
    checked(root)


def test_the_same_key_for_another_request_is_refused(root):
    with new_graph(root, QUIET) as store:
        for request in ("one", "two"):
            session = store.begin()
            session.append(A, rows({request: 1}))
            if request == "one":
                session.commit(preconditions=once("key", request))
            else:
                with pytest.raises(IdempotencyConflictError):
                    session.commit(preconditions=once("key", request))
        assert "two" not in contents(store.snapshot())[A]


@pytest.mark.parametrize("lost", range(3))
def test_an_answer_lost_by_the_table_format_writes_once(lost, root, monkeypatch):
    """Two tables and the manifest commit in turn; each commit's answer gets lost in turn."""
    with new_graph(root, QUIET) as store:
        real, calls = lance.LanceDataset.commit, []

        def commit(*arguments, **options):
            done = real(*arguments, **options)
            calls.append(done.version)
            if len(calls) == lost + 1:
                raise OSError("connection reset before the answer")
            return done

        monkeypatch.setattr(lance.LanceDataset, "commit", commit)
        before = len(store.commits())
        write(store, {A: {"n": 1}, B: {"n": 1}})
        monkeypatch.undo()
        assert len(calls) == 3, "the answer that was to be lost was never given"
        assert len(store.commits()) == before + 1
        found = contents(store.snapshot())
        assert found[A]["n"] == found[B]["n"] == 1
    checked(root)


@pytest.mark.parametrize("verb", ["put", "delete"])
def test_an_answer_lost_by_the_object_store_writes_once(verb, root, monkeypatch):
    """The sidecar is put before and deleted after; a retry of the whole write counts once."""
    with new_graph(root, QUIET) as store:
        real, lost = getattr(Objects, verb), []

        def unreliable(self, *arguments, **options):
            done = real(self, *arguments, **options)
            if "__recovery" in arguments[0] and not lost:
                lost.append(arguments[0])
                raise StorageError("connection reset before the answer")
            return done

        monkeypatch.setattr(Objects, verb, unreliable)
        for _ in range(2):
            session = store.begin()
            session.append(A, rows({"n": 1}))
            try:
                session.commit(preconditions=once("n", "n"))
            except StorageError:
                continue
            break
        monkeypatch.undo()
        assert lost, "nothing was lost: this proved nothing"
        assert contents(store.snapshot())[A]["n"] == 1
    checked(root)


def test_a_visible_commit_is_acknowledged_even_if_its_sidecar_cannot_be_deleted(root, monkeypatch):
    with new_graph(root, QUIET) as store:
        real = Objects.delete

        def refuse(self, *names):
            if any("__recovery" in name for name in names):
                raise StorageError("cannot delete: read-only file system")
            real(self, *names)

        monkeypatch.setattr(Objects, "delete", refuse)
        session = store.begin()
        session.append(A, rows({"n": 1}))
        assert session.commit().outcome == "committed"
        monkeypatch.undo()
        assert contents(store.snapshot())[A]["n"] == 1
    checked(root)


def test_a_branch_that_comes_back_with_the_same_version_numbers_reads_its_own_rows(root):
    with new_graph(root, QUIET) as store, open_store(str(root), read_only=True) as reader:
        for life in range(1, 4):
            store.branches.create("again")
            write(store, {A: {"life": life}}, "again")
            write(store, {A: {"life": life * 10}}, "again")
            for warm in (store, reader):
                assert contents(warm.snapshot("again"))[A]["life"] == life * 10
                assert warm.snapshot("again").manifest_version == 5
            store.branches.delete("again")
    checked(root)


def test_a_dead_writers_intent_does_not_haunt_the_next_branch_of_that_name(root):
    """Its branch was deleted before anybody healed it; the new one must not get its rows."""
    with new_graph(root, QUIET) as store:
        store.branches.create("again")
        for gap in ("publish.after_tables=raise", "publish.after_sidecar=raise"):
            with interrupted(gap):
                write(store, {A: {"ghost": 1}}, "again")
            store.branches.delete("again")
            store.branches.create("again")
            before = contents(store.snapshot("main"))
            write(store, {A: {"n": 1}}, "again")
            assert contents(store.snapshot("again"))[A] == {**before[A], "n": 1}
            store.branches.delete("again")
            store.branches.create("again")
    checked(root)

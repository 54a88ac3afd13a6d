"""The kernel on a real S3 server: the same promises, without locks or syncs of the system."""

from __future__ import annotations

import pytest

from omnigraph.errors import AlreadyExistsError, NotFoundError
from omnigraph.storage.commit.session import ExpectedVersionMismatch
from omnigraph.storage.manifest.digests import stated_digests
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.foreign import write_foreign
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.storage_model import (
    CONTRACT,
    A,
    B,
    check_whole,
    contents,
    empty_graph,
    new_graph,
    rows,
    write,
)
from tests.support.writers import append_rows, count_up

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3")]


def test_a_graph_is_made_written_branched_and_read_back(root, options):
    with pytest.raises(NotFoundError):
        open_store(root, options=options)
    with new_graph(root, options) as store:
        before = contents(store.snapshot())
        first = store.commits()[1]
        store.branches.create("side")
        write(store, {A: {"a1": 100}, B: {"n": 1}}, "side")
        session = store.begin()
        session.delete(A, ["a4"])
        session.replace_file(CONTRACT, b"second")
        session.commit()
        assert contents(store.snapshot_at(commit_id=first.id))[A] == {"a1": 1, "a2": 2, "a3": 3}
    with open_store(root, options=options) as store:
        side = contents(store.snapshot("side"))
        assert side == {**before, A: {**before[A], "a1": 100}, B: {**before[B], "n": 1}}
        assert "a4" not in contents(store.snapshot())[A]
        assert store.read_file(CONTRACT) == b"second"
        store.branches.create("past", commit_id=first.id)
        assert contents(store.snapshot("past"))[A] == {"a1": 1, "a2": 2, "a3": 3}
        store.branches.delete("past")
        store.optimize()
        store.cleanup(CleanupPolicy(keep_versions=1))
        check_whole(store)


def test_a_place_that_holds_a_graph_is_refused_untouched(root, options):
    with new_graph(root, options) as store:
        before = contents(store.snapshot())
        with pytest.raises(AlreadyExistsError):
            empty_graph(root, options)
        assert contents(store.snapshot()) == before


def test_a_strict_write_that_lost_says_to_whom(root, options):
    with new_graph(root, options) as store:
        late = store.begin()
        late.upsert(A, rows({"a1": 5}), strict=True)
        write(store, {A: {"a2": 5}})
        with pytest.raises(ExpectedVersionMismatch) as refused:
            late.commit()
        assert refused.value.table == A
        assert refused.value.actual == refused.value.expected + 1


def test_processes_racing_for_one_table_lose_nothing(root, options, start, tmp_path):
    new_graph(root, options).close()
    go = tmp_path / "go"
    racing = [start(append_rows, root, str(go), name, A, "main", 5, options) for name in ("x", "y")]
    go.touch()
    said = {word for child in racing for word in child.succeed(120).said}
    assert len(said) == 10
    with open_store(root, options=options) as store:
        assert set(contents(store.snapshot())[A]) == said | {"a1", "a2", "a3", "a4"}
        check_whole(store)


def test_strict_counters_count_every_acknowledged_step(root, options, start, tmp_path):
    with new_graph(root, options) as store:
        write(store, {A: {"counter": 0}})
    go = tmp_path / "go"
    racing = [start(count_up, root, str(go), "main", 4, options) for _ in range(2)]
    go.touch()
    for child in racing:
        child.succeed(120)
    with open_store(root, options=options) as store:
        assert contents(store.snapshot())[A]["counter"] == 8


def test_files_are_read_back_once_for_their_digests(root, options):
    with new_graph(root, options) as store:
        store.build_index(A, IndexSpec("id", "BTREE", "a_by_id"))
        session = store.begin()
        with session.load([B]) as load:
            session.append_fragments(B, write_foreign(load.target(B), rows({"far": 1})))
            session.commit()
        assert store.check_files() == []
        name = next(one.name for one in stated_digests(store._heads.current("main").handle))
        data = bytearray(store.kernel.objects.get(name))
        data[len(data) // 2] ^= 1
        store.kernel.objects.put(name, bytes(data))
        assert [one.file for one in store.check_files()] == [name]

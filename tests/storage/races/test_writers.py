"""Real processes and threads writing at once: nothing is lost, doubled or shown half."""

from __future__ import annotations

import threading

from omnigraph.errors import ConflictError
from omnigraph.storage.store import open_store
from tests.support.storage_model import A, B, E, check_whole, contents, new_graph, rows, write
from tests.support.writers import (
    BUSY,
    append_rows,
    count_up,
    first_publish,
    read_snapshots,
    upsert_shared,
)


def run_together(start, tmp_path, tasks):
    """Start child tasks, let them go at once, and return the children that ended well."""
    flag = tmp_path / "go"
    running = [start(task, *before, str(flag), *after) for task, before, after in tasks]
    flag.touch()
    return [child.succeed() for child in running]


def test_appenders_of_one_table_lose_nothing(start, root, tmp_path):
    new_graph(root, BUSY).close()
    tasks = [(append_rows, (str(root),), (name, A, "main", 25)) for name in ("x", "y", "z")]
    said = {word for child in run_together(start, tmp_path, tasks) for word in child.said}
    assert len(said) == 75
    with open_store(str(root), options=BUSY) as store:
        assert set(contents(store.snapshot())[A]) == said | {"a1", "a2", "a3", "a4"}
        logical = [commit for commit in store.commits() if commit.kind == "logical"]
        assert len(logical) == 3 + 75
        check_whole(store)


def test_writers_of_disjoint_tables_never_see_a_conflict(start, root, tmp_path):
    new_graph(root, BUSY).close()
    tasks = [(append_rows, (str(root),), (name, key, "main", 20)) for name, key in
             (("x", A), ("y", B), ("z", E))]  # fmt: skip
    run_together(start, tmp_path, tasks)
    with open_store(str(root), options=BUSY) as store:
        found = contents(store.snapshot())
        assert {key: len(values) for key, values in found.items()} == {A: 24, B: 22, E: 20}
        check_whole(store)


def test_writers_of_different_branches_do_not_touch_each_other(start, root, tmp_path):
    with new_graph(root, BUSY) as store:
        before = contents(store.snapshot())
        for branch in ("left", "right"):
            store.branches.create(branch)
    tasks = [(append_rows, (str(root),), (name, A, name, 20)) for name in ("left", "right")]
    run_together(start, tmp_path, tasks)
    with open_store(str(root), options=BUSY) as store:
        assert contents(store.snapshot()) == before
        for name in ("left", "right"):
            expected = {**before[A], **{f"{name}-{number}": number for number in range(20)}}
            assert contents(store.snapshot(name)) == {**before, A: expected}
        check_whole(store)


def test_two_first_publishers_on_a_fresh_branch_both_count(start, root, tmp_path):
    with new_graph(root, BUSY) as store:
        for number in range(6):
            branch = f"fresh{number}"
            store.branches.create(branch)
            (tmp_path / branch).mkdir()
            tasks = [(first_publish, (str(root),), (branch, name)) for name in ("p", "q")]
            run_together(start, tmp_path / branch, tasks)
            assert {"p", "q"} <= set(contents(store.snapshot(branch))[A])
            assert [c.sequence for c in store.commits(branch)] == [0, 1, 2, 3, 4]
        check_whole(store)


def test_strict_counters_raise_by_exactly_the_acknowledged_count(start, root, tmp_path):
    with new_graph(root, BUSY) as store:
        write(store, {A: {"counter": 0}})
    tasks = [(count_up, (str(root),), ("main", 15)) for _ in range(3)]
    run_together(start, tmp_path, tasks)
    with open_store(str(root), options=BUSY) as store:
        assert contents(store.snapshot())[A]["counter"] == 45
        check_whole(store)


def test_upserts_of_the_same_keys_never_double_them(start, root, tmp_path):
    new_graph(root, BUSY).close()
    tasks = [(upsert_shared, (str(root),), (name, 20)) for name in (1, 2, 3)]
    run_together(start, tmp_path, tasks)
    with open_store(str(root), options=BUSY) as store:
        found = contents(store.snapshot())[A]
        assert found["shared-1"] == found["shared-2"], "two writers were mixed in one commit"
        assert sum(key.startswith("own-") for key in found) == 60
        check_whole(store)


def test_readers_beside_writers_and_compaction_see_whole_snapshots(start, root, tmp_path):
    new_graph(root, BUSY).close()
    stop = tmp_path / "stop"
    reader = start(read_snapshots, str(root), str(stop))
    run_together(start, tmp_path, [(upsert_shared, (str(root),), (1, 40))])
    stop.touch()
    assert reader.succeed().said[0] > 0


def test_threads_of_one_store_take_turns(root):
    with new_graph(root, BUSY) as store:
        failures: list[BaseException] = []

        def work(name: str) -> None:
            try:
                for number in range(15):
                    session = store.begin()
                    session.append(A, rows({f"{name}-{number}": number}))
                    session.commit()
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(contents(store.snapshot())[A]) == 4 + 60
    with open_store(str(root), options=BUSY) as store:
        check_whole(store)


def test_automatic_compaction_never_fails_a_strict_write(root):
    """One writer alone can only lose to maintenance, and must not notice that."""
    with new_graph(root, BUSY) as store:
        write(store, {A: {"counter": 0}})
        for number in range(80):
            session = store.begin()
            session.upsert(A, rows({"counter": number, f"n{number}": 1}), strict=True)
            try:
                session.commit()
            except ConflictError as error:
                raise AssertionError(f"maintenance made a write fail: {error}") from error
        store.wait_for_upkeep()
        assert store.counters.get("compactions") > 0, "nothing was compacted: this proved nothing"
        assert store.counters.get("upkeep_failures") == 0
    with open_store(str(root), options=BUSY) as store:
        check_whole(store)

"""Long loads: fragments written by other processes, and tables that upkeep leaves alone."""

import multiprocessing
import os
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequestError, ConflictError, StorageError
from omnigraph.storage.commit.session import ExpectedVersionMismatch
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.options import Retention
from omnigraph.storage.store import init_store, open_store
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.foreign import write_foreign
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET, SteeredClock
from tests.support.storage_model import (
    CONTRACT,
    KEYS,
    SCHEMA,
    A,
    B,
    check_lines,
    check_settled,
    check_verified,
    check_writable,
    contents,
    rows,
    write,
)

EVERYTHING = CleanupPolicy(keep_versions=1)


def _load(store, values, key=A, branch="main", *, overwrite=False):
    session = store.begin(branch, writer_kind="Load")
    with session.load([key]) as load:
        written = write_foreign(load.target(key), rows(values))
        if overwrite:
            session.overwrite_fragments(key, written)
        else:
            session.append_fragments(key, written)
        return session.commit()


def _check(store):
    check_settled(store)
    check_verified(store)
    check_writable(store)
    check_lines(store)


def _in_a_task(packed, values):
    written = write_foreign(pickle.loads(packed), rows(values))
    return pickle.dumps(written)


def test_fragments_written_by_other_processes_become_one_commit(store):
    write(store, {A: {"a": 1}})
    session = store.begin(actor="loader")
    with session.load([A, B]) as load:
        targets = {key: pickle.dumps(load.target(key)) for key in (A, B)}
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            done = pool.starmap(
                _in_a_task,
                [(targets[A], {"x": 1, "y": 2}), (targets[A], {"z": 3}), (targets[B], {"b": 9})],
            )
        for key, packed in zip((A, A, B), done, strict=True):
            session.append_fragments(key, pickle.loads(packed))
        assert contents(store.snapshot())[A] == {"a": 1}
        commit = session.commit().commit
    found = contents(store.snapshot())
    assert found[A] == {"a": 1, "x": 1, "y": 2, "z": 3}
    assert found[B] == {"b": 9}
    assert (commit.tables, commit.actor) == ((A, B), "loader")
    _check(store)


def test_a_stream_of_batches_is_cut_into_files_of_bounded_size(store):
    store.kernel.tables.max_rows_per_file = 10
    batches = rows({f"k{i}": i for i in range(35)}).to_batches(max_chunksize=5)
    session = store.begin()
    with session.load([A]) as load:
        written = write_foreign(
            load.target(A), pa.RecordBatchReader.from_batches(SCHEMA, iter(batches))
        )
        session.append_fragments(A, written)
        session.commit()
    assert [part.rows for part in written] == [10, 10, 10, 5]
    assert contents(store.snapshot())[A] == {f"k{i}": i for i in range(35)}


def test_an_overwrite_by_fragments_replaces_everything(store):
    write(store, {A: {"a": 1, "b": 2}})
    _load(store, {"c": 3}, overwrite=True)
    assert contents(store.snapshot())[A] == {"c": 3}
    write(store, {A: {"c": 4, "d": 5}})
    assert contents(store.snapshot())[A] == {"c": 4, "d": 5}
    _check(store)


def test_an_overwrite_by_no_fragments_empties_the_table(store):
    write(store, {A: {"a": 1}})
    session = store.begin()
    session.overwrite_fragments(A, [])
    session.commit()
    assert contents(store.snapshot())[A] == {}


def test_an_append_by_no_fragments_changes_nothing(store):
    session = store.begin()
    session.append_fragments(A, [])
    assert session.commit().outcome == "unchanged"


def test_fragments_upserts_and_deletes_go_into_one_transaction(store):
    write(store, {A: {f"k{i}": i for i in range(10)}})
    before = _row_ids(store)
    version = store.snapshot().tables[A].version
    session = store.begin()
    with session.load([A]) as load:
        session.append_fragments(A, write_foreign(load.target(A), rows({"new": 1, "k7": 70})))
        session.upsert(A, rows({"k3": 30, "also": 2}))
        session.delete(A, ["k5", "k7"])
        session.commit()
    expected = {f"k{i}": i for i in range(10) if i not in (3, 5, 7)}
    expected |= {"new": 1, "k7": 70, "k3": 30, "also": 2}
    assert contents(store.snapshot())[A] == expected
    after = _row_ids(store)
    kept = set(before) - {"k5", "k7"}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert len(set(after.values())) == len(after)
    assert store.snapshot().tables[A].version == version + 1
    delta = store.snapshot().open(A).delta(version)
    assert set(delta.inserted["id"].to_pylist()) == {"new", "k7", "also"}
    assert delta.updated["id"].to_pylist() == ["k3"]
    _check(store)


def _row_ids(store):
    read = store.snapshot().open(A).scan(["id"], with_row_id=True)
    return dict(zip(read["id"].to_pylist(), read["_rowid"].to_pylist(), strict=True))


def test_a_load_goes_on_top_of_writes_that_came_meanwhile(store):
    session = store.begin()
    seen = []
    with session.load([A]) as load:
        session.append_fragments(A, write_foreign(load.target(A), rows({"x": 1})))
        write(store, {A: {"a": 1}})
        session.commit(lambda window: seen.append(window.moved))
    assert contents(store.snapshot())[A] == {"a": 1, "x": 1}
    assert seen == [(A,)]


def test_an_overwrite_by_fragments_refuses_a_table_that_moved(store):
    session = store.begin()
    with session.load([A]) as load:
        session.overwrite_fragments(A, write_foreign(load.target(A), rows({"x": 1})))
        write(store, {A: {"a": 1}})
        with pytest.raises(ExpectedVersionMismatch):
            session.commit()
    assert contents(store.snapshot())[A] == {"a": 1}


def test_a_branch_that_shares_a_table_gets_its_own_before_the_first_file(store):
    write(store, {A: {"a": 1}})
    store.branches.create("dev")
    session = store.begin("dev")
    with session.load([A]) as load:
        target = load.target(A)
        assert target.home == layout.lineage(layout.table_location(A), "dev")
        session.append_fragments(A, write_foreign(target, rows({"x": 1})))
        write(store, {A: {"y": 2}}, "dev")
        session.commit()
    assert contents(store.snapshot("dev"))[A] == {"a": 1, "x": 1, "y": 2}
    assert contents(store.snapshot())[A] == {"a": 1}
    kinds = [commit.kind for commit in store.commits("dev")]
    assert kinds[-3:] == ["maintenance", "logical", "logical"]
    _check(store)


def test_a_load_that_never_commits_leaves_the_branch_reading_the_same(store):
    write(store, {A: {"a": 1}})
    store.branches.create("dev")
    session = store.begin("dev")
    with session.load([A]) as load:
        write_foreign(load.target(A), rows({"x": 1}))
    assert contents(store.snapshot("dev"))[A] == {"a": 1}
    assert store.pins() == []
    _check(store)


@pytest.mark.parametrize("harm", ["missing", "short", "twice"])
def test_fragments_that_are_not_whole_are_refused_before_anything_moves(store, root, harm):
    write(store, {A: {"a": 1}})
    session = store.begin()
    with session.load([A]) as load:
        target = load.target(A)
        known = {file.name for file in (root / target.home / "data").iterdir()}
        (written,) = write_foreign(target, rows({"x": 1}))
        (file,) = (f for f in (root / target.home / "data").iterdir() if f.name not in known)
        session.append_fragments(A, [written])
        if harm == "missing":
            file.unlink()
        elif harm == "short":
            file.write_bytes(file.read_bytes()[:-1])
        else:
            session.append_fragments(A, [written])
        with pytest.raises((StorageError, BadRequestError), match=r"missing|bytes long|twice"):
            session.commit()
    assert contents(store.snapshot())[A] == {"a": 1}


def test_rows_of_other_columns_are_refused_where_they_are_written(store):
    with store.begin().load([A]) as load, pytest.raises(BadRequestError, match="columns"):
        write_foreign(load.target(A), pa.table({"id": ["x"], "v": ["text"]}))


def test_fragments_of_a_table_that_was_replaced_meanwhile_are_refused(store):
    session = store.begin()
    with session.load([A]) as load:
        session.append_fragments(A, write_foreign(load.target(A), rows({"x": 1})))
        dropping = store.begin()
        dropping.drop_table(A)
        dropping.commit()
        creating = store.begin()
        creating.create_table(TableSpec(A, SCHEMA), rows({"fresh": 1}))
        creating.commit()
        with pytest.raises(ConflictError, match="for nodes"):
            session.commit()
    assert contents(store.snapshot())[A] == {"fresh": 1}


def test_fragments_are_refused_when_the_columns_changed_meanwhile(store):
    session = store.begin()
    with session.load([A]) as load:
        session.append_fragments(A, write_foreign(load.target(A), rows({"x": 1})))
        wider = store.begin()
        wider.overwrite(A, pa.table({"id": ["z"], "v": [1], "w": ["text"]}))
        wider.commit()
        with pytest.raises(ConflictError, match="columns"):
            session.commit()


def test_only_tables_of_the_load_have_a_place_in_it(store):
    with store.begin().load([A]) as load, pytest.raises(BadRequestError, match="not one of"):
        load.target(B)


def test_upkeep_leaves_the_tables_of_a_load_alone_until_it_ends(store):
    for number in range(40):
        write(store, {A: {f"a{number}": 1}, B: {f"b{number}": 1}})
    session = store.begin()
    load = session.load([A])
    done = {stats.table_key: stats for stats in store.optimize()}
    assert (done[A].committed, done[A].skipped) == (False, "load_under_way")
    assert done[B].committed
    load.close()
    load.close()
    assert {stats.table_key: stats.committed for stats in store.optimize()}[A]


@pytest.fixture
def clock():
    return SteeredClock()


@pytest.fixture
def hasty(root, clock):
    """A store whose retention is over at once."""
    short = Retention(floor_s=0, newest_versions=1, orphan_age_s=60)
    options = replace(QUIET, retention=short)
    specs = [TableSpec(key, SCHEMA) for key in KEYS]
    with init_store(str(root), specs, {CONTRACT: b""}, options, clock) as store:
        store.kernel.store_clock.now_us()  # it goes on with the clock from here
        yield store


def test_cleanup_keeps_what_a_load_began_with_and_what_it_has_staged(hasty, clock):
    write(hasty, {A: {"a": 1}})
    session = hasty.begin()
    with session.load([A], ttl_s=10_000) as load:
        objects = hasty.kernel.objects
        objects.put(layout.staging(load.operation_id, "part-0"), b"spilled")
        session.append_fragments(A, write_foreign(load.target(A), rows({"x": 1})))
        for number in range(5):
            write(hasty, {A: {f"b{number}": number}})
        clock.ahead_s += 3_600
        hasty.cleanup(EVERYTHING)
        assert objects.exists(layout.staging(load.operation_id, "part-0"))
        assert contents(session.base)[A] == {"a": 1}
        assert hasty.snapshot().open(A).delta(session.base.tables[A].version).inserted.num_rows == 5
        session.commit()
    assert contents(hasty.snapshot())[A]["x"] == 1
    assert not objects.list(layout.STAGING_DIR)
    assert hasty.cleanup(EVERYTHING)


def test_what_a_dead_load_left_is_collected_once_its_registration_has_lapsed(hasty, clock, root):
    write(hasty, {A: {"a": 1}})
    process = multiprocessing.get_context("spawn").Process(target=_die_loading, args=(str(root),))
    process.start()
    process.join(300)
    assert process.exitcode == 1
    objects, home = hasty.kernel.objects, layout.table_location(A)
    files = len(objects.list(f"{home}/data"))
    clock.ahead_s += 120
    hasty.cleanup(EVERYTHING)
    assert len(objects.list(f"{home}/data")) == files, "still registered"
    assert objects.list(layout.STAGING_DIR)
    clock.ahead_s += 600
    hasty.cleanup(EVERYTHING)
    assert len(objects.list(f"{home}/data")) < files
    assert not objects.list(layout.STAGING_DIR)
    assert contents(hasty.snapshot())[A] == {"a": 1}
    _check(hasty)


def _die_loading(root):
    store = open_store(root, options=QUIET)
    load = store.begin().load([A])
    store.kernel.objects.put(layout.staging(load.operation_id, "part-0"), b"spilled")
    write_foreign(load.target(A), rows({"x": 1}))
    os._exit(1)  # like a kill: nothing is tidied up


def test_fragments_for_columns_that_are_others_by_now_are_refused(store):
    session = store.begin()
    with session.load([A]) as load:
        target = load.target(A)
        changing = store.begin(writer_kind="SchemaApply")
        changing.alter(A, Alter(drop=("v",)))
        changing.commit()
        with pytest.raises(ConflictError, match="changed since this was begun"):
            write_foreign(target, rows({"x": 1}))

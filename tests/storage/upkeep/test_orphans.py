"""Datasets that no graph names any more: told of, kept long enough, then gone for good."""

from dataclasses import replace

import pytest

from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.options import Retention
from omnigraph.storage.store import init_store, open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET, SteeredClock
from tests.support.operations import interrupted
from tests.support.storage_model import (
    CONTRACT,
    KEYS,
    SCHEMA,
    A,
    B,
    E,
    check_lines,
    check_verified,
    check_writable,
    contents,
    rows,
    write,
)

DAY_S = 24 * 60 * 60
NEW = "node:New"
OPTIONS = replace(QUIET, retention=Retention(floor_s=60, newest_versions=1))
POLICY = CleanupPolicy(keep_versions=1)


@pytest.fixture
def clock():
    return SteeredClock()


@pytest.fixture
def store(root, clock):
    specs = [TableSpec(key, SCHEMA) for key in KEYS]
    with init_store(str(root), specs, {CONTRACT: b""}, OPTIONS, clock) as opened:
        write(opened, {A: {"a": 1}, B: {"b": 1}, E: {"e": 1}})
        opened.kernel.store_clock.now_us()  # it goes on with the clock from here
        yield opened


def _drop(store, key, branch="main"):
    session = store.begin(branch)
    session.drop_table(key)
    session.commit()


def _told(store):
    return [found.subject for found in store.verify() if found.kind == "unreferenced_dataset"]


def _datasets(stats):
    return [part.location for part in stats if part.what == "dataset"]


def test_the_dataset_of_a_dropped_table_goes_a_week_after_the_drop(store, clock):
    location, before = store.snapshot().table(E).location, store.snapshot()
    clock.ahead_s += 30 * DAY_S  # nobody wrote to it for long
    _drop(store, E)
    clock.ahead_s += 6 * DAY_S
    assert _told(store) == [location]
    assert _datasets(store.cleanup(POLICY)) == []
    assert contents(store.snapshot_at(commit_id=before.commit_id))[E] == {"e": 1}
    clock.ahead_s += 2 * DAY_S
    (told,) = [part for part in store.cleanup(POLICY, dry_run=True) if part.what == "dataset"]
    assert (told.location, told.bytes_removed > 0) == (location, True)
    assert contents(store.snapshot_at(commit_id=before.commit_id))[E] == {"e": 1}
    assert _datasets(store.cleanup(POLICY)) == [location]
    assert _told(store) == _datasets(store.cleanup(POLICY)) == []
    with pytest.raises(SnapshotExpiredError):
        store.snapshot_at(commit_id=before.commit_id).open(E).scan()
    check_verified(store)
    check_lines(store)


def test_a_longer_retention_keeps_dropped_tables_longer(store, clock):
    _drop(store, E)
    clock.ahead_s += 8 * DAY_S
    assert _datasets(store.cleanup(CleanupPolicy(older_than_s=30 * DAY_S))) == []
    assert _datasets(store.cleanup(POLICY)) != []


def test_a_place_is_never_used_again_so_the_past_never_shows_other_rows(store, clock):
    before = store.snapshot()
    _drop(store, E)
    clock.ahead_s += 8 * DAY_S
    store.cleanup(POLICY)
    session = store.begin()
    session.create_table(TableSpec(E, SCHEMA), rows({"other": 1}))
    session.commit()
    assert contents(store.snapshot())[E] == {"other": 1}
    assert store.snapshot().table(E).location != before.table(E).location
    with pytest.raises(SnapshotExpiredError):
        store.snapshot_at(commit_id=before.commit_id).open(E).scan()
    check_writable(store)


@pytest.mark.parametrize("point", ["write.after_create_table", "publish.after_sidecar"])
def test_a_table_that_was_never_published_goes_when_it_is_old(store, clock, point):
    session = store.begin()
    session.create_table(TableSpec(NEW, SCHEMA), rows({"x": 1}))
    with interrupted(f"{point}=raise"):
        session.commit()
    store.recover()
    location = layout.table_location(NEW)
    assert _told(store) == [location]
    assert _datasets(store.cleanup(POLICY)) == [], "it may belong to a write under way"
    clock.ahead_s += 8 * DAY_S
    assert _datasets(store.cleanup(POLICY)) == [location]
    check_verified(store)


def test_a_pending_write_keeps_the_table_it_made(store, clock):
    session = store.begin()
    session.create_table(TableSpec(NEW, SCHEMA), rows({"x": 1}))
    with interrupted("publish.after_tables=raise"):
        session.commit()
    clock.ahead_s += 30 * DAY_S
    assert _told(store) == []
    assert _datasets(store.cleanup(POLICY)) == []
    store.recover()
    assert contents(store.snapshot())[NEW] == {"x": 1}


@pytest.mark.parametrize("holder", ["branch", "pin"])
def test_what_a_branch_or_a_pin_still_reads_stays(store, clock, holder):
    store.branches.create("dev")
    pin = store.snapshot().pin(ttl_s=60 * DAY_S)
    if holder == "branch":
        pin.close()
    else:
        store.branches.delete("dev")
    held = store.snapshot("dev") if holder == "branch" else store.snapshot()
    _drop(store, E)
    clock.ahead_s += 30 * DAY_S
    assert _datasets(store.cleanup(POLICY)) == []
    assert held.open(E).scan().num_rows == 1


def test_a_renamed_table_keeps_its_dataset(store, clock):
    session = store.begin()
    session.rename_table(E, "edge:Renamed")
    session.commit()
    clock.ahead_s += 30 * DAY_S
    assert _told(store) == _datasets(store.cleanup(POLICY)) == []
    assert contents(store.snapshot())["edge:Renamed"] == {"e": 1}


def test_a_removal_that_was_interrupted_is_finished_by_the_next(store, clock, root):
    location = store.snapshot().table(E).location
    _drop(store, E)
    clock.ahead_s += 8 * DAY_S
    with interrupted("cleanup.before_dataset=raise"):
        store.cleanup(POLICY)
    later = SteeredClock()
    with open_store(str(root), options=OPTIONS, clock=later) as again:
        again.kernel.store_clock.now_us()
        later.ahead_s += 8 * DAY_S
        assert _datasets(again.cleanup(POLICY)) == [location]
        assert [path.name for path in (root / location).iterdir()] == ["_retired"]


class TestTornRefs:
    """Refs of forks that a power cut tore stop Lance's cleanup; ours sets them aside."""

    def tear(self, store, root, name):
        ref = root / layout.branch_ref(store.snapshot().table(A).location, name)
        assert ref.exists()
        ref.write_bytes(ref.read_bytes()[:7])
        return ref

    def unused_fork(self, store):
        """Leave a fork that no branch names, as a writer does that dies before its commit."""
        store.branches.create("dev")
        session = store.begin("dev")
        session.upsert(A, rows({"d": 1}))
        with interrupted("write.after_fork=raise"):
            session.commit()

    def test_one_that_nobody_uses_is_set_aside_and_cleanup_goes_on(self, store, root, clock):
        self.unused_fork(store)
        ref = self.tear(store, root, "dev")
        write(store, {A: {"a": 2}})
        clock.ahead_s += DAY_S
        assert [found.harmless for found in store.verify() if found.kind == "torn_ref"] == [True]
        assert [part.versions_removed > 0 for part in store.cleanup(POLICY) if part.branch is None]
        assert not ref.exists()
        assert ref.with_name(f"{ref.name}.torn").exists()
        write(store, {A: {"d": 1}}, "dev")
        assert contents(store.snapshot("dev"))[A] == {"a": 1, "d": 1}
        check_verified(store)

    def test_one_that_a_branch_reads_is_a_case_for_a_human(self, store, root, clock):
        store.branches.create("dev")
        write(store, {A: {"d": 1}}, "dev")
        ref = self.tear(store, root, "dev")
        clock.ahead_s += DAY_S
        (left,) = [stats for stats in store.cleanup(POLICY) if stats.error is not None]
        assert left.location == store.snapshot().table(A).location
        assert "'dev' uses it" in left.error
        assert ref.exists()
        assert contents(store.snapshot("dev"))[A] == {"a": 1, "d": 1}
        assert [found.harmless for found in store.verify() if found.kind == "torn_ref"] == [False]

    def test_a_dry_run_sets_nothing_aside(self, store, root, clock):
        self.unused_fork(store)
        ref = self.tear(store, root, "dev")
        clock.ahead_s += DAY_S
        assert any(stats.error for stats in store.cleanup(POLICY, dry_run=True))
        assert ref.exists()

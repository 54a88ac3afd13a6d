"""Upkeep changes the pieces, never the rows."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequestError
from omnigraph.storage.commit.intent import stage_ahead
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.rows import HEAD, LAST_ROW, head_address, read_rows
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.options import Retention
from omnigraph.storage.store import init_store, open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.scan import ROW_ADDRESS
from omnigraph.storage.upkeep import cleanup as cleanup_module
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET, SteeredClock
from tests.support.storage_model import SCHEMA, A, B, check_lines, contents, empty_graph, write

NOW = replace(QUIET, retention=Retention(floor_s=0, newest_versions=1, manifest_versions=4))
ALL = CleanupPolicy(keep_versions=1)


def test_compaction_merges_fragments_and_keeps_rows_and_row_ids(store):
    for i in range(5):
        write(store, {A: {f"k{i}": i}})
    before = store.snapshot()
    ids = before.open(A).scan(["id"], with_row_id=True).to_pylist()
    stats = {part.table_key: part for part in store.optimize()}
    assert (stats[A].fragments_removed, stats[A].fragments_added) == (5, 1)
    assert store.snapshot().handle(A).fragment_count == 1
    assert store.snapshot().open(A).scan(["id"], with_row_id=True).to_pylist() == ids
    assert contents(before) == contents(store.snapshot())
    commit = store.commits()[-1]
    assert (commit.kind, commit.logical_id) == ("maintenance", before.commit_id)
    assert not any(part.committed for part in store.optimize()), "a second run finds nothing"


def test_upkeep_runs_behind_the_commits_and_bounds_the_fragments(root):
    store = empty_graph(root, replace(QUIET, maintenance="auto"))
    for i in range(96):
        write(store, {A: {f"k{i}": i}})
    store.wait_for_upkeep()
    assert store.snapshot().handle(A).fragment_count < 40
    assert store.counters.get("upkeep_failures") == 0
    assert store.counters.get("manifest_fragments") < 40
    assert contents(store.snapshot())[A] == {f"k{i}": i for i in range(96)}
    check_lines(store)
    store.close()
    with open_store(str(root), options=QUIET) as again:
        assert len(contents(again.snapshot())[A]) == 96
        assert [finding for finding in again.verify() if not finding.harmless] == []


def test_folding_keeps_the_head_where_one_small_read_finds_it(store):
    for i in range(40):
        write(store, {A: {f"k{i}": i}})
    store.maintain()
    assert store.counters.get("manifest_folds") == 1
    head = store._heads.reread(layout.MAIN)
    (stored,) = read_rows(head.handle, equals("object_id", HEAD), address=True).to_pylist()
    assert head.address == LAST_ROW
    assert head_address(head) == stored[ROW_ADDRESS]
    write(store, {A: {"after": 1}})
    assert len(store.commits()) == 43, "genesis, 41 writes and one compaction"
    assert contents(store.snapshot_at(commit_id=store.commits()[20].id))[A] == {
        f"k{i}": i for i in range(20)
    }


def test_old_versions_of_the_manifest_go_and_the_past_stays(root):
    store = empty_graph(root, NOW)
    ids = [write(store, {A: {f"k{i}": i}}) for i in range(12)]
    store.maintain()
    files = store.kernel.objects.list(f"{layout.MANIFEST}/{layout.VERSIONS_DIR}")
    assert len([info for info in files if info.name.endswith(".manifest")]) <= 6
    assert contents(store.snapshot_at(commit_id=ids[2]))[A] == {f"k{i}": i for i in range(3)}
    assert contents(store.snapshot_at(version=4))[A] == {f"k{i}": i for i in range(3)}
    store.close()


def test_a_reader_that_slept_through_a_cleanup_still_sees_the_newest_commit(root):
    store = empty_graph(root, NOW)
    write(store, {A: {"a": 1}})
    reader = open_store(str(root), read_only=True, options=NOW)
    assert contents(reader.snapshot())[A] == {"a": 1}
    for i in range(12):
        write(store, {A: {f"k{i}": i}})
    store.maintain()
    seen = reader.snapshot().manifest_version
    assert len(contents(reader.snapshot())[A]) == 13, seen
    reader.close()
    store.close()


def test_a_reader_whose_version_a_branch_keeps_alive_still_sees_the_newest_commit(root):
    store = empty_graph(root, NOW)
    write(store, {A: {"a": 1}})
    reader = open_store(str(root), read_only=True, options=NOW)
    writer = open_store(str(root), options=NOW)
    seen = reader.snapshot().manifest_version
    assert writer.snapshot().manifest_version == seen
    store.branches.create("dev")  # rests on this very version of the manifest
    for i in range(12):
        write(store, {A: {f"k{i}": i}})
    store.maintain()
    kept = store.kernel.tables.version_numbers(layout.MANIFEST, None)
    assert seen in kept, "the branch's version is kept"
    assert seen + 1 not in kept, "and nothing after it"
    assert len(contents(reader.snapshot())[A]) == 13
    write(writer, {A: {"late": 1}})
    assert len(contents(store.snapshot())[A]) == 14
    for opened in (reader, writer, store):
        opened.close()


def test_cleanup_needs_a_policy(store):
    with pytest.raises(BadRequestError, match="requires at least one of --keep"):
        store.cleanup(CleanupPolicy())


def test_a_dry_run_tells_what_would_go_and_removes_nothing(root):
    store = empty_graph(root, NOW)
    for i in range(5):
        write(store, {A: {f"k{i}": i}})
    told = store.cleanup(ALL, dry_run=True)
    assert {(part.location, part.versions_removed) for part in told} == {
        (store.snapshot().table(A).location, 5)
    }
    first = store.snapshot_at(commit_id=store.commits()[1].id)
    assert contents(first)[A] == {"k0": 0}
    done = store.cleanup(ALL)
    assert [part.versions_removed for part in done] == [5]
    store.close()


def test_an_expired_snapshot_says_so(root):
    store = empty_graph(root, NOW)
    old = write(store, {A: {"a": 1}})
    for i in range(3):
        write(store, {A: {f"k{i}": i}})
    store.optimize()
    store.cleanup(ALL)
    with pytest.raises(SnapshotExpiredError, match="gone"):
        store.snapshot_at(commit_id=old).open(A).scan()
    assert len(contents(store.snapshot())[A]) == 4
    write(store, {A: {"more": 1}})
    store.close()


def test_a_pinned_snapshot_survives_everything(root):
    store = empty_graph(root, NOW)
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    main, side = store.snapshot(), store.snapshot("side")
    with main.pin(), side.pin():
        for i in range(4):
            write(store, {A: {f"k{i}": i}})
        session = store.begin()
        session.delete(A, ["a"])
        session.commit()
        store.optimize()
        store.branches.delete("side")
        store.cleanup(ALL)
        store.kernel.tables.close()
        assert contents(main)[A] == {"a": 1}
        assert contents(side)[A] == {"a": 1, "s": 1}
    for pin in store.kernel.objects.list(layout.PINS_DIR):  # what the deletion itself pinned
        store.kernel.objects.delete(pin.name)
    store.cleanup(ALL)
    store.kernel.tables.close()
    with pytest.raises(SnapshotExpiredError):
        side.open(A).scan()
    assert contents(store.snapshot())[A] == {f"k{i}": i for i in range(4)}
    store.close()


def test_cleanup_keeps_what_a_branch_inherits(root):
    store = empty_graph(root, NOW)
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    for i in range(6):
        write(store, {A: {f"k{i}": i}})
    store.optimize()
    store.cleanup(ALL)
    assert contents(store.snapshot("side"))[A] == {"a": 1}
    write(store, {A: {"s": 1}}, "side")
    for i in range(6):
        write(store, {A: {f"m{i}": i}}, "side")
    store.optimize("side")
    store.cleanup(ALL)
    store.kernel.tables.close()
    assert contents(store.snapshot("side"))[A] == {"a": 1, "s": 1} | {f"m{i}": i for i in range(6)}
    assert contents(store.snapshot())[A] == {"a": 1} | {f"k{i}": i for i in range(6)}
    store.close()


def test_the_floor_protects_what_was_superseded_just_now(root):
    clock = SteeredClock()
    options = replace(QUIET, retention=Retention(floor_s=900, newest_versions=1))
    store = empty_graph(root, options)
    store.close()
    store = open_store(str(root), options=options, clock=clock)
    for i in range(4):
        write(store, {A: {f"k{i}": i}})
    assert store.cleanup(ALL) == []
    clock.ahead_s = 1000
    assert [part.versions_removed for part in store.cleanup(ALL)] == [4]
    store.close()


def test_forks_of_deleted_branches_are_reclaimed_and_their_names_never_reused(root):
    store = empty_graph(root, NOW)
    write(store, {A: {"a": 1}})
    location = store.snapshot().table(A).location
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    store.branches.delete("side")
    for pin in store.pins():
        store.kernel.objects.delete(layout.pin(pin.id))
    assert "fork" in [part.what for part in store.cleanup(ALL)]
    assert not (root / layout.lineage(location, "side") / "_versions").exists()
    store.branches.create("side")
    write(store, {A: {"again": 1}}, "side")
    assert store.snapshot("side").table(A).branch != "side"
    assert contents(store.snapshot("side"))[A] == {"a": 1, "again": 1}
    store.close()


def test_a_live_fork_is_never_reclaimed(root):
    store = empty_graph(root, NOW)
    store.branches.create("one")
    write(store, {A: {"x": 1}}, "one")
    store.branches.create("two", "one")
    write(store, {A: {"y": 1}}, "two")
    assert [part for part in store.cleanup(ALL) if part.what == "fork"] == []
    assert contents(store.snapshot("two"))[A] == {"x": 1, "y": 1}
    store.close()


def test_staged_files_of_dead_writes_are_collected_by_age(root):
    clock = SteeredClock()
    store = empty_graph(root, QUIET)
    write(store, {A: {"a": 1}})
    store.close()
    store = open_store(str(root), options=QUIET, clock=clock)
    session = store.begin()
    session.upsert(A, store.snapshot().open(A).scan())
    stage_ahead(session.write_set)  # its process dies here
    policy = CleanupPolicy(older_than_s=10**9)
    assert store.cleanup(policy) == []
    clock.ahead_s = 8 * 24 * 3600
    assert [part.what for part in store.cleanup(policy)] == ["orphans"]
    assert contents(store.snapshot())[A] == {"a": 1}
    assert [finding for finding in store.verify() if not finding.harmless] == []
    store.close()


def test_a_clock_that_is_weeks_ahead_makes_no_file_and_no_pin_old(root):
    store = empty_graph(root, QUIET)
    write(store, {A: {"a": 1}})
    session = store.begin()
    session.upsert(A, store.snapshot().open(A).scan())
    ready = stage_ahead(session.write_set)
    pinned = store.snapshot()
    pinned.pin(ttl_s=3600)
    fast = open_store(str(root), options=QUIET, clock=SteeredClock(30 * 24 * 3600))
    assert fast.cleanup(CleanupPolicy(older_than_s=0)) == []
    assert len(fast.pins()) == 1
    assert all((root / name).exists() for part in ready.values() for name in part.staged.files)
    fast.close()
    store.close()


def test_large_blobs_are_not_taken_for_orphans(root):
    clock = SteeredClock()
    store = empty_graph(root, QUIET)
    store.close()
    store = open_store(str(root), options=QUIET, clock=clock)
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    big = pa.table({"id": ["a"], "b": [b"y" * 400_000]}, schema=schema)
    session = store.begin()
    session.create_table(TableSpec("node:Blob", schema), big)
    session.commit()
    store.kernel.store_clock.now_us()
    clock.ahead_s = 8 * 24 * 3600
    assert store.cleanup(CleanupPolicy(older_than_s=10**9)) == []
    store.kernel.tables.close()
    assert store.snapshot().open("node:Blob").scan(blobs=True)["b"][0].as_py() == b"y" * 400_000
    store.close()


def test_configured_retention_bounds_the_versions_by_itself(root):
    options = replace(NOW, retention=replace(NOW.retention, keep_versions=3))
    store = empty_graph(root, options)
    for i in range(10):
        write(store, {A: {f"k{i}": i}})
    store.maintain()
    location = store.snapshot().table(A).location
    files = store.kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}")
    assert len([info for info in files if info.name.endswith(".manifest")]) <= 4
    assert len(contents(store.snapshot())[A]) == 10
    store.close()


def test_versions_do_not_go_by_themselves_while_a_branch_is_lost_that_may_name_them(root):
    options = replace(NOW, retention=replace(NOW.retention, keep_versions=1))
    store = empty_graph(root, options)
    write(store, {A: {"inherited": 1}})
    store.branches.create("lazy")
    for i in range(10):
        write(store, {A: {f"k{i}": i}})
    ref = root / layout.branch_ref(layout.MANIFEST, "lazy")
    kept = ref.read_bytes()
    ref.unlink()
    store.maintain()
    ref.write_bytes(kept)
    store.close()
    with open_store(str(root), options=NOW) as again:
        assert contents(again.snapshot("lazy"))[A] == {"inherited": 1}


def test_a_cleanup_of_many_versions_goes_on_until_nothing_is_due(root, monkeypatch):
    monkeypatch.setattr(cleanup_module, "_STEP_VERSIONS", 3)
    store = empty_graph(root, NOW)
    for i in range(11):
        write(store, {A: {f"k{i}": i}})
    (told,) = store.cleanup(ALL, dry_run=True)
    (done,) = store.cleanup(ALL)
    assert (done.versions_removed, done.table_key) == (told.versions_removed, A)
    assert told.versions_removed == 11
    assert store.cleanup(ALL) == []
    assert len(contents(store.snapshot())[A]) == 11
    store.close()


def test_a_preview_of_compaction_tells_what_will_be_merged_and_writes_nothing(store):
    for i in range(5):
        write(store, {A: {f"k{i}": i}})
    files = {info.name for info in store.kernel.objects.list("")}
    told = {part.table_key: part for part in store.optimize(preview=True)}
    assert {info.name for info in store.kernel.objects.list("")} == files
    done = {part.table_key: part for part in store.optimize()}
    for key, part in done.items():
        assert told[key].fragments_removed == part.fragments_removed
        assert told[key].fragments_added == part.fragments_added
        assert not told[key].committed
    assert done[A].manifest_version == store.snapshot().manifest_version


def test_a_branch_leaves_tables_of_others_and_says_so(store):
    for i in range(3):
        write(store, {A: {f"k{i}": i}})
    store.branches.create("side")
    for preview in (True, False):
        assert {part.skipped for part in store.optimize("side", preview=preview)} == {
            "other_branch"
        }


def test_whoever_listens_hears_of_every_table_and_what_is_late_is_told(store):
    write(store, {A: {"k": 1}, B: {"k": 1}})
    heard = Heard()
    assert {part.skipped for part in store.optimize(progress=heard)} == {None}
    tables = len(store.snapshot().tables)
    assert (heard.stages, heard.finished) == ([("compacting", tables)], tables)
    heard = Heard()
    store.cleanup(ALL, dry_run=True, progress=heard)
    assert (heard.stages, heard.finished) == ([("looking through tables", tables)], tables)
    assert {part.skipped for part in store.optimize(max_seconds=0)} == {"out_of_time"}
    assert [part.table_key for part in store.optimize(tables=[B, B])] == [B]


class Heard:
    """Remembers what it was told."""

    def __init__(self):
        self.stages, self.finished = [], 0

    def stage(self, name, tasks):
        self.stages.append((name, tasks))

    def done(self, rows, bad, size=0):
        self.finished += 1


def test_disk_use_is_told_even_if_main_cannot_be_read(root):
    store = empty_graph(root)
    write(store, {A: {"a": 1}})
    known = {part.location: part.table_key for part in store.disk_usage()}
    assert known[store.snapshot().table(A).location] == A
    store.close()
    reader = open_store(str(root), read_only=True)
    for path in (root / layout.MANIFEST / layout.DATA_DIR).iterdir():
        path.write_bytes(b"torn")
    reader._heads = Heads(reader.kernel, read_only=True)
    found = reader.disk_usage()
    assert {part.location for part in found} == set(known)
    reader.close()


def test_disk_use_is_told_per_table_and_branch(store):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    use = {(part.location, part.branch): part for part in store.disk_usage()}
    location = store.snapshot().table(A).location
    assert use[location, None].data > 0
    assert use[location, "side"].data > 0
    assert use[layout.MANIFEST, "side"].versions > 0


@pytest.mark.parametrize(
    "policy",
    [{"keep_versions": -1}, *({"older_than_s": age} for age in (-1.0, math.nan, math.inf)), {}],
)
def test_a_policy_that_makes_no_sense_is_refused(store, policy):
    with pytest.raises(BadRequestError):
        store.cleanup(CleanupPolicy(**policy), dry_run=True)


@pytest.mark.parametrize("life", [-1.0, math.nan, math.inf])
def test_a_pin_needs_a_life_that_ends(store, life):
    with pytest.raises(BadRequestError):
        store.snapshot().pin(life)
    with store.snapshot().pin(60) as pin, pytest.raises(BadRequestError):
        pin.renew(life)


def test_cleanup_asks_a_branch_as_often_for_many_tables_as_for_few(tmp_path, monkeypatch):
    asked = []
    current = Heads.current
    monkeypatch.setattr(
        Heads, "current", lambda self, branch: (asked.append(branch), current(self, branch))[1]
    )
    counts = []
    for tables in (2, 12):
        specs = [TableSpec(f"node:T{number}", SCHEMA) for number in range(tables)]
        with init_store(str(tmp_path / str(tables)), specs, {}, NOW) as store:
            for name in ("one", "two", "three"):
                store.branches.create(name)
                write(store, {"node:T0": {"x": 1}}, name)
            asked.clear()
            store.cleanup(ALL)
            counts.append(len(asked))
    assert counts[0] == counts[1]


def test_a_past_state_pinned_during_a_cleanup_keeps_what_is_not_yet_cleaned(root, monkeypatch):
    with empty_graph(root, NOW) as store:
        old = write(store, {A: {"a": 1}, B: {"b": 1}})
        for i in range(3):
            write(store, {A: {"a": i}, B: {"b": i}})
        cleaned, clean = [], cleanup_module._clean_lineage

        def pin_then_clean(kernel, lineage, *rest, **options):
            if not cleaned:
                store.snapshot_at(commit_id=old).pin(3_600)
            cleaned.append(lineage[0])
            return clean(kernel, lineage, *rest, **options)

        monkeypatch.setattr(cleanup_module, "_clean_lineage", pin_then_clean)
        past = store.snapshot_at(commit_id=old)
        store.cleanup(ALL)
        late = [key for key in (A, B) if past.table(key).location != cleaned[0]]
    with open_store(str(root), options=NOW) as again:
        past = again.snapshot_at(commit_id=old)
        assert late
        assert all(past.open(key).scan()["v"].to_pylist() == [1] for key in late)


@pytest.mark.parametrize("days", [-30, 30])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_pin_lives_as_long_as_its_reader_said_whatever_the_readers_clock_shows(
    store, root, days, read_only
):
    write(store, {A: {"a": 1}})
    wrong = SteeredClock(ahead_s=days * 86_400.0)
    with open_store(str(root), read_only, QUIET, wrong) as reader:
        pin = reader.snapshot().pin(ttl_s=3_600.0)
        assert [one.id for one in store.pins()] == [pin.record.id]
        pin.renew(7_200.0)
        [seen] = store.pins()
        left_s = (seen.expires_at_us - store.kernel.store_clock.now_us()) / 1e6
        assert 3_600 < left_s < 10_800

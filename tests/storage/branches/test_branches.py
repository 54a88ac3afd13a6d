"""Branches: created in one step, forked only when written, deleted with care."""

import shutil
from collections import Counter
from dataclasses import replace
from functools import partial

import lance
import pytest

from omnigraph.api.history import TableNotFoundError
from omnigraph.base import failpoints
from omnigraph.errors import AlreadyExistsError, BadRequestError, ConflictError
from omnigraph.storage.files import layout
from omnigraph.storage.files.backends import ObjectInfo
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.manifest.history import CommitNotFoundError
from omnigraph.storage.manifest.publish import physical_intent, publish
from omnigraph.storage.manifest.snapshot import BranchNotFoundError
from omnigraph.storage.options import Retention
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, B, check_lines, contents, empty_graph, write


def names(store):
    return [info.name for info in store.branches.list()]


def test_a_new_branch_shares_every_table_with_its_source(store):
    write(store, {A: {"a": 1}})
    side = store.branches.create("side")
    assert side.tables == store.snapshot().tables
    assert names(store) == ["main", "side"]


def test_the_first_write_forks_only_the_table_it_touches(store):
    write(store, {A: {"a": 1}, B: {"b": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    side = store.snapshot("side").tables
    assert (side[A].branch, side[B].branch) == ("side", None)
    assert contents(store.snapshot("side"))[A] == {"a": 1, "s": 1}
    assert contents(store.snapshot())[A] == {"a": 1}


def test_later_writes_to_main_do_not_reach_the_branch(store):
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    write(store, {A: {"m": 1}})
    assert contents(store.snapshot("side"))[A] == {"a": 1}


def test_a_branch_of_a_branch_sees_its_rows_and_forks_from_them(store):
    store.branches.create("one")
    write(store, {A: {"x": 1}}, "one")
    store.branches.create("two", "one")
    write(store, {A: {"y": 1}}, "two")
    assert contents(store.snapshot("two"))[A] == {"x": 1, "y": 1}
    assert contents(store.snapshot("one"))[A] == {"x": 1}
    check_lines(store)


def test_branches_with_nested_names_work(store):
    store.branches.create("review/2026-04-25")
    write(store, {A: {"x": 1}}, "review/2026-04-25")
    assert contents(store.snapshot("review/2026-04-25"))[A] == {"x": 1}
    assert names(store) == ["main", "review/2026-04-25"]


@pytest.mark.parametrize(
    ("live", "new"), [("team", "team/x"), ("team/x", "team"), ("a/b", "a/b/c")]
)
def test_names_that_are_prefixes_of_each_other_are_refused(store, live, new):
    store.branches.create(live)
    with pytest.raises(ConflictError, match="prefixes"):
        store.branches.create(new)


@pytest.mark.parametrize("bad", ["", " ", "a b", "a..b", "x.lock", "/a", "a//b", "a" * 201])
def test_malformed_names_are_refused(store, bad):
    with pytest.raises(BadRequestError):
        store.branches.create(bad)


@pytest.mark.parametrize("system", ["__schema_apply_lock__", "/__schema_apply_lock__", "__x"])
def test_system_names_are_refused_everywhere(store, system):
    calls = (store.branches.create, store.branches.delete, store.begin, store.snapshot)
    for call in calls:
        with pytest.raises(BadRequestError, match="internal system ref"):
            call(system)


@pytest.mark.parametrize("bad", ["", "a b", "../../x", "a\0b"])
def test_malformed_names_are_refused_by_upkeep_too(store, bad):
    index = IndexSpec("id", "BTREE", "by_id")
    calls = (
        store.maintain,
        store.optimize,
        lambda name: store.build_index(A, index, name),
        lambda name: store.drop_index(A, "by_id", name),
        lambda name: store.snapshot_at(commit_id="x", branch=name),
    )
    for call in calls:
        with pytest.raises(BadRequestError):
            call(bad)


def test_upkeep_of_a_table_that_is_not_there_names_it(store):
    for call in (store.build_index, store.drop_index):
        with pytest.raises(TableNotFoundError, match="node:Nobody"):
            call("node:Nobody", IndexSpec("id", "BTREE", "by_id"))


def test_taken_and_reserved_names_are_refused(store):
    store.branches.create("side")
    for name in ("side", "main"):
        with pytest.raises(AlreadyExistsError):
            store.branches.create(name)
    with pytest.raises(BadRequestError, match="main"):
        store.branches.delete("main")
    with pytest.raises(BranchNotFoundError, match="nope"):
        store.branches.delete("nope")
    with pytest.raises(BranchNotFoundError, match="nope"):
        store.branches.create("new", "nope")
    with pytest.raises(BranchNotFoundError):
        store.snapshot("nope")


def test_a_branch_with_a_descendant_cannot_be_deleted(store):
    store.branches.create("one")
    store.branches.create("two", "one")
    with pytest.raises(ConflictError, match="'two' descends"):
        store.branches.delete("one")
    store.branches.delete("two")
    store.branches.delete("one")
    assert names(store) == ["main"]


def test_a_branch_made_from_an_old_commit_holds_its_source_and_is_named(store):
    store.branches.create("one")
    first = write(store, {A: {"x": 1}}, "one")
    write(store, {A: {"y": 1}}, "one")
    store.branches.create("past", "one", commit_id=first)
    assert [info.parent for info in store.branches.list()] == [None, "main", "one"]
    with pytest.raises(ConflictError, match="'past' descends from 'one'"):
        store.branches.delete("one")
    store.branches.delete("past")
    store.branches.delete("one")
    assert store.kernel.objects.list(f"{layout.MANIFEST}/{layout.REFS_DIR}") == []


def test_a_branch_made_before_there_were_notes_holds_its_source_too(store, root):
    store.branches.create("one")
    store.branches.create("two", "one")
    shutil.rmtree(root / layout.dependents("one"))
    (root / layout.DEPENDENTS_NOTED).unlink()
    with pytest.raises(ConflictError, match="'two' descends"):
        store.branches.delete("one")


def test_a_branch_that_reads_another_ones_tables_holds_it(store, root):
    """What a merge of an older program may leave: a table of a branch nobody descends from."""
    store.branches.create("one")
    write(store, {A: {"x": 1}}, "one")
    store.branches.create("two")
    head = store._heads.current("two")
    borrowed = (store.snapshot("one").tables[A],)
    intent = physical_intent(store.kernel, head, "BranchMerge", (), borrowed)
    with store.kernel.locks.hold(branch_lock_name("two"), "test") as lock:
        publish(store.kernel, head, intent, lock)
    (root / layout.DEPENDENTS_NOTED).unlink()
    with pytest.raises(ConflictError, match=f"'two' reads {A} from 'one'"):
        store.branches.delete("one")
    write(store, {A: {"own": 1}}, "two")
    store.branches.delete("one")
    assert contents(store.snapshot("two"))[A] == {"x": 1, "own": 1}


def test_deleting_a_branch_reads_as_much_among_many_as_among_few(store, monkeypatch):
    seen = Counter()
    backend = store.kernel.objects._backend
    for name in ("get", "head", "find_all"):
        counted = partial(_counted, seen, getattr(backend, name))
        monkeypatch.setattr(backend, name, counted)
    monkeypatch.setattr(lance, "dataset", partial(_counted, seen, lance.dataset))
    store.kernel.store_clock.now_us()  # asked once per process
    reads = []
    for count in (10, 200):
        for number in range(len(names(store)) - 1, count):
            store.branches.create(f"b{number}", "b0" if number % 2 else "main")
        write(store, {A: {"x": count}}, "b7")
        seen.clear()
        store.branches.delete("b7")
        reads.append(seen.total())
        store.branches.create("b7", "b0")
    assert reads[0] == reads[1]
    assert reads[0] < 20


def test_a_branch_that_cannot_be_read_does_not_keep_others_from_being_deleted(store, root):
    store.branches.create("broken")
    store.branches.create("side")
    for path in (root / layout.MANIFEST / "tree/broken/_versions").glob("*.manifest"):
        path.write_bytes(b"xx")
    store.branches.delete("side")
    assert names(store) == ["main", "broken"]


def _counted(seen, call, *args, **options):
    seen["reads"] += 1
    return call(*args, **options)


def test_a_word_that_names_a_folder_of_a_branch_is_refused_behind_a_slash(store):
    for word in (*layout.DATASET_DIRS, "tree", "_retired", "_kept_from", "_dependents"):
        for name in (f"exp/{word}", f"exp/{word}/x"):
            with pytest.raises(BadRequestError, match="not a branch name"):
                store.branches.create(name)
    store.branches.create("data/exp")
    write(store, {A: {"x": 1}}, "data/exp")
    assert contents(store.snapshot("data/exp"))[A] == {"x": 1}


def test_cleanup_leaves_a_branch_alone_that_lies_in_the_folders_of_a_dead_one(root, monkeypatch):
    """Such names are refused now; graphs from before may have them."""
    monkeypatch.setattr(layout, "parse_new_branch", layout.parse_branch)
    options = replace(QUIET, retention=Retention(floor_s=0.0, newest_versions=1))
    with empty_graph(root, options) as store:
        store.branches.create("exp")
        write(store, {A: {"dead": 1}}, "exp")
        store.branches.delete("exp")
        store.branches.create("exp/data")
        write(store, {A: {"kept": 1}}, "exp/data")
        store.cleanup(CleanupPolicy(keep_versions=1))
    with open_store(str(root), options=options) as store:
        assert contents(store.snapshot("exp/data"))[A] == {"kept": 1}


@pytest.mark.parametrize("name", ["x" * 180, "é" * 18, "日" * 12, "a/" * 29 + "b"])
def test_the_longest_names_can_be_written_deleted_and_used_again(store, name):
    for value in (1, 2):
        store.branches.create(name)
        write(store, {A: {"x": value}}, name)
        assert contents(store.snapshot(name))[A] == {"x": value}
        store.branches.delete(name)


@pytest.mark.parametrize("name", ["x" * 181, "é" * 19, "日" * 13, "a/" * 31 + "b"])
def test_a_name_that_no_file_can_have_is_refused_before_anything_is_written(store, name):
    with pytest.raises(BadRequestError, match="too long"):
        store.branches.create(name)


def test_a_name_that_is_too_long_to_exist_is_not_looked_for(store):
    for call in (store.snapshot, store.begin, store.branches.delete):
        with pytest.raises(BadRequestError, match="too long"):
            call("日" * 60)


def test_a_name_that_the_file_system_takes_for_another_is_refused(store, monkeypatch):
    """On disks that do not tell upper from lower case both branches would be the same files."""
    store.branches.create("dev")
    write(store, {A: {"x": 1}}, "dev")
    backend = store.kernel.objects._backend
    plain = backend.head
    monkeypatch.setattr(backend, "head", lambda name: plain(name) or plain(name.lower()))
    with pytest.raises(ConflictError, match="spelt differently"):
        store.branches.create("DEV")
    assert contents(store.snapshot("dev"))[A] == {"x": 1}


def test_a_name_can_be_used_again_at_once_and_warm_readers_see_the_new_branch(store, root, quiet):
    write(store, {A: {"a": 1}})
    other = open_store(str(root), read_only=True, options=quiet)
    versions = []
    for value in (1, 2, 3):
        store.branches.create("side")
        write(store, {A: {"s": value}}, "side")
        for reader in (store, other):
            assert contents(reader.snapshot("side"))[A] == {"a": 1, "s": value}
        versions.append(store.snapshot("side").tables[A].version)
        store.branches.delete("side")
        with pytest.raises(BranchNotFoundError):
            other.snapshot("side")
    assert len(set(versions)) == 1, "version numbers repeat, so this was a real test"
    other.close()


def test_a_name_used_again_is_told_apart_where_the_disk_cannot(store, root, quiet, monkeypatch):
    """The new ref can have the inode of the old one, and its time if clocks are coarse."""
    alike = ObjectInfo("ref", 240, 0, "alike")
    head = type(store.kernel.objects._backend).head
    monkeypatch.setattr(
        "omnigraph.storage.files.backends._LocalBackend.head", lambda *args: head(*args) and alike
    )
    other = open_store(str(root), read_only=True, options=quiet)
    for value in (1, 2):
        store.branches.create("side")
        write(store, {A: {"s": value}}, "side")
        assert contents(other.snapshot("side"))[A] == {"s": value}
        store.branches.delete("side")
    other.close()


def test_a_snapshot_of_a_deleted_branch_keeps_reading(store):
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    old = store.snapshot("side")
    store.branches.delete("side")
    store.branches.create("side")
    write(store, {A: {"other": 1}}, "side")
    store.kernel.tables.close()
    assert contents(old)[A] == {"s": 1}


def test_a_branch_starts_from_an_old_commit(store):
    first = write(store, {A: {"a": 1}})
    write(store, {A: {"b": 1}})
    newest = write(store, {B: {"c": 1}})
    past = store.branches.create("past", commit_id=first)
    assert contents(past) == {A: {"a": 1}, B: {}, "edge:E": {}}
    assert [commit.id for commit in store.commits("past")][-1] == first
    write(store, {A: {"p": 1}}, "past")
    assert contents(store.snapshot("past"))[A] == {"a": 1, "p": 1}
    assert store.snapshot().commit_id == newest
    check_lines(store)
    assert names(store) == ["main", "past"]
    assert [f for f in store.verify() if not f.harmless] == []


def test_a_branch_from_an_unknown_commit_is_refused(store):
    with pytest.raises(CommitNotFoundError):
        store.branches.create("past", commit_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize("point", ["branch_create.after_ref", "branch_create.after_origin"])
def test_an_interrupted_creation_leaves_all_or_nothing(store, point):
    first = write(store, {A: {"a": 1}})
    write(store, {A: {"b": 1}})
    failpoints.enable(f"{point}=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        store.branches.create("past", commit_id=first)
    failpoints.disable_all()
    if point.endswith("ref"):
        assert contents(store.snapshot("past"))[A] == {"a": 1}
    else:
        assert names(store) == ["main"]
        store.branches.create("past", commit_id=first)


def test_a_tree_without_its_ref_does_not_block_the_name(store, root):
    """What a crash inside Lance's own branch creation leaves."""
    write(store, {A: {"a": 1}})
    store.branches.create("side")
    write(store, {A: {"s": 1}}, "side")
    location = store.snapshot().table(A).location
    (root / layout.branch_ref(layout.MANIFEST, "side")).unlink()
    (root / layout.branch_ref(location, "side")).unlink()
    store.kernel.objects.put(layout.branch_intent("side"), b"")  # noted before Lance is called
    assert names(store) == ["main"]
    store.branches.create("side")
    write(store, {A: {"again": 1}}, "side")
    assert contents(store.snapshot("side"))[A] == {"a": 1, "again": 1}
    assert store.snapshot("side").tables[A].branch != "side"
    assert layout.fork_owner(store.snapshot("side").tables[A].branch) == "side"


def test_commits_of_a_merged_branch_stay_known_after_it_is_deleted(store):
    store.branches.create("side")
    made = write(store, {A: {"s": 1}}, "side")
    session = store.begin()
    session.upsert(A, store.snapshot("side").open(A).scan())
    merge = session.commit(merged=store.merge_sides("side", session.base).source)
    store.branches.delete("side")
    assert store.commit(made).branch == "side"
    assert merge.commit.merged_parent == made
    assert made not in [commit.id for commit in store.commits()]
    check_lines(store)

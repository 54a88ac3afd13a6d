"""Branches: created in one step, forked only when written, deleted with care."""

import pytest

from omnigraph.base import failpoints
from omnigraph.errors import AlreadyExistsError, BadRequestError, ConflictError
from omnigraph.storage import layout
from omnigraph.storage.history import CommitNotFoundError
from omnigraph.storage.snapshot import BranchNotFoundError
from omnigraph.storage.store import open_store
from tests.support.storage_model import A, B, check_lines, contents, write


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
    merge = session.commit(merged_parent=made, merged_from="side")
    store.branches.delete("side")
    assert store.commit(made).branch == "side"
    assert merge.merged_parent == made
    assert made not in [commit.id for commit in store.commits()]
    check_lines(store)

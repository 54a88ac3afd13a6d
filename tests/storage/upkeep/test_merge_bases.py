"""Cleanup beside branches that will be merged: where a merge starts from stays readable."""

from dataclasses import replace

import pytest

from omnigraph.storage.options import Retention
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, contents, empty_graph, rows, write

HARDEST = CleanupPolicy(keep_versions=1, older_than_s=0)
NO_FLOOR = replace(QUIET, retention=Retention(floor_s=0, newest_versions=1))


@pytest.fixture
def store(root):
    with empty_graph(root, NO_FLOOR) as opened:
        yield opened


def merge(store, source, into="main"):
    """Merge the rows of a branch by hand, as a merge that finds all of them changed would."""
    session = store.begin(into, writer_kind="BranchMerge")
    session.upsert(A, store.snapshot(source).open(A).scan())
    return session.commit(merged=store.merge_sides(source, session.base).source)


def grow(store, branch="main", count=12):
    for number in range(count):
        write(store, {A: {f"{branch}-{number}": number}}, branch)


def bases(store, source, into="main"):
    return store.merge_sides(source, store.snapshot(into)).bases


def test_a_base_that_lies_behind_a_merge_survives_cleanup(store):
    store.branches.create("side")
    grow(store, "side")
    merge(store, "side")
    then = contents(store.snapshot("side"))
    (base,) = bases(store, "side")
    grow(store, "side")
    grow(store)
    assert store.cleanup(HARDEST)
    assert bases(store, "side") == (base,)
    assert contents(store.snapshot_at(commit_id=base)) == then


def test_a_base_on_a_deleted_branch_survives_cleanup(store):
    store.branches.create("dev")
    store.branches.create("side")
    grow(store, "side")
    merge(store, "side", "main")
    merge(store, "side", "dev")
    then, merged = contents(store.snapshot("side")), store.snapshot("side").commit_id
    store.branches.delete("side")
    grow(store)
    grow(store, "dev")
    assert store.cleanup(HARDEST)
    assert bases(store, "dev") == (merged,)
    assert contents(store.snapshot_at(commit_id=merged)) == then


def test_merges_in_both_directions_leave_two_bases(store):
    store.branches.create("side")
    grow(store, "side", 1)
    grow(store, "main", 1)
    one, other = store.snapshot().commit_id, store.snapshot("side").commit_id
    ours, theirs = store.begin(), store.begin("side")
    sides = store.merge_sides("side", ours.base), store.merge_sides("main", theirs.base)
    for session, found in zip((ours, theirs), sides, strict=True):
        session.upsert(A, rows({"both": 1}))
        session.commit(merged=found.source)
    assert set(bases(store, "side")) == {one, other}


def test_a_source_that_goes_on_brings_only_what_was_merged(store):
    store.branches.create("side")
    grow(store, "side", 2)
    session = store.begin()
    session.upsert(A, store.snapshot("side").open(A).scan())
    sides = store.merge_sides("side", session.base)
    later = write(store, {A: {"later": 1}}, "side")
    store.branches.delete("side")
    store.branches.create("side")
    session.commit(merged=sides.source)
    assert store.commit(sides.theirs.commit_id).branch == "side"
    with pytest.raises(LookupError):
        store.commit(later)

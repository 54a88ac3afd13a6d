"""Tags: commits by name, kept readable, refused where a name could mean two things."""

from dataclasses import replace

import pytest

from omnigraph.errors import AlreadyExistsError, BadRequestError, FormatError, NotFoundError
from omnigraph.storage.files import layout
from omnigraph.storage.options import Retention
from omnigraph.storage.store import open_store
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, contents, empty_graph, write

HARDEST = CleanupPolicy(keep_versions=1, older_than_s=0)


@pytest.fixture
def store(root):
    with empty_graph(
        root, replace(QUIET, retention=Retention(floor_s=0, newest_versions=1, orphan_age_s=0))
    ) as opened:
        yield opened


def tag(store, name, branch="main"):
    return store.tag(name, store.snapshot(branch), "ada", "as shipped")


def test_a_tag_is_a_commit_by_name_and_survives_branch_and_cleanup(store, root):
    store.branches.create("side")
    made = write(store, {A: {"a": 1, "b": 2}}, "side")
    then = contents(store.snapshot("side"))
    told = tag(store, "v1.0", "side")
    assert (told.commit_id, told.actor, told.message) == (made, "ada", "as shipped")
    for number in range(6):
        write(store, {A: {"a": number}}, "side")
    store.branches.delete("side")
    write(store, {A: {"main": 1}})
    store.cleanup(HARDEST)
    assert contents(store.snapshot_at(commit_id="v1.0")) == then
    with open_store(str(root), read_only=True, options=QUIET) as reader:
        assert contents(reader.snapshot_at(commit_id="v1.0")) == then
    store.delete_tag("v1.0")
    assert store.tags() == []
    assert store.cleanup(HARDEST)
    with pytest.raises(NotFoundError):
        store.snapshot_at(commit_id="v1.0")


def test_a_branch_can_begin_at_a_tag(store):
    write(store, {A: {"a": 1}})
    tag(store, "before")
    write(store, {A: {"a": 2}})
    store.branches.create("again", commit_id="before")
    assert contents(store.snapshot("again"))[A] == {"a": 1}


def test_names_mean_one_thing(store):
    store.branches.create("side")
    with pytest.raises(AlreadyExistsError, match="'side' is a branch"):
        tag(store, "side")
    tag(store, "release/1")
    with pytest.raises(AlreadyExistsError, match="there is a tag 'release/1' already"):
        tag(store, "release/1")
    with pytest.raises(AlreadyExistsError, match="'release/1' is a tag"):
        store.branches.create("release/1")
    with pytest.raises(BadRequestError, match="form of a commit id"):
        tag(store, store.snapshot().commit_id)
    for odd in ("", " ", "a b", "../up", 7, None):
        with pytest.raises(BadRequestError):
            tag(store, odd)
    with pytest.raises(NotFoundError):
        store.delete_tag("nobody")
    assert [one.name for one in store.tags()] == ["release/1"]


def test_a_damaged_tag_stops_cleanup_and_can_be_deleted(store):
    tag(store, "v1")
    store.kernel.objects.put(layout.tag("v1"), b"{")
    with pytest.raises(FormatError, match="cannot be read"):
        store.cleanup(HARDEST)
    store.delete_tag("v1")
    store.cleanup(HARDEST)


def test_a_state_that_was_cleaned_up_cannot_be_named(store):
    write(store, {A: {"a": 1}})
    old = store.snapshot()
    for number in range(4):
        write(store, {A: {"a": number}})
    store.cleanup(HARDEST)
    with pytest.raises(NotFoundError, match="was cleaned up"):
        store.tag("late", old, None, None)

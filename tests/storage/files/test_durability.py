"""Durable before acknowledged: which files are synced, how often, and in which order."""

from dataclasses import replace

import pytest

from omnigraph.storage.files import layout
from omnigraph.storage.store import open_store
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, B, E, empty_graph, rows, write

FULL = replace(QUIET, durability="full")


def syncs_of(store, values, branch="main"):
    """Return what one commit synced, in order."""
    store.counters.reset()
    write(store, values, branch)
    return store.counters.recent_syncs()


@pytest.fixture
def full(root):
    store = empty_graph(root, FULL)
    write(store, {A: {"a": 1}, B: {"b": 1}, E: {"e": 1}})
    yield store
    store.close()


@pytest.mark.parametrize("tables", [(A,), (A, B), (A, B, E)])
def test_a_commit_needs_few_syncs(full, tables):
    done = syncs_of(full, {key: {"x": 1} for key in tables})
    assert len(done) <= 6 * len(tables) + 10
    assert len(done) == 4 * len(tables) + 8


def test_the_first_commit_of_a_process_stays_within_the_bound(full, root):
    full.close()
    with open_store(str(root), options=FULL) as again:
        assert len(syncs_of(again, {A: {"x": 1}})) <= 6 + 10


def test_the_barriers_come_in_order(full):
    done = syncs_of(full, {A: {"x": 1}, B: {"y": 1}})
    homes = [full.snapshot().table(key).location for key in (A, B)]

    def last(*parts):
        return max(at for at, name in enumerate(done) if all(part in name for part in parts))

    def first(*parts):
        return min(at for at, name in enumerate(done) if all(part in name for part in parts))

    staged = max(last(f"{home}/data/") for home in homes)
    intent = last(layout.RECOVERY_DIR)
    tables = [first(f"{home}/_versions") for home in homes]
    assert staged < intent, "a sidecar names only what is on disk"
    assert last(f"{layout.MANIFEST}/data") < intent
    assert last(f"{layout.MANIFEST}/_deletions") < intent
    assert intent < min(tables), "no table moves before the intent is on disk"
    assert max(last(f"{home}/_versions") for home in homes) < first(
        f"{layout.MANIFEST}/_versions"
    ), "nothing is published before every table is on disk"
    assert done[-1] == f"{layout.MANIFEST}/_versions/", (
        "the publish is synced last, before the answer"
    )


def test_every_directory_that_names_a_synced_file_is_synced_after_it(full):
    full.branches.create("side")
    done = syncs_of(full, {A: {"x": 1}}, "side")
    for at, name in enumerate(done):
        if not name.endswith("/"):
            folder = name.rpartition("/")[0] + "/"
            assert folder in done[at:], f"{folder} is not synced after {name}"
    fork = f"{full.snapshot().table(A).location}/tree/side/"
    assert fork in done, "a new directory is named by its parent"


def test_an_update_syncs_its_deletion_file(full):
    write(full, {A: {"p": 1, "q": 1}})
    session = full.begin()
    session.upsert(A, rows({"p": 2}))
    full.counters.reset()
    session.commit()
    assert any("nodes/" in name and "_deletions/" in name for name in full.counters.recent_syncs())


def test_nothing_is_synced_when_the_system_is_trusted(root):
    store = empty_graph(root, QUIET)
    assert syncs_of(store, {A: {"a": 1}}) == []
    store.close()

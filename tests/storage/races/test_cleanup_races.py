"""Cleanup at full speed beside branches from old commits, lazy forks and pinned readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.storage.options import Retention
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.storage_model import A, B, check_whole, contents, new_graph, write
from tests.support.writers import (
    TIDY,
    append_rows,
    branch_from_old_commits,
    clean_again_and_again,
)

TIDY_NOW = replace(TIDY, maintenance="manual", retention=Retention(floor_s=0, newest_versions=1))
ALL = CleanupPolicy(keep_versions=1, older_than_s=0)


def test_cleanup_never_takes_what_a_new_branch_or_its_first_write_needs(start, root, tmp_path):
    with new_graph(root, TIDY) as store:
        for number in range(12):
            write(store, {A: {"a1": number}})
    go, stop = tmp_path / "go", tmp_path / "stop"
    cleaner = start(clean_again_and_again, str(root), str(stop))
    cleaner.wait_for("cleaned")
    running = [
        start(branch_from_old_commits, str(root), str(go), "u", 8),
        start(append_rows, str(root), str(go), "w", A, "main", 20),
    ]
    go.touch()
    for child in running:
        child.succeed()
    stop.touch()
    assert len(cleaner.succeed().said) > 1
    assert any(word.startswith("u") for word in running[0].said), "no branch was made at all"
    with open_store(str(root), options=TIDY) as store:
        check_whole(store, forgets=True)


def test_a_lazy_fork_still_finds_its_base_after_everything_else_was_cleaned(root):
    with new_graph(root, TIDY_NOW) as store:
        store.branches.create("late")
        before = contents(store.snapshot("late"))
        for number in range(6):
            write(store, {A: {"a1": number}, B: {"b1": number}})
        store.optimize()
        store.cleanup(ALL)
        write(store, {A: {"fork": 1}}, "late")
        assert contents(store.snapshot("late")) == {**before, A: {**before[A], "fork": 1}}
    with open_store(str(root), options=TIDY_NOW) as store:
        check_whole(store, forgets=True)


def test_a_pinned_snapshot_reads_on_while_everything_around_it_goes(root):
    with new_graph(root, TIDY_NOW) as store:
        store.branches.create("gone")
        write(store, {A: {"a1": 100}}, "gone")
        kept, lost = store.snapshot("gone"), store.snapshot()
        seen = contents(kept)
        with kept.pin():
            store.branches.delete("gone")
            for number in range(6):
                write(store, {A: {"a1": number}})
            store.optimize()
            store.cleanup(ALL)
            with open_store(str(root), read_only=True) as cold:
                again = cold.snapshot()
                assert again.commit_id != kept.commit_id
            store.kernel.tables.close()  # forget warm handles: read from the files
            assert contents(kept) == seen
        store.cleanup(ALL)  # takes the fork,
        store.cleanup(ALL)  # and then what only the fork rested on
        store.kernel.tables.close()
        with pytest.raises(SnapshotExpiredError):
            contents(kept)
        with pytest.raises(SnapshotExpiredError):
            contents(lost)
    with open_store(str(root), options=TIDY_NOW) as store:
        check_whole(store, forgets=True)

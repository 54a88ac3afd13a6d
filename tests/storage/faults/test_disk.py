"""A disk that refuses: read-only, full, or not what it should be."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.commit.intent import stage_ahead
from omnigraph.storage.files import layout
from omnigraph.storage.store import open_store
from tests.support.faults import files_of, use_after_fork, use_read_only, write_on_a_full_disk
from tests.support.operations import QUIET
from tests.support.storage_model import (
    A,
    B,
    check_whole,
    contents,
    empty_graph,
    new_graph,
    rows,
    write,
)


def test_a_read_only_directory_can_be_read_and_says_why_it_cannot_be_written(root, start):
    with new_graph(root, QUIET) as store:
        before = contents(store.snapshot())
    picture = files_of(root)
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in folders:
        path.chmod(0o555)
    for path in files:
        path.chmod(0o444)
    said = start(use_read_only, str(root)).succeed().said
    for path in (*folders, *files):
        path.chmod(0o755)
    assert said[0] == before
    assert len(said) == 2, "writing was not refused"
    assert "Permission denied" in said[1]
    assert layout.LOCKS_DIR in said[1], "the error does not name the object"
    assert files_of(root) == picture


@pytest.mark.parametrize("limit", [0, 200, 600, 1000, 1500, 2500, 3000, 3130, 4000, 8000])
def test_a_full_disk_refuses_whole_writes_and_recovers_with_room(root, start, limit):
    with new_graph(root, QUIET) as store:
        before = contents(store.snapshot())
    said = start(write_on_a_full_disk, str(root), limit).succeed().said
    after = {
        **before,
        A: {**before[A], **{f"n{number}": number for number in range(200)}},
        B: {**before[B], "n": 1},
    }
    assert said[1] in (before, after), "a reader beside a full disk saw half a write"
    assert (said[0] == "committed") <= (said[1] == after)
    with open_store(str(root), options=QUIET) as store:
        found = contents(store.snapshot())
        told = {"committed": [after], "refused: ": [before], "pending: ": [before, after]}
        assert found in told[said[0][:9]], said[0]
        check_whole(store)


def test_some_of_these_limits_refuse_and_some_do_not(root, start):
    """Otherwise the test above would prove nothing."""
    outcomes = set()
    for number, limit in enumerate((0, 1500, 100_000)):
        place = root.with_name(f"graph{number}")
        new_graph(place, QUIET).close()
        outcomes.add(start(write_on_a_full_disk, str(place), limit).succeed().said[0][:9])
    assert outcomes == {"refused: ", "committed"}


def test_a_disk_that_fills_up_at_the_last_step_leaves_the_outcome_open_and_says_so(root, start):
    with new_graph(root, QUIET) as store:
        for number in range(32):  # until the manifest's own versions are the largest files
            write(store, {A: {"a1": number}})
        version = layout.version_file(layout.MANIFEST, None, store.snapshot().manifest_version)
    limit = (root / version).stat().st_size
    said = start(write_on_a_full_disk, str(root), limit).succeed().said
    assert said[0].startswith("pending: "), said[0]
    assert "n" not in said[1][B], "not visible yet"
    with open_store(str(root), options=QUIET) as store:
        assert "n" in contents(store.snapshot())[B], "all its tables had moved, so it is finished"
        check_whole(store)


def test_a_file_that_the_disk_took_only_in_part_is_never_committed(root, start):
    """Lance does not notice when the last bytes of a data file are not taken."""
    with new_graph(root, QUIET) as store:
        table = store.snapshot().table(A)
        session = store.begin()
        session.upsert(A, rows({f"n{number}": number for number in range(200)}))
        folder = root / table.location / layout.DATA_DIR
        known = set(folder.iterdir())
        stage_ahead(session.write_set)
        (staged,) = set(folder.iterdir()) - known
        size = staged.stat().st_size
    for missing in (1, 3, 4, 5, 40):
        said = start(write_on_a_full_disk, str(root), size - missing).succeed().said
        assert "cut short" in said[0], (missing, said[0])
        assert table.location in said[0]
    with open_store(str(root), options=QUIET) as store:
        check_whole(store)


@pytest.mark.parametrize("name", [layout.RECOVERY_DIR, layout.CONTRACTS_DIR])
def test_a_file_in_the_place_of_a_folder_is_named(root, name):
    with new_graph(root, QUIET) as store:
        before = contents(store.snapshot())
        if (root / name).exists():
            for path in sorted((root / name).rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            (root / name).rmdir()
        (root / name).write_bytes(b"in the way")
        session = store.begin()
        session.replace_file("_schema.pg", b"second")
        with pytest.raises(StorageError, match=name):
            session.commit()
        assert contents(store.snapshot()) == before
        (root / name).unlink()
        write(store, {A: {"n": 1}})
    with open_store(str(root), options=QUIET) as store:
        check_whole(store)


@pytest.mark.parametrize("failure", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_disk_without_hard_links_is_refused_by_init_and_left_as_it_was(
    root, monkeypatch, failure
):
    def refuse(path, target):
        raise OSError(failure, "not here", str(path))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    root.mkdir()
    with pytest.raises(StorageError, match="cannot hold a graph") as caught:
        empty_graph(root, QUIET)
    assert "hard links" in str(caught.value)
    assert files_of(root) == {}


def test_a_file_where_a_folder_above_the_graph_should_be_is_named(root):
    root.write_text("no folder")
    with pytest.raises(StorageError, match=f"{root}/below cannot hold a graph: .*Not a directory"):
        empty_graph(root / "below", QUIET)
    assert root.read_text() == "no folder"


def test_a_forked_process_is_told_that_it_cannot_go_on(root, start):
    with empty_graph(root, QUIET) as store:
        write(store, {A: {"a": 1}})
    told, seen = start(use_after_fork, str(root)).succeed().said
    assert told == ",".join(["ForkedProcessError"] * 3)
    assert seen[A] == {"a": 1}


def test_a_branch_that_lance_cannot_make_below_letters_beyond_ascii_says_why(root):
    place = root.parent / "é" / "graph"
    place.mkdir(parents=True)
    (root.parent / "%C3%A9").write_text("in the way of the folder Lance passes through")
    with empty_graph(place, QUIET) as store:
        with pytest.raises(StorageError, match="plain ASCII"):
            store.branches.create("side")
        assert [info.name for info in store.branches.list()] == ["main"]
        write(store, {A: {"a": 1}})
        assert contents(store.snapshot())[A] == {"a": 1}

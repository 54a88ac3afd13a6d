"""Child tasks that meet a broken disk, and a picture of a directory to compare with."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

from omnigraph.errors import StorageError
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.store import open_store
from tests.support.children import Say
from tests.support.operations import QUIET
from tests.support.storage_model import A, B, contents, once, rows, write

_NOBODY = 65534


def files_of(root: Path) -> dict[str, bytes]:
    """Return every file of a graph, except locks, which hold no data."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__locks" not in path.parts
    }


def use_read_only(say: Say, root: str) -> None:
    """As a user who may not write: read the graph, then try to write it."""
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    with open_store(root, read_only=True) as store:
        say(contents(store.snapshot()))
    try:
        open_store(root, options=QUIET)
    except StorageError as error:
        say(str(error))


def write_on_a_full_disk(say: Say, root: str, limit: int) -> None:
    """Write while no file may grow beyond `limit` bytes; then again with room."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(root, options=QUIET) as store:
        session = store.begin()
        session.upsert(A, rows({f"n{number}": number for number in range(200)}))
        session.upsert(B, rows({"n": 1}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            session.commit(preconditions=once("n", "n"))
            say("committed")
        except OutcomePendingError as error:
            say(f"pending: {error}")
        except StorageError as error:
            say(f"refused: {error}")
        seen = contents(store.snapshot())
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        say(seen)


def use_after_fork(say: Say, root: str) -> None:
    """Read a graph, fork, and tell what the forked process may do with what it inherited."""
    with open_store(root, options=QUIET) as store:
        snapshot = store.snapshot()
        contents(snapshot)
        ours, theirs = os.pipe()
        if os.fork() == 0:
            calls = (
                lambda: contents(snapshot),
                lambda: write(store, {A: {"x": 1}}),
                lambda: open_store(root, read_only=True, options=QUIET),
            )
            os.write(theirs, ",".join(map(_failure, calls)).encode())
            os._exit(0)
        os.close(theirs)
        say(os.read(ours, 4096).decode())
        say(contents(store.snapshot()))


def _failure(call: Callable[[], object]) -> str:
    try:
        call()
    except StorageError as error:
        return type(error).__name__
    return "done"

"""Commits and old snapshots, read back from the history rows of the current manifest.

Old versions of `__manifest` itself may be cleaned: whatever is asked about the past is answered
from rows, by commit sequence. Writes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import (
    COMMIT,
    HEAD,
    TABLE_VERSION,
    TOMBSTONE,
    Head,
    State,
    find_commit,
    head_row,
    read_commits,
    read_history,
    rows_of,
)
from omnigraph.storage.records import Commit, TableVersion
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.scan import Reader


class CommitNotFoundError(NotFoundError):
    """No branch knows a commit of that id."""

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit '{commit_id}' not found", hint="list the commits of a branch")


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before, for a different request."""


def tables_at(head: Head, sequence: int) -> dict[TableKey, TableVersion]:
    """Return the snapshot after the commit with `sequence`, from history rows alone."""
    newest: dict[str, tuple[int, int, TableVersion | None]] = {}
    for order, row in enumerate(read_history(head.handle).to_pylist()):
        if row["object_type"] not in (TABLE_VERSION, TOMBSTONE):
            continue
        stated = orjson.loads(row["metadata"])
        at = (stated["sequence"], order)
        if at[0] > sequence or newest.get(row["table_key"], (-1, -1, None))[:2] > at:
            continue
        newest[row["table_key"]] = (*at, _table_of(row, stated))
    return {
        TableKey(key): table for key, (_, _, table) in sorted(newest.items()) if table is not None
    }


def dropped_locations(head: Head) -> dict[str, int]:
    """Return the datasets that this branch had and has no more, and when it dropped each."""
    ended: dict[str, int] = {}
    current: dict[str, str] = {}
    events = [
        (stated["sequence"], row["object_type"] != TOMBSTONE, row["table_key"], stated)
        for row in read_history(head.handle).to_pylist()
        if row["object_type"] in (TABLE_VERSION, TOMBSTONE)
        and (stated := orjson.loads(row["metadata"]))
    ]
    for sequence, lives, key, stated in sorted(events, key=lambda event: event[:3]):
        if lives:
            current[key] = stated["location"]
        elif key in current:
            ended[current.pop(key)] = sequence
    kept = {table.location for table in head.tables.values()}
    times = {commit.sequence: commit.created_at_us for commit in read_commits(head.handle)}
    return {
        location: times.get(sequence, 0)
        for location, sequence in ended.items()
        if location not in kept
    }


def _table_of(row: dict[str, Any], stated: dict[str, Any]) -> TableVersion | None:
    if row["object_type"] == TOMBSTONE:
        return None
    return TableVersion(
        TableKey(row["table_key"]),
        stated["location"],
        row["table_version"],
        row["table_branch"],
        row["row_count"],
    )


def rows_until(head: Head, commit: Commit, tables: Mapping[TableKey, TableVersion]) -> pa.Table:
    """Return the whole manifest as it would be if `commit` were the newest."""
    every = Reader(head.handle).scan().to_pylist()
    kept = [
        row for row in every if _sequence_of(row) <= commit.sequence and row["object_id"] != HEAD
    ]
    commits = [row for row in kept if row["object_type"] == COMMIT]
    changed: dict[TableKey, int] = {}
    for past in read_commits(head.handle):
        if past.kind == "logical" and past.sequence <= commit.sequence:
            changed |= {key: past.sequence for key in past.tables if key in tables}
    state = State(
        head.branch,
        commit.id,
        commit.sequence,
        commit.logical_id,
        tables,
        changed,
        head.files,
        len(commits),
    )
    return rows_of([*kept, head_row(state)])


def _sequence_of(row: Mapping[str, Any]) -> int:
    """Return the commit sequence a row belongs to; rows without one belong to all."""
    stated = orjson.loads(row["metadata"]) if row["metadata"] else {}
    if row["object_type"] == COMMIT and row["table_version"] is None:
        return -1  # merged in from another line
    return int(stated.get("sequence", -1))


def snapshot_at(kernel: Kernel, head: Head, commit: Commit) -> Snapshot:
    """Return the snapshot a commit on this head's line made."""
    tables = (
        dict(head.tables) if commit.sequence == head.sequence else tables_at(head, commit.sequence)
    )
    return Snapshot(
        kernel,
        head.branch,
        commit.id,
        commit.logical_id,
        commit.sequence,
        commit.manifest_version,
        tables,
        head.files,
        head.incarnation,
    )


def line_commit(head: Head, commit_id: str) -> Commit | None:
    """Return a commit if it lies on this head's line."""
    found = find_commit(head.handle, commit_id)
    if found is None:
        return None
    on_line = read_commits(head.handle, since=found.sequence)
    return found if any(commit.id == found.id for commit in on_line) else None


def commit_at_version(head: Head, manifest_version: int) -> Commit:
    """Return the commit that was current at a version of `__manifest`."""
    if manifest_version > head.manifest_version:
        raise NotFoundError(
            f"version {manifest_version} of '{head.branch}' does not exist",
            hint=f"the newest is {head.manifest_version}",
        )
    reached = [
        commit
        for commit in read_commits(head.handle)
        if commit.manifest_version <= manifest_version
    ]
    if not reached:
        raise NotFoundError(f"version {manifest_version} is before the first commit")
    return reached[-1]


class RecentKeys:
    """The idempotency keys of one branch that are still remembered, kept warm.

    Loaded once from commit rows and then extended by what was committed since, so a lookup
    costs nothing that grows with history.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self._known: dict[tuple[BranchName, str], tuple[int, dict[str, Commit]]] = {}

    def find(self, head: Head, key: str, request_hash: str | None) -> Commit | None:
        """Return the commit that carries a key on this branch and is not too old to count.

        Of several the newest counts: it was made when the ones before it no longer did.

        Raises:
            IdempotencyConflictError: the key came with a different request.
        """
        oldest_us = self._kernel.clock.now_us() - int(
            self._kernel.options.retention.idempotency_s * 1e6
        )
        with self._lock:
            sequence, keys = self._known.get((head.branch, head.incarnation), (-1, {}))
            if sequence < head.sequence:
                for commit in read_commits(head.handle, since=sequence + 1):
                    if commit.idempotency_key is not None and commit.branch == head.branch:
                        keys[commit.idempotency_key] = commit
                keys = {k: c for k, c in keys.items() if c.created_at_us >= oldest_us}
                self._known[head.branch, head.incarnation] = (head.sequence, keys)
            found = keys.get(key)
        if found is None or found.created_at_us < oldest_us:
            return None
        if found.request_hash != request_hash:
            raise IdempotencyConflictError(
                f"idempotency key '{key}' was used by commit {found.id} for another request",
                hint="use a fresh key for a different request",
            )
        return found

    def note(self, head: Head, commit: Commit) -> None:
        """Extend what is known by a commit this process has just published."""
        with self._lock:
            slot = (head.branch, head.incarnation)
            sequence, keys = self._known.get(slot, (-1, {}))
            if sequence == commit.sequence - 1:
                if commit.idempotency_key is not None:
                    keys[commit.idempotency_key] = commit
                self._known[slot] = (commit.sequence, keys)


def parent_of(head: Head) -> CommitId:
    """Return the id a new commit on this branch has as its parent."""
    return head.commit_id

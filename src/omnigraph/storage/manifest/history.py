"""Commits and old snapshots, read back from the history rows of the current manifest.

Old versions of `__manifest` itself may be cleaned: whatever is asked about the past is answered
from rows, by commit sequence. Writes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.files.records import Commit, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import (
    COMMIT,
    CONTRACT_FILE,
    HEAD,
    TABLE_VERSION,
    TOMBSTONE,
    Head,
    State,
    find_commit,
    head_row,
    read_commits,
    read_history,
    read_rows,
    rows_of,
    stated_in,
)
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import Retention
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.scan import Reader

_FEW_KEYS = 4096


class CommitNotFoundError(NotFoundError):
    """No branch knows a commit of that id."""

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit '{commit_id}' not found", hint="list the commits of a branch")


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before, for a different request."""


def tables_at(head: Head, sequence: int) -> dict[TableKey, TableVersion]:
    """Return the snapshot after the commit with `sequence`, from history rows alone."""
    return tables_in(head, sequence, read_history(head.handle))


def tables_in(head: Head, sequence: int, history: pa.Table) -> dict[TableKey, TableVersion]:
    """Return the snapshot after a commit, from history rows that were read already."""
    newest: dict[str, tuple[tuple[int, bool, int], TableVersion | None]] = {}
    for order, row in enumerate(history.to_pylist()):
        if row["object_type"] not in (TABLE_VERSION, TOMBSTONE):
            continue
        stated = stated_in(head.handle, row["metadata"])
        # One commit may drop a table and make it anew: then its version is what counts.
        at = (stated["sequence"], row["object_type"] == TABLE_VERSION, order)
        known = newest.get(row["table_key"])
        if at[0] > sequence or (known is not None and known[0] > at):
            continue
        newest[row["table_key"]] = (at, table_of(row, stated))
    return {TableKey(key): table for key, (_, table) in sorted(newest.items()) if table is not None}


def files_at(head: Head, sequence: int) -> dict[str, str]:
    """Return the digests of the contract files after the commit with `sequence`.

    A file without rows is of a format that had none; nothing replaced it since.
    """
    rows = read_rows(head.handle, equals("object_type", CONTRACT_FILE))
    stated = [stated_in(head.handle, text) for text in rows["metadata"].to_pylist()]
    events = [(one["name"], one["sequence"], one["digest"]) for one in stated]
    return files_in(head, sequence, events)


def files_in(head: Head, sequence: int, events: Sequence[tuple[str, int, str]]) -> dict[str, str]:
    """Return the digests after a commit, from what is known of files: name, since when, digest."""
    newest: dict[str, tuple[int, str]] = {}
    for name, since, digest in events:
        if newest.get(name, (-1, ""))[0] <= since <= sequence:
            newest[name] = (since, digest)
    known = {name for name, _, _ in events}
    ever = {name: stated for name, stated in head.files.items() if name not in known}
    return ever | {name: stated for name, (_, stated) in newest.items()}


def dropped_locations(head: Head) -> dict[str, int]:
    """Return the datasets that this branch had and has no more, and when it dropped each."""
    ended: dict[str, int] = {}
    current: dict[str, str] = {}
    events = [
        (stated["sequence"], row["object_type"] != TOMBSTONE, row["table_key"], stated)
        for row in read_history(head.handle).to_pylist()
        if row["object_type"] in (TABLE_VERSION, TOMBSTONE)
        and (stated := stated_in(head.handle, row["metadata"]))
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


def table_of(row: dict[str, Any], stated: dict[str, Any]) -> TableVersion | None:
    """Return the table a history row tells of; None for a tombstone."""
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
        row
        for row in every
        if _sequence_of(head, row) <= commit.sequence and row["object_id"] != HEAD
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
        files_at(head, commit.sequence),
        len(commits),
        rows=len(kept) + 1,
    )
    return rows_of([*kept, head_row(state)])


def _sequence_of(head: Head, row: Mapping[str, Any]) -> int:
    """Return the commit sequence a row belongs to; rows without one belong to all."""
    stated = stated_in(head.handle, row["metadata"])
    if row["object_type"] == COMMIT and row["table_version"] is None:
        return -1  # merged in from another line
    return int(stated.get("sequence", -1))


def snapshot_at(kernel: Kernel, head: Head, commit: Commit) -> Snapshot:
    """Return the snapshot a commit on this head's line made."""
    newest = commit.sequence == head.sequence
    tables = dict(head.tables) if newest else tables_at(head, commit.sequence)
    return Snapshot(
        kernel,
        head.branch,
        commit.id,
        commit.logical_id,
        commit.sequence,
        commit.manifest_version,
        tables,
        head.files if newest else files_at(head, commit.sequence),
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


@dataclass(slots=True)
class _Remembered:
    """The keys of one branch up to a commit, and the time that commit states."""

    sequence: int = -1
    newest_us: int = 0
    keys: dict[str, Commit] = field(default_factory=dict)
    prune_at: int = _FEW_KEYS

    def take(self, commit: Commit, branch: BranchName) -> None:
        """Go on by one commit of the line."""
        self.sequence, self.newest_us = commit.sequence, commit.created_at_us
        if commit.idempotency_key is not None and commit.branch == branch:
            self.keys[commit.idempotency_key] = commit

    def find(self, key: str, retention: Retention) -> Commit | None:
        """Return the commit of a key that the line has not left behind, in commits and in time."""
        oldest_us = self.newest_us - int(retention.idempotency_s * 1e6)
        first = self.sequence - retention.idempotency_commits

        def counts(commit: Commit) -> bool:
            return commit.sequence > first or commit.created_at_us > oldest_us

        if len(self.keys) >= self.prune_at:  # rarely, so that no write pays for all keys
            self.keys = {known: commit for known, commit in self.keys.items() if counts(commit)}
            self.prune_at = 2 * len(self.keys) + _FEW_KEYS
        found = self.keys.get(key)
        return found if found is not None and counts(found) else None


class RecentKeys:
    """The idempotency keys of one branch that are still remembered, kept warm.

    Loaded once from commit rows and then extended by what was committed since, so a lookup
    costs nothing that grows with history.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self._known: dict[tuple[BranchName, str], _Remembered] = {}

    def find(self, head: Head, key: str, request_hash: str | None) -> Commit | None:
        """Return the commit that carries a key on this branch and is not too old to count.

        Of several the newest counts: it was made when the ones before it no longer did. Age is
        measured along the branch: clocks of writers differ, and one that is wrong by weeks, here
        or on another machine, must not make a repeated write count twice.

        Raises:
            IdempotencyConflictError: the key came with a different request.
        """
        with self._lock:
            known = self._known.get((head.branch, head.incarnation), _Remembered())
            if known.sequence < head.sequence:
                for commit in read_commits(head.handle, since=known.sequence + 1):
                    known.take(commit, head.branch)
                self._known[head.branch, head.incarnation] = known
            found = known.find(key, self._kernel.options.retention)
        if found is None:
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
            known = self._known.get((head.branch, head.incarnation))
            if known is not None and known.sequence == commit.sequence - 1:
                known.take(commit, head.branch)


def parent_of(head: Head) -> CommitId:
    """Return the id a new commit on this branch has as its parent."""
    return head.commit_id

"""The commit window: from a write_set of changes to one visible commit.

Inside the branch's lock the head is re-read; what moved since the write_set's snapshot is
re-validated or refused; writes that lost only to maintenance go through without the caller
noticing. After an error it says what became of the write. Knows no rows: `intent` stages them.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InternalError,
    NotFoundError,
    StorageError,
)
from omnigraph.storage.commit.intent import Ready, intent_on, stage_ahead
from omnigraph.storage.commit.write_set import (
    CommitOptions,
    CommitWindow,
    Preconditions,
    WriteSet,
)
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit, TableVersion
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.identity import GraphReplacedError
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.locks.leases import LeaseMissedError
from omnigraph.storage.manifest.publish import Intent, publish
from omnigraph.storage.manifest.rows import Head, find_commit
from omnigraph.storage.manifest.snapshot import Snapshot, snapshot_of
from omnigraph.storage.recovery.drift import without_drift
from omnigraph.storage.recovery.recover import recover_branch, settled_head
from omnigraph.storage.tables.failures import CommitRaceError

log = logging.getLogger(__name__)

Outcome = Literal["committed", "unchanged", "replayed"]


class ExpectedVersionMismatch(ConflictError):  # noqa: N818 - the conflict's published name
    """Another writer moved a table between our snapshot and our commit."""

    kind = ErrorKind.EXPECTED_VERSION_MISMATCH

    def __init__(self, table: TableKey, expected: int, actual: int) -> None:
        self.table, self.expected, self.actual = table, expected, actual
        super().__init__(
            f"stale view of table {table}: expected version {expected}, current is {actual}",
            hint="refresh and retry",
        )


class HeadMovedError(ConflictError):
    """The branch is not at the commit the caller insisted on."""

    def __init__(self, branch: BranchName, expected: str, actual: str) -> None:
        self.branch, self.expected, self.actual = branch, expected, actual
        super().__init__(
            f"branch '{branch}' is at commit {actual}, not at {expected}", hint="re-read the branch"
        )


class SchemaChangedError(ConflictError):
    """The schema of a branch changed since a write was compiled under it."""

    def __init__(self, branch: BranchName) -> None:
        self.branch = branch
        super().__init__(
            f"the schema of '{branch}' changed since this write began",
            hint="read the schema again and repeat the write",
        )


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a write: the commit that stands for it, and the branch as it then was."""

    commit: Commit
    outcome: Outcome
    snapshot: Snapshot

    @property
    def id(self) -> CommitId:
        """The id of the commit."""
        return self.commit.id


def commit_write_set(write_set: WriteSet, options: CommitOptions) -> Committed:
    """Run the window, again with jitter if a zombie writer got in between."""
    kernel = write_set.kernel
    ready = stage_ahead(write_set)
    attempted: list[CommitId] = []
    for attempt in range(kernel.options.publish_attempts):
        if attempt:
            kernel.counters.add("publish_retries")
            kernel.clock.sleep(random.uniform(0.5, 1.0) * 0.01 * 2**attempt)  # noqa: S311 - jitter
        try:
            return _window(write_set, options, ready, attempted)
        except (CommitRaceError, LeaseMissedError):
            if attempt + 1 == kernel.options.publish_attempts:
                raise
    raise InternalError("unreachable: the last attempt returns or raises")


def _window(
    write_set: WriteSet,
    options: CommitOptions,
    ready: dict[TableKey, Ready],
    attempted: list[CommitId],
) -> Committed:
    """One attempt under the lock: heal, re-read, re-validate, publish."""
    kernel, branch = write_set.kernel, write_set.branch
    # An attempt that lost its answer may count already, so only the first may be given up.
    stop = None if attempted or write_set.budget is None else write_set.budget.check
    name = branch_lock_name(branch)
    with kernel.locks.hold(name, write_set.writer_kind, sure=False, stop=stop) as lock:
        # Whether the lock is ours is asked beside the other questions, and so is drift, about the
        # tables as the session saw them.
        asks: tuple[Callable[[], Any], ...] = (
            partial(settled_head, kernel, write_set.heads, branch, lock),
            partial(_beyond, write_set, write_set.base.tables),
            lock.check,
        )
        head, beyond, _ = kernel.objects.together(*asks)
        for commit_id in attempted:
            if (done := find_commit(head.handle, commit_id)) is not None:
                return Committed(done, "committed", snapshot_of(kernel, head))
        if (seen := done_before(write_set, options.preconditions, head)) is not None:
            return Committed(seen, "replayed", snapshot_of(kernel, head))
        _check_options(write_set, options, head)
        head = _without_drift(write_set, head, beyond, lock)
        intent = intent_on(write_set, options, head, ready)
        if intent is None:
            return Committed(_head_commit(head), "unchanged", snapshot_of(kernel, head))
        attempted.append(intent.commit.id)
        try:
            after = publish(kernel, head, intent, lock)
        except (CommitRaceError, GraphReplacedError):
            raise  # the next attempt settles the first; of the other nothing is left to settle
        except (StorageError, ConflictError, FormatError, NotFoundError) as error:
            after = _settled_after(write_set, intent, lock, error)
        write_set.heads.published(intent.commit, after)
        write_set.recent.note(after, intent.commit)
    write_set.after_commit(after)
    return Committed(intent.commit, "committed", snapshot_of(kernel, after))


def _settled_after(write_set: WriteSet, intent: Intent, lock: HeldLock, error: Exception) -> Head:
    """Return the head if the write counts in spite of an error; otherwise raise what is true.

    A write whose tables have all moved will be finished by whoever comes next, so "failed" would
    be a lie. We still hold the lock, so we are the next: we finish or undo it here and now.

    Raises:
        OutcomePendingError: the store does not let us find out or settle it.
    """
    kernel, heads = write_set.kernel, write_set.heads
    kernel.counters.add("interrupted_commits")
    what = f"commit {intent.commit.id} on '{write_set.branch}'"
    try:
        if kernel.objects.exists(layout.sidecar(intent.operation_id)):
            lock.check()
            recover_branch(kernel, heads, write_set.branch, lock)
        head = heads.current(write_set.branch)
        counts = find_commit(head.handle, intent.commit.id) is not None
    except (StorageError, ConflictError, FormatError, NotFoundError) as failure:
        raise OutcomePendingError(what, error, commit_id=intent.commit.id) from failure
    if not counts:
        raise error
    log.warning("%s stands in spite of an error: %s", what, error)
    return head


def done_before(write_set: WriteSet, asked: Preconditions, head: Head) -> Commit | None:
    """Return the commit a request has already made under its key, if the head knows it.

    Raises:
        IdempotencyConflictError: the key came with a different request.
    """
    if asked.idempotency_key is None:
        return None
    return write_set.recent.find(head, asked.idempotency_key, asked.request_hash)


def check_head(head: Head, asked: Preconditions) -> None:
    """Refuse a branch that is (logically) not at the wanted commit."""
    wanted = asked.if_head
    if wanted is not None and wanted not in (head.commit_id, head.logical_id):
        named = find_commit(head.handle, wanted)
        if named is None or named.logical_id != head.logical_id:
            raise HeadMovedError(head.branch, wanted, head.logical_id)


def _check_options(write_set: WriteSet, options: CommitOptions, head: Head) -> None:
    """Refuse what the caller said must not happen, and what moved under a strict write."""
    base = write_set.base
    if head.incarnation != base.incarnation:
        raise ConflictError(
            f"branch '{base.branch}' was deleted and created again meanwhile",
            hint="re-read the branch",
        )
    check_head(head, options.preconditions)
    if head.logical_id == base.logical_commit_id:
        return
    if write_set.kind == "logical" and head.files.get(layout.MEANING) != base.files.get(
        layout.MEANING
    ):
        raise SchemaChangedError(head.branch)
    moved = _moved(base, head)
    writes, renamed = write_set.writes, write_set.renamed
    strict = {*write_set.dropped, *write_set.points}
    strict |= {renamed.get(key, key) for key, planned in writes.items() if planned.strict}
    for key in (*writes, *renamed.values(), *write_set.dropped, *write_set.points):
        if key in moved and (key in strict or key not in head.tables):
            expected, actual = base.tables.get(key), head.tables.get(key)
            raise ExpectedVersionMismatch(
                key, expected.version if expected else 0, actual.version if actual else 0
            )
    if options.revalidate is not None:
        options.revalidate(CommitWindow(base, snapshot_of(write_set.kernel, head), moved))


def _without_drift(
    write_set: WriteSet, head: Head, beyond: Mapping[TableVersion, bool], lock: HeldLock
) -> Head:
    """Settle versions beyond the graph's, before anything is put on top of them."""
    if any(table not in beyond for table in _owned(write_set, head.tables)):
        beyond = _beyond(write_set, head.tables)  # the head moved since the session began
    for table in _owned(write_set, head.tables):
        if beyond[table]:
            head = without_drift(write_set.kernel, write_set.heads, head, table, lock)
    return head


def _beyond(
    write_set: WriteSet, tables: Mapping[TableKey, TableVersion]
) -> dict[TableVersion, bool]:
    """Return, for the tables to be written, whether a version exists that is not the graph's."""
    owned = _owned(write_set, tables)
    ahead = write_set.kernel.objects.exist(
        *(layout.version_file(part.location, part.branch, part.version + 1) for part in owned)
    )
    return dict(zip(owned, ahead, strict=True))


def _owned(write_set: WriteSet, tables: Mapping[TableKey, TableVersion]) -> list[TableVersion]:
    return [
        table
        for key in write_set.writes
        if (table := tables.get(write_set.renamed.get(key, key))) is not None
        and layout.fork_owner(table.branch) == write_set.branch
    ]


def _moved(base: Snapshot, head: Head) -> tuple[TableKey, ...]:
    changed = {key for key, sequence in head.changed.items() if sequence > base.sequence}
    swapped = set(base.tables) ^ set(head.tables)
    return tuple(sorted(changed | swapped))


def _head_commit(head: Head) -> Commit:
    found = find_commit(head.handle, head.commit_id)
    if found is None:
        raise InternalError(f"the head commit {head.commit_id} has no row")
    return found

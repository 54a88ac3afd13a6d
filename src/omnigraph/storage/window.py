"""The commit window: from a plan of changes to one visible commit.

Inside the branch's lock the head is re-read; what moved since the plan's snapshot is
re-validated or refused; writes that lost only to maintenance go through without the caller
noticing. After an error it says what became of the write. Knows no rows: `intent` stages them.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
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
from omnigraph.storage import layout
from omnigraph.storage.holders import HeldLock
from omnigraph.storage.intent import Ready, intent_on, stage_ahead
from omnigraph.storage.locks import branch_lock_name
from omnigraph.storage.manifest import Head, find_commit
from omnigraph.storage.plan import CommitWindow, Plan, Terms
from omnigraph.storage.publish import Intent, publish
from omnigraph.storage.records import Commit, TableVersion
from omnigraph.storage.recovery import heal_drift, recover_branch, settled_head
from omnigraph.storage.sidecar import OutcomePendingError
from omnigraph.storage.snapshot import Snapshot, snapshot_of
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


def commit_plan(plan: Plan, terms: Terms) -> tuple[Commit, Outcome]:
    """Run the window, again with jitter if a zombie writer got in between."""
    kernel = plan.kernel
    ready = stage_ahead(plan)
    attempted: list[CommitId] = []
    for attempt in range(kernel.options.publish_attempts):
        if attempt:
            kernel.counters.add("publish_retries")
            kernel.clock.sleep(random.uniform(0.5, 1.0) * 0.01 * 2**attempt)  # noqa: S311 - jitter
        try:
            return _window(plan, terms, ready, attempted)
        except CommitRaceError:
            if attempt + 1 == kernel.options.publish_attempts:
                raise
    raise InternalError("unreachable: the last attempt returns or raises")


def _window(
    plan: Plan,
    terms: Terms,
    ready: dict[TableKey, Ready],
    attempted: list[CommitId],
) -> tuple[Commit, Outcome]:
    """One attempt under the lock: heal, re-read, re-validate, publish."""
    kernel, branch = plan.kernel, plan.branch
    with kernel.locks.hold(branch_lock_name(branch), plan.writer_kind) as lock:
        # The drift question is asked beside the others, about the tables as the session saw them.
        asks: tuple[Callable[[], Any], ...] = (
            partial(settled_head, kernel, plan.heads, branch, lock),
            partial(_beyond, plan, plan.base.tables),
        )
        head, beyond = kernel.objects.together(*asks)
        for commit_id in attempted:
            if (done := find_commit(head.handle, commit_id)) is not None:
                return done, "committed"
        if terms.idempotency_key is not None:
            seen = plan.recent.find(head, terms.idempotency_key, terms.request_hash)
            if seen is not None:
                return seen, "replayed"
        _check_terms(plan, terms, head)
        head = _without_drift(plan, head, beyond)
        intent = intent_on(plan, terms, head, ready)
        if intent is None:
            return _head_commit(head), "unchanged"
        attempted.append(intent.commit.id)
        try:
            after = publish(kernel, head, intent, lock)
        except CommitRaceError:
            raise  # the next attempt settles it and tries again
        except (StorageError, ConflictError, FormatError, NotFoundError) as error:
            after = _settled_after(plan, intent, lock, error)
        plan.heads.remember(after)
        plan.recent.note(after, intent.commit)
    plan.after_commit(after)
    return intent.commit, "committed"


def _settled_after(plan: Plan, intent: Intent, lock: HeldLock, error: Exception) -> Head:
    """Return the head if the write counts in spite of an error; otherwise raise what is true.

    A write whose tables have all moved will be finished by whoever comes next, so "failed" would
    be a lie. We still hold the lock, so we are the next: we finish or undo it here and now.

    Raises:
        OutcomePendingError: the store does not let us find out or settle it.
    """
    kernel, heads = plan.kernel, plan.heads
    kernel.counters.add("interrupted_commits")
    what = f"commit {intent.commit.id} on '{plan.branch}'"
    try:
        if kernel.objects.exists(layout.sidecar(intent.operation_id)):
            lock.check()
            recover_branch(kernel, heads, plan.branch, lock)
        head = heads.current(plan.branch)
        counts = find_commit(head.handle, intent.commit.id) is not None
    except (StorageError, ConflictError, FormatError, NotFoundError) as failure:
        raise OutcomePendingError(what, error, commit_id=intent.commit.id) from failure
    if not counts:
        raise error
    log.warning("%s stands in spite of an error: %s", what, error)
    return head


def check_head(head: Head, wanted: str) -> None:
    """Refuse a branch that is (logically) not at the wanted commit."""
    if wanted not in (head.commit_id, head.logical_id):
        named = find_commit(head.handle, wanted)
        if named is None or named.logical_id != head.logical_id:
            raise HeadMovedError(head.branch, wanted, head.logical_id)


def _check_terms(plan: Plan, terms: Terms, head: Head) -> None:
    """Refuse what the caller said must not happen, and what moved under a strict write."""
    base = plan.base
    if head.incarnation != base.incarnation:
        raise ConflictError(
            f"branch '{base.branch}' was deleted and created again meanwhile",
            hint="re-read the branch",
        )
    if terms.if_head is not None:
        check_head(head, terms.if_head)
    if head.logical_id == base.logical_commit_id:
        return
    moved = _moved(base, head)
    for key in (*plan.writes, *plan.dropped, *plan.renamed.values()):
        planned = plan.writes.get(key)
        if key in moved and (planned is None or planned.strict or key not in head.tables):
            expected, actual = base.tables.get(key), head.tables.get(key)
            raise ExpectedVersionMismatch(
                key, expected.version if expected else 0, actual.version if actual else 0
            )
    if terms.revalidate is not None:
        terms.revalidate(CommitWindow(base, snapshot_of(plan.kernel, head), moved))


def _without_drift(plan: Plan, head: Head, beyond: Mapping[TableVersion, bool]) -> Head:
    """Refuse or undo versions beyond the graph's, before anything is put on top of them."""
    if any(table not in beyond for table in _owned(plan, head.tables)):
        beyond = _beyond(plan, head.tables)  # the head moved since the session began
    for table in _owned(plan, head.tables):
        if beyond[table]:
            head = heal_drift(plan.kernel, plan.heads, head, table)
    return head


def _beyond(plan: Plan, tables: Mapping[TableKey, TableVersion]) -> dict[TableVersion, bool]:
    """Return, for the tables to be written, whether a version exists that is not the graph's."""
    owned = _owned(plan, tables)
    ahead = plan.kernel.objects.exist(
        *(layout.version_file(part.location, part.branch, part.version + 1) for part in owned)
    )
    return dict(zip(owned, ahead, strict=True))


def _owned(plan: Plan, tables: Mapping[TableKey, TableVersion]) -> list[TableVersion]:
    return [
        table
        for key in plan.writes
        if (table := tables.get(key)) is not None and layout.fork_owner(table.branch) == plan.branch
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

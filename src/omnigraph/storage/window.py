"""The commit window: from a plan of changes to one visible commit.

Staging happens outside the lock, against the plan's snapshot. Inside the window the head is
re-read; what moved since is re-validated or refused; writes that lost only to maintenance are
staged again without the caller noticing. Knows rows and keys, not what they mean.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from omnigraph.base.failpoints import failpoint, register
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
from omnigraph.storage.create import TableSpec
from omnigraph.storage.history import RecentKeys
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import HeldLock, branch_lock_name
from omnigraph.storage.manifest import Head, find_commit
from omnigraph.storage.projections import adopted_rows
from omnigraph.storage.publish import (
    Intent,
    TableMove,
    digest,
    publish,
    sync_versions,
)
from omnigraph.storage.records import Changes, Commit, Kind, TableVersion
from omnigraph.storage.recovery import heal_drift, recover_branch, settled_head
from omnigraph.storage.sidecar import OutcomePendingError
from omnigraph.storage.snapshot import Heads, Snapshot, snapshot_of
from omnigraph.storage.tables.failures import CommitRaceError
from omnigraph.storage.tables.fork import create_fork, fork_files, name_is_free
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import (
    Staged,
    TableWrite,
    rebased,
    stage,
)

log = logging.getLogger(__name__)

BEFORE_FORK_SYNC = register("write.before_fork_sync", "a table has its fork; it is not durable")
AFTER_FORK = register("write.after_fork", "a table has its fork; no manifest names it yet")
AFTER_CREATE = register(
    "write.after_create_table", "a dataset was created; no manifest names it yet"
)

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


@dataclass(frozen=True, slots=True)
class CommitWindow:
    """What changed between the session's snapshot and the head it is about to go on top of."""

    base: Snapshot
    head: Snapshot
    moved: tuple[TableKey, ...]
    """Tables with logical changes in between, including added and dropped ones."""


Revalidate = Callable[[CommitWindow], None]


@dataclass(slots=True)
class PlannedWrite:
    """What a session does to one table."""

    write: TableWrite
    strict: bool


@dataclass(frozen=True, slots=True)
class _Ready:
    """A write staged before the window; `staged` is None if it changes nothing there."""

    table: TableVersion
    staged: Staged | None


@dataclass(frozen=True, slots=True)
class Terms:
    """What the caller demands of and attaches to a commit."""

    revalidate: Revalidate | None
    if_head: str | None
    idempotency_key: str | None
    request_hash: str | None
    result: object
    merged_parent: CommitId | None
    merged_from: BranchName | None


@dataclass(slots=True)
class Plan:
    """Everything a session has collected, ready to be committed on top of `base`."""

    kernel: Kernel
    heads: Heads
    recent: RecentKeys
    base: Snapshot
    actor: str | None
    kind: Kind
    writer_kind: str
    after_commit: Callable[[Head], None]
    writes: dict[TableKey, PlannedWrite] = field(default_factory=dict)
    created: dict[TableKey, TableSpec] = field(default_factory=dict)
    dropped: list[TableKey] = field(default_factory=list)
    renamed: dict[TableKey, TableKey] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.base.branch


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
    ready: dict[TableKey, _Ready],
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
        intent = _intent(plan, terms, head, ready)
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


def stage_ahead(plan: Plan) -> dict[TableKey, _Ready]:
    """Stage outside the lock what already has its place; forks must wait for the window."""
    ready: dict[TableKey, _Ready] = {}
    for key, planned in plan.writes.items():
        table = plan.base.tables.get(key)
        if table is not None and layout.fork_owner(table.branch) == plan.branch:
            staged = stage(plan.kernel.tables, plan.base.handle(key), planned.write)
            ready[key] = _Ready(table, staged)
    return ready


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


def _intent(
    plan: Plan,
    terms: Terms,
    head: Head,
    ready: Mapping[TableKey, _Ready],
) -> Intent | None:
    """Return what to publish on top of this head; None if nothing would change."""
    kernel = plan.kernel
    created = {key: _create(plan, head, spec) for key, spec in plan.created.items()}
    moves: list[TableMove] = []
    versions: list[TableVersion] = []
    registered = {
        key: TableVersion(key, handle.location, handle.version, handle.branch, handle.row_count)
        for key, handle in created.items()
    }
    for new, old in plan.renamed.items():
        registered[new] = head.tables[old]._replace(key=new)
    for key, planned in plan.writes.items():
        entry = registered.get(key) or head.tables[key]
        staged = _staged_on(plan, entry, planned, ready.get(key))
        if staged is None:
            continue
        moves.append(TableMove(key, staged))
        after = TableVersion(
            key,
            entry.location,
            staged.base.version + 1,
            staged.base.branch,
            staged.row_count_on(entry.row_count),
        )
        if key in registered:
            registered[key] = after
        else:
            versions.append(after)
    changes = Changes(
        tuple(versions),
        tuple(registered.values()),
        (*plan.dropped, *plan.renamed.values()),
        {name: digest(content) for name, content in sorted(plan.files.items())},
    )
    if changes.is_empty and terms.merged_parent is None:
        return None
    adopted = (
        None if terms.merged_from is None else adopted_rows(plan.heads, head, terms.merged_from)
    )
    return Intent(
        kernel.new_operation_id(),
        plan.branch,
        plan.writer_kind,
        new_commit(kernel, head, plan, terms, changes),
        changes,
        tuple(moves),
        adopted,
        terms.merged_from,
        plan.files,
        tuple(created.values()),
    )


def new_commit(kernel: Kernel, head: Head, plan: Plan, terms: Terms, changes: Changes) -> Commit:
    """Return the commit row of this write."""
    commit_id = kernel.new_commit_id()
    touched = (*changes.versions, *changes.registered)
    return Commit(
        commit_id,
        head.sequence + 1,
        plan.branch,
        head.manifest_version + 1,
        head.commit_id,
        terms.merged_parent,
        kernel.clock.now_us(),
        plan.actor,
        plan.kind,
        commit_id if plan.kind == "logical" else head.logical_id,
        tuple(sorted({table.key for table in touched} | set(changes.dropped))),
        terms.idempotency_key,
        terms.request_hash,
        terms.result,
    )


def _staged_on(
    plan: Plan, entry: TableVersion, planned: PlannedWrite, ready: _Ready | None
) -> Staged | None:
    """Return the write staged for the table's current version, re-staging if it moved."""
    tables = plan.kernel.tables
    if layout.fork_owner(entry.branch) != plan.branch:
        return stage(tables, fork_table(plan.kernel, plan.branch, entry), planned.write)
    if ready is not None:
        staged = ready.staged
        if ready.table.place == entry.place:
            return staged
        base = tables.open(entry.location, entry.branch, entry.version)
        moved = None if staged is None else rebased(staged, base)
        if moved is not None:
            return moved
        plan.kernel.counters.add("restaged_writes")
    base = tables.open(entry.location, entry.branch, entry.version)
    return stage(tables, base, planned.write)


def fork_table(kernel: Kernel, branch: BranchName, entry: TableVersion) -> Handle:
    """Give a branch its own lineage of a table, at the version it inherits; we hold its lock."""
    name = layout.fork_name(branch)
    if not name_is_free(kernel.objects, entry.location, name):
        fresh = kernel.ulids.next(kernel.clock.now_us())
        name = layout.fork_name(branch, fresh)
    base = kernel.tables.open(entry.location, entry.branch, entry.version)
    forked = create_fork(base, name)
    failpoint(BEFORE_FORK_SYNC)
    kernel.objects.sync_named(fork_files(entry.location, name, forked.version))
    failpoint(AFTER_FORK)
    return forked


def _create(plan: Plan, head: Head, spec: TableSpec) -> Handle:
    """Create the dataset of a new table, over the remains of an interrupted attempt."""
    kernel = plan.kernel
    location = layout.table_location(spec.key)
    taken = {table.location for table in head.tables.values()}
    used_up = kernel.objects.exists(layout.retired_marker(location, None))
    if location in taken or used_up or kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}"):
        location = f"{location}.{kernel.ulids.next(kernel.clock.now_us()).lower()}"
    handle = kernel.tables.create(location, spec.schema.empty_table())
    sync_versions(kernel, [handle])
    failpoint(AFTER_CREATE)
    return handle


def _head_commit(head: Head) -> Commit:
    found = find_commit(head.handle, head.commit_id)
    if found is None:
        raise InternalError(f"the head commit {head.commit_id} has no row")
    return found

"""Write sessions: collect what to change, stage it, then commit it in one short window.

Staging happens outside the lock, against the session's snapshot. Inside the window the head is
re-read; what moved since is re-validated or refused; writes that lost only to maintenance are
staged again without the caller noticing. Knows rows and keys, not what they mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import BadRequestError, ConflictError, ErrorKind, InternalError
from omnigraph.storage import layout
from omnigraph.storage.create import TableSpec
from omnigraph.storage.history import RecentKeys
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import branch_lock_name
from omnigraph.storage.manifest import Head, find_commit
from omnigraph.storage.projections import adopted_rows
from omnigraph.storage.publish import Intent, TableMove, digest, publish, sync_versions
from omnigraph.storage.records import Changes, Commit, Kind, TableVersion
from omnigraph.storage.recovery import heal_drift, settled_head
from omnigraph.storage.snapshot import Heads, Snapshot, snapshot_of
from omnigraph.storage.tables.failures import CommitRaceError
from omnigraph.storage.tables.fork import create_fork, fork_files, name_is_free
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import (
    Append,
    Change,
    Overwrite,
    Staged,
    TableWrite,
    rebased,
    stage,
)

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
class _Planned:
    """What a session does to one table."""

    write: TableWrite
    strict: bool


@dataclass(frozen=True, slots=True)
class _Ready:
    """A write staged before the window; `staged` is None if it changes nothing there."""

    table: TableVersion
    staged: Staged | None


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the caller demands of and attaches to a commit."""

    revalidate: Revalidate | None
    if_head: str | None
    idempotency_key: str | None
    request_hash: str | None
    result: object
    merged_parent: CommitId | None
    merged_from: BranchName | None


@dataclass(slots=True)
class WriteSession:
    """Changes that become one commit; use once, from one thread."""

    kernel: Kernel
    heads: Heads
    recent: RecentKeys
    base: Snapshot
    actor: str | None
    kind: Kind
    writer_kind: str
    after_commit: Callable[[Head], None]
    outcome: Outcome | None = None
    _planned: dict[TableKey, _Planned] = field(default_factory=dict)
    _created: dict[TableKey, TableSpec] = field(default_factory=dict)
    _dropped: list[TableKey] = field(default_factory=list)
    _renamed: dict[TableKey, TableKey] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.base.branch

    def append(self, key: str, rows: pa.Table) -> None:
        """Add rows whose keys the caller knows to be new; survives concurrent writes."""
        self._plan(TableKey(key), Append(rows), strict=False)

    def upsert(self, key: str, rows: pa.Table, *, strict: bool = False) -> None:
        """Replace rows by key, insert the others; `strict` refuses a table that moved."""
        self._plan(TableKey(key), Change(upserts=rows), strict=strict)

    def delete(self, key: str, ids: Sequence[str] | pa.Array, *, strict: bool = True) -> None:
        """Delete rows by key; refuses a table that moved unless told otherwise."""
        listed = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.string())
        self._plan(TableKey(key), Change(deletes=listed), strict=strict)

    def overwrite(self, key: str, rows: pa.Table) -> None:
        """Replace all rows, and the columns if they differ; refuses a table that moved."""
        self._plan(TableKey(key), Overwrite(rows), strict=True)

    def create_table(self, spec: TableSpec, rows: pa.Table | None = None) -> None:
        """Add a table to the graph, with rows if given."""
        if spec.key in self.base.tables and spec.key not in self._dropped:
            raise BadRequestError(f"table '{spec.key}' exists")
        self._created[spec.key] = spec
        if rows is not None:
            self._plan(spec.key, Append(rows), strict=False)

    def drop_table(self, key: str) -> None:
        """Take a table out of the graph; old snapshots still read it."""
        self._dropped.append(self.base.table(key).key)

    def rename_table(self, old: str, new: str) -> None:
        """Give a table another key; its rows and its dataset stay where they are."""
        source = self.base.table(old).key
        if TableKey(new) in self.base.tables or TableKey(new) in self._created:
            raise BadRequestError(f"table '{new}' exists")
        self._renamed[TableKey(new)] = source

    def replace_file(self, name: str, content: bytes) -> None:
        """Replace a contract file together with the commit."""
        if "/" in name or not name:
            raise BadRequestError(f"'{name}' is not the name of a contract file")
        self._files[name] = content

    def commit(
        self,
        revalidate: Revalidate | None = None,
        *,
        if_head: str | None = None,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
        result: object = None,
        merged_parent: CommitId | None = None,
        merged_from: BranchName | None = None,
    ) -> Commit:
        """Make everything visible at once; `outcome` then says whether anything was written.

        Args:
            revalidate: called in the window if the graph moved since the snapshot; may raise.
            if_head: commit id the branch must (logically) still be at.
            idempotency_key: a second commit with this key returns the first one.
            request_hash: fingerprint of the request behind the key.
            result: JSON kept on the commit and returned with it on a replay.
            merged_parent: head of the branch that was merged in, for a merge commit.
            merged_from: that branch, whose commit rows are copied.

        Raises:
            ExpectedVersionMismatch: a strict write lost to another logical write.
            HeadMovedError: `if_head` does not hold.
            LockTimeoutError: another writer kept the branch busy.
        """
        if self.outcome is not None:
            raise InternalError("this write session is already finished")
        terms = _Terms(
            revalidate, if_head, idempotency_key, request_hash, result, merged_parent, merged_from
        )
        commit, self.outcome = _commit(self, terms)
        return commit

    def _plan(self, key: TableKey, write: TableWrite, *, strict: bool) -> None:
        if key not in self._created:
            self.base.table(key)
        known = self._planned.get(key)
        if known is None:
            self._planned[key] = _Planned(write, strict)
        else:
            known.write = _combine(key, known.write, write)
            known.strict = known.strict or strict


def _combine(key: TableKey, first: TableWrite, then: TableWrite) -> TableWrite:
    """Fold two writes of one session to one table into one transaction."""
    match first, then:
        case Append(a), Append(b):
            return Append(pa.concat_tables([a, b]))
        case ((Append(a) | Change(a, None)), (Append(b) | Change(b, None))):
            return Change(upserts=pa.concat_tables([part for part in (a, b) if part is not None]))
        case ((Append() | Change()), (Append() | Change())):
            return _combine_changes(_as_change(first), _as_change(then))
        case _:
            raise BadRequestError(f"an overwrite of '{key}' cannot be mixed with other writes")


def _as_change(write: TableWrite) -> Change:
    match write:
        case Append(rows):
            return Change(upserts=rows)
        case Change():
            return write
        case _:
            raise InternalError("an overwrite is not a change")


def _combine_changes(first: Change, then: Change) -> Change:
    upserts = [part for part in (first.upserts, then.upserts) if part is not None]
    deletes = [part for part in (first.deletes, then.deletes) if part is not None]
    return Change(
        pa.concat_tables(upserts) if upserts else None,
        pa.concat_arrays(deletes) if deletes else None,
    )


def _commit(session: WriteSession, terms: _Terms) -> tuple[Commit, Outcome]:
    """Run the window, again with jitter if a zombie writer got in between."""
    kernel = session.kernel
    ready = _stage_ahead(session)
    attempted: list[CommitId] = []
    for attempt in range(kernel.options.publish_attempts):
        if attempt:
            kernel.counters.add("publish_retries")
            kernel.clock.sleep(random.uniform(0.5, 1.0) * 0.01 * 2**attempt)  # noqa: S311 - jitter
        try:
            return _window(session, terms, ready, attempted)
        except CommitRaceError:
            if attempt + 1 == kernel.options.publish_attempts:
                raise
    raise InternalError("unreachable: the last attempt returns or raises")


def _window(
    session: WriteSession,
    terms: _Terms,
    ready: dict[TableKey, _Ready],
    attempted: list[CommitId],
) -> tuple[Commit, Outcome]:
    """One attempt under the lock: heal, re-read, re-validate, publish."""
    kernel, branch = session.kernel, session.branch
    with kernel.locks.hold(branch_lock_name(branch), session.writer_kind) as lock:
        head = settled_head(kernel, session.heads, branch, lock)
        for commit_id in attempted:
            if (done := find_commit(head.handle, commit_id)) is not None:
                return done, "committed"
        if terms.idempotency_key is not None:
            seen = session.recent.find(head, terms.idempotency_key, terms.request_hash)
            if seen is not None:
                return seen, "replayed"
        _check_terms(session, terms, head)
        head = _without_drift(session, head)
        intent = _intent(session, terms, head, ready)
        if intent is None:
            return _head_commit(head), "unchanged"
        attempted.append(intent.commit.id)
        after = publish(kernel, head, intent, lock)
        session.heads.remember(after)
        session.recent.note(after, intent.commit)
    session.after_commit(after)
    return intent.commit, "committed"


def _stage_ahead(session: WriteSession) -> dict[TableKey, _Ready]:
    """Stage outside the lock what already has its place; forks must wait for the window."""
    ready: dict[TableKey, _Ready] = {}
    for key, planned in session._planned.items():
        table = session.base.tables.get(key)
        if table is not None and layout.fork_owner(table.branch) == session.branch:
            staged = stage(session.kernel.tables, session.base.handle(key), planned.write)
            ready[key] = _Ready(table, staged)
    return ready


def _check_terms(session: WriteSession, terms: _Terms, head: Head) -> None:
    """Refuse what the caller said must not happen, and what moved under a strict write."""
    base = session.base
    if head.incarnation != base.incarnation:
        raise ConflictError(
            f"branch '{base.branch}' was deleted and created again meanwhile",
            hint="re-read the branch",
        )
    if terms.if_head is not None and terms.if_head not in (head.commit_id, head.logical_id):
        named = find_commit(head.handle, terms.if_head)
        if named is None or named.logical_id != head.logical_id:
            raise HeadMovedError(head.branch, terms.if_head, head.logical_id)
    if head.logical_id == base.logical_commit_id:
        return
    moved = _moved(base, head)
    for key in (*session._planned, *session._dropped, *session._renamed.values()):
        planned = session._planned.get(key)
        if key in moved and (planned is None or planned.strict or key not in head.tables):
            expected, actual = base.tables.get(key), head.tables.get(key)
            raise ExpectedVersionMismatch(
                key, expected.version if expected else 0, actual.version if actual else 0
            )
    if terms.revalidate is not None:
        terms.revalidate(CommitWindow(base, snapshot_of(session.kernel, head), moved))


def _without_drift(session: WriteSession, head: Head) -> Head:
    """Refuse or undo versions beyond the graph's, before anything is put on top of them."""
    owned = [
        table
        for key in session._planned
        if (table := head.tables.get(key)) is not None
        and layout.fork_owner(table.branch) == session.branch
    ]
    ahead = session.kernel.objects.exist(
        *(layout.version_file(part.location, part.branch, part.version + 1) for part in owned)
    )
    for table, drifted in zip(owned, ahead, strict=True):
        if drifted:
            head = heal_drift(session.kernel, session.heads, head, table)
    return head


def _moved(base: Snapshot, head: Head) -> tuple[TableKey, ...]:
    changed = {key for key, sequence in head.changed.items() if sequence > base.sequence}
    swapped = set(base.tables) ^ set(head.tables)
    return tuple(sorted(changed | swapped))


def _intent(
    session: WriteSession,
    terms: _Terms,
    head: Head,
    ready: Mapping[TableKey, _Ready],
) -> Intent | None:
    """Return what to publish on top of this head; None if nothing would change."""
    kernel = session.kernel
    created = {key: _create(session, head, spec) for key, spec in session._created.items()}
    moves: list[TableMove] = []
    versions: list[TableVersion] = []
    registered = {
        key: TableVersion(key, handle.location, handle.version, handle.branch, handle.row_count)
        for key, handle in created.items()
    }
    for new, old in session._renamed.items():
        registered[new] = replace(head.tables[old], key=new)
    for key, planned in session._planned.items():
        entry = registered.get(key) or head.tables[key]
        staged = _staged_on(session, entry, planned, ready.get(key))
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
        (*session._dropped, *session._renamed.values()),
        {name: digest(content) for name, content in sorted(session._files.items())},
    )
    if changes.is_empty and terms.merged_parent is None:
        return None
    adopted = (
        None if terms.merged_from is None else adopted_rows(session.heads, head, terms.merged_from)
    )
    return Intent(
        kernel.new_operation_id(),
        session.branch,
        session.writer_kind,
        new_commit(kernel, head, session, terms, changes),
        changes,
        tuple(moves),
        adopted,
        terms.merged_from,
        session._files,
        tuple(created.values()),
    )


def new_commit(
    kernel: Kernel, head: Head, session: WriteSession, terms: _Terms, changes: Changes
) -> Commit:
    """Return the commit row of this write."""
    commit_id = kernel.new_commit_id()
    touched = (*changes.versions, *changes.registered)
    return Commit(
        commit_id,
        head.sequence + 1,
        session.branch,
        head.manifest_version + 1,
        head.commit_id,
        terms.merged_parent,
        kernel.clock.now_us(),
        session.actor,
        session.kind,
        commit_id if session.kind == "logical" else head.logical_id,
        tuple(sorted({table.key for table in touched} | set(changes.dropped))),
        terms.idempotency_key,
        terms.request_hash,
        terms.result,
    )


def _staged_on(
    session: WriteSession, entry: TableVersion, planned: _Planned, ready: _Ready | None
) -> Staged | None:
    """Return the write staged for the table's current version, re-staging if it moved."""
    tables = session.kernel.tables
    if layout.fork_owner(entry.branch) != session.branch:
        return stage(tables, _fork(session, entry), planned.write)
    if ready is not None:
        staged = ready.staged
        if ready.table.version == entry.version and ready.table.branch == entry.branch:
            return staged
        base = tables.open(entry.location, entry.branch, entry.version)
        moved = None if staged is None else rebased(staged, base)
        if moved is not None:
            return moved
        session.kernel.counters.add("restaged_writes")
    base = tables.open(entry.location, entry.branch, entry.version)
    return stage(tables, base, planned.write)


def _fork(session: WriteSession, entry: TableVersion) -> Handle:
    """Give the branch its own lineage of a table, at the version it inherits."""
    kernel = session.kernel
    name = layout.fork_name(session.branch)
    if not name_is_free(kernel.objects, entry.location, name):
        fresh = kernel.ulids.next(kernel.clock.now_us())
        name = layout.fork_name(session.branch, fresh)
    base = kernel.tables.open(entry.location, entry.branch, entry.version)
    forked = create_fork(kernel.tables, base, name)
    failpoint(BEFORE_FORK_SYNC)
    kernel.objects.sync_named(fork_files(entry.location, name, forked.version))
    failpoint(AFTER_FORK)
    return forked


def _create(session: WriteSession, head: Head, spec: TableSpec) -> Handle:
    """Create the dataset of a new table, over the remains of an interrupted attempt."""
    kernel = session.kernel
    location = layout.table_location(spec.key)
    taken = {table.location for table in head.tables.values()}
    if location in taken or kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}"):
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

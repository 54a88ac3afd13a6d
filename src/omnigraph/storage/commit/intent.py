"""From a write_set to what will be published: rows staged on the very versions they go on top of.

Staging happens ahead of the window, against the write_set's snapshot. Inside it only what moved is
staged again, and tables get the forks and datasets they still lack; no version of the graph's
own moves here. Knows no locks and decides no conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.storage.commit.write_set import CommitOptions, PlannedWrite, WriteSet
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes, Commit, TableSpec, TableVersion, digest
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.merging import unknown_commits
from omnigraph.storage.manifest.publish import Intent, TableMove, sync_versions
from omnigraph.storage.manifest.rows import Head, commit_on
from omnigraph.storage.tables.fork import create_fork, fork_files, name_is_free
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import Staged, rebased, stage

_MANY_TABLES = 8
_STAGERS = 4

BEFORE_FORK_SYNC = register("write.before_fork_sync", "a table has its fork; it is not durable")
AFTER_FORK = register("write.after_fork", "a table has its fork; no manifest names it yet")
AFTER_CREATE = register(
    "write.after_create_table", "a dataset was created; no manifest names it yet"
)


@dataclass(frozen=True, slots=True)
class Ready:
    """A write staged before the window; `staged` is None if it changes nothing there."""

    table: TableVersion
    staged: Staged | None


def stage_ahead(write_set: WriteSet) -> dict[TableKey, Ready]:
    """Stage outside the lock what already has its place; forks must wait for the window."""
    placed = {
        key: table
        for key in write_set.writes
        if (table := write_set.base.tables.get(key)) is not None
        and layout.fork_owner(table.branch) == write_set.branch
    }

    def stage_one(key: TableKey) -> Ready:
        write = write_set.writes[key].write
        base = write_set.base.handle(key)
        return Ready(placed[key], stage(write_set.kernel.tables, base, write, write_set.budget))

    if len(placed) < _MANY_TABLES:
        return {key: stage_one(key) for key in placed}
    with ThreadPoolExecutor(_STAGERS, "omnigraph-stage") as pool:
        return dict(zip(placed, pool.map(stage_one, placed), strict=True))


def intent_on(
    write_set: WriteSet,
    options: CommitOptions,
    head: Head,
    ready: Mapping[TableKey, Ready],
) -> Intent | None:
    """Return what to publish on top of this head; None if nothing would change."""
    kernel = write_set.kernel
    created = {key: _create(write_set, head, spec) for key, spec in write_set.created.items()}
    moves: list[TableMove] = []
    versions: list[TableVersion] = []
    registered = {
        key: TableVersion(key, handle.location, handle.version, handle.branch, handle.row_count)
        for key, handle in created.items()
    }
    for new, old in write_set.renamed.items():
        registered[new] = head.tables[old]._replace(key=new)
    for key, planned in write_set.writes.items():
        entry = registered.get(key) or head.tables[key]
        staged = _staged_on(write_set, entry, planned, ready.get(key))
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
    versions += (table._replace(key=key) for key, table in write_set.points.items())
    changes = Changes(
        tuple(versions),
        tuple(registered.values()),
        (*write_set.dropped, *write_set.renamed.values()),
        {name: digest(content) for name, content in sorted(write_set.files.items())},
        {move.key: move.digests for move in moves},
    )
    if changes.is_empty and options.merged is None:
        return None
    merged = options.merged
    brought = None if merged is None else unknown_commits(head, merged)
    return Intent(
        kernel.new_operation_id(),
        write_set.branch,
        write_set.writer_kind,
        _new_commit(kernel, head, write_set, options, changes),
        changes,
        tuple(moves),
        brought,
        None if merged is None else merged.branch,
        write_set.files,
        tuple(created.values()),
    )


def _new_commit(
    kernel: Kernel, head: Head, write_set: WriteSet, options: CommitOptions, changes: Changes
) -> Commit:
    """Return the commit row of this write."""
    commit_id = kernel.new_commit_id()
    touched = (*changes.versions, *changes.registered)
    return commit_on(
        head,
        id=commit_id,
        merged_parent=None if options.merged is None else options.merged.commit_id,
        created_at_us=kernel.clock.now_us(),
        actor=write_set.actor,
        kind=write_set.kind,
        tables=tuple(sorted({table.key for table in touched} | set(changes.dropped))),
        idempotency_key=options.preconditions.idempotency_key,
        request_hash=options.preconditions.request_hash,
        result=options.result,
        message=write_set.message,
        merged=None if options.merged is None else options.merged.stated,
    )


def _staged_on(
    write_set: WriteSet, entry: TableVersion, planned: PlannedWrite, ready: Ready | None
) -> Staged | None:
    """Return the write staged for the table's current version, re-staging if it moved."""
    tables = write_set.kernel.tables
    if layout.fork_owner(entry.branch) != write_set.branch:
        return stage(tables, fork_table(write_set.kernel, write_set.branch, entry), planned.write)
    if ready is not None:
        staged = ready.staged
        if ready.table.place == entry.place:
            return staged
        base = tables.open(entry.location, entry.branch, entry.version)
        moved = None if staged is None else rebased(staged, base)
        if moved is not None:
            return moved
        write_set.kernel.counters.add("restaged_writes")
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


def _create(write_set: WriteSet, head: Head, spec: TableSpec) -> Handle:
    """Create the dataset of a new table, over the remains of an interrupted attempt."""
    kernel = write_set.kernel
    location = layout.table_location(spec.key)
    taken = {table.location for table in head.tables.values()}
    used_up = kernel.objects.exists(layout.retired_marker(location, None))
    if location in taken or used_up or kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}"):
        location = f"{location}.{kernel.ulids.next(kernel.clock.now_us()).lower()}"
    handle = kernel.tables.create(location, spec.schema.empty_table())
    sync_versions(kernel, [handle])
    failpoint(AFTER_CREATE)
    return handle

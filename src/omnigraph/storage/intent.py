"""From a plan to what will be published: rows staged on the very versions they go on top of.

Staging happens ahead of the window, against the plan's snapshot. Inside it only what moved is
staged again, and tables get the forks and datasets they still lack; no version of the graph's
own moves here. Knows no locks and decides no conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.storage import layout
from omnigraph.storage.create import TableSpec
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import Head
from omnigraph.storage.plan import Plan, PlannedWrite, Terms
from omnigraph.storage.projections import adopted_rows
from omnigraph.storage.publish import Intent, TableMove, digest, sync_versions
from omnigraph.storage.records import Changes, Commit, TableVersion
from omnigraph.storage.tables.fork import create_fork, fork_files, name_is_free
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import Staged, rebased, stage

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


def stage_ahead(plan: Plan) -> dict[TableKey, Ready]:
    """Stage outside the lock what already has its place; forks must wait for the window."""
    ready: dict[TableKey, Ready] = {}
    for key, planned in plan.writes.items():
        table = plan.base.tables.get(key)
        if table is not None and layout.fork_owner(table.branch) == plan.branch:
            staged = stage(plan.kernel.tables, plan.base.handle(key), planned.write)
            ready[key] = Ready(table, staged)
    return ready


def intent_on(
    plan: Plan,
    terms: Terms,
    head: Head,
    ready: Mapping[TableKey, Ready],
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
        _new_commit(kernel, head, plan, terms, changes),
        changes,
        tuple(moves),
        adopted,
        terms.merged_from,
        plan.files,
        tuple(created.values()),
    )


def _new_commit(kernel: Kernel, head: Head, plan: Plan, terms: Terms, changes: Changes) -> Commit:
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
    plan: Plan, entry: TableVersion, planned: PlannedWrite, ready: Ready | None
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

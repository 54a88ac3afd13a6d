"""Repair: what other tools, or older programs, did to the files of a graph.

Shows first and acts only when told to. Rewrites no rows: it publishes what is there, takes back
what a dead operation left, and takes out indexes that cannot be read and rows without a readable
key, which nobody could name to delete them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from omnigraph.api.upkeep import DriftKind, RepairAction, TableRepair
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.files.sidecar import list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.publish import TableMove, physical_intent, publish
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.drift import Drift, drift_of, take_over, without_drift
from omnigraph.storage.recovery.recover import settled_head
from omnigraph.storage.tables.content import unreadable_keys
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.inherited import unusable_indexes
from omnigraph.storage.tables.stage import stage_removal, with_digests
from omnigraph.storage.upkeep.deep import damaged_indexes
from omnigraph.storage.upkeep.indexing import drop_indexes

_UNREADABLE = (DamagedError, SnapshotExpiredError)

log = logging.getLogger(__name__)


def repair(
    kernel: Kernel,
    heads: Heads,
    branches: Sequence[BranchName],
    *,
    confirm: bool,
    force: bool,
    actor: str | None = None,
) -> list[TableRepair]:
    """Look at every table of some branches; act if told to `confirm`.

    Changed rows are taken as they are only with `force`: nothing has checked them. Rows whose key
    cannot be read are deleted only with `force`, too. Tables and branches that cannot be read are
    reported as refused and stop nothing else.

    Raises:
        ConflictError: a write is unfinished.
    """
    if force and not confirm:
        raise BadRequestError("force does nothing by itself", hint="confirm as well")
    pending = [sidecar.name for sidecar in list_sidecars(kernel.objects)]
    if pending:
        raise ConflictError(
            f"{len(pending)} writes are unfinished, such as {pending[0]}",
            hint="open the graph for writing, which recovers them, and run repair again",
        )
    done: list[TableRepair] = []
    for branch in branches:
        try:
            if confirm:
                done += _repaired_branch(kernel, heads, branch, actor, force=force)
            else:
                head = heads.current(branch)
                done += [_looked_at(kernel, head, table) for table in _owned(head)]
        except _UNREADABLE as error:
            done.append(_unreadable(branch, layout.MANIFEST, 0, error))
    return done


def _repaired_branch(
    kernel: Kernel, heads: Heads, branch: BranchName, actor: str | None, *, force: bool
) -> list[TableRepair]:
    done = []
    with kernel.locks.hold(branch_lock_name(branch), "Repair") as lock:
        head = settled_head(kernel, heads, branch, lock)
        for table in _owned(head):
            try:
                head, report = _repaired(kernel, heads, head, table, lock, actor, force=force)
            except _UNREADABLE as error:
                report = _unreadable(branch, table.key, table.version, error)
            done.append(report)
    return done


def _unreadable(branch: BranchName, key: str, version: int, error: Exception) -> TableRepair:
    log.warning("%s on '%s' is left as it is: %s", key, branch, error)
    return TableRepair(str(branch), str(key), DriftKind.UNKNOWN, "refused", version, version)


def _owned(head: Head) -> list[TableVersion]:
    tables = (head.tables[key] for key in sorted(head.tables))
    return [table for table in tables if layout.fork_owner(table.branch) == head.branch]


def _looked_at(kernel: Kernel, head: Head, table: TableVersion) -> TableRepair:
    try:
        drift = drift_of(kernel, table)
        lost = _lost(kernel, head, table)
        nameless = _nameless(kernel, table)
    except _UNREADABLE as error:
        return _unreadable(head.branch, table.key, table.version, error)
    wrong = lost or nameless or drift.kind is not DriftKind.NONE
    return _report(head, drift, "preview" if wrong else "no_op", lost, nameless)


def _repaired(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    table: TableVersion,
    lock: HeldLock,
    actor: str | None,
    *,
    force: bool,
) -> tuple[Head, TableRepair]:
    drift = drift_of(kernel, table)
    action: RepairAction = "no_op"
    if drift.kind in (DriftKind.MAINTENANCE, DriftKind.ABANDONED):
        head, action = without_drift(kernel, heads, head, table, lock, actor), "healed"
    elif drift.kind is not DriftKind.NONE:
        if not (force and _fits(kernel, drift)):
            return head, _report(head, drift, "refused", _lost(kernel, head, table))
        head, action = take_over(kernel, heads, head, drift, actor), "forced"
    current = head.tables[table.key]
    lost = _lost(kernel, head, current)
    if lost:
        head = drop_indexes(kernel, heads, head, current, lost, lock, actor)
        action = "healed" if action == "no_op" else action
    nameless = _nameless(kernel, head.tables[table.key])
    if nameless:
        if not force:
            return head, _report(head, drift, "refused", lost, nameless)
        head = _without_rows(kernel, heads, head, table.key, nameless, lock, actor)
        action = "forced"
    return head, _report(head, drift, action, lost, nameless)


def _lost(kernel: Kernel, head: Head, table: TableVersion) -> list[str]:
    """Return the indexes that cannot be read, or are not what was written."""
    handle = kernel.tables.open_cold(*table.place)
    return sorted({*unusable_indexes(handle), *damaged_indexes(kernel, head, handle)})


def _nameless(kernel: Kernel, table: TableVersion) -> list[int]:
    """Return the addresses of rows whose key cannot be read."""
    return unreadable_keys(kernel.tables.open_cold(*table.place))


def _without_rows(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    key: TableKey,
    addresses: list[int],
    lock: HeldLock,
    actor: str | None,
) -> Head:
    """Delete rows and publish that as a commit like any."""
    table = head.tables[key]
    base = kernel.tables.open(*table.place)
    staged = with_digests(kernel.tables, stage_removal(base, addresses))
    moved = table._replace(
        version=table.version + 1, row_count=staged.row_count_on(table.row_count)
    )
    intent = physical_intent(kernel, head, "Repair", (TableMove(key, staged),), (moved,), actor)
    commit = replace(intent.commit, kind="logical", logical_id=intent.commit.id)
    after = publish(kernel, head, replace(intent, commit=commit), lock)
    heads.published(commit, after)
    log.warning("deleted %d rows of %s on '%s' without a key", len(addresses), key, head.branch)
    return after


def _fits(kernel: Kernel, drift: Drift) -> bool:
    """Whether a version can be read and has the columns of the one the graph points at."""
    table = drift.table
    try:
        newest = kernel.tables.open_cold(table.location, table.branch, drift.newest)
    except (DamagedError, SnapshotExpiredError):
        return False
    before = kernel.tables.open(*table.place)
    return bool(newest.dataset.schema.equals(before.dataset.schema))


def _report(
    head: Head,
    drift: Drift,
    action: RepairAction,
    lost: Sequence[str],
    nameless: Sequence[int] = (),
) -> TableRepair:
    return TableRepair(
        str(head.branch),
        str(drift.table.key),
        drift.kind,
        action,
        drift.table.version,
        drift.newest,
        drift.operations,
        tuple(lost),
        len(nameless),
    )

"""Drift: versions of a table that the graph does not point at, and that no sidecar explains.

What another tool did to the files of a table is told apart by its transactions. If none of them
can have changed a row, the graph takes the version over; what a dead operation of ours left is
taken back; anything else is refused, because only an operator can tell what it meant.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from omnigraph.api.upkeep import DriftKind
from omnigraph.errors import ConflictError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TAKEN_OVER, Changes, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.publish import OPERATION_MARK, physical_intent, publish_moved
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.evidence import PHYSICAL_OPERATIONS, newest_readable
from omnigraph.storage.recovery.healing import undo_moves
from omnigraph.storage.tables.commit import transaction_facts
from omnigraph.storage.tables.compact import own_files
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import UNKNOWN_OPERATION
from omnigraph.storage.tables.whole import sync_whole_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drift:
    """One table beyond what the graph points at."""

    table: TableVersion
    newest: int
    kind: DriftKind
    operations: tuple[str, ...] = ()
    """What was done after the version of the graph, in order."""


class DriftError(ConflictError):
    """A table was changed by something that is not this program."""

    def __init__(self, drift: Drift) -> None:
        self.drift = drift
        table = drift.table
        super().__init__(
            f"{table.key} is at version {drift.newest}, but the graph points at {table.version}, "
            f"and no sidecar explains it: another tool did {', '.join(drift.operations)}",
            hint="`omnigraph repair` shows it; with --force --confirm the graph takes it as it is, "
            f"or restore version {table.version} with the tool that wrote it",
        )


def drift_of(kernel: Kernel, table: TableVersion) -> Drift:
    """Look at what lies beyond a table's version; changes nothing."""
    newest = table.version
    while kernel.tables.next_exists(table.location, table.branch, newest):
        newest += 1
    if newest == table.version:
        return Drift(table, newest, DriftKind.NONE)
    operations, marked = [], []
    for version in range(table.version + 1, newest + 1):
        operation, properties = _facts(kernel, table, version)
        operations.append(operation)
        marked.append(OPERATION_MARK in properties)
    return Drift(table, newest, _kind(kernel, table, operations, marked), tuple(operations))


def _facts(kernel: Kernel, table: TableVersion, version: int) -> tuple[str, dict[str, str]]:
    try:
        return transaction_facts(kernel.tables.reopen(table.location, table.branch, version))
    except (DamagedError, SnapshotExpiredError):
        return UNKNOWN_OPERATION, {}


def _kind(
    kernel: Kernel, table: TableVersion, operations: list[str], marked: list[bool]
) -> DriftKind:
    if UNKNOWN_OPERATION in operations:
        return DriftKind.UNKNOWN
    foreign = [name for name, ours in zip(operations, marked, strict=True) if not ours]
    if any(name not in PHYSICAL_OPERATIONS for name in foreign):
        return DriftKind.ROWS
    if any(marked):
        return DriftKind.ABANDONED
    newest = table._replace(version=table.version + len(operations))
    same = kernel.tables.open(*newest.place).row_count == table.row_count
    return DriftKind.MAINTENANCE if same else DriftKind.ROWS


def without_drift(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    table: TableVersion,
    lock: HeldLock,
    actor: str | None = None,
) -> Head:
    """Return a head beyond which a table has no versions; the caller holds the branch's lock.

    `actor` is who asked for that; a write that comes across it did not.

    Raises:
        DriftError: rows were changed, or may have been.
    """
    if not kernel.tables.next_exists(table.location, table.branch, table.version):
        return head
    lock.check()
    newest = newest_readable(kernel, table.location, table.branch, table.version)
    if newest == table.version:
        return head
    drift = drift_of(kernel, table)
    match drift.kind:
        case DriftKind.NONE:
            return head
        case DriftKind.ABANDONED:
            return undo_moves(kernel, heads, head, table, newest)
        case DriftKind.MAINTENANCE:
            return take_over(kernel, heads, head, drift, actor)
        case _:
            raise DriftError(drift)


def take_over(
    kernel: Kernel, heads: Heads, head: Head, drift: Drift, actor: str | None = None
) -> Head:
    """Point the graph at what another tool made of a table.

    One swap of the head, so it happens or does not. What is known to leave rows as they are is
    maintenance; the rest is a commit like any.
    """
    table = drift.table
    moved = table._replace(version=drift.newest)
    handle = kernel.tables.open(*moved.place)
    moved = moved._replace(row_count=handle.row_count)
    sync_whole_files(kernel.objects, own_files(kernel.tables, table.place, moved.place))
    kernel.objects.sync_named(
        layout.version_file(table.location, table.branch, version)
        for version in range(table.version + 1, drift.newest + 1)
    )
    commit = physical_intent(kernel, head, "Repair", (), (moved,), actor).commit
    if drift.kind is not DriftKind.MAINTENANCE:
        told = {TAKEN_OVER: list(drift.operations)}
        commit = replace(commit, kind="logical", logical_id=commit.id, result=told)
    after = publish_moved(kernel, head, commit, Changes(versions=(moved,)))
    heads.published(commit, after)
    kernel.counters.add("drift_taken_over")
    log.warning(
        "took over %s of another tool: %s on '%s' from version %d to %d",
        ", ".join(drift.operations),
        table.key,
        head.branch,
        table.version,
        drift.newest,
    )
    return after

"""What one table of a sidecar shows: did it move, and was it this write that moved it?

Looks at versions and transaction uuids only. The one thing it changes: a torn newest version is
set aside, because nothing can be said, read or written while it is in the way.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from omnigraph.base.failpoints import failpoint, register
from omnigraph.errors import ErrorKind, FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.files.sidecar import SidecarTable
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.tables.commit import transaction_facts, transaction_uuid
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import RESERVE
from omnigraph.storage.tables.scan import COMPACTION

log = logging.getLogger(__name__)

AFTER_QUARANTINE = register(
    "recovery.after_quarantine", "a torn version was set aside; nothing else was done"
)

_LOOSE_KINDS = ("SchemaApply", "EnsureIndices", "Optimize", "BranchMerge")
PHYSICAL_OPERATIONS = (COMPACTION, RESERVE, "CreateIndex")
"""What moves a table without changing a row."""


class Evidence(Enum):
    """What one table of a sidecar shows."""

    NO_MOVEMENT = "no movement"
    ROLLED_PAST = "moved as intended"
    UNEXPECTED = "moved, but not as intended"


class RecoveryError(FormatError):
    """A table is behind the version the graph points at; nothing is changed, look at it."""

    kind = ErrorKind.CORRUPT


@dataclass(frozen=True, slots=True)
class Examined:
    """One table of a sidecar, examined."""

    table: SidecarTable
    placed: TableVersion | None
    """The graph's entry if it points at this very lineage; None for unpublished forks."""
    pin: int
    newest: int
    evidence: Evidence


def examine(kernel: Kernel, head: Head, table: SidecarTable, writer_kind: str) -> Examined:
    """Compare one table with what the sidecar intended and the graph points at.

    Raises:
        RecoveryError: the version the graph points at is gone.
    """
    entry = head.tables.get(table.table_key)
    placed = (
        entry
        if entry is not None
        and (entry.location, entry.branch) == (table.location, table.table_branch)
        else None
    )
    pin = placed.version if placed is not None else table.expected_version
    newest = newest_readable(kernel, table.location, table.table_branch, pin)
    if newest < pin:
        raise RecoveryError(
            f"{table.table_key} has no version {pin}, which the graph points at",
            hint="restore the dataset from a backup; run `omnigraph verify`",
        )
    if newest == pin:
        return Examined(table, placed, pin, newest, Evidence.NO_MOVEMENT)
    intended = table.expected_version == pin and _is_intended(kernel, table, writer_kind, newest)
    evidence = Evidence.ROLLED_PAST if intended else Evidence.UNEXPECTED
    return Examined(table, placed, pin, newest, evidence)


def _is_intended(kernel: Kernel, table: SidecarTable, writer_kind: str, newest: int) -> bool:
    if table.tx_uuid is not None:
        if newest != table.post_commit_pin:
            return False
        handle = kernel.tables.reopen(table.location, table.table_branch, newest)
        return transaction_uuid(handle) == table.tx_uuid
    if table.confirmed_version is not None:
        return newest == table.confirmed_version
    if writer_kind in ("Optimize", "EnsureIndices"):
        moved = range(table.expected_version + 1, newest + 1)
        return all(_is_physical(kernel, table, version) for version in moved)
    return writer_kind in _LOOSE_KINDS or newest == table.post_commit_pin


def _is_physical(kernel: Kernel, table: SidecarTable, version: int) -> bool:
    try:
        handle = kernel.tables.reopen(table.location, table.table_branch, version)
        return transaction_facts(handle)[0] in PHYSICAL_OPERATIONS
    except (DamagedError, SnapshotExpiredError):
        return False  # torn on the way: rolled back, which changes no row


def newest_readable(kernel: Kernel, location: str, branch: str | None, pin: int) -> int:
    """Return the newest version from `pin` on that is whole; -1 if even `pin` is gone.

    A torn version is set aside together with what lies above it: nothing after the pin was
    acknowledged, and Lance cannot commit over a version it cannot read.
    """
    if not kernel.tables.version_exists(location, branch, pin):
        return -1
    newest = pin
    while kernel.tables.next_exists(location, branch, newest):
        newest += 1
    for version in range(pin + 1, newest + 1):
        try:
            kernel.tables.reopen(location, branch, version)
        except (DamagedError, SnapshotExpiredError):
            for torn in range(newest, version - 1, -1):
                quarantine(kernel, location, branch, torn)
            return version - 1
    return newest


def quarantine(kernel: Kernel, location: str, branch: str | None, version: int) -> None:
    """Set a torn manifest aside under a name Lance does not read; nothing is lost with it."""
    name = layout.version_file(location, branch, version)
    kernel.objects.rename(name, layout.torn_file(location, branch, version))
    kernel.counters.add("quarantined_versions")
    log.warning("set aside the torn version '%s'; it was never acknowledged", name)
    failpoint(AFTER_QUARANTINE)

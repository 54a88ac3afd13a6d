"""Carrying out what recovery decided: forward, back, and the audit that makes it happen once.

Every outcome is a commit whose id follows from the operation it heals, so carrying it out twice
is impossible. The caller holds the branch's lock and has the evidence; nothing is decided here.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from ulid import ULID

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId, OperationId
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import RECOVERY_ACTOR, Changes, Commit, Kind, TableVersion
from omnigraph.storage.files.sidecar import Sidecar, delete_sidecar
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.contracts import drop_staged, keep_stated_files, show_files
from omnigraph.storage.manifest.publish import (
    OPERATION_MARK,
    merged_commits,
    swap_head,
    sync_versions,
)
from omnigraph.storage.manifest.rows import Head, commit_on, find_commit, stage_publish
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.evidence import Examined
from omnigraph.storage.tables.commit import restore
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.whole import sync_whole_files

log = logging.getLogger(__name__)

BEFORE_RESTORE = register("recovery.before_restore", "decided to roll back; no table restored")
BETWEEN_RESTORES = register("recovery.between_restores", "some tables restored, others not")
BEFORE_PUBLISH = register("recovery.before_publish", "tables are as decided; not published")
AFTER_PUBLISH = register("recovery.after_publish", "the outcome is visible; the sidecar remains")


@dataclass(frozen=True, slots=True)
class Recovered:
    """One healed sidecar."""

    operation_id: OperationId
    branch: BranchName
    outcome: str


def roll_forward(
    kernel: Kernel, heads: Heads, head: Head, sidecar: Sidecar, findings: Sequence[Examined]
) -> Recovered:
    """Publish exactly the commit that was intended, and the audit beside it."""
    outcomes = [outcome_row(f.table.table_key, f.pin, f.newest) for f in findings]
    moved = tuple(_moved_version(kernel, finding) for finding in findings)
    if sidecar.commit is None:
        changes = Changes(versions=moved)
        publish_outcome(
            kernel, heads, head, sidecar, "RolledForward", changes, outcomes, kind="logical"
        )
        return settle(kernel, sidecar, head, "RolledForward", published=True)
    changes = sidecar.changes
    if any(finding.table.tx_uuid is None for finding in findings):  # compaction: as it landed
        changes = replace(changes, versions=moved)
    sync_versions(kernel, _handles(kernel, findings))
    keep_stated_files(kernel, changes.files)
    intended = _place(head, sidecar.commit, changes)
    audit = _audit(
        kernel,
        head,
        sidecar.operation_id,
        "RolledForward",
        sidecar.writer_kind,
        sidecar.actor_id,
        outcomes,
    )
    follow_up = replace(
        audit,
        sequence=intended.sequence + 1,
        parent=intended.id,
        manifest_version=intended.manifest_version,
        logical_id=intended.logical_id,
    )
    steps = [(intended, changes), (follow_up, Changes())]
    _publish_steps(kernel, heads, head, steps, merged_commits(sidecar))
    return settle(kernel, sidecar, head, "RolledForward", published=True)


def roll_back(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    sidecar: Sidecar,
    findings: Sequence[Examined],
    lock: HeldLock,
) -> Recovered:
    """Restore every table of the sidecar, moved or not, and publish that.

    Restoring an unmoved table fences it: if the dead writer wakes up, its transaction is
    refused.
    """
    failpoint(BEFORE_RESTORE)
    restored = []
    for finding in findings:
        if finding.placed is not None:
            lock.check()  # whoever took over has healed this already
            restored.append(_restored(kernel, finding.placed, sidecar.operation_id))
            failpoint(BETWEEN_RESTORES)
    outcomes = [outcome_row(f.table.table_key, f.newest, f.pin) for f in findings]
    changes = Changes(versions=tuple(restored))
    publish_outcome(kernel, heads, head, sidecar, "RolledBack", changes, outcomes)
    return settle(kernel, sidecar, head, "RolledBack")


def undo_moves(kernel: Kernel, heads: Heads, head: Head, table: TableVersion, newest: int) -> Head:
    """Bring a table back to what the graph points at, and publish that."""
    operation = kernel.new_operation_id()
    restored = _restored(kernel, table, operation)
    changes = Changes(versions=(restored,))
    outcomes = [outcome_row(table.key, newest, table.version)]
    audit = _audit(kernel, head, operation, "RolledBack", "Mutation", None, outcomes)
    return _publish_steps(kernel, heads, head, [(_place(head, audit, changes), changes)], None)


def settle(
    kernel: Kernel, sidecar: Sidecar, head: Head, outcome: str, *, published: bool = False
) -> Recovered:
    """Finish the files of a published commit, drop those of an undone one, end the sidecar."""
    failpoint(AFTER_PUBLISH)
    commit = sidecar.commit
    if commit is not None and sidecar.changes.files:
        if published or find_commit(head.handle, commit.id) is not None:
            keep_stated_files(kernel, sidecar.changes.files)
            if sidecar.branch == layout.MAIN:
                show_files(kernel, sidecar.changes.files)
        drop_staged(kernel, sidecar.operation_id)
    delete_sidecar(kernel.objects, sidecar)
    kernel.counters.add("recoveries")
    log.warning("recovered %s on '%s': %s", sidecar.operation_id, sidecar.branch, outcome)
    return Recovered(sidecar.operation_id, sidecar.branch, outcome)


def publish_outcome(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    sidecar: Sidecar,
    outcome: str,
    changes: Changes,
    outcomes: list[dict[str, Any]],
    *,
    kind: Kind = "maintenance",
) -> Head:
    """Publish what became of a sidecar, as its audit says it."""
    audit = _audit(
        kernel,
        head,
        sidecar.operation_id,
        outcome,
        sidecar.writer_kind,
        sidecar.actor_id,
        outcomes,
    )
    if kind == "logical":
        merged = sidecar.merge_source_commit_id
        audit = replace(
            audit,
            kind=kind,
            logical_id=audit.id,
            merged_parent=None if merged is None else CommitId(merged),
        )
    return _publish_steps(kernel, heads, head, [(_place(head, audit, changes), changes)], None)


def _publish_steps(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    steps: list[tuple[Commit, Changes]],
    adopted: pa.Table | None,
) -> Head:
    staged, state = stage_publish(kernel, head, steps, adopted)
    sync_whole_files(kernel.objects, staged.files)
    failpoint(BEFORE_PUBLISH)
    after = swap_head(kernel, head, staged, state)
    sync_versions(kernel, [after.handle])
    heads.remember(after)
    return after


def _place(head: Head, commit: Commit, changes: Changes) -> Commit:
    """Put a commit on top of a head; for an untouched head this changes nothing."""
    touched = (*changes.versions, *changes.registered)
    return replace(
        commit,
        sequence=head.sequence + 1,
        parent=head.commit_id,
        manifest_version=head.manifest_version + 1,
        tables=tuple(sorted({table.key for table in touched} | set(changes.dropped))),
    )


def _audit(
    kernel: Kernel,
    head: Head,
    operation: OperationId,
    outcome: str,
    writer_kind: str,
    for_actor: str | None,
    outcomes: list[dict[str, Any]],
) -> Commit:
    """Return the recovery's own commit; its id follows from the operation it healed."""
    return commit_on(
        head,
        id=recovery_id(operation),
        created_at_us=kernel.clock.now_us(),
        actor=RECOVERY_ACTOR,
        recovery={
            "recovery_kind": outcome,
            "recovery_for_actor": for_actor,
            "operation_id": operation,
            "sidecar_writer_kind": writer_kind,
            "per_table_outcomes": outcomes,
        },
    )


def recovery_id(operation: OperationId) -> CommitId:
    """Return the id of the commit that records how an operation was healed."""
    value = int(ULID.from_str(operation))
    noise = int.from_bytes(hashlib.sha256(operation.encode()).digest()[:10])
    return CommitId(str(ULID.from_int((value >> 80 << 80) | noise)))


def outcome_row(key: str, from_version: int, to_version: int) -> dict[str, Any]:
    """Return one table's line of an audit."""
    return {"table_key": key, "from_version": from_version, "to_version": to_version}


def _restored(kernel: Kernel, table: TableVersion, operation: OperationId) -> TableVersion:
    mark = {OPERATION_MARK: operation}
    handle = restore(kernel.tables, table.location, table.branch, table.version, mark)
    sync_versions(kernel, [handle])
    return table._replace(version=handle.version)


def _moved_version(kernel: Kernel, finding: Examined) -> TableVersion:
    table = finding.table
    handle = kernel.tables.reopen(table.location, table.table_branch, finding.newest)
    return TableVersion(
        table.table_key, table.location, finding.newest, table.table_branch, handle.row_count
    )


def _handles(kernel: Kernel, findings: Sequence[Examined]) -> list[Handle]:
    return [
        kernel.tables.reopen(f.table.location, f.table.table_branch, f.newest) for f in findings
    ]

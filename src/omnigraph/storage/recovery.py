"""Healing: what a writer left half done becomes whole or undone, exactly once.

Works only inside the exclusive window of the branch, so whoever left a sidecar is gone. The
decision rests on evidence (transaction uuids, commit ids), never on guesses; a decision that
was carried out is itself a commit whose id follows from the operation, so carrying it out twice
is impossible. See `docs/storage.md` for the table.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from ulid import ULID

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId, OperationId
from omnigraph.errors import ConflictError
from omnigraph.storage import layout
from omnigraph.storage.evidence import Evidence, Finding, examine, newest_readable, quarantine
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import HeldLock, branch_lock_name
from omnigraph.storage.manifest import Head, find_commit, stage_publish
from omnigraph.storage.projections import adopted_rows
from omnigraph.storage.publish import (
    OPERATION_MARK,
    branch_tag,
    drop_adopted,
    find_adopted,
    promote_files,
    swap_head,
    sync_versions,
)
from omnigraph.storage.records import RECOVERY_ACTOR, Changes, Commit, Kind, TableVersion
from omnigraph.storage.sidecar import Sidecar, delete_sidecar, list_sidecars
from omnigraph.storage.snapshot import BranchNotFoundError, Heads
from omnigraph.storage.tables.commit import restore, transaction_facts
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.fork import list_branches
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.whole import harden

log = logging.getLogger(__name__)

BEFORE_RESTORE = register("recovery.before_restore", "decided to roll back; no table restored")
BETWEEN_RESTORES = register("recovery.between_restores", "some tables restored, others not")
BEFORE_PUBLISH = register("recovery.before_publish", "tables are as decided; not published")
AFTER_PUBLISH = register("recovery.after_publish", "the outcome is visible; the sidecar remains")


class DriftError(ConflictError):
    """A table was moved by something that is not this program."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """One healed sidecar."""

    operation_id: OperationId
    branch: BranchName
    outcome: str


def recover_branch(
    kernel: Kernel, heads: Heads, branch: BranchName, lock: HeldLock, *, full: bool = True
) -> list[Recovered]:
    """Heal every sidecar of a branch, oldest first; the caller holds the branch's lock.

    Without `full`, what would have to be rolled back is left for later.
    """
    done = []
    for sidecar in list_sidecars(kernel.objects):
        if sidecar.branch == branch:
            outcome = _recover_one(kernel, heads, sidecar, lock, full=full)
            if outcome is not None:
                done.append(outcome)
    return done


def entry_head(kernel: Kernel, heads: Heads, branch: BranchName) -> Head:
    """Return the head a write starts from, having rolled forward what could be."""
    asks: tuple[Callable[[], Any], ...] = (
        partial(sweep, kernel, heads, full=False),
        partial(heads.current, branch),
    )
    healed, head = kernel.objects.together(*asks)
    return heads.current(branch) if healed else head


def settled_head(kernel: Kernel, heads: Heads, branch: BranchName, lock: HeldLock) -> Head:
    """Return the head of a branch on which nothing is left half done; we hold its lock."""
    if kernel.root.is_local:
        recover_branch(kernel, heads, branch, lock)
        return heads.current(branch)
    # Over a network both questions are asked at once; a pending sidecar is the rare answer.
    asks: tuple[Callable[[], Any], ...] = (
        partial(list_sidecars, kernel.objects),
        partial(heads.current, branch),
    )
    pending, head = kernel.objects.together(*asks)
    if not any(sidecar.branch == branch for sidecar in pending):
        return head  # type: ignore[no-any-return]  # the second answer is a head
    recover_branch(kernel, heads, branch, lock)
    return heads.current(branch)


def sweep(kernel: Kernel, heads: Heads, *, full: bool) -> list[Recovered]:
    """Heal what can be healed now: a branch whose lock is busy has a live writer and is skipped."""
    pending = list_sidecars(kernel.objects)
    if not pending:
        return []
    _report_age(kernel, pending)
    live = list_branches(kernel.objects, layout.MANIFEST)
    done = []
    for branch in dict.fromkeys(sidecar.branch for sidecar in pending):
        exists = branch == layout.MAIN or branch in live
        with kernel.locks.try_hold(branch_lock_name(branch), "recovery") as lock:
            if lock is None:
                continue
            if exists:
                done += recover_branch(kernel, heads, branch, lock, full=full)
                continue
        if not exists:
            done += _discard_orphans(kernel, heads, branch)
    return done


def heal_drift(kernel: Kernel, heads: Heads, head: Head, table: TableVersion) -> Head:
    """Undo what a dead operation of ours committed without leaving a sidecar.

    Raises:
        DriftError: something else moved the table; only an operator can tell what it meant.
    """
    newest = newest_readable(kernel, table.location, table.branch, table.version)
    for version in range(table.version + 1, newest + 1):
        handle = kernel.tables.reopen(table.location, table.branch, version)
        _, properties = transaction_facts(handle)
        if OPERATION_MARK not in properties:
            raise DriftError(
                f"{table.key} is at version {newest}, but the graph points at {table.version}, "
                "and no sidecar explains it",
                hint="something wrote to the dataset directly; run repair",
            )
    operation = kernel.new_operation_id()
    restored = _restored(kernel, table, operation)
    changes = Changes(versions=(restored,))
    outcomes = [_outcome(table.key, newest, table.version)]
    audit = _audit(kernel, head, operation, "RolledBack", "Mutation", None, outcomes)
    return _publish_steps(kernel, heads, head, [(_place(head, audit, changes), changes)], None)


def read_head_healing(kernel: Kernel, heads: Heads, branch: BranchName) -> Head:
    """Return the head, setting aside a torn newest manifest.

    Only called while a sidecar of the branch exists: it is deleted after the last barrier, so
    whatever cannot be read beside it was never acknowledged.
    """
    while True:
        try:
            return heads.current(branch)
        except DamagedError:
            lineage = layout.lance_branch(branch)
            versions = kernel.tables.version_numbers(layout.MANIFEST, lineage)
            if len(versions) < 2:
                raise
            quarantine(kernel, layout.MANIFEST, lineage, versions[-1])
            heads.forget(branch)


def heal_torn_manifest(kernel: Kernel, heads: Heads, branch: BranchName) -> None:
    """Set aside a torn newest manifest if a pending sidecar proves it was not acknowledged.

    The caller holds the branch's lock.

    Raises:
        DamagedError: there is no such proof.
    """
    if any(sidecar.branch == branch for sidecar in list_sidecars(kernel.objects)):
        read_head_healing(kernel, heads, branch)
    else:
        heads.current(branch)


def _recover_one(
    kernel: Kernel, heads: Heads, sidecar: Sidecar, lock: HeldLock, *, full: bool
) -> Recovered | None:
    lock.check()
    head = read_head_healing(kernel, heads, sidecar.branch)
    if not sidecar.tables and sidecar.commit is None:  # the manifest itself was being folded
        return _settle(kernel, sidecar, head, "NothingToDo")
    if find_commit(head.handle, _recovery_id(sidecar.operation_id)) is not None:
        return _settle(kernel, sidecar, head, "AlreadyRecovered")
    if sidecar.commit is not None and find_commit(head.handle, sidecar.commit.id) is not None:
        sync_versions(kernel, [head.handle])
        _publish_outcome(kernel, heads, head, sidecar, "RolledForward", Changes(), [])
        return _settle(kernel, sidecar, head, "RolledForward", published=True)
    if sidecar.branch_tag not in (None, branch_tag(kernel, sidecar.branch)):
        # Its branch was deleted; this one only has the same name.
        _publish_outcome(kernel, heads, head, sidecar, "OrphanedBranchDiscarded", Changes(), [])
        return _settle(kernel, sidecar, head, "OrphanedBranchDiscarded")
    findings = [examine(kernel, head, table, sidecar.writer_kind) for table in sidecar.tables]
    shown = {finding.evidence for finding in findings}
    if findings and shown == {Evidence.ROLLED_PAST}:
        return _roll_forward(kernel, heads, head, sidecar, findings)
    if sidecar.commit is None and _is_stale(findings):
        outcomes = [_outcome(f.table.table_key, f.table.expected_version, f.pin) for f in findings]
        _publish_outcome(kernel, heads, head, sidecar, "RolledForward", Changes(), outcomes)
        return _settle(kernel, sidecar, head, "RolledForward", published=True)
    if not full:
        kernel.counters.add("deferred_sidecars")
        log.warning("sidecar %s needs a roll-back; left for the next writer", sidecar.name)
        return None
    return _roll_back(kernel, heads, head, sidecar, findings, lock)


def _is_stale(findings: Sequence[Finding]) -> bool:
    """Whether everything was published before the sidecar could be deleted."""
    unmoved = all(finding.evidence is Evidence.NO_MOVEMENT for finding in findings)
    return unmoved and any(f.pin > f.table.expected_version for f in findings)


def _roll_forward(
    kernel: Kernel, heads: Heads, head: Head, sidecar: Sidecar, findings: Sequence[Finding]
) -> Recovered:
    """Publish exactly the commit that was intended, and the audit beside it."""
    outcomes = [_outcome(f.table.table_key, f.pin, f.newest) for f in findings]
    moved = tuple(_moved_version(kernel, finding) for finding in findings)
    if sidecar.commit is None:
        changes = Changes(versions=moved)
        _publish_outcome(
            kernel, heads, head, sidecar, "RolledForward", changes, outcomes, kind="logical"
        )
        return _settle(kernel, sidecar, head, "RolledForward", published=True)
    changes = sidecar.changes
    if any(finding.table.tx_uuid is None for finding in findings):  # compaction: as it landed
        changes = replace(changes, versions=moved)
    sync_versions(kernel, _handles(kernel, findings))
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
    _publish_steps(kernel, heads, head, steps, _adopted(kernel, heads, head, sidecar))
    return _settle(kernel, sidecar, head, "RolledForward", published=True)


def _roll_back(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    sidecar: Sidecar,
    findings: Sequence[Finding],
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
    outcomes = [_outcome(f.table.table_key, f.newest, f.pin) for f in findings]
    changes = Changes(versions=tuple(restored))
    _publish_outcome(kernel, heads, head, sidecar, "RolledBack", changes, outcomes)
    return _settle(kernel, sidecar, head, "RolledBack")


def _settle(
    kernel: Kernel, sidecar: Sidecar, head: Head, outcome: str, *, published: bool = False
) -> Recovered:
    """Finish the files of a published commit, drop those of an undone one, end the sidecar."""
    failpoint(AFTER_PUBLISH)
    commit = sidecar.commit
    if commit is not None and sidecar.changes.files:
        if published or find_commit(head.handle, commit.id) is not None:
            promote_files(kernel, sidecar.operation_id, sidecar.changes.files)
        else:
            kernel.objects.delete_prefix(layout.staging(sidecar.operation_id))
    delete_sidecar(kernel.objects, sidecar)
    drop_adopted(kernel, sidecar)
    kernel.counters.add("recoveries")
    log.info("recovered %s on '%s': %s", sidecar.operation_id, sidecar.branch, outcome)
    return Recovered(sidecar.operation_id, sidecar.branch, outcome)


def _publish_outcome(
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
    harden(kernel.objects, staged.files)
    failpoint(BEFORE_PUBLISH)
    after = swap_head(kernel, head, staged, state)
    sync_versions(kernel, [after.handle])
    heads.remember(after)
    return after


def _adopted(kernel: Kernel, heads: Heads, head: Head, sidecar: Sidecar) -> pa.Table | None:
    """Return the commits that an interrupted merge brings along."""
    if sidecar.adopted_from is None:
        return None
    kept = find_adopted(kernel, sidecar.operation_id)
    if kept is not None:
        return kept
    try:  # a sidecar from before they were kept
        return adopted_rows(heads, head, sidecar.adopted_from)
    except BranchNotFoundError:
        log.warning("the history of '%s' is gone; its merge is kept", sidecar.adopted_from)
        return None


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
    return Commit(
        _recovery_id(operation),
        head.sequence + 1,
        head.branch,
        head.manifest_version + 1,
        head.commit_id,
        None,
        kernel.clock.now_us(),
        RECOVERY_ACTOR,
        "maintenance",
        head.logical_id,
        recovery={
            "recovery_kind": outcome,
            "recovery_for_actor": for_actor,
            "operation_id": operation,
            "sidecar_writer_kind": writer_kind,
            "per_table_outcomes": outcomes,
        },
    )


def _recovery_id(operation: OperationId) -> CommitId:
    """Return the id of the commit that records how an operation was healed."""
    value = int(ULID.from_str(operation))
    noise = int.from_bytes(hashlib.sha256(operation.encode()).digest()[:10])
    return CommitId(str(ULID.from_int((value >> 80 << 80) | noise)))


def _outcome(key: str, from_version: int, to_version: int) -> dict[str, Any]:
    return {"table_key": key, "from_version": from_version, "to_version": to_version}


def _restored(kernel: Kernel, table: TableVersion, operation: OperationId) -> TableVersion:
    mark = {OPERATION_MARK: operation}
    handle = restore(kernel.tables, table.location, table.branch, table.version, mark)
    sync_versions(kernel, [handle])
    return table._replace(version=handle.version)


def _moved_version(kernel: Kernel, finding: Finding) -> TableVersion:
    table = finding.table
    handle = kernel.tables.reopen(table.location, table.table_branch, finding.newest)
    return TableVersion(
        table.table_key, table.location, finding.newest, table.table_branch, handle.row_count
    )


def _handles(kernel: Kernel, findings: Sequence[Finding]) -> list[Handle]:
    return [
        kernel.tables.reopen(f.table.location, f.table.table_branch, f.newest) for f in findings
    ]


def _discard_orphans(kernel: Kernel, heads: Heads, branch: BranchName) -> list[Recovered]:
    """Settle sidecars of a branch that was deleted: nothing of it can be published."""
    done = []
    with kernel.locks.try_hold(branch_lock_name(layout.MAIN), "recovery") as lock:
        if lock is None:
            return []
        for sidecar in list_sidecars(kernel.objects):
            if sidecar.branch != branch:
                continue
            head = heads.current(layout.MAIN)
            if find_commit(head.handle, _recovery_id(sidecar.operation_id)) is None:
                _publish_outcome(
                    kernel, heads, head, sidecar, "OrphanedBranchDiscarded", Changes(), []
                )
            done.append(_settle(kernel, sidecar, head, "OrphanedBranchDiscarded"))
    return done


def _report_age(kernel: Kernel, pending: Sequence[Sidecar]) -> None:
    oldest = min(sidecar.started_at_us for sidecar in pending)
    kernel.counters.set("pending_sidecars", len(pending))
    kernel.counters.set("oldest_sidecar_age_s", (kernel.clock.now_us() - oldest) // 1_000_000)

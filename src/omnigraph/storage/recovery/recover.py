"""Healing: what a writer left half done becomes whole or undone, exactly once.

Works only inside the exclusive window of the branch, so whoever left a sidecar is gone. Finds
what is pending and decides on evidence (transaction uuids, commit ids), never on guesses;
`healing` carries it out. See `docs/storage.md` for the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from omnigraph.base.ids import BranchName, OperationId
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes
from omnigraph.storage.files.sidecar import Sidecar, list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.publish import branch_tag, sync_versions
from omnigraph.storage.manifest.rows import Head, find_commit
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.evidence import Evidence, Examined, examine, quarantine
from omnigraph.storage.recovery.healing import (
    Recovered,
    outcome_row,
    publish_outcome,
    recovery_id,
    roll_back,
    roll_forward,
    settle,
)
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.fork import branch_names
from omnigraph.storage.tables.versions import hinted_version

log = logging.getLogger(__name__)


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
    _report_age(kernel, pending)
    if not pending:
        return []
    live = branch_names(kernel.objects, layout.MANIFEST)
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
            gone = {sidecar.operation_id for sidecar in pending if sidecar.branch == branch}
            done += _discard_orphans(kernel, heads, gone)
    if done:
        _report_age(kernel, list_sidecars(kernel.objects))
    return done


def read_head_healing(kernel: Kernel, heads: Heads, branch: BranchName) -> Head:
    """Return the head, setting aside a torn newest manifest.

    Only called while a sidecar of the branch exists: it is deleted after the last barrier, so
    whatever cannot be read beside it was never acknowledged.
    """
    lineage = layout.lance_branch(branch)
    while True:
        try:
            head = heads.current(branch)
            known = hinted_version(kernel.objects, layout.MANIFEST, lineage)
            if known is not None and known > head.manifest_version:
                # A power cut took it; when its sidecar is gone, nothing else would explain that.
                kernel.objects.delete(layout.version_hint(layout.MANIFEST, lineage))
            return head
        except DamagedError:
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
        return settle(kernel, sidecar, head, "NothingToDo")
    if find_commit(head.handle, recovery_id(sidecar.operation_id)) is not None:
        return settle(kernel, sidecar, head, "AlreadyRecovered")
    if sidecar.commit is not None and find_commit(head.handle, sidecar.commit.id) is not None:
        sync_versions(kernel, [head.handle])
        publish_outcome(kernel, heads, head, sidecar, "RolledForward", Changes(), [])
        return settle(kernel, sidecar, head, "RolledForward", published=True)
    if sidecar.branch_tag not in (None, branch_tag(kernel, sidecar.branch)):
        # Its branch was deleted; this one only has the same name.
        publish_outcome(kernel, heads, head, sidecar, "OrphanedBranchDiscarded", Changes(), [])
        return settle(kernel, sidecar, head, "OrphanedBranchDiscarded")
    findings = [examine(kernel, head, table, sidecar.writer_kind) for table in sidecar.tables]
    shown = {finding.evidence for finding in findings}
    if findings and shown == {Evidence.ROLLED_PAST}:
        return roll_forward(kernel, heads, head, sidecar, findings)
    if sidecar.commit is None and _is_stale(findings):
        outcomes = [
            outcome_row(f.table.table_key, f.table.expected_version, f.pin) for f in findings
        ]
        publish_outcome(kernel, heads, head, sidecar, "RolledForward", Changes(), outcomes)
        return settle(kernel, sidecar, head, "RolledForward", published=True)
    if not full:
        kernel.counters.add("deferred_sidecars")
        log.warning("sidecar %s needs a roll-back; left for the next writer", sidecar.name)
        return None
    return roll_back(kernel, heads, head, sidecar, findings, lock)


def _is_stale(findings: Sequence[Examined]) -> bool:
    """Whether everything was published before the sidecar could be deleted."""
    unmoved = all(finding.evidence is Evidence.NO_MOVEMENT for finding in findings)
    return unmoved and any(f.pin > f.table.expected_version for f in findings)


def _discard_orphans(kernel: Kernel, heads: Heads, gone: set[OperationId]) -> list[Recovered]:
    """Settle sidecars of a branch that was deleted: nothing of it can be published.

    Only those that were there before the branch was found missing: by now there may be another
    one of its name, with writers of its own.
    """
    done = []
    with kernel.locks.try_hold(branch_lock_name(layout.MAIN), "recovery") as lock:
        if lock is None:
            return []
        for sidecar in list_sidecars(kernel.objects):
            if sidecar.operation_id not in gone:
                continue
            lock.check()
            head = heads.current(layout.MAIN)
            if find_commit(head.handle, recovery_id(sidecar.operation_id)) is None:
                publish_outcome(
                    kernel, heads, head, sidecar, "OrphanedBranchDiscarded", Changes(), []
                )
            done.append(settle(kernel, sidecar, head, "OrphanedBranchDiscarded"))
    return done


def _report_age(kernel: Kernel, pending: Sequence[Sidecar]) -> None:
    now_us = kernel.clock.now_us()
    oldest = min((sidecar.started_at_us for sidecar in pending), default=now_us)
    kernel.counters.set("pending_sidecars", len(pending))
    kernel.counters.set("oldest_sidecar_age_s", (now_us - oldest) // 1_000_000)

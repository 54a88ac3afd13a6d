"""Removing what nobody needs: old versions, forks without a branch, files of dead writes.

Fails closed: what cannot be read counts as needed. Nothing younger than the retention floor,
nothing a live branch, a pin or a sidecar names, and never the newest versions. One graph-wide
refs lock keeps branches from being made from what is being removed.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from omnigraph.api.progress import Progress, listening
from omnigraph.api.upkeep import CleanupStats
from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.errors import BadRequestError
from omnigraph.storage.branches.dependents import UNREADABLE
from omnigraph.storage.branches.lifecycle import live_branches, lost_branches
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import drop_expired_pins
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import REFS_LOCK, branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.projections import PROJECTIONS
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.compact import remove_versions
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.fork import (
    delete_branch,
    list_branches,
    readable_branches,
    retire_fork,
    set_ref_aside,
    torn_refs,
)
from omnigraph.storage.tables.versions import kept_from, note_kept_from
from omnigraph.storage.upkeep.needed import (
    Lineage,
    Needed,
    cutoff_us,
    keep_branch,
    keep_pending,
    live_tables,
    needed_versions,
)
from omnigraph.storage.upkeep.orphans import collect_datasets, collect_files, drop_old_staging

log = logging.getLogger(__name__)
__all__ = [
    "CleanupPolicy",
    "CleanupStats",
    "clean_manifest",
    "clean_projections",
    "clean_table_versions",
    "cleanup",
]

BETWEEN_TABLES = register("cleanup.between_tables", "one table is cleaned, the next is not")
AFTER_NOTE = register(
    "cleanup.after_note", "it is noted which manifest versions go; none is removed"
)
BEFORE_FORKS = register("cleanup.before_forks", "versions are cleaned; dead forks remain")

_STEP_VERSIONS = 256
_MOST_VERSIONS = 2**53
"""Beyond it JSON, in which servers are asked and answer, has no exact number."""
_OLDEST_S = 10**10
"""Some three centuries; not much further back there is no date."""


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """What may go: versions beyond the newest `keep_versions` *and* older than `older_than_s`."""

    keep_versions: int | None = None
    older_than_s: float | None = None


def cleanup(
    kernel: Kernel,
    heads: Heads,
    policy: CleanupPolicy,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[CleanupStats]:
    """Remove old versions, dead forks and orphaned files of every table.

    A table that cannot be read is left as it is, and told of. `progress` hears about tables.

    Raises:
        BadRequestError: the policy says nothing, or nonsense.
    """
    if policy.keep_versions is None and policy.older_than_s is None:
        raise BadRequestError(
            "cleanup requires at least one of --keep or --older-than",
            hint="say what may be removed: by number, by age, or by both",
        )
    _check_policy(policy)
    told = listening(progress)
    done: list[CleanupStats] = []
    left: list[CleanupStats] = []
    with kernel.locks.hold(REFS_LOCK, "cleanup") as lock:
        if lost := lost_branches(kernel):
            raise DamagedError(
                f"the ref of branch '{lost[0]}' is lost, and cleanup would take its tables",
                hint=f"restore '{layout.branch_ref(layout.MANIFEST, lost[0])}' from a backup; only "
                f"to give it up, remove '{layout.lineage(layout.MANIFEST, lost[0])}'",
            )
        if not dry_run:
            drop_expired_pins(kernel.objects, kernel.store_clock)
        tables = live_tables(kernel, heads)
        locations = sorted(tables)
        needed = needed_versions(kernel, heads)
        told.stage("looking through tables", len(locations))
        for location in locations:
            try:
                done += _clean_table(kernel, heads, location, needed, policy, lock, dry_run=dry_run)
            except UNREADABLE as error:
                left.append(CleanupStats(location, None, 0, 0, error=error.message))
                log.warning("cleanup left %s as it is: %s", location, error)
            told.done(0, 0)
            failpoint(BETWEEN_TABLES)
        failpoint(BEFORE_FORKS)
        whole = sorted({*locations} - {stats.location for stats in left})
        done += _reclaim_forks(kernel, heads, whole, needed, lock, dry_run=dry_run)
        lock.check()
        done += collect_datasets(kernel, heads, policy.older_than_s or 0.0, dry_run=dry_run)
        if not dry_run:
            _drop_unused_origins(kernel, lock)
            drop_old_staging(kernel)
    found = [stats for stats in done if stats.versions_removed or stats.bytes_removed] + left
    return [replace(stats, table_key=tables.get(stats.location)) for stats in found]


def _clean_table(
    kernel: Kernel,
    heads: Heads,
    location: str,
    needed: Needed,
    policy: CleanupPolicy,
    lock: HeldLock,
    *,
    dry_run: bool,
) -> Iterator[CleanupStats]:
    """Remove old versions and orphaned files of one dataset."""
    lock.check()
    if not dry_run:
        _heal_refs(kernel, heads, location)
    refs = list_branches(kernel.objects, location)
    keep_pending(kernel, needed)
    kept = needed.about(location, refs)
    for branch in (None, *sorted(refs)):
        removed = freed = 0
        while step := _clean_lineage(
            kernel, (location, branch), kept, policy, lock, dry_run=dry_run
        ):
            removed, freed = removed + step.versions_removed, freed + step.bytes_removed
            if dry_run or step.versions_removed < _STEP_VERSIONS:
                break
            keep_pending(kernel, needed)  # whoever pins a past state waits for no lock
            kept = needed.about(location, refs)
        yield CleanupStats(location, branch, removed, freed)
    lock.check()
    yield from collect_files(kernel, location, refs, dry_run=dry_run)


def _check_policy(policy: CleanupPolicy) -> None:
    kept, age = policy.keep_versions, policy.older_than_s
    if kept is not None and not 0 <= kept <= _MOST_VERSIONS:
        raise BadRequestError(
            f"cannot keep {kept} versions", hint=f"say 0 or more, up to {_MOST_VERSIONS}"
        )
    if age is not None and not 0 <= age <= _OLDEST_S:
        raise BadRequestError(
            f"{age} seconds is not an age", hint=f"say 0 or more, up to {_OLDEST_S}"
        )


def _heal_refs(kernel: Kernel, heads: Heads, location: str) -> None:
    """Set aside refs of forks that were cut off half made; one in use is a case for a human."""
    for name in torn_refs(kernel.objects, location):
        owner = layout.fork_owner(name)
        for branch in live_branches(kernel):
            try:
                used = any(
                    (table.location, table.branch) == (location, name)
                    for table in heads.current(branch).tables.values()
                )
            except UNREADABLE:
                used = branch == owner  # nobody else names a fork that was not acknowledged
            if used:
                raise DamagedError(
                    f"the ref of {location} '{name}' is torn, and '{branch}' uses it"
                )
        set_ref_aside(kernel.objects, location, name)


def clean_manifest(kernel: Kernel, heads: Heads, branch: BranchName) -> int:
    """Remove old versions of `__manifest` itself; return how many.

    Nothing reads them: the past is rebuilt from rows of the current one. Removing any of them
    costs as much as there are, so they go in batches that are a fair part of all.
    """
    if not _enough_is_due(kernel, heads.current(branch)):
        return 0
    with kernel.locks.try_hold(REFS_LOCK, "cleanup") as lock:
        if lock is None:
            return 0
        lineage = (layout.MANIFEST, layout.lance_branch(branch))
        needed = Needed()
        for ref in readable_branches(kernel.objects, layout.MANIFEST).values():
            if ref is None:
                return 0  # it may rest on any version
            needed.keep(layout.MANIFEST, ref.parent, ref.parent_version)
        policy = CleanupPolicy(kernel.options.retention.manifest_versions, older_than_s=0)
        due, _ = _due_versions(kernel, lineage, needed, policy)
        unbroken = _unbroken(kernel, lineage, due)
        note_kept_from(kernel.objects, *lineage, unbroken, kernel.identity.uuid)
        failpoint(AFTER_NOTE)
        if not due:
            return 0
        newest = kernel.tables.open_latest(*lineage)
        lock.check()
        removed, _ = remove_versions(kernel.tables, newest, due)
    kernel.counters.add("versions_removed", removed)
    return removed


def _enough_is_due(kernel: Kernel, head: Head) -> bool:
    """Whether a batch of manifest versions may go, judged by one of them."""
    lineage = (layout.MANIFEST, layout.lance_branch(head.branch))
    retention = kernel.options.retention
    first = max(kept_from(kernel.objects, *lineage), 1)
    last = head.manifest_version - retention.manifest_versions
    batch = max(retention.manifest_versions, (last - first) // 4)
    if first + batch > last:
        return first > head.manifest_version  # a torn note; it is written anew
    successor = kernel.objects.info(layout.version_file(*lineage, first + batch + 1))
    # On a branch versions start where it was made; the first ones are those of its parent.
    return successor is None or successor.modified_us <= cutoff_us(kernel, retention.floor_s)


def _unbroken(kernel: Kernel, lineage: Lineage, due: Iterable[int]) -> int:
    """Return from which version on all versions will be there when the due ones are gone."""
    left = sorted(set(kernel.tables.version_numbers(*lineage)) - set(due))
    start = len(left) - 1
    while start and left[start - 1] == left[start] - 1:
        start -= 1
    return left[start]


def clean_projections(kernel: Kernel) -> int:
    """Remove old versions of the projections; return how many."""
    policy = CleanupPolicy(keep_versions=kernel.options.retention.newest_versions)
    removed = 0
    for projection in PROJECTIONS:
        lineage = (projection.location, None)
        done = _clean_lineage(kernel, lineage, Needed(), policy, None, dry_run=False)
        removed += 0 if done is None else done.versions_removed
    return removed


def clean_table_versions(
    kernel: Kernel, heads: Heads, branch: BranchName, key: TableKey
) -> list[CleanupStats]:
    """Keep one table within the retention that was configured, if any was."""
    retention = kernel.options.retention
    if retention.keep_versions is None and retention.keep_s is None:
        return []
    with kernel.locks.try_hold(REFS_LOCK, "cleanup") as lock:
        if lock is None:
            return []
        table = heads.current(branch).tables.get(key)
        if table is None or layout.fork_owner(table.branch) != branch:
            return []
        if lost := lost_branches(kernel):
            log.warning("old versions stay: the ref of branch '%s' is lost", lost[0])
            return []
        refs = list_branches(kernel.objects, table.location)
        needed = needed_versions(kernel, heads).about(table.location, refs)
        policy = CleanupPolicy(retention.keep_versions, retention.keep_s)
        lineage = (table.location, table.branch)
        done = _clean_lineage(kernel, lineage, needed, policy, lock, dry_run=False)
        return [] if done is None else [done]


def _clean_lineage(
    kernel: Kernel,
    lineage: Lineage,
    needed: Needed,
    policy: CleanupPolicy,
    lock: HeldLock | None,
    *,
    dry_run: bool,
) -> CleanupStats | None:
    """Remove versions of one branch of a dataset, a bounded step; None if none may go."""
    location, branch = lineage
    due, size = _due_versions(kernel, lineage, needed, policy)
    if not due:
        return None
    if dry_run:
        return CleanupStats(location, branch, len(due), size)
    newest = kernel.tables.open_latest(location, branch)
    if lock is not None:
        lock.check()
    removed, freed = remove_versions(kernel.tables, newest, due[:_STEP_VERSIONS])
    kernel.counters.add("versions_removed", removed)
    return CleanupStats(location, branch, removed, freed)


def _due_versions(
    kernel: Kernel, lineage: Lineage, needed: Needed, policy: CleanupPolicy
) -> tuple[list[int], int]:
    """Return the versions that may go, oldest first, and the size of their manifests.

    A version's age counts from when it was *superseded*: until then anyone may have started to
    read it.
    """
    folder = f"{layout.lineage(*lineage)}/{layout.VERSIONS_DIR}"
    files = {
        version: info
        for info in kernel.objects.list(folder)
        if (version := layout.version_of_file(info.name)) is not None
    }
    versions = sorted(files)
    retention = kernel.options.retention
    keep = max(policy.keep_versions or 0, retention.newest_versions)
    age_s = max(policy.older_than_s or 0.0, retention.floor_s)
    cutoff = cutoff_us(kernel, age_s)
    held = needed.versions.get(lineage, set())
    from_here = needed.floors.get(lineage)
    due = [
        version
        for version, successor in itertools.pairwise(versions)
        if version not in held
        and (from_here is None or version < from_here)
        and files[successor].modified_us <= cutoff
    ]
    due = [version for version in due if version <= versions[-1] - keep]
    return due, sum(files[version].size for version in due)


def _reclaim_forks(
    kernel: Kernel,
    heads: Heads,
    locations: list[str],
    needed: Needed,
    refs_lock: HeldLock,
    *,
    dry_run: bool,
) -> list[CleanupStats]:
    """Remove forks that no branch, pin, sidecar or other fork rests on, past the floor."""
    cutoff = cutoff_us(kernel, kernel.options.retention.floor_s)
    done = []
    for location in locations:
        refs = list_branches(kernel.objects, location)
        # Children first: a fork whose only user goes away can go in the same pass.
        for name in sorted(_fork_names(kernel, location) | set(refs), key=len, reverse=True):
            files = kernel.objects.list(f"{layout.lineage(location, name)}")
            own = [info for info in files if _is_own_file(info.name, location, name)]
            if any(other.startswith(f"{name}/") and layout.lies_inside(other) for other in refs):
                continue  # a branch from before such names were refused lies in its folders
            if not own or max(info.modified_us for info in own) > cutoff:
                continue
            with kernel.locks.try_hold(
                branch_lock_name(layout.fork_owner(name)), "cleanup"
            ) as lock:
                if lock is None or _fork_in_use(kernel, heads, needed, (location, name)):
                    continue
                if not dry_run:
                    refs_lock.check()
                    lock.check()
                    retire_fork(kernel.tables, location, name)
            size = sum(info.size for info in own)
            done.append(CleanupStats(location, name, 0, size, "fork"))
    return done


def _fork_names(kernel: Kernel, location: str) -> set[str]:
    """Return every branch a dataset has files of, with or without a ref."""
    root = f"{location}/{layout.TREE_DIR}/"
    marker = f"/{layout.VERSIONS_DIR}/"
    return {
        info.name.removeprefix(root).rpartition(marker)[0]
        for info in kernel.objects.list(root.rstrip("/"))
        if marker in info.name
    }


def _is_own_file(name: str, location: str, branch: str) -> bool:
    inside = name.removeprefix(f"{layout.lineage(location, branch)}/")
    return inside.partition("/")[0] in layout.DATASET_DIRS


def _fork_in_use(kernel: Kernel, heads: Heads, needed: Needed, fork: tuple[str, str]) -> bool:
    """Whether anything rests on a fork; we hold the lock of its branch, which may have made it."""
    location, name = fork
    owner = layout.fork_owner(name)
    if needed.everything or owner in needed.unreadable:
        return True
    if kernel.objects.exists(layout.branch_ref(layout.MANIFEST, owner)):
        keep_branch(heads, owner, needed)
    keep_pending(kernel, needed)
    based = any(ref.parent == name for ref in list_branches(kernel.objects, location).values())
    return based or fork in needed.versions or fork in needed.floors


def _drop_unused_origins(kernel: Kernel, lock: HeldLock) -> None:
    """Remove hidden branches that carried a branch from an old commit and have no child."""
    refs = readable_branches(kernel.objects, layout.MANIFEST)
    if None in refs.values():
        return  # it may have come from any of them
    parents = {ref.parent for ref in refs.values() if ref is not None}
    for name in sorted(refs):
        if layout.is_origin(name) and name not in parents:
            lock.check()
            delete_branch(kernel.tables, layout.MANIFEST, name)

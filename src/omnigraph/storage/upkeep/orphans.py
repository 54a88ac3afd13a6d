"""What no graph knows any more: files of dead writes, datasets of dropped or unborn tables.

Nothing names these, so only time tells them from work in progress: they go when they are older
than any write may take, and dropped tables when no snapshot that retention promises can want
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.api.upkeep import CleanupStats
from omnigraph.base.failpoints import failpoint, register
from omnigraph.storage.branches.lifecycle import live_branches
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import being_loaded, live_pins
from omnigraph.storage.files.sidecar import list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.history import dropped_locations
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.compact import referenced_files
from omnigraph.storage.upkeep.needed import cutoff_us, needed_versions

BEFORE_RETIRE = register(
    "cleanup.before_dataset", "a dataset is marked as used up; its files still exist"
)


def unreferenced_datasets(kernel: Kernel, heads: Heads) -> list[str]:
    """Return the datasets that no live branch, pin, load or write under way names.

    None while a branch cannot be read: it may have made them.
    """
    found = needed_versions(kernel, heads)
    if found.unreadable:
        return []
    needed = found.locations()
    return [
        location
        for room in layout.TABLE_ROOMS
        for location in kernel.objects.folders(room)
        if location not in needed and kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}")
    ]


def collect_datasets(
    kernel: Kernel, heads: Heads, older_than_s: float, *, dry_run: bool
) -> list[CleanupStats]:
    """Remove datasets of tables that were dropped, or never published, long enough ago.

    Their places are marked as used up: history names rows by place and version, and must never
    find other rows there.
    """
    retention = kernel.options.retention
    kept_s = max(retention.orphan_age_s, retention.floor_s, older_than_s)
    cutoff = cutoff_us(kernel, kept_s)
    unused = unreferenced_datasets(kernel, heads)
    dropped = _dropped(kernel, heads) if unused else {}
    done = []
    for location in unused:
        files = kernel.objects.list(location)
        newest = max(info.modified_us for info in files)
        if max(newest, dropped.get(location, newest)) > cutoff:
            continue
        if not dry_run:
            _retire(kernel, location)
        size = sum(info.size for info in files)
        done.append(CleanupStats(location, None, 0, size, "dataset"))
    return done


def _dropped(kernel: Kernel, heads: Heads) -> dict[str, int]:
    """Return when each location was last dropped from a live branch."""
    latest: dict[str, int] = {}
    for branch in live_branches(kernel):
        for location, at_us in dropped_locations(heads.current(branch)).items():
            latest[location] = max(at_us, latest.get(location, 0))
    return latest


def _retire(kernel: Kernel, location: str) -> None:
    kernel.tables.forget(location)
    kernel.objects.put(layout.retired_marker(location, None), b"")
    failpoint(BEFORE_RETIRE)
    for folder in (layout.TREE_DIR, "_refs", *reversed(layout.DATASET_DIRS)):
        kernel.objects.delete_prefix(f"{location}/{folder}")


def collect_files(
    kernel: Kernel, location: str, refs: Iterable[str], *, dry_run: bool
) -> list[CleanupStats]:
    """Remove data files that no version uses and that are too old to belong to a write."""
    cutoff = cutoff_us(kernel, kernel.options.retention.orphan_age_s)
    loading = being_loaded(live_pins(kernel.objects, kernel.store_clock))
    done = []
    for branch in (None, *sorted(refs)):
        if (location, branch) in loading:
            continue  # its tasks write files that nothing names yet
        home = layout.lineage(location, branch)
        old = [
            info
            for folder in (layout.DATA_DIR, layout.DELETIONS_DIR)
            for info in kernel.objects.list(f"{home}/{folder}")
            if info.modified_us <= cutoff
        ]
        if not old:
            continue
        used = _used_anywhere(kernel, location, [None, *refs])
        lost = [info for info in old if _owner(info.name.removeprefix(f"{home}/")) not in used]
        if lost:
            if not dry_run:
                kernel.objects.delete(*(info.name for info in lost))
            size = sum(info.size for info in lost)
            done.append(CleanupStats(location, branch, 0, size, "orphans"))
    return done


def _owner(name: str) -> str:
    """Return the data file a file belongs to: large blobs lie in a folder named after theirs."""
    parts = name.split("/")
    return name if len(parts) == 2 else f"{parts[0]}/{parts[1]}.lance"


def _used_anywhere(kernel: Kernel, location: str, branches: Iterable[str | None]) -> set[str]:
    """Return every file that some version of some lineage uses; names are unique."""
    used: set[str] = set()
    for branch in branches:
        folder = f"{layout.lineage(location, branch)}/{layout.VERSIONS_DIR}"
        for info in kernel.objects.list(folder):
            version = layout.version_of_file(info.name)
            if version is not None:
                used |= referenced_files(kernel.tables, location, branch, version)
    return used


def drop_old_staging(kernel: Kernel) -> None:
    """Remove staged files whose operation is neither pending nor young."""
    pending: set[str | None] = {part.operation_id for part in list_sidecars(kernel.objects)}
    pending |= {pin.load for pin in live_pins(kernel.objects, kernel.store_clock)}
    cutoff = cutoff_us(kernel, kernel.options.retention.orphan_age_s)
    for info in kernel.objects.list(layout.STAGING_DIR):
        if info.name.startswith(f"{layout.BRANCH_INTENTS}/"):
            continue  # an open for writing settles these
        operation = info.name.split("/")[1]
        if operation not in pending and info.modified_us <= cutoff:
            kernel.objects.delete(info.name)

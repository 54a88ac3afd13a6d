"""What must stay, whatever cleanup is asked to do.

What cannot be read stops cleanup: what nobody can see may still be needed. Branches are read
once, under the refs lock: from then on they only come to name versions that are newer than all
there were, or forks of their own. Removes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.base.ids import BranchName
from omnigraph.storage.branches import live_branches
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.pins import being_loaded, live_pins
from omnigraph.storage.sidecar import list_sidecars
from omnigraph.storage.snapshot import Heads
from omnigraph.storage.tables.fork import BranchRef

Lineage = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """What cleanup removed, or would remove, of one lineage of one dataset."""

    location: str
    branch: str | None
    versions_removed: int
    bytes_removed: int
    what: str = "versions"


@dataclass(slots=True)
class Needed:
    """Versions that must stay, per lineage, and forks that must stay whole."""

    versions: dict[Lineage, set[int]] = field(default_factory=dict)
    floors: dict[Lineage, int] = field(default_factory=dict)
    """Every version from here on stays, for writes that are under way."""

    def keep(self, location: str, branch: str | None, version: int) -> None:
        """Keep one version."""
        self.versions.setdefault((location, branch), set()).add(version)

    def keep_from(self, location: str, branch: str | None, version: int) -> None:
        """Keep every version from this one on."""
        known = self.floors.get((location, branch), version)
        self.floors[location, branch] = min(known, version)

    def about(self, location: str, refs: Mapping[str, BranchRef]) -> Needed:
        """Return what must stay of one dataset, with the versions its forks rest on."""
        part = Needed()
        for branch in (None, *refs):
            lineage = (location, branch)
            part.versions[lineage] = set(self.versions.get(lineage, ()))
            if lineage in self.floors:
                part.floors[lineage] = self.floors[lineage]
        for ref in refs.values():
            part.keep(location, ref.parent, ref.parent_version)
        return part

    def locations(self) -> set[str]:
        """Return the datasets of which anything must stay."""
        return {location for location, _ in (*self.versions, *self.floors)}


def needed_versions(kernel: Kernel, heads: Heads) -> Needed:
    """Return what branches, pins, loads and pending writes name; any failure stops cleanup."""
    needed = Needed()
    for branch in live_branches(kernel):
        keep_branch(heads, branch, needed)
    keep_pending(kernel, needed)
    return needed


def keep_branch(heads: Heads, branch: BranchName, needed: Needed) -> None:
    """Keep what a branch names now."""
    for table in heads.current(branch).tables.values():
        needed.keep(table.location, table.branch, table.version)


def keep_pending(kernel: Kernel, needed: Needed) -> None:
    """Keep what long reads and loads name, and what unfinished writes rest on and have made.

    Asked again before every dataset: whoever pins a past state waits for no lock.
    """
    pins = live_pins(kernel.objects, kernel.clock)
    for pin in pins:
        for version, branch_name, _, location in pin.tables.values():
            needed.keep(location, branch_name, version)
    for (location, branch_name), version in being_loaded(pins).items():
        needed.keep_from(location, branch_name, version)
    for sidecar in list_sidecars(kernel.objects):
        for moving in sidecar.tables:
            needed.keep_from(moving.location, moving.table_branch, moving.expected_version)
        for made in sidecar.changes.registered:
            needed.keep_from(made.location, made.branch, 0)


def live_locations(kernel: Kernel, heads: Heads) -> set[str]:
    """Return the datasets of all tables any live branch has."""
    return {
        table.location
        for branch in live_branches(kernel)
        for table in heads.current(branch).tables.values()
    }


def cutoff_us(kernel: Kernel, age_s: float) -> int:
    """Return the moment that was `age_s` ago."""
    return kernel.clock.now_us() - int(age_s * 1e6)

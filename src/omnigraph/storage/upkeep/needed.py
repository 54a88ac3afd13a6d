"""What must stay, whatever cleanup is asked to do.

What nobody can see may still be needed: of a branch that cannot be read all stays that it may
name, and what else cannot be read stops cleanup. Branches are read once, under the refs lock: from
then on they only come to name versions that are newer than all there were, or forks of their own.
Removes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.storage.branches.dependents import UNREADABLE
from omnigraph.storage.branches.lifecycle import live_branches
from omnigraph.storage.branches.tags import list_tags
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import being_loaded, live_pins
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.files.sidecar import list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.ancestry import merge_bases_of_all
from omnigraph.storage.manifest.history import line_commit, tables_at
from omnigraph.storage.manifest.merging import merged_snapshot
from omnigraph.storage.manifest.rows import Head, read_head
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.fork import BranchRef, find_branch

log = logging.getLogger(__name__)
Lineage = tuple[str, str | None]


@dataclass(slots=True)
class Needed:
    """Versions that must stay, per lineage, and forks that must stay whole."""

    versions: dict[Lineage, set[int]] = field(default_factory=dict)
    floors: dict[Lineage, int] = field(default_factory=dict)
    """Every version from here on stays, for writes that are under way."""
    unreadable: set[BranchName] = field(default_factory=set)
    """Branches of which nobody can say what they name; their forks and new tables stay."""
    everything: bool = False
    """Nothing may go: it is not even known where such a branch came from."""

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
            if self.everything or (branch and layout.fork_owner(branch) in self.unreadable):
                part.keep_from(location, branch, 0)
        for ref in refs.values():
            part.keep(location, ref.parent, ref.parent_version)
        return part

    def locations(self) -> set[str]:
        """Return the datasets of which anything must stay."""
        return {location for location, _ in (*self.versions, *self.floors)}


def needed_versions(kernel: Kernel, heads: Heads) -> Needed:
    """Return what branches, pins, loads and pending writes name.

    Raises:
        FormatError: main, a pin or a sidecar cannot be read.
    """
    needed = Needed()
    for branch in live_branches(kernel):
        try:
            keep_branch(heads, branch, needed)
        except UNREADABLE as error:
            if branch == layout.MAIN:
                raise
            log.warning("keeping all that branch '%s' may name: %s", branch, error)
            _keep_unreadable(kernel, branch, needed)
    _keep_merge_bases(kernel, heads, needed)
    keep_pending(kernel, needed)
    return needed


def _keep_merge_bases(kernel: Kernel, heads: Heads, needed: Needed) -> None:
    """Keep the states that merges between live branches will start from.

    They may be old: two branches may go their own ways for years. What a branch that cannot be read
    would need is kept with all it may name.
    """
    names = [branch for branch in live_branches(kernel) if branch not in needed.unreadable]
    readable = [heads.current(branch) for branch in names]
    try:
        parents = heads.ancestries.together(*readable)
    except UNREADABLE:
        readable = [head for head in readable if _has_history(kernel, heads, head, needed)]
        parents = heads.ancestries.together(*readable)
    if len(readable) < 2:
        return
    heads_now = {head.commit_id for head in readable}
    bases = merge_bases_of_all(parents, heads_now)
    while deeper := merge_bases_of_all(parents, bases) - bases:
        bases |= deeper  # several bases are themselves merged, from where they began
    for base in sorted(bases - heads_now):
        for table in _tables_of(kernel, heads, readable, base).values():
            needed.keep(table.location, table.branch, table.version)


def _has_history(kernel: Kernel, heads: Heads, head: Head, needed: Needed) -> bool:
    """Whether the commits of a branch can be read; of one whose cannot, all it may name is kept."""
    try:
        heads.ancestries.of(head)
    except UNREADABLE as error:
        if head.branch == layout.MAIN:
            raise
        log.warning("keeping all that branch '%s' may name: %s", head.branch, error)
        _keep_unreadable(kernel, head.branch, needed)
        return False
    return True


def _tables_of(
    kernel: Kernel, heads: Heads, readable: Sequence[Head], commit_id: CommitId
) -> Mapping[TableKey, TableVersion]:
    """Return the tables of a commit that some branch knows the state of."""
    for head in readable:
        if commit_id not in heads.ancestries.of(head):
            continue
        found = line_commit(head, commit_id)
        if found is not None:
            return tables_at(head, found.sequence)
        merged = merged_snapshot(kernel, heads.ancestries, head, commit_id)
        if merged is not None:
            return merged.tables
    return {}  # merged by a program that did not say; a merge from there is refused


def _keep_unreadable(kernel: Kernel, branch: BranchName, needed: Needed) -> None:
    """Keep what a branch was made with; since then it only came to name what is its own."""
    needed.unreadable.add(branch)
    try:
        ref = find_branch(kernel.objects, layout.MANIFEST, branch)
        if ref is None:
            return  # deleted meanwhile
        origin = kernel.tables.open(layout.MANIFEST, ref.parent, ref.parent_version)
        first = read_head(origin, branch)
    except UNREADABLE:
        needed.everything = True
        return
    for table in first.tables.values():
        needed.keep(table.location, table.branch, table.version)


def keep_branch(heads: Heads, branch: BranchName, needed: Needed) -> None:
    """Keep what a branch names now."""
    for table in heads.current(branch).tables.values():
        needed.keep(table.location, table.branch, table.version)


def keep_pending(kernel: Kernel, needed: Needed) -> None:
    """Keep what long reads and loads name, and what unfinished writes rest on and have made.

    Asked again before every dataset: whoever pins a past state waits for no lock.
    """
    pins = live_pins(kernel.objects, kernel.store_clock)
    for pin in pins:
        for version, branch_name, _, location in pin.tables.values():
            needed.keep(location, branch_name, version)
    for (location, branch_name), version in being_loaded(pins).items():
        needed.keep_from(location, branch_name, version)
    for tag in list_tags(kernel):
        for table in tag.table_versions().values():
            needed.keep(table.location, table.branch, table.version)
    for sidecar in list_sidecars(kernel.objects):
        for moving in sidecar.tables:
            needed.keep_from(moving.location, moving.table_branch, moving.expected_version)
        for made in sidecar.changes.registered:
            needed.keep_from(made.location, made.branch, 0)


def live_tables(kernel: Kernel, heads: Heads) -> dict[str, TableKey]:
    """Return the datasets that any live branch has as a table, as far as that can be read.

    Where branches call one differently, the first of them, main before all, says its key.
    """
    found: dict[str, TableKey] = {}
    for branch in live_branches(kernel):
        try:
            for table in heads.current(branch).tables.values():
                found.setdefault(table.location, table.key)
        except UNREADABLE:
            if branch == layout.MAIN:
                raise
    return found


def cutoff_us(kernel: Kernel, age_s: float) -> int:
    """Return the moment that was `age_s` ago, by the clock that dates files."""
    return kernel.store_clock.now_us() - int(age_s * 1e6)

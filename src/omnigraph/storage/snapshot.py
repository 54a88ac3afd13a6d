"""Snapshots: one immutable view of every table, and the heads they are taken from.

`Heads` keeps the newest known head of each branch warm and asks one flat question before using
it: was a newer version committed? A snapshot never changes and never looks at the head again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import NotFoundError
from omnigraph.storage import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.legacy import derive_state
from omnigraph.storage.manifest import (
    NO_ADDRESS,
    STAMP,
    Head,
    open_manifest,
    read_head,
    stamp_of,
    with_place,
)
from omnigraph.storage.objects import Mark
from omnigraph.storage.pins import Pin, create_pin
from omnigraph.storage.records import TableVersion
from omnigraph.storage.sidecar import list_sidecars
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.scan import Reader
from omnigraph.storage.tables.versions import kept_from


class BranchNotFoundError(NotFoundError):
    """There is no branch of that name."""

    def __init__(self, branch: str) -> None:
        self.branch = branch
        super().__init__(f"branch '{branch}' not found", hint="list the branches")


class TableNotFoundError(NotFoundError):
    """The snapshot has no table of that key."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every table of the graph at one commit."""

    kernel: Kernel = field(repr=False, compare=False)
    branch: BranchName
    commit_id: CommitId
    logical_commit_id: CommitId
    sequence: int
    manifest_version: int
    tables: Mapping[TableKey, TableVersion]
    files: Mapping[str, str]
    incarnation: str = ""

    def table(self, key: str) -> TableVersion:
        """Return where the rows of a table are."""
        found = self.tables.get(TableKey(key))
        if found is None:
            raise TableNotFoundError(
                f"there is no table '{key}' at commit {self.commit_id}",
                hint=f"the tables are {', '.join(self.tables) or 'none'}",
            )
        return found

    def open(self, key: str) -> Reader:
        """Return a reader of one table, at exactly this snapshot's version."""
        return Reader(self.handle(key))

    def handle(self, key: str) -> Handle:
        """Return the dataset of one table, for staging writes on top of it."""
        table = self.table(key)
        return self.kernel.tables.open(table.location, table.branch, table.version)

    def pin(self, ttl_s: float = 3600.0) -> Pin:
        """Keep this snapshot readable, whatever is cleaned or deleted, until released."""
        return create_pin(
            self.kernel.objects,
            self.kernel.clock,
            self.kernel.ulids,
            branch=self.branch,
            commit_id=self.commit_id,
            tables={key: table.as_list() for key, table in self.tables.items()},
            ttl_s=ttl_s,
        )


def snapshot_of(kernel: Kernel, head: Head) -> Snapshot:
    """Return the snapshot a head states."""
    return Snapshot(
        kernel,
        head.branch,
        head.commit_id,
        head.logical_id,
        head.sequence,
        head.manifest_version,
        head.tables,
        head.files,
        head.incarnation,
    )


@dataclass(slots=True)
class _Known:
    """A head, what tells whether it is still the newest, and its snapshot once taken."""

    head: Head
    next_file: str
    note_file: str
    """Where cleanup says from which version on it has kept all."""
    note: Mark | None = None
    kept_from: int = 0
    snapshot: Snapshot | None = None


class Heads:
    """The newest known head of every branch in use.

    A read-only user who finds the newest manifest torn beside a pending sidecar is given the
    one before: what a sidecar still names was never acknowledged.
    """

    def __init__(self, kernel: Kernel, *, read_only: bool = False) -> None:
        self._kernel = kernel
        self._read_only = read_only
        self._lock = threading.Lock()
        self._known: dict[BranchName, _Known] = {}

    def knows(self, branch: str) -> bool:
        """Whether a branch of that name is in use."""
        return branch in self._known

    def snapshot(self, branch: BranchName) -> Snapshot:
        """Return the state of a branch as of now; the same object while nobody moved it."""
        head = self.current(branch)
        known = self._known.get(branch)
        if known is None or known.head is not head:
            return snapshot_of(self._kernel, head)
        if known.snapshot is None:
            known.snapshot = snapshot_of(self._kernel, head)
        return known.snapshot

    def current(self, branch: BranchName) -> Head:
        """Return the head as of now: a few existence tests if nobody moved it.

        Raises:
            BranchNotFoundError: the branch does not exist.
        """
        incarnation = self._incarnation(branch)
        known = self._known.get(branch)
        if known is not None and known.head.incarnation == incarnation and self._is_newest(known):
            return known.head
        return self._read(branch, incarnation)

    def reread(self, branch: BranchName) -> Head:
        """Return the head read from disk, whatever is known."""
        return self._read(branch, self._incarnation(branch))

    def remember(self, head: Head) -> None:
        """Take over a head this process has just published."""
        branch = layout.lance_branch(head.branch)
        known = _Known(
            head,
            layout.version_file(layout.MANIFEST, branch, head.manifest_version + 1),
            layout.kept_from(layout.MANIFEST, branch),
        )
        with self._lock:
            self._known[head.branch] = known

    def inherit(self, head: Head, branch: BranchName, handle: Handle) -> Head:
        """Take over the head of a branch that was just made from another: the same rows."""
        made = replace(head, branch=branch, handle=handle, incarnation=self._incarnation(branch))
        self.remember(made)
        return made

    def forget(self, branch: BranchName) -> None:
        """Drop what is known of a branch."""
        with self._lock:
            self._known.pop(branch, None)

    def _read(self, branch: BranchName, incarnation: str) -> Head:
        head = replace(self._open(branch), branch=branch, incarnation=incarnation)
        self._kernel.objects.settle(_synced_folders(head))
        self.remember(head)
        return head

    def _open(self, branch: BranchName) -> Head:
        handle = self._open_manifest(branch)
        if stamp_of(handle) < STAMP:  # a reader of an old graph; writers upgrade first
            state = derive_state(self._kernel, branch, handle)
            return with_place(state, handle, NO_ADDRESS, "")
        return read_head(handle, branch)

    def _open_manifest(self, branch: BranchName) -> Handle:
        kernel = self._kernel
        try:
            return open_manifest(kernel, branch)
        except DamagedError:
            pending = self._read_only and any(
                sidecar.branch == branch for sidecar in list_sidecars(kernel.objects)
            )
            versions = kernel.tables.version_numbers(layout.MANIFEST, layout.lance_branch(branch))
            if not pending or len(versions) < 2:
                raise
            return kernel.tables.reopen(layout.MANIFEST, layout.lance_branch(branch), versions[-2])

    def _incarnation(self, branch: BranchName) -> str:
        if branch == layout.MAIN:
            return ""
        # What the ref says, not what the disk says of it: a name that is used again may well
        # get the same inode, and on a disk with a coarse clock even the same time.
        ref = self._kernel.objects.find(layout.branch_ref(layout.MANIFEST, branch))
        if ref is None:
            self.forget(branch)
            raise BranchNotFoundError(branch)
        return ref.decode(errors="replace")

    def _is_newest(self, known: _Known) -> bool:
        """A version with none after it is the newest one, unless cleanup has been there.

        That matters to a process that slept through a cleanup: then the *next* version may be
        gone, and even its own may be kept for the sake of a branch.
        """
        objects, head = self._kernel.objects, known.head
        newer, note = objects.marks(known.next_file, known.note_file)
        if newer is not None:
            return False
        if note != known.note:
            branch = layout.lance_branch(head.branch)
            known.kept_from = kept_from(objects, layout.MANIFEST, branch)
            known.note = note
        return head.manifest_version >= known.kept_from


def _synced_folders(head: Head) -> Iterator[str]:
    """Yield directories that were synced, parents included, before this head could exist."""
    homes = {layout.lineage(table.location, table.branch) for table in head.tables.values()}
    for home in (layout.MANIFEST, *homes):
        yield home
        yield f"{home}/{layout.VERSIONS_DIR}"

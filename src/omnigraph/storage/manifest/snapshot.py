"""Snapshots: one immutable view of every table, and the heads they are taken from.

`Heads` keeps the newest known head of each branch warm and asks one flat question before using
it: was a newer version committed? A snapshot never changes and never looks at the head again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.api.history import TableNotFoundError
from omnigraph.base.arguments import text_argument
from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.base.recent import Recent
from omnigraph.errors import NotFoundError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Mark
from omnigraph.storage.files.pins import Pin, create_pin
from omnigraph.storage.files.records import Commit, TableVersion
from omnigraph.storage.files.sidecar import list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.ancestry import Ancestries
from omnigraph.storage.manifest.digests import stated_digests
from omnigraph.storage.manifest.legacy import read_legacy
from omnigraph.storage.manifest.rows import (
    FIRST_WITH_HEADS,
    Head,
    find_commit,
    open_manifest,
    read_head,
    stamp_of,
)
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.scan import Reader
from omnigraph.storage.tables.versions import hinted_version, kept_from

_STATES_KEPT = 64


class BranchNotFoundError(NotFoundError):
    """There is no branch of that name."""

    def __init__(self, branch: str) -> None:
        self.branch = branch
        super().__init__(f"branch '{branch}' not found", hint="list the branches")


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
        found = self.tables.get(TableKey(text_argument(key, "the key of a table")))
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
        table, kernel = self.table(key), self.kernel
        fresh = not kernel.tables.is_open(*table.place)
        opened = kernel.tables.open(*table.place)
        if fresh:
            kernel.identity.check()  # another graph may have a table at the same place
        if kernel.first_reads.is_due(table.place):
            kernel.first_reads.check(opened, self.digests([table.key]))
        return opened

    def digests(self, keys: Iterable[str]) -> dict[str, str]:
        """Return what tells damage in files of some tables, as far as this branch knows it."""
        tables = [self.table(key).key for key in keys]
        try:
            manifest = open_manifest(self.kernel, self.branch)
        except NotFoundError:
            return {}  # the branch was deleted meanwhile
        return {one.name: one.digest for one in stated_digests(manifest, tables)}

    def pin(self, ttl_s: float = 3600.0) -> Pin:
        """Keep this snapshot readable, whatever is cleaned or deleted, until released."""
        return create_pin(
            self.kernel.objects,
            self.kernel.store_clock.for_writing(),  # others will judge by it if it has expired
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
    doubtful: bool = False
    """Whether the note changed under it: a cleanup, or a copy that was put in place. Until the head
    was read again, by whichever call gets that far."""
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
        self._states: Recent[CommitId, Snapshot] = Recent(_STATES_KEPT)
        self.ancestries = Ancestries()

    def knows(self, branch: object) -> bool:
        """Whether something is the name of a branch in use."""
        return isinstance(branch, str) and branch in self._known

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
            GraphReplacedError: the place of this graph holds another one by now.
        """
        incarnation = self.incarnation(branch)
        known = self._known.get(branch)
        if known is not None and known.head.incarnation == incarnation and self._is_newest(known):
            return known.head
        return self._read(branch, incarnation)

    def reread(self, branch: BranchName) -> Head:
        """Return the head read from disk, whatever is known."""
        return self._read(branch, self.incarnation(branch))

    def incarnation(self, branch: BranchName) -> str:
        """Return what tells a branch from others of its name, earlier or later ones.

        Raises:
            BranchNotFoundError: there is no such branch now.
        """
        if branch == layout.MAIN:
            return ""
        # What the ref says, not what the disk says of it: a name that is used again may well
        # get the same inode, and on a disk with a coarse clock even the same time.
        ref = self._kernel.objects.find(layout.branch_ref(layout.MANIFEST, branch))
        if ref is None:
            self._kernel.identity.check()  # else it is not the branch that is missing
            self.forget(branch)
            raise BranchNotFoundError(branch)
        return ref.decode(errors="replace")

    def is_live(self, head: Head) -> bool:
        """Whether a branch is still the one whose head this is: not deleted, nor made again."""
        try:
            return self.incarnation(head.branch) == head.incarnation
        except BranchNotFoundError:
            return False

    def remember(self, head: Head) -> None:
        """Take over a head this process has just published."""
        branch = layout.lance_branch(head.branch)
        known = _Known(
            head,
            layout.version_file(layout.MANIFEST, branch, head.manifest_version + 1),
            layout.kept_from(layout.MANIFEST, branch),
        )
        with self._lock:
            before = self._known.get(head.branch)
            if before is not None and before.head.incarnation == head.incarnation:
                if before.head.manifest_version > head.manifest_version:
                    return  # another thread has seen, or made, a newer one meanwhile
                known.note, known.kept_from = before.note, before.kept_from
            self._known[head.branch] = known

    def published(self, commit: Commit, head: Head) -> None:
        """Take over what this process has just published."""
        self.remember(head)
        self.ancestries.note(commit.id, commit.parents)
        if head.commit_id == commit.id:
            self.keep_state(snapshot_of(self._kernel, head))

    def keep_state(self, state: Snapshot) -> None:
        """Remember what a commit made."""
        self._states.keep(state.commit_id, state)

    def recent_state(self, commit_id: CommitId) -> Snapshot | None:
        """Return what a commit made, if that was seen not long ago and its branch still lives."""
        state = self._states.find(commit_id)
        if state is None:
            return None
        try:
            alive = self.current(state.branch).incarnation == state.incarnation
        except BranchNotFoundError:
            alive = False
        return state if alive else None

    def inherited(self, head: Head, branch: BranchName, handle: Handle) -> Head:
        """Return the head of a branch that was just made from another: the same rows."""
        return replace(head, branch=branch, handle=handle, incarnation=self.incarnation(branch))

    def forget(self, branch: BranchName) -> None:
        """Drop what is known of a branch."""
        with self._lock:
            self._known.pop(branch, None)

    def _read(self, branch: BranchName, incarnation: str) -> Head:
        self._kernel.identity.check()
        before = self._known.get(branch)  # what other threads publish from now on may be newer
        head = replace(self._open(branch), branch=branch, incarnation=incarnation)
        if branch == layout.MAIN:
            self._kernel.identity.learn(head.handle)
        self._require_same_line(before, head)
        self._kernel.objects.count_as_synced(_synced_folders(head))
        self.remember(head)
        return head

    def _require_same_line(self, known: _Known | None, head: Head) -> None:
        """Refuse a graph that was put back to an earlier state under this handle."""
        if known is None or known.head.incarnation != head.incarnation:
            return
        went_back = head.manifest_version < known.head.manifest_version
        if went_back or (known.doubtful and find_commit(head.handle, known.head.commit_id) is None):
            raise self._kernel.identity.lose(
                f"commit {known.head.commit_id} of '{head.branch}' is not there any more"
            )

    def _open(self, branch: BranchName) -> Head:
        lineage = layout.lance_branch(branch)
        known = hinted_version(self._kernel.objects, layout.MANIFEST, lineage)
        handle = self._open_manifest(branch)
        if known is not None and handle.version < known:
            self._explain_loss(branch, handle, known)
        if stamp_of(handle) < FIRST_WITH_HEADS:  # a reader of an old graph; writers upgrade first
            return read_legacy(self._kernel, branch, handle)
        return read_head(handle, branch)

    def _explain_loss(self, branch: BranchName, handle: Handle, known: int) -> None:
        """Return if a version that is gone was never acknowledged; otherwise a commit is lost.

        Raises:
            DamagedError: reading on would show an older state, and writing would bury the loss.
        """
        objects, lineage = self._kernel.objects, layout.lance_branch(branch)
        if objects.exists(layout.torn_file(layout.MANIFEST, lineage, known)):
            return
        if any(sidecar.branch == branch for sidecar in list_sidecars(objects)):
            return
        lost = layout.version_file(layout.MANIFEST, lineage, known)
        if hinted_version(objects, layout.MANIFEST, lineage) != known or objects.exists(lost):
            return  # the branch was made anew, or the version put back, while we looked
        raise DamagedError(
            f"version {known} of the catalog of '{branch}' was committed and is gone; "
            f"the newest one left is {handle.version}",
            hint=f"restore '{lost}' from a backup; only to give up what it held, remove "
            f"'{layout.version_hint(layout.MANIFEST, lineage)}'",
        )

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

    def _is_newest(self, known: _Known) -> bool:
        """A version with none after it is the newest one, unless cleanup has been there.

        That matters to a process that slept through a cleanup: then the *next* version may be
        gone, and even its own may be kept for the sake of a branch.
        """
        objects, head = self._kernel.objects, known.head
        newer, note = objects.marks(known.next_file, known.note_file)
        if head.branch == layout.MAIN:  # the ref of any other branch tells graphs apart
            self._kernel.identity.compare(note)
        if newer is not None:
            return False
        if note != known.note:
            branch = layout.lance_branch(head.branch)
            known.kept_from = kept_from(objects, layout.MANIFEST, branch)
            known.doubtful |= known.note is not None
            known.note = note  # last: who finds it unchanged relies on what it said
        return not known.doubtful and head.manifest_version >= known.kept_from


def _synced_folders(head: Head) -> Iterator[str]:
    """Yield directories that were synced, parents included, before this head could exist."""
    homes = {layout.lineage(table.location, table.branch) for table in head.tables.values()}
    for home in (layout.MANIFEST, *homes):
        yield home
        yield f"{home}/{layout.VERSIONS_DIR}"

"""`GraphStore`: the storage kernel as the engine sees it.

Porcelain over the rooms below: each method is a few lines. Thread-safe. Do not `fork` a
process that has an open store; start children with spawn or forkserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from os.path import isfile
from types import TracebackType
from typing import Self

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.ids import BranchName
from omnigraph.base.uri import GraphUri, parse_uri
from omnigraph.errors import BadRequestError, DeniedError, NotFoundError, StorageError
from omnigraph.storage import layout
from omnigraph.storage.branches import (
    BranchInfo,
    create_branch,
    create_branch_at,
    list_infos,
    live_branches,
    remove_branch,
    settle_branches,
)
from omnigraph.storage.cleanup import CleanupPolicy, CleanupStats, cleanup
from omnigraph.storage.counters import Counters
from omnigraph.storage.create import TableSpec, create_graph
from omnigraph.storage.healing import Recovered
from omnigraph.storage.history import (
    CommitNotFoundError,
    RecentKeys,
    commit_at_version,
    line_commit,
    snapshot_at,
)
from omnigraph.storage.holders import Holder
from omnigraph.storage.indexing import build_index, remove_index
from omnigraph.storage.kernel import Kernel, build_kernel
from omnigraph.storage.locks import branch_lock_name
from omnigraph.storage.maintain import (
    CompactionStats,
    Upkeep,
    compact_table,
)
from omnigraph.storage.manifest import find_commit, read_commits
from omnigraph.storage.options import DEFAULTS, StorageOptions
from omnigraph.storage.pins import PinRecord, live_pins
from omnigraph.storage.plan import Plan
from omnigraph.storage.projections import reconcile
from omnigraph.storage.publish import digest
from omnigraph.storage.records import Commit, Kind
from omnigraph.storage.recovery import entry_head, heal_torn_manifest, sweep
from omnigraph.storage.relocation import check_root
from omnigraph.storage.snapshot import Heads, Snapshot, snapshot_of
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.tables.spread import Spread
from omnigraph.storage.upgrade import needs_upgrade, upgrade
from omnigraph.storage.usage import DiskUse, disk_usage
from omnigraph.storage.verify import Finding, verify
from omnigraph.storage.write import WriteSession


class ReadOnlyError(DeniedError):
    """The store was opened for reading only."""


class GraphStore:
    """One open graph."""

    def __init__(self, kernel: Kernel, *, read_only: bool) -> None:
        self.kernel = kernel
        self.read_only = read_only
        self.branches = Branches(self)
        self._heads = Heads(kernel, read_only=read_only)
        self._recent = RecentKeys(kernel)
        self._upkeep = Upkeep(kernel, self._heads)

    @property
    def counters(self) -> Counters:
        """Return what was counted since opening."""
        return self.kernel.counters

    def snapshot(self, branch: str = layout.MAIN) -> Snapshot:
        """Return the current state of a branch, as one immutable value."""
        if not self._heads.knows(branch):
            branch = layout.parse_branch(branch, operation="read")
        return self._heads.snapshot(BranchName(branch))

    def snapshot_at(
        self, *, commit_id: str | None = None, version: int | None = None, branch: str = layout.MAIN
    ) -> Snapshot:
        """Return a past state: by commit id on any branch, or by manifest version of `branch`."""
        if commit_id is None:
            head = self._heads.current(layout.parse_branch(branch, operation="read"))
            return snapshot_at(
                self.kernel,
                head,
                commit_at_version(head, head.manifest_version if version is None else version),
            )
        for name in self._branch_order(layout.parse_branch(branch, operation="read")):
            head = self._heads.current(name)
            found = line_commit(head, commit_id)
            if found is not None:
                return snapshot_at(self.kernel, head, found)
        raise CommitNotFoundError(commit_id)

    def commits(self, branch: str = layout.MAIN) -> list[Commit]:
        """Return the commits of a branch, oldest first."""
        return read_commits(
            self._heads.current(layout.parse_branch(branch, operation="read")).handle
        )

    def begin(
        self,
        branch: str = layout.MAIN,
        actor: str | None = None,
        kind: Kind = "logical",
        *,
        writer_kind: str = "Mutation",
    ) -> WriteSession:
        """Start a write on top of the branch's current state."""
        self._require_writable()
        name = layout.parse_branch(branch, operation="write")
        base = snapshot_of(self.kernel, entry_head(self.kernel, self._heads, name))
        return WriteSession(
            Plan(
                self.kernel,
                self._heads,
                self._recent,
                base,
                actor,
                kind,
                writer_kind,
                self._upkeep.after_commit,
            )
        )

    def recover(self) -> list[Recovered]:
        """Heal everything interrupted writers left behind."""
        self._require_writable()
        return sweep(self.kernel, self._heads, full=True)

    def read_file(self, name: str, snapshot: Snapshot | None = None) -> bytes:
        """Return a contract file as the snapshot's commit left it."""
        seen = snapshot or self.snapshot()
        expected = seen.files.get(name)
        if expected is None:
            raise NotFoundError(f"the graph has no file '{name}'")
        content = self.kernel.objects.find(name)
        if content is not None and digest(content) == expected:
            return content
        for info in self.kernel.objects.list(layout.STAGING_DIR):
            if info.name.endswith(f"/{name}"):
                staged = self.kernel.objects.find(info.name)
                if staged is not None and digest(staged) == expected:
                    return staged  # published; its writer died before putting it in place
        raise StorageError(
            f"'{name}' is not what commit {seen.commit_id} recorded",
            hint="it was edited outside of this program; manual coordination is required",
        )

    def maintain(self, branch: str = layout.MAIN) -> list[CompactionStats]:
        """Do all maintenance that is due on a branch now, in this thread."""
        self._require_writable()
        return self._upkeep.run(self.snapshot(branch).branch)

    def optimize(
        self, branch: str = layout.MAIN, spread: Spread | None = None
    ) -> list[CompactionStats]:
        """Compact every table of a branch as far as it goes; never removes history.

        With `spread` other processes rewrite the rows; this one commits.
        """
        self._require_writable()
        now = self.snapshot(branch)
        return [
            compact_table(self.kernel, self._heads, now.branch, key, everything=True, spread=spread)
            for key in now.tables
        ]

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait for maintenance that runs behind earlier commits."""
        self._upkeep.settle(timeout_s)

    def build_index(
        self,
        key: str,
        spec: IndexSpec,
        branch: str = layout.MAIN,
        spread: Spread | None = None,
    ) -> bool:
        """Build an index, or build it again, and publish it.

        False if the table is empty, or if it was replaced or compacted meanwhile.
        """
        self._require_writable()
        now = self.snapshot(branch)
        table = now.table(key).key
        return build_index(self.kernel, self._heads, now.branch, table, spec, spread)

    def drop_index(self, key: str, name: str, branch: str = layout.MAIN) -> bool:
        """Drop an index; False if there is none of that name."""
        self._require_writable()
        now = self.snapshot(branch)
        return remove_index(self.kernel, self._heads, now.branch, now.table(key).key, name)

    def cleanup(self, policy: CleanupPolicy, *, dry_run: bool = False) -> list[CleanupStats]:
        """Remove old versions, dead forks and orphaned files; `dry_run` only tells."""
        self._require_writable()
        return cleanup(self.kernel, self._heads, policy, dry_run=dry_run)

    def verify(self) -> list[Finding]:
        """Check the graph against its own rules; empty means sound."""
        return verify(self.kernel, self._heads)

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes every dataset and branch takes."""
        return disk_usage(self.kernel)

    def pins(self) -> list[PinRecord]:
        """Return every pin that is alive."""
        return live_pins(self.kernel.objects, self.kernel.clock)

    def commit(self, commit_id: str) -> Commit:
        """Return a commit known to any branch."""
        for name in self._branch_order(layout.MAIN):
            found = find_commit(self._heads.current(name).handle, commit_id)
            if found is not None:
                return found
        raise CommitNotFoundError(commit_id)

    def locks(self) -> list[Holder]:
        """Return every lock held now, here or elsewhere."""
        return self.kernel.locks.show()

    def break_lock(self, name: str) -> Holder | None:
        """Free a lock whose holder is gone."""
        return self.kernel.locks.break_lock(name)

    def close(self) -> None:
        """Finish due maintenance within its time box and let go; closing twice is fine."""
        self._upkeep.close()
        self.kernel.tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _require_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this store is open for reading only", hint="open it for writing")

    def _branch_order(self, first: BranchName) -> list[BranchName]:
        return [first, *(name for name in live_branches(self.kernel) if name != first)]


class Branches:
    """The branches of one open graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def list(self) -> list[BranchInfo]:
        """Return all branches, main first."""
        return list_infos(self._store.kernel)

    def create(
        self, name: str, source: str = layout.MAIN, *, commit_id: str | None = None
    ) -> Snapshot:
        """Create a branch from the current state of another, or from a commit on it."""
        store = self._store
        store._require_writable()
        branch = layout.parse_new_branch(name, operation="branch create")
        origin = layout.parse_branch(source, operation="branch create")
        current = store._heads.current(origin)
        if commit_id is None or commit_id == current.commit_id:
            head = create_branch(store.kernel, store._heads, branch, origin)
        else:
            commit = line_commit(current, commit_id)
            if commit is None:
                raise CommitNotFoundError(commit_id)
            head = create_branch_at(store.kernel, store._heads, branch, origin, commit)
        return snapshot_of(store.kernel, head)

    def delete(self, name: str) -> None:
        """Delete a branch."""
        self._store._require_writable()
        branch = layout.parse_branch(name, operation="branch delete")
        remove_branch(self._store.kernel, self._store._heads, branch)


def _root(uri: str | PathLike[str]) -> GraphUri:
    """Return where a graph is, or is to be; never a file."""
    root = parse_uri(uri)
    if root.is_local and isfile(root.path):  # noqa: PTH113 - raises for no name, however odd
        raise BadRequestError(f"'{root}' is a file, not a graph", hint="a graph is a folder")
    return root


def init_store(
    uri: str | PathLike[str],
    tables: Sequence[TableSpec],
    files: Mapping[str, bytes],
    options: StorageOptions = DEFAULTS,
    clock: Clock = SYSTEM_CLOCK,
) -> GraphStore:
    """Create a graph with empty tables and its contract files.

    Raises:
        AlreadyExistsError: there is a graph; it is left untouched.
    """
    kernel = build_kernel(_root(uri), options, clock)
    create_graph(kernel, tables, files)
    store = GraphStore(kernel, read_only=False)
    reconcile(kernel, store._heads.current(layout.MAIN))
    return store


def open_store(
    uri: str | PathLike[str],
    read_only: bool = False,
    options: StorageOptions = DEFAULTS,
    clock: Clock = SYSTEM_CLOCK,
) -> GraphStore:
    """Open a graph; for writing this heals and upgrades first.

    Raises:
        NotFoundError: there is no graph.
        FormatError: a newer program wrote it.
    """
    kernel = build_kernel(_root(uri), options, clock)
    store = GraphStore(kernel, read_only=read_only)
    manifest = _open_main(kernel, store._heads, read_only=read_only)
    if not read_only:
        settle_branches(kernel)
    check_root(kernel, manifest)
    if not read_only:
        if needs_upgrade(manifest):
            upgrade(kernel, store._heads)
        store.recover()
        reconcile(kernel, store._heads.current(layout.MAIN))
    return store


def _open_main(kernel: Kernel, heads: Heads, *, read_only: bool) -> Handle:
    """Return the manifest of main, having set aside a torn one if we may."""
    try:
        return heads.current(layout.MAIN).handle
    except SnapshotExpiredError:
        if kernel.objects.list(f"{layout.MANIFEST}/{layout.VERSIONS_DIR}"):
            raise
        raise NotFoundError(
            f"there is no graph at {kernel.root}", hint="create it with init"
        ) from None
    except DamagedError:
        if read_only:
            raise
        with kernel.locks.hold(branch_lock_name(layout.MAIN), "recovery"):
            heal_torn_manifest(kernel, heads, layout.MAIN)
        return heads.current(layout.MAIN).handle

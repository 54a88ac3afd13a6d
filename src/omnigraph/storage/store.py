"""`GraphStore`: the storage kernel as the engine sees it.

Porcelain over the rooms below: each method is a few lines. Thread-safe. Do not `fork` a
process that has an open store; start children with spawn or forkserver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from os import PathLike
from os.path import isfile
from typing import Any, TypeVar

from omnigraph.api.progress import Progress, listening
from omnigraph.api.runs import Run, RunStatus
from omnigraph.api.upkeep import CleanupStats, CompactionStats, DiskUse, Finding, TableRepair
from omnigraph.base.arguments import text_argument
from omnigraph.base.budget import current
from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.closing import Closing
from omnigraph.base.ids import BranchName, CommitId
from omnigraph.base.runner import Runner
from omnigraph.base.uri import GraphUri, parse_uri
from omnigraph.errors import BadRequestError, DeniedError, NotFoundError
from omnigraph.storage.branches.dependents import UNREADABLE
from omnigraph.storage.branches.lifecycle import (
    BranchInfo,
    create_branch,
    create_branch_at,
    finish_branches,
    list_infos,
    live_branches,
    remove_branch,
)
from omnigraph.storage.branches.runs import (
    abort_run,
    begin_run,
    end_run,
    ending,
    find_run,
    list_runs,
)
from omnigraph.storage.branches.tags import (
    Tag,
    create_tag,
    delete_tag,
    find_tag,
    list_tags,
    looks_like_a_commit,
    parse_tag,
)
from omnigraph.storage.commit.session import WriteSession
from omnigraph.storage.commit.write_set import WriteSet
from omnigraph.storage.counters import Counters
from omnigraph.storage.create import create_graph
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.files.pins import PinRecord, being_loaded, live_pins
from omnigraph.storage.files.records import Commit, Kind, TableSpec
from omnigraph.storage.kernel import Kernel, build_kernel
from omnigraph.storage.locks.by_name import REFS_LOCK, branch_lock_name
from omnigraph.storage.locks.holders import HeldLock, Holder
from omnigraph.storage.manifest.ancestry import Parents, lowest_common_ancestors
from omnigraph.storage.manifest.contracts import read_contract, show_files
from omnigraph.storage.manifest.history import (
    CommitNotFoundError,
    RecentKeys,
    commit_at_version,
    line_commit,
    snapshot_at,
)
from omnigraph.storage.manifest.line import Line
from omnigraph.storage.manifest.merging import MergeSides, merge_source, merged_snapshot
from omnigraph.storage.manifest.projections import (
    Views,
    lagging_branches,
    look_at_views,
    reconcile,
    require_all_commits,
)
from omnigraph.storage.manifest.rows import Head, find_commit, read_commits
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Heads, Snapshot, snapshot_of
from omnigraph.storage.options import DEFAULTS, StorageOptions
from omnigraph.storage.recovery.healing import Recovered
from omnigraph.storage.recovery.recover import entry_head, heal_torn_manifest, sweep
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.fork import branch_names
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.upkeep.cleanup import CleanupPolicy, cleanup
from omnigraph.storage.upkeep.copying import Copied, copy_graph
from omnigraph.storage.upkeep.deep import check_files
from omnigraph.storage.upkeep.indexing import (
    build_index,
    drop_unusable_indexes,
    mend_indexes,
    remove_index,
)
from omnigraph.storage.upkeep.maintain import Indexer, Optimizing, Upkeep, optimize
from omnigraph.storage.upkeep.needed import live_tables
from omnigraph.storage.upkeep.relocation import check_root, relocate
from omnigraph.storage.upkeep.repair import repair
from omnigraph.storage.upkeep.upgrade import needs_upgrade, upgrade
from omnigraph.storage.upkeep.usage import disk_usage
from omnigraph.storage.upkeep.verify import verify

log = logging.getLogger(__name__)

T = TypeVar("T")


class ReadOnlyError(DeniedError):
    """The store was opened for reading only."""


class GraphStore(Closing):
    """One open graph."""

    def __init__(self, kernel: Kernel, *, read_only: bool) -> None:
        self.kernel = kernel
        self.read_only = read_only
        self.branches = Branches(self)
        self._heads = Heads(kernel, read_only=read_only)
        self._recent = RecentKeys(kernel)
        self._upkeep = Upkeep(kernel, self._heads)
        self._mended: set[tuple[BranchName, str, int]] = set()

    @property
    def counters(self) -> Counters:
        """Return what was counted since opening."""
        return self.kernel.counters

    def snapshot(self, branch: str = layout.MAIN) -> Snapshot:
        """Return the current state of a branch, as one immutable value."""
        if not self._heads.knows(branch) or layout.is_run_branch(branch):
            branch = layout.parse_branch(branch, operation="read")
        return self._heads.snapshot(BranchName(branch))

    def snapshot_at(
        self, *, commit_id: str | None = None, version: int | None = None, branch: str = layout.MAIN
    ) -> Snapshot:
        """Return a past state: by commit id on any branch, or by manifest version of `branch`."""
        if version is not None and not isinstance(version, int):
            raise BadRequestError(f"a version is a number, not {type(version).__name__}")
        if commit_id is not None and (tag := self._tag(commit_id)) is not None:
            return tag.snapshot(self.kernel)
        if commit_id is None:
            head = self._heads.current(layout.parse_branch(branch, operation="read"))
            return snapshot_at(
                self.kernel,
                head,
                commit_at_version(head, head.manifest_version if version is None else version),
            )
        first = layout.parse_branch(branch, operation="read")
        wanted = CommitId(text_argument(commit_id, "a commit id"))
        head = self._heads.current(first)  # which has to exist, whoever knows the commit
        if head.commit_id == wanted:  # as it is now: with the images and plans of what it is now
            return self._heads.snapshot(first)
        seen = self._heads.recent_state(wanted)
        if seen is None:
            seen = self._find(wanted, first, self._state_at)
            self._heads.keep_state(seen)
        return seen

    def _tag(self, name: str) -> Tag | None:
        """Return the tag of a name that could be one; commit ids cost no question."""
        text = text_argument(name, "a commit id")
        if looks_like_a_commit(text):
            return None
        try:
            return find_tag(self.kernel, parse_tag(text))
        except BadRequestError:
            return None  # no name of a tag: it will not be found as a commit, either

    def tag(self, name: str, snapshot: Snapshot, actor: str | None, message: str | None) -> Tag:
        """Give a state a name that keeps it readable."""
        self._require_writable()
        return create_tag(self.kernel, name, snapshot, actor, message)

    def tags(self) -> list[Tag]:
        """Return all tags by their names."""
        self.kernel.identity.check()
        return list_tags(self.kernel)

    def delete_tag(self, name: str) -> Tag | None:
        """Let go of a tag."""
        self._require_writable()
        return delete_tag(self.kernel, name)

    def begin_run(self, target: str, operation_hash: str | None, actor: str | None) -> Run:
        """Begin a run from what a branch is now."""
        self._require_writable()
        branch = layout.parse_branch(target, operation="run")
        return begin_run(self.kernel, self._heads, branch, operation_hash, actor)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        self.kernel.identity.check()
        return list_runs(self.kernel)

    def run(self, run_id: str) -> Run:
        """Return one run."""
        self.kernel.identity.check()
        return find_run(self.kernel, run_id)

    def ending_run(self, run_id: str) -> AbstractContextManager[tuple[Run, HeldLock]]:
        """Hold a run that is to be ended."""
        self._require_writable()
        return ending(self.kernel, run_id)

    def end_run(
        self, run: Run, lock: HeldLock, status: RunStatus, published: str | None = None
    ) -> Run:
        """Record what became of a run that is held."""
        return end_run(self.kernel, self._heads, run, lock, status, published)

    def abort_run(self, run_id: str) -> Run:
        """Give up what a run wrote."""
        self._require_writable()
        return abort_run(self.kernel, self._heads, run_id)

    def merged_by(self, source: BranchName, run: Run) -> str:
        """Return the commit that brought a run to its target; its base if it wrote nothing."""
        newest = self._heads.current(source).commit_id
        for commit in reversed(self.commits(run.target_branch)):
            if commit.merged_parent == newest:
                return str(commit.id)
        return run.base_snapshot_id

    def _state_at(self, head: Head, commit_id: str) -> Snapshot | None:
        """Return what a commit made, if this branch knows: on its line, or as what it merged."""
        found = line_commit(head, commit_id)
        if found is not None:
            return snapshot_at(self.kernel, head, found)
        merged = merged_snapshot(self.kernel, self._heads.ancestries, head, CommitId(commit_id))
        if merged is None and commit_id in self._heads.ancestries.of(head):
            raise SnapshotExpiredError(
                f"the rows of commit {commit_id} went with the branch it was made on",
                hint="name the merge that brought it; a tag would have kept them",
            )
        return merged

    def commits(self, branch: str = layout.MAIN, *, newest: int | None = None) -> list[Commit]:
        """Return the commits of a branch, or only so many of the newest, oldest first."""
        head = self._heads.current(layout.parse_branch(branch, operation="read"))
        since = 0 if newest is None else head.sequence - newest + 1
        return read_commits(head.handle, since=since)

    def line(self, branch: str = layout.MAIN) -> Line:
        """Return the whole first-parent line of a branch, as of now."""
        return Line(self.kernel, self._heads.current(layout.parse_branch(branch, operation="read")))

    def begin(
        self,
        branch: str = layout.MAIN,
        actor: str | None = None,
        kind: Kind = "logical",
        *,
        writer_kind: str = "Mutation",
        message: str | None = None,
    ) -> WriteSession:
        """Start a write on top of the branch's current state."""
        self._require_writable()
        name = layout.parse_branch(branch, operation="write")
        base = snapshot_of(self.kernel, self._mend(entry_head(self.kernel, self._heads, name)))
        return WriteSession(
            WriteSet(
                self.kernel,
                self._heads,
                self._recent,
                base,
                actor,
                message,
                kind,
                writer_kind,
                self._upkeep.after_commit,
                current(),
            )
        )

    def merge_sides(self, source: str, into: Snapshot) -> MergeSides:
        """Return what merging the branch `source` as it is now into a state would start from."""
        theirs = self._heads.current(layout.parse_branch(source, operation="merge"))
        ours = self._heads.current(into.branch)
        parents = self._heads.ancestries.leading_to(ours, theirs)
        return MergeSides(
            snapshot_of(self.kernel, theirs),
            merge_source(theirs, into.commit_id, parents),
            lowest_common_ancestors(parents, [theirs.commit_id], [into.commit_id]),
            parents,
        )

    def merge_bases(self, one: Snapshot, other: Snapshot) -> tuple[tuple[CommitId, ...], Parents]:
        """Return the newest commits that two states both came from, and what led to all of them.

        None of them comes from another one.
        """
        heads = [self._heads.current(state.branch) for state in (one, other)]
        parents = self._heads.ancestries.leading_to(*heads)
        return lowest_common_ancestors(parents, [one.commit_id], [other.commit_id]), parents

    def mend(self, branch: str = layout.MAIN) -> None:
        """Take out indexes of a branch that its tables cannot find; every write does so too."""
        self._require_writable()
        name = layout.parse_branch(branch, operation="write")
        mend_indexes(self.kernel, self._heads, self._heads.current(name))

    def _mend(self, head: Head) -> Head:
        """Look once per branch and process, and again when work of another tool was taken over.

        Nothing in this program loses indexes any more.
        """
        branch = (head.branch, head.incarnation, self.kernel.counters.get("drift_taken_over"))
        if branch in self._mended:
            return head
        mended = mend_indexes(self.kernel, self._heads, head)
        self._mended.add(branch)
        return mended

    def recover(self) -> list[Recovered]:
        """Heal everything interrupted writers left behind."""
        self._require_writable()
        return sweep(self.kernel, self._heads, full=True)

    def read_file(self, name: str, snapshot: Snapshot | None = None) -> bytes:
        """Return a contract file as the snapshot's commit left it."""
        seen = snapshot or self.snapshot()
        expected = seen.files.get(text_argument(name, "the name of a file"))
        if expected is None:
            raise NotFoundError(f"the graph has no file '{name}'")
        return read_contract(self.kernel, name, expected)

    def maintain(self, branch: str = layout.MAIN) -> list[CompactionStats]:
        """Do all maintenance that is due on a branch now, in this thread."""
        self._require_writable()
        return self._upkeep.run(self.snapshot(branch).branch)

    def optimize(
        self,
        branch: str = layout.MAIN,
        runner: Runner | None = None,
        *,
        tables: Sequence[str] = (),
        preview: bool = False,
        max_seconds: float | None = None,
        progress: Progress | None = None,
        actor: str | None = None,
    ) -> list[CompactionStats]:
        """Compact tables of a branch as far as it goes, all if none is named; keeps all history.

        With `runner` other processes rewrite the rows; this one commits. `preview` only tells.
        No table is begun later than `max_seconds` from now.
        """
        if not preview:
            self._require_writable()
        now = self.snapshot(branch)
        keys = [now.table(name).key for name in tables] if tables else list(now.tables)
        keys = list(dict.fromkeys(keys))
        how = Optimizing(runner, preview, max_seconds, progress, actor)
        return optimize(self.kernel, self._heads, now.branch, keys, how)

    def wait_for_upkeep(self, timeout_s: float | None = None) -> None:
        """Wait for maintenance that runs behind earlier commits."""
        self._upkeep.wait(timeout_s)

    def build_index(
        self,
        key: str,
        spec: IndexSpec,
        branch: str = layout.MAIN,
        runner: Runner | None = None,
        *,
        actor: str | None = None,
        adds: bool = False,
        most_rows: int | None = None,
    ) -> bool:
        """Build an index, or build it again, and publish it; `adds`: only what it lacks.

        Of that about `most_rows`, if said.

        False if the table is empty, or if it was replaced or compacted meanwhile.
        """
        self._require_writable()
        now = self.snapshot(branch)
        table = now.table(key).key
        return build_index(
            self.kernel,
            self._heads,
            now.branch,
            table,
            spec,
            runner,
            actor,
            adds=adds,
            most_rows=most_rows,
        )

    def drop_index(self, key: str, name: str, branch: str = layout.MAIN) -> bool:
        """Drop an index; False if there is none of that name."""
        self._require_writable()
        now = self.snapshot(branch)
        return remove_index(self.kernel, self._heads, now.branch, now.table(key).key, name)

    def drop_unusable_indexes(
        self, key: str, branch: str = layout.MAIN, *, actor: str | None = None
    ) -> bool:
        """Take out the indexes of a table that cannot be read; False if there are none."""
        self._require_writable()
        now = self.snapshot(branch)
        table = now.table(key).key
        return drop_unusable_indexes(self.kernel, self._heads, now.branch, table, actor)

    def index_with(self, indexer: Indexer) -> None:
        """Let upkeep call who knows which indexes are wanted, behind the writers."""
        self._upkeep.indexer = indexer

    def look_after(self, branch: str) -> None:
        """Have upkeep look at a branch soon: much was written to it at once."""
        self._upkeep.soon(self._heads.current(self.snapshot(branch).branch))

    def being_loaded(self, key: str, branch: str) -> bool:
        """Whether a load is registered that writes to a table: its indexes would be outrun."""
        table = self.snapshot(branch).table(key)
        loaded = being_loaded(live_pins(self.kernel.objects, self.kernel.store_clock))
        return (table.location, table.branch) in loaded

    def cleanup(
        self, policy: CleanupPolicy, *, dry_run: bool = False, progress: Progress | None = None
    ) -> list[CleanupStats]:
        """Remove old versions, dead forks and orphaned files; `dry_run` only tells."""
        self._require_writable()
        return cleanup(self.kernel, self._heads, policy, dry_run=dry_run, progress=progress)

    def verify(self) -> list[Finding]:
        """Check the graph against its own rules; empty means sound."""
        return verify(self.kernel, self._heads)

    def check_files(
        self, *, journal: str | None = None, progress: Progress | None = None
    ) -> list[Finding]:
        """Compare the bytes of every file with what its commit said of them.

        What a `journal` says was found sound before is not read again; what is found so is added.
        """
        return check_files(self.kernel, self._heads, journal=journal, progress=progress)

    def repair(
        self,
        branch: str | None = None,
        *,
        confirm: bool = False,
        force: bool = False,
        actor: str | None = None,
    ) -> list[TableRepair]:
        """Show what other tools did to tables, of one branch or of all; settle it if told to."""
        if confirm:
            self._require_writable()
        self._upkeep.wait()  # its sidecar would look like a write that somebody left unfinished
        names = (
            live_branches(self.kernel)
            if branch is None
            else [layout.parse_branch(branch, operation="repair")]
        )
        return repair(self.kernel, self._heads, names, confirm=confirm, force=force, actor=actor)

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes every dataset and branch takes."""
        try:
            tables = live_tables(self.kernel, self._heads)
        except UNREADABLE:  # the bytes are there all the same
            tables = {}
        return disk_usage(self.kernel, tables)

    def pins(self) -> list[PinRecord]:
        """Return every pin that is alive."""
        return live_pins(self.kernel.objects, self.kernel.store_clock)

    def commit(self, commit_id: str) -> Commit:
        """Return a commit known to any branch, by its id or by a tag."""
        if (tag := self._tag(commit_id)) is not None:
            commit_id = tag.commit_id
        return self._find(commit_id, layout.MAIN, _known_commit)

    def locks(self) -> list[Holder]:
        """Return every lock held now, here or elsewhere."""
        return self.kernel.locks.show()

    def break_lock(self, name: str) -> Holder | None:
        """Free a lock whose holder is gone."""
        return self.kernel.locks.break_lock(text_argument(name, "the name of a lock"))

    def close(self) -> None:
        """Finish due maintenance within its time box and let go; closing twice is fine."""
        self._upkeep.close()
        self.kernel.tables.close()

    def _require_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this store is open for reading only", hint="open it for writing")

    def _find(self, commit_id: str, first: BranchName, look: Callable[[Head, str], T | None]) -> T:
        """Return what a branch says of a commit, `first` before all others.

        A branch that cannot be read is in the way only of what no other branch knows.
        """
        unread: DamagedError | SnapshotExpiredError | None = None
        others = (name for name in live_branches(self.kernel) if name != first)
        for name in (first, *others):
            try:
                head = self._heads.current(name)
                found = look(head, commit_id)
            except (DamagedError, SnapshotExpiredError) as error:
                unread = unread or error
                continue
            except BranchNotFoundError:
                if name == first:
                    raise
                continue  # deleted meanwhile
            if found is not None:
                return found
        raise unread or CommitNotFoundError(commit_id)


def _known_commit(head: Head, commit_id: str) -> Commit | None:
    return find_commit(head.handle, commit_id)


class Branches:
    """The branches of one open graph."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def list(self) -> list[BranchInfo]:
        """Return all branches, main first."""
        self._store.kernel.identity.check()
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
        if commit_id is not None and (tag := store._tag(commit_id)) is not None:
            commit_id = tag.commit_id
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
        self._store.kernel.identity.check()  # a lock would make a folder where no graph is
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
    kernel = build_kernel(_root(uri), options, clock, read_only=read_only)
    store = GraphStore(kernel, read_only=read_only)
    manifest = _open_main(kernel, store._heads, read_only=read_only)
    if not read_only:
        finish_branches(kernel)
    check_root(kernel, manifest)
    if not read_only:
        if needs_upgrade(manifest):
            upgrade(kernel, store._heads)
        if not kernel.identity.is_noted:
            with kernel.locks.hold(REFS_LOCK, "identity"):
                kernel.identity.note()
        store.recover()
        main = store._heads.current(layout.MAIN)
        asks: tuple[Callable[[], Any], ...] = (
            partial(look_at_views, kernel),
            partial(show_files, kernel, main.files),
            partial(lagging_branches, kernel),
        )
        views, shown, behind = kernel.objects.together(*asks)
        for name in shown:
            log.warning("'%s' was not what main states and is written anew", name)
        require_all_commits(store._heads, main, views)
        _follow(kernel, store._heads, main, behind, views)
    return store


def copy_store(
    uri: str | PathLike[str],
    target: str | PathLike[str],
    options: StorageOptions = DEFAULTS,
    target_options: StorageOptions | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copy a graph to an empty place, with every branch, commit and tag; see `upkeep.copying`."""
    kernel, home = build_kernel(_root(uri), options), _root(target)
    there = Objects(home, target_options or options, Counters())
    there.probe_create_only(f"{layout.STAGING_DIR}/probe")
    return copy_graph(
        kernel.objects, there, home, listening(progress), partial(_writers_wait, kernel)
    )


@contextmanager
def _writers_wait(kernel: Kernel) -> Iterator[None]:
    """Hold every lock of a graph, in the order in which others take two of them."""
    with ExitStack() as held:
        held.enter_context(kernel.locks.hold(REFS_LOCK, "clone"))
        for branch in (layout.MAIN, *sorted(branch_names(kernel.objects, layout.MANIFEST))):
            held.enter_context(kernel.locks.hold(branch_lock_name(branch), "clone"))
        yield


def relocate_store(uri: str | PathLike[str], options: StorageOptions = DEFAULTS) -> list[str]:
    """Let a graph that was moved or copied read from where it is now; see `upkeep.relocation`."""
    root = _root(uri)
    return relocate(Objects(root, options, Counters()), root)


def _follow(
    kernel: Kernel, heads: Heads, main: Head, lagging: Sequence[BranchName], views: Views
) -> None:
    """Bring the views up to every branch; one that cannot be read keeps nobody from the rest."""
    behind = [main]
    for branch in lagging:
        try:
            behind.append(heads.current(branch))
        except BranchNotFoundError:
            pass  # deleted since it was listed
        except UNREADABLE as error:  # it is told of by `verify`, and can be deleted
            log.warning("branch '%s' cannot be read: %s", branch, error)
    try:
        reconcile(kernel, *behind, views=views)
    except UNREADABLE:
        reconcile(kernel, main)
        for head in behind[1:]:
            try:
                reconcile(kernel, head)
            except UNREADABLE as error:
                log.warning("commits of branch '%s' cannot be read: %s", head.branch, error)


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

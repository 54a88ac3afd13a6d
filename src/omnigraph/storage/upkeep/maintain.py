"""Upkeep: the same rows in fewer pieces, in bounded steps, after the caller has its answer.

Maintenance is physical. Its commits carry `kind=maintenance` and never make a logical write
fail: writers that lose to it stage again. Each step does a bounded amount of work and takes the
lock only for its commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.api.progress import Progress, listening
from omnigraph.api.upkeep import CompactionStats
from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.base.runner import Runner
from omnigraph.errors import ConflictError, OmniGraphError
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import being_loaded, live_pins
from omnigraph.storage.files.records import Changes, TableVersion
from omnigraph.storage.files.sidecar import catalog_sidecar, delete_sidecar, write_sidecar
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.projections import reconcile
from omnigraph.storage.manifest.publish import (
    below,
    physical_intent,
    publish_moved,
    sync_versions,
    write_sidecar_for,
)
from omnigraph.storage.manifest.rows import HEAD_PROPERTY, LAST_ROW, Head, head_row, with_place
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.drift import DriftError, without_drift
from omnigraph.storage.recovery.recover import settled_head
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.compact import (
    Compacted,
    commit_compaction,
    moved_indexes,
    planned_compaction,
    read_fragments,
    rewrite_fragments,
    still_fits,
)
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import stage_refold
from omnigraph.storage.tables.tiers import Merge, due_merge, fragment_rows, over_full_tier
from omnigraph.storage.tables.whole import sync_whole_files
from omnigraph.storage.upkeep.cleanup import clean_manifest, clean_projections, clean_table_versions

log = logging.getLogger(__name__)

AFTER_REWRITE = register("optimize.after_rewrite", "merged fragments are written; no sidecar")
AFTER_SIDECAR = register("optimize.after_sidecar", "the sidecar is written; nothing compacted")
AFTER_COMPACT = register("optimize.after_compact", "the table is compacted; not published")
AFTER_FOLD = register("optimize.after_fold", "the manifest is folded; the sidecar remains")

_FOREIGN = "its files belong to another branch"
_LOADING = "a load is writing to it"
_LATE = "the time was up before its turn"
_REPLACED = "it was replaced or dropped meanwhile"

UPKEEP_EVERY = 8
FULL_UPKEEP_EVERY = 32


@dataclass(frozen=True, slots=True)
class Optimizing:
    """How tables are compacted on request."""

    runner: Runner | None = None
    preview: bool = False
    max_seconds: float | None = None
    progress: Progress | None = None
    actor: str | None = None


def optimize(
    kernel: Kernel, heads: Heads, branch: BranchName, keys: Sequence[TableKey], how: Optimizing
) -> list[CompactionStats]:
    """Compact tables one after the other; those that time did not suffice for are told of."""
    started, told = kernel.clock.monotonic(), listening(how.progress)
    told.stage("compacting", len(keys))
    done = []
    for key in keys:
        spent = kernel.clock.monotonic() - started
        if how.max_seconds is not None and spent >= how.max_seconds:
            done.append(CompactionStats(key, 0, 0, False, "out_of_time", _LATE))
            continue
        if how.preview:
            stats = preview_compaction(kernel, heads, branch, key)
        else:
            stats = compact_table(
                kernel, heads, branch, key, everything=True, runner=how.runner, actor=how.actor
            )
        done.append(stats)
        told.done(0, 0)
    return done


def compact_table(
    kernel: Kernel,
    heads: Heads,
    branch: BranchName,
    key: TableKey,
    *,
    everything: bool = False,
    runner: Runner | None = None,
    actor: str | None = None,
) -> CompactionStats:
    """Merge small fragments of one table, one bounded step; `everything` lifts the bounds.

    With `runner` other processes do what is done off the lock; `actor` is who asked for it.
    """
    head = heads.current(branch)
    table = head.tables.get(key)
    if table is None:
        return CompactionStats(key, 0, 0, False, "replaced", _REPLACED)
    if (kept := _kept_from_us(kernel, table, branch)) is not None:
        return kept
    due = _due(kernel, table, everything=everything)
    if due is None:
        return CompactionStats(key, 0, 0, False)
    # A small merge is done inside the lock: what is appended meanwhile would lie between.
    ahead = None if due.small else _rewrite(kernel, table, due, runner)
    if ahead is None and not due.small:
        return CompactionStats(key, 0, 0, False)
    failpoint(AFTER_REWRITE)
    with kernel.locks.hold(branch_lock_name(branch), "Optimize") as lock:
        head = settled_head(kernel, heads, branch, lock)
        current = head.tables.get(key)
        if current is None or (current.location, current.branch) != (table.location, table.branch):
            return CompactionStats(key, 0, 0, False, "replaced", _REPLACED)
        try:
            head = without_drift(kernel, heads, head, current, lock)
        except DriftError as error:
            return CompactionStats(key, 0, 0, False, "drift_needs_repair", error.message)
        current = head.tables[key]
        if ahead is None or not still_fits(ahead, kernel.tables.open(*current.place)):
            # Inside the lock nobody can outrun us again: no starvation under constant updates.
            ahead = _rewrite(kernel, current, due)
        if ahead is None:
            return CompactionStats(key, 0, 0, False)
        version = _publish_compaction(kernel, heads, head, current, ahead, lock, actor)
    kernel.counters.add("compactions")
    kernel.counters.add("rows_rewritten", ahead.rows)
    return CompactionStats(
        key, ahead.fragments_removed, ahead.fragments_added, True, manifest_version=version
    )


def preview_compaction(
    kernel: Kernel, heads: Heads, branch: BranchName, key: TableKey
) -> CompactionStats:
    """Return what `compact_table` would do to a whole table; reads its fragment list alone."""
    table = heads.current(branch).tables[key]
    if (kept := _kept_from_us(kernel, table, branch)) is not None:
        return kept
    due = _due(kernel, table, everything=True)
    assert due is not None, "a table that is wanted whole is always due"
    removed, added = planned_compaction(
        kernel.tables,
        kernel.tables.open(*table.place),
        target_rows=due.below_rows,
        max_rows=due.max_rows,
    )
    return CompactionStats(key, removed, added, False)


def _kept_from_us(
    kernel: Kernel, table: TableVersion, branch: BranchName
) -> CompactionStats | None:
    """Say why a branch must not compact a table now, if so."""
    if layout.fork_owner(table.branch) != branch:
        return CompactionStats(table.key, 0, 0, False, "other_branch", _FOREIGN)
    loaded = being_loaded(live_pins(kernel.objects, kernel.store_clock))
    if (table.location, table.branch) in loaded:
        return CompactionStats(table.key, 0, 0, False, "load_under_way", _LOADING)
    return None


def _due(kernel: Kernel, table: TableVersion, *, everything: bool) -> Merge | None:
    options = kernel.options
    if everything:
        return Merge(options.max_rows_per_file, max(table.row_count, 1))
    handle = kernel.tables.open(*table.place)
    return due_merge(handle, options.compact_fragments, options.max_rows_per_file)


def _rewrite(
    kernel: Kernel, table: TableVersion, due: Merge, runner: Runner | None = None
) -> Compacted | None:
    return rewrite_fragments(
        kernel.tables,
        kernel.tables.open(*table.place),
        target_rows=due.below_rows,
        max_rows=due.max_rows,
        runner=runner,
    )


def _publish_compaction(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    table: TableVersion,
    ahead: Compacted,
    lock: HeldLock,
    actor: str | None,
) -> int:
    """Commit and publish a compaction under a sidecar; return the version that shows it.

    Lance moves the table by two versions.
    """
    sync_whole_files(kernel.objects, ahead.files)
    home = layout.lineage(table.location, table.branch)
    digests = {table.key: below(home, ahead.digests)}
    intent = physical_intent(kernel, head, "Optimize", (), (table,), actor, digests)
    sidecar = write_sidecar_for(kernel, intent, lock, unsigned=(table,))
    failpoint(AFTER_SIDECAR)
    handle = commit_compaction(kernel.tables, ahead, kernel.tables.open(*table.place))
    failpoint(AFTER_COMPACT)
    # Lance may take several versions; recovery looks at each of them.
    kernel.objects.sync_named(
        layout.version_file(table.location, table.branch, version)
        for version in range(table.version + 1, handle.version + 1)
    )
    moved = TableVersion(table.key, table.location, handle.version, table.branch, table.row_count)
    digests[table.key] |= below(home, moved_indexes(kernel.tables, ahead, handle))
    after = publish_moved(kernel, head, intent.commit, Changes((moved,), digests=digests))
    heads.published(intent.commit, after)
    delete_sidecar(kernel.objects, sidecar)
    return after.manifest_version


def fold_manifest(kernel: Kernel, heads: Heads, branch: BranchName) -> bool:
    """Merge small fragments of `__manifest`; True if there was something to merge.

    In tiers, so that each row is rewritten a few times however long the history gets, and with
    fresh row ids, so that Lance's per-row bookkeeping does not grow with it. The head row stays
    the last row of the newest fragment.
    """
    if not _foldable(heads.current(branch).handle):
        return False
    with kernel.locks.hold(branch_lock_name(branch), "Optimize") as lock:
        head = settled_head(kernel, heads, branch, lock)
        chosen = _foldable(head.handle)
        if not chosen:
            return False
        rows = read_fragments(head.handle, chosen)
        staged = stage_refold(kernel.tables, head.handle, chosen, rows)
        staged.sign({HEAD_PROPERTY: head_row(head)["metadata"]})
        sync_whole_files(kernel.objects, staged.files)
        started = kernel.new_operation_id(), branch, "Optimize", kernel.clock.now_us()
        sidecar = catalog_sidecar(*started, lock.epoch)
        write_sidecar(kernel.objects, sidecar)
        handle = commit_staged(kernel.tables, staged, remember=False)
        failpoint(AFTER_FOLD)
        sync_versions(kernel, [handle])
        heads.remember(with_place(head, handle, LAST_ROW, head.incarnation))
        delete_sidecar(kernel.objects, sidecar)
    kernel.counters.add("manifest_folds")
    return True


def _foldable(handle: Handle) -> list[int]:
    """Return the fragments of an over-full tier, and the newest one, which holds the head."""
    chosen = over_full_tier(handle)
    if not chosen:
        return []
    newest = fragment_rows(handle)[-1][0]
    return [*(part for part in chosen if part != newest), newest]


Indexer = Callable[[BranchName, Callable[[], bool]], None]
"""Brings the indexes of a branch up to date step by step, until it is told to stop."""


class Upkeep:
    """Runs due maintenance behind the writers of one store."""

    def __init__(self, kernel: Kernel, heads: Heads) -> None:
        self._kernel = kernel
        self._heads = heads
        self._pool: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()
        self._pending: dict[BranchName, Future[None]] = {}
        self._looked_at: dict[BranchName, int] = {}
        self._stop = threading.Event()
        self._busy: set[BranchName] = set()
        self._due: set[BranchName] = set()
        self.indexer: Indexer | None = None
        """Storage does not know which columns are looked for."""

    def soon(self, head: Head) -> None:
        """Schedule everything there is to do on a branch, whether it is time or not."""
        with self._guard:
            self._due.add(head.branch)
        self.after_commit(head)

    def after_commit(self, head: Head) -> None:
        """Schedule what a commit made due; costs nothing otherwise."""
        if self._kernel.options.maintenance != "auto":
            return
        with self._guard:
            busy = head.branch in self._busy  # who works on it looks at what is due before it ends
            if self._stop.is_set() or busy or not self._is_time(head):
                return
            self._busy.add(head.branch)
            self._looked_at[head.branch] = head.sequence
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "omnigraph-upkeep")
            self._pending[head.branch] = self._pool.submit(self._run_quietly, head)

    def _is_time(self, head: Head) -> bool:
        """Whether enough was committed since the last look, by this process or by many."""
        if head.branch in self._due:
            return True
        last = self._looked_at.get(head.branch)
        if last is None:
            return head.sequence % UPKEEP_EVERY == 0
        return head.sequence - last >= UPKEEP_EVERY

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until what was scheduled is done."""
        with self._guard:
            running = list(self._pending.values())
        for future in running:
            future.result(timeout_s)

    def close(self) -> None:
        """Give running maintenance its time box, then stop between two steps."""
        with self._guard:
            running = list(self._pending.values())
        deadline = self._kernel.clock.monotonic() + self._kernel.options.maintenance_budget_s
        for future in running:
            left = deadline - self._kernel.clock.monotonic()
            try:
                future.result(max(left, 0))
            except TimeoutError:
                self._stop.set()
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def run(self, branch: BranchName) -> list[CompactionStats]:
        """Do everything that is due on a branch, step by step."""
        return self._step(branch, list(self._heads.current(branch).tables), full=True)

    def _step(
        self, branch: BranchName, keys: Sequence[TableKey], *, full: bool, soon: bool = False
    ) -> list[CompactionStats]:
        kernel, heads = self._kernel, self._heads
        stats: list[CompactionStats] = []
        for key in keys:
            if self._stop.is_set():
                break
            stats.append(compact_table(kernel, heads, branch, key))
        while not self._stop.is_set() and fold_manifest(kernel, heads, branch):
            pass
        if (full or soon) and self.indexer is not None and not self._stop.is_set():
            self.indexer(branch, self._stop.is_set)
        if full and not self._stop.is_set():
            reconcile(kernel, heads.current(branch))
            clean_manifest(kernel, heads, branch)
            clean_projections(kernel)
            for key in keys:
                clean_table_versions(kernel, heads, branch, key)
        kernel.counters.set("manifest_fragments", heads.current(branch).handle.fragment_count)
        return stats

    def _run_quietly(self, head: Head) -> None:
        """Run behind a writer, again for as long as much is written meanwhile."""
        branch = head.branch
        while True:
            with self._guard:
                soon = branch in self._due
                self._due.discard(branch)
            try:
                self._look_at(head, soon=soon)
            except BaseException:
                with self._guard:
                    self._busy.discard(branch)
                raise
            with self._guard:
                if branch not in self._due or self._stop.is_set():
                    self._busy.discard(branch)
                    return

    def _look_at(self, head: Head, *, soon: bool) -> None:
        """Do what is due; a physical step that fails is reported, not raised."""
        branch, oldest = head.branch, head.sequence - FULL_UPKEEP_EVERY
        recent = [key for key, sequence in head.changed.items() if sequence > oldest]
        full = head.sequence % FULL_UPKEEP_EVERY < UPKEEP_EVERY
        try:
            self._step(branch, recent, full=full, soon=soon)
        except ConflictError as error:
            self._kernel.counters.add("upkeep_conflicts")
            log.info("upkeep of '%s' lost a race and will run again: %s", branch, error)
        except OmniGraphError as error:
            if not self._heads.is_live(head):
                log.debug("upkeep of '%s' ended with the branch", branch)
                return
            self._kernel.counters.add("upkeep_failures")
            log.warning("upkeep of '%s' failed: %s", branch, error)

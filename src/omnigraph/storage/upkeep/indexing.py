"""Indexes of the tables of a branch: built off the lock, published as maintenance.

Does not know which columns want one, or why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.base.runner import Runner
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.publish import TableMove, physical_intent, publish
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.drift import without_drift
from omnigraph.storage.recovery.recover import settled_head
from omnigraph.storage.tables.index import IndexSpec, stage_drop, stage_index, write_index
from omnigraph.storage.tables.inherited import lost_indexes, unusable_indexes
from omnigraph.storage.tables.stage import Staged

log = logging.getLogger(__name__)

AFTER_WRITE = register("index.after_write", "an index is written; nothing names it")


def build_index(
    kernel: Kernel,
    heads: Heads,
    branch: BranchName,
    key: TableKey,
    spec: IndexSpec,
    runner: Runner | None = None,
    actor: str | None = None,
    *,
    adds: bool = False,
    most_rows: int | None = None,
) -> bool:
    """Build an index over all rows, in the place of what has its name, and publish it.

    What `adds` is over the rows that the index of that name does not cover, or `most_rows` of them,
    and comes beside it.

    Writers go on meanwhile; what they wrote is not in it. False if the table is empty, belongs to
    another branch, or was replaced, altered or compacted while the index was built.
    """
    table = heads.current(branch).tables.get(key)
    if table is None or layout.fork_owner(table.branch) != branch:
        return False
    base = kernel.tables.open(*table.place)
    built = write_index(kernel.tables, base, spec, runner, adds=adds, most_rows=most_rows)
    if built is None:
        return False
    failpoint(AFTER_WRITE)
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        current = head.tables.get(key)
        if current is None or (current.location, current.branch) != (table.location, table.branch):
            return False
        head = without_drift(kernel, heads, head, current, lock)
        current = head.tables[key]
        staged = stage_index(kernel.tables, kernel.tables.open(*current.place), built)
        if staged is None:
            return False
        _publish(kernel, heads, head, current, staged, lock, actor)
    return True


def remove_index(
    kernel: Kernel, heads: Heads, branch: BranchName, key: TableKey, name: str
) -> bool:
    """Drop an index and publish that; False if there is none, or the table is another branch's."""
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        table = head.tables.get(key)
        if table is None or layout.fork_owner(table.branch) != branch:
            return False
        head = without_drift(kernel, heads, head, table, lock)
        return drop_indexes(kernel, heads, head, head.tables[key], [name], lock) is not head


def drop_unusable_indexes(
    kernel: Kernel, heads: Heads, branch: BranchName, key: TableKey, actor: str | None = None
) -> bool:
    """Take out the indexes of a table that cannot be read; False if there are none of this branch.

    Reads every index of the table whole: for when one was found to be lost.
    """
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        table = head.tables.get(key)
        if table is None or layout.fork_owner(table.branch) != branch:
            return False
        head = without_drift(kernel, heads, head, table, lock)
        current = head.tables[key]
        lost = sorted(unusable_indexes(kernel.tables.open_cold(*current.place)))
        if not lost:
            return False
        drop_indexes(kernel, heads, head, current, lost, lock, actor)
        log.warning("took out %s of %s on '%s', which are lost", ", ".join(lost), key, branch)
        return True


def drop_indexes(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    table: TableVersion,
    names: Sequence[str],
    lock: HeldLock,
    actor: str | None = None,
) -> Head:
    """Drop indexes of a table and publish that; the head as it is if there are none."""
    staged = stage_drop(kernel.tables, kernel.tables.open(*table.place), names)
    return head if staged is None else _publish(kernel, heads, head, table, staged, lock, actor)


def mend_indexes(kernel: Kernel, heads: Heads, head: Head) -> Head:
    """Drop indexes of a branch that its tables cannot find any more; return the head after that.

    They were moved into the branch by a compaction of an older program (see `tables.inherited`).
    Costs a listing per table of the branch's own.
    """
    branch = head.branch
    if branch == layout.MAIN or not any(_lost_in(kernel, head).values()):
        return head
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        for table, names in _lost_in(kernel, head).items():
            if names:
                head = drop_indexes(kernel, heads, head, table, names, lock)
                log.warning(
                    "dropped %s of %s on '%s', which a compaction had lost; ensure_indices builds "
                    "them again",
                    ", ".join(names),
                    table.key,
                    branch,
                )
    return head


def _lost_in(kernel: Kernel, head: Head) -> dict[TableVersion, list[str]]:
    tables = [
        table
        for table in head.tables.values()
        if table.branch is not None and layout.fork_owner(table.branch) == head.branch
    ]
    asks = (partial(_lost, kernel, table) for table in tables)
    return dict(zip(tables, kernel.objects.together(*asks), strict=True))


def _lost(kernel: Kernel, table: TableVersion) -> list[str]:
    return lost_indexes(kernel.tables, *table.place)


def _publish(
    kernel: Kernel,
    heads: Heads,
    head: Head,
    table: TableVersion,
    staged: Staged,
    lock: HeldLock,
    actor: str | None,
) -> Head:
    moved = TableVersion(
        table.key, table.location, table.version + 1, table.branch, table.row_count
    )
    move = TableMove(table.key, staged)
    intent = physical_intent(kernel, head, "EnsureIndices", (move,), (moved,), actor)
    after = publish(kernel, head, intent, lock)
    heads.published(intent.commit, after)
    return after

"""Indexes of the tables of a branch: built off the lock, published as maintenance.

Does not know which columns want one, or why.
"""

from __future__ import annotations

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.storage import layout
from omnigraph.storage.holders import HeldLock
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import branch_lock_name
from omnigraph.storage.manifest import Head
from omnigraph.storage.publish import TableMove, physical_intent, publish
from omnigraph.storage.records import TableVersion
from omnigraph.storage.recovery import settled_head
from omnigraph.storage.snapshot import Heads
from omnigraph.storage.tables.index import IndexSpec, stage_drop, stage_index, write_index
from omnigraph.storage.tables.spread import Spread
from omnigraph.storage.tables.stage import Staged

AFTER_WRITE = register("index.after_write", "an index is written; nothing names it")


def build_index(
    kernel: Kernel,
    heads: Heads,
    branch: BranchName,
    key: TableKey,
    spec: IndexSpec,
    spread: Spread | None = None,
) -> bool:
    """Build an index over all rows, in the place of what has its name, and publish it.

    Writers go on meanwhile; what they wrote is not in it. False if the table is empty, belongs to
    another branch, or was replaced or compacted while the index was built.
    """
    table = heads.current(branch).tables[key]
    if layout.fork_owner(table.branch) != branch:
        return False
    built = write_index(kernel.tables, kernel.tables.open(*table.place), spec, spread)
    if built is None:
        return False
    failpoint(AFTER_WRITE)
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        current = head.tables.get(key)
        if current is None or (current.location, current.branch) != (table.location, table.branch):
            return False
        staged = stage_index(kernel.tables, kernel.tables.open(*current.place), built)
        if staged is None:
            return False
        _publish(kernel, heads, head, current, staged, lock)
    return True


def remove_index(
    kernel: Kernel, heads: Heads, branch: BranchName, key: TableKey, name: str
) -> bool:
    """Drop an index and publish that; False if there is none, or the table is another branch's."""
    with kernel.locks.hold(branch_lock_name(branch), "EnsureIndices") as lock:
        head = settled_head(kernel, heads, branch, lock)
        table = head.tables[key]
        if layout.fork_owner(table.branch) != branch:
            return False
        staged = stage_drop(kernel.tables, kernel.tables.open(*table.place), name)
        if staged is None:
            return False
        _publish(kernel, heads, head, table, staged, lock)
    return True


def _publish(
    kernel: Kernel, heads: Heads, head: Head, table: TableVersion, staged: Staged, lock: HeldLock
) -> None:
    moved = TableVersion(
        table.key, table.location, table.version + 1, table.branch, table.row_count
    )
    move = TableMove(table.key, staged)
    intent = physical_intent(kernel, head, "EnsureIndices", (move,), (moved,))
    heads.remember(publish(kernel, head, intent, lock))

"""The parts every storage operation works with, bundled once per open graph.

Holds no state of its own and makes no decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.ids import ULIDS, CommitId, OperationId, UlidSource
from omnigraph.base.uri import GraphUri
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.files.store_clock import StoreClock
from omnigraph.storage.identity import Identity
from omnigraph.storage.locks.by_name import Locks
from omnigraph.storage.options import StorageOptions
from omnigraph.storage.tables.first_reads import FirstReads
from omnigraph.storage.tables.handle import Tables


@dataclass(frozen=True, slots=True)
class Kernel:
    """Objects, tables, identity, locks, time, ids, counters and settings of one open graph."""

    root: GraphUri
    options: StorageOptions
    objects: Objects
    tables: Tables
    first_reads: FirstReads
    identity: Identity
    locks: Locks
    clock: Clock
    store_clock: StoreClock
    """Tells the age of files, pins and loads."""
    ulids: UlidSource
    counters: Counters

    def new_commit_id(self) -> CommitId:
        """Return a fresh commit id."""
        return CommitId(self.ulids.next(self.clock.now_us()))

    def new_operation_id(self) -> OperationId:
        """Return a fresh operation id."""
        return OperationId(self.ulids.next(self.clock.now_us()))


def build_kernel(
    root: GraphUri,
    options: StorageOptions,
    clock: Clock = SYSTEM_CLOCK,
    *,
    read_only: bool = False,
) -> Kernel:
    """Wire the parts for one graph root; opens nothing."""
    counters = Counters()
    objects = Objects(root, options, counters)
    tables = Tables(objects, options)
    return Kernel(
        root,
        options,
        objects,
        tables,
        FirstReads(objects, tables, wanted=options.check_files == "first_read"),
        Identity(objects, tables),
        Locks(objects, options, clock, counters),
        clock,
        StoreClock(objects, clock, may_write=not read_only),
        ULIDS,
        counters,
    )

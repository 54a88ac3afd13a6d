"""Long bulk writes: a place for their files, and a note that their tables are in use.

A load runs for minutes, in many processes, before it commits. While it is registered, upkeep
neither compacts its tables nor removes versions from its base on, nor files it has staged. The
registration is a pin that is renewed for as long as the process lives; it lapses by itself when
the process dies. Nothing depends on it for correctness: a load whose registration lapsed still
commits right, or is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from omnigraph.base.ids import OperationId, TableKey
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.storage import layout
from omnigraph.storage.intent import fork_table
from omnigraph.storage.locks import branch_lock_name
from omnigraph.storage.pins import Pin, create_pin
from omnigraph.storage.plan import Plan
from omnigraph.storage.publish import physical_intent, publish
from omnigraph.storage.records import TableVersion
from omnigraph.storage.recovery import settled_head
from omnigraph.storage.tables.foreign import FragmentTarget, fragment_target

log = logging.getLogger(__name__)

LOAD_TTL_S = 300.0
_BEATS_PER_LIFE = 4


class Load:
    """A registered load; end it, or use it as a context manager."""

    def __init__(
        self,
        plan: Plan,
        operation_id: OperationId,
        tables: Mapping[TableKey, TableVersion],
        ttl_s: float,
    ) -> None:
        self.operation_id = operation_id
        self._kernel = plan.kernel
        self._tables = tables
        self._ttl_s = ttl_s
        self._pin = _register(plan, operation_id, tables, ttl_s)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="omnigraph-load")
        self._thread.start()

    @property
    def staging(self) -> str:
        """Return the address below which the load may keep files until it ends."""
        return self._kernel.root.join(layout.staging(self.operation_id))

    def target(self, key: str) -> FragmentTarget:
        """Return where tasks write fragments of one of the load's tables."""
        table = self._tables.get(TableKey(key))
        if table is None:
            raise BadRequestError(f"'{key}' is not one of the tables of this load")
        tables = self._kernel.tables
        return fragment_target(tables, tables.open(table.location, table.branch, table.version))

    def end(self) -> None:
        """Let upkeep have the tables again and drop staged files; ending twice is fine."""
        if self._done.is_set():
            return
        self._done.set()
        self._thread.join()
        self._kernel.objects.delete_prefix(layout.staging(self.operation_id))
        self._pin.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def _keep(self) -> None:
        while not self._done.wait(self._ttl_s / _BEATS_PER_LIFE):
            try:
                self._pin.renew(self._ttl_s)
            except StorageError as error:  # tried again at the next beat, long before it lapses
                log.warning(
                    "load %s could not renew its registration: %s", self.operation_id, error
                )


def start_load(plan: Plan, keys: Iterable[str], ttl_s: float = LOAD_TTL_S) -> Load:
    """Register a load into tables of the plan's branch.

    The branch gets its own lineage of tables it still shares, as a physical commit: their files
    must have a place before there is anything to commit.
    """
    wanted = sorted({plan.base.table(key).key for key in keys})
    operation = plan.kernel.new_operation_id()
    return Load(plan, operation, _own_lineages(plan, wanted), ttl_s)


def _own_lineages(plan: Plan, keys: list[TableKey]) -> dict[TableKey, TableVersion]:
    if all(_is_owned(plan, plan.base.tables[key]) for key in keys):
        return {key: plan.base.tables[key] for key in keys}
    kernel, heads = plan.kernel, plan.heads
    with kernel.locks.hold(branch_lock_name(plan.branch), plan.writer_kind) as lock:
        head = settled_head(kernel, heads, plan.branch, lock)
        shared = [
            head.tables[key]
            for key in keys
            if key in head.tables and not _is_owned(plan, head.tables[key])
        ]
        forked = tuple(
            table._replace(branch=fork_table(kernel, plan.branch, table).branch) for table in shared
        )
        if forked:
            intent = physical_intent(kernel, head, plan.writer_kind, (), forked)
            head = publish(kernel, head, intent, lock)
            heads.remember(head)
    return {key: head.tables[key] for key in keys if key in head.tables}


def _is_owned(plan: Plan, table: TableVersion) -> bool:
    return layout.fork_owner(table.branch) == plan.branch


def _register(
    plan: Plan, operation: OperationId, tables: Mapping[TableKey, TableVersion], ttl_s: float
) -> Pin:
    """Pin what the load was planned on, and every later version of the tables it writes."""
    kernel, base = plan.kernel, plan.base
    return create_pin(
        kernel.objects,
        kernel.clock,
        kernel.ulids,
        branch=base.branch,
        commit_id=base.commit_id,
        tables={key: table.as_list() for key, table in base.tables.items()},
        ttl_s=ttl_s,
        load=operation,
        loading={key: table.as_list() for key, table in tables.items()},
    )

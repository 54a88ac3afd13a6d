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

from omnigraph.base.closing import Closing
from omnigraph.base.ids import OperationId, TableKey
from omnigraph.errors import BadRequestError, StorageError
from omnigraph.storage.commit.intent import fork_table
from omnigraph.storage.commit.write_set import WriteSet
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import Pin, create_pin
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.locks.by_name import branch_lock_name
from omnigraph.storage.manifest.publish import physical_intent, publish
from omnigraph.storage.recovery.recover import settled_head
from omnigraph.storage.tables.differ import OwnFragment
from omnigraph.storage.tables.foreign import (
    ForeignFragment,
    FragmentTarget,
    fragment_target,
    link_fragment,
)

log = logging.getLogger(__name__)

LOAD_TTL_S = 300.0
_BEATS_PER_LIFE = 4


class BulkLoad(Closing):
    """A registered load; close it, or use it as a context manager."""

    def __init__(
        self,
        write_set: WriteSet,
        operation_id: OperationId,
        tables: Mapping[TableKey, TableVersion],
        ttl_s: float,
    ) -> None:
        self.operation_id = operation_id
        self._kernel = write_set.kernel
        self._tables = tables
        self._ttl_s = ttl_s
        self._pin = _register(write_set, operation_id, tables, ttl_s)
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

    def take_over(
        self, key: str, fragment: OwnFragment, digests: Mapping[str, str]
    ) -> ForeignFragment:
        """Take over a fragment that another lineage of a table has, without reading its rows.

        Its state knows the `digests` of its files.
        """
        return link_fragment(self._kernel.tables, self.target(key), fragment, digests)

    def close(self) -> None:
        """Let upkeep have the tables again and drop staged files; ending twice is fine."""
        if self._done.is_set():
            return
        self._done.set()
        self._thread.join()
        self._kernel.objects.delete_prefix(layout.staging(self.operation_id))
        self._pin.close()

    def _keep(self) -> None:
        while not self._done.wait(self._ttl_s / _BEATS_PER_LIFE):
            try:
                self._pin.renew(self._ttl_s)
            except StorageError as error:  # tried again at the next beat, long before it lapses
                log.warning(
                    "load %s could not renew its registration: %s", self.operation_id, error
                )


def start_load(write_set: WriteSet, keys: Iterable[str], ttl_s: float = LOAD_TTL_S) -> BulkLoad:
    """Register a load into tables of the write_set's branch.

    The branch gets its own lineage of tables it still shares, as a physical commit: their files
    must have a place before there is anything to commit.
    """
    wanted = sorted({write_set.base.table(key).key for key in keys})
    operation = write_set.kernel.new_operation_id()
    return BulkLoad(write_set, operation, _own_lineages(write_set, wanted), ttl_s)


def _own_lineages(write_set: WriteSet, keys: list[TableKey]) -> dict[TableKey, TableVersion]:
    if all(_is_owned(write_set, write_set.base.tables[key]) for key in keys):
        return {key: write_set.base.tables[key] for key in keys}
    kernel, heads = write_set.kernel, write_set.heads
    with kernel.locks.hold(branch_lock_name(write_set.branch), write_set.writer_kind) as lock:
        head = settled_head(kernel, heads, write_set.branch, lock)
        shared = [
            head.tables[key]
            for key in keys
            if key in head.tables and not _is_owned(write_set, head.tables[key])
        ]
        forked = tuple(
            table._replace(branch=fork_table(kernel, write_set.branch, table).branch)
            for table in shared
        )
        if forked:
            intent = physical_intent(kernel, head, write_set.writer_kind, (), forked)
            head = publish(kernel, head, intent, lock)
            heads.published(intent.commit, head)
    return {key: head.tables[key] for key in keys if key in head.tables}


def _is_owned(write_set: WriteSet, table: TableVersion) -> bool:
    return layout.fork_owner(table.branch) == write_set.branch


def _register(
    write_set: WriteSet,
    operation: OperationId,
    tables: Mapping[TableKey, TableVersion],
    ttl_s: float,
) -> Pin:
    """Pin what the load was planned on, and every later version of the tables it writes."""
    kernel, base = write_set.kernel, write_set.base
    return create_pin(
        kernel.objects,
        kernel.store_clock,
        kernel.ulids,
        branch=base.branch,
        commit_id=base.commit_id,
        tables={key: table.as_list() for key, table in base.tables.items()},
        ttl_s=ttl_s,
        load=operation,
        loading={key: table.as_list() for key, table in tables.items()},
    )

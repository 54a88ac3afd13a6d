"""Creating a graph: all of it, or nothing.

The manifest is written last. Until it exists there is no graph, so an interrupted `init` can be
run again, and a failed one takes its files away.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import TableKey
from omnigraph.errors import AlreadyExistsError, BadRequestError, OmniGraphError, StorageError
from omnigraph.storage import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import REFS_LOCK
from omnigraph.storage.manifest import (
    GRAPH_ROOT_KEY,
    GRAPH_UUID_KEY,
    SCHEMA,
    STAMP,
    STAMP_KEY,
    State,
    head_row,
    history_rows,
    next_state,
    open_manifest,
    read_head,
    rows_of,
)
from omnigraph.storage.publish import digest, sync_versions
from omnigraph.storage.records import Changes, Commit, TableVersion
from omnigraph.storage.sidecar import OutcomePendingError
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.whole import harden

AFTER_FILES = register("init.after_files", "contract files are written; no table exists")
AFTER_TABLES = register("init.after_tables", "tables exist; the manifest does not")
BEFORE_SYNC = register("init.before_sync", "the manifest is written, but not durable")
AFTER_MANIFEST = register("init.after_manifest", "the graph exists; projections do not")


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table to create: its key and columns."""

    key: TableKey
    schema: pa.Schema


def create_graph(kernel: Kernel, tables: Sequence[TableSpec], files: Mapping[str, bytes]) -> None:
    """Write a new graph.

    Raises:
        AlreadyExistsError: there is one already; nothing was touched.
    """
    _require_no_graph(kernel)
    keys = [spec.key for spec in tables]
    if len(set(keys)) != len(keys):
        raise BadRequestError("a table key is given twice")
    locations = {layout.table_location(key) for key in keys}
    kernel.objects.probe_create_only(f"{layout.LOCKS_DIR}/probe-{uuid.uuid4().hex}")
    with kernel.locks.hold(REFS_LOCK, "init"):
        _require_no_graph(kernel)
        try:
            _write_graph(kernel, tables, files)
        except OmniGraphError as error:
            try:
                _take_away(kernel, files, locations)
            except StorageError as failure:
                raise OutcomePendingError(f"creating {kernel.root}", error) from failure
            raise


def _require_no_graph(kernel: Kernel) -> None:
    """Refuse a place that holds a graph; the torn remains of an unfinished init are not one."""
    if not kernel.objects.list(f"{layout.MANIFEST}/{layout.VERSIONS_DIR}"):
        return
    if kernel.objects.exists(layout.INIT_INTENT) and not _is_readable(kernel):
        return
    raise AlreadyExistsError(
        f"there is a graph at {kernel.root}", hint="open it, or choose another place"
    )


def _is_readable(kernel: Kernel) -> bool:
    try:
        read_head(open_manifest(kernel, layout.MAIN), layout.MAIN)
    except (DamagedError, SnapshotExpiredError):
        return False
    return True


def _write_graph(kernel: Kernel, tables: Sequence[TableSpec], files: Mapping[str, bytes]) -> None:
    kernel.objects.put(layout.INIT_INTENT, b"")
    kernel.objects.delete_prefix(layout.MANIFEST)
    kernel.objects.put(layout.DEPENDENTS_NOTED, b"")  # there is no branch yet
    for name, content in sorted(files.items()):
        kernel.objects.put(name, content)
    failpoint(AFTER_FILES)
    handles: list[Handle] = []
    registered: list[TableVersion] = []
    for spec in tables:
        location = layout.table_location(spec.key)
        kernel.objects.delete_prefix(location)  # remains of an interrupted init
        handle = kernel.tables.create(location, spec.schema.empty_table())
        handles.append(handle)
        registered.append(TableVersion(spec.key, location, handle.version, None, 0))
    sync_versions(kernel, handles)
    failpoint(AFTER_TABLES)
    changes = Changes(
        registered=tuple(registered), files={name: digest(files[name]) for name in sorted(files)}
    )
    manifest = kernel.tables.create(layout.MANIFEST, _first_rows(kernel, changes))
    failpoint(BEFORE_SYNC)
    written = kernel.objects.list(f"{layout.MANIFEST}/{layout.DATA_DIR}")
    harden(kernel.objects, (info.name for info in written))
    sync_versions(kernel, [manifest])
    failpoint(AFTER_MANIFEST)
    kernel.objects.delete(layout.INIT_INTENT)


def _first_rows(kernel: Kernel, changes: Changes) -> pa.Table:
    """Return the genesis commit's rows, carrying the stamp and the graph's identity."""
    commit_id = kernel.new_commit_id()
    now = kernel.clock.now_us()
    commit = Commit(
        commit_id, 0, layout.MAIN, 1, None, None, now, None, "logical", commit_id,
        tuple(table.key for table in changes.registered),
    )  # fmt: skip
    nothing = State(layout.MAIN, commit_id, 0, commit_id, {}, {}, {}, 0)
    head = next_state(nothing, commit, changes)
    rows = pa.concat_tables([history_rows(nothing, commit, changes), rows_of([head_row(head)])])
    identity = {
        STAMP_KEY: str(STAMP),
        GRAPH_UUID_KEY: str(uuid.uuid4()),
        GRAPH_ROOT_KEY: str(kernel.root),
    }
    return rows.cast(SCHEMA.with_metadata(identity))


def _take_away(kernel: Kernel, files: Mapping[str, bytes], locations: set[str]) -> None:
    """Undo an unfinished init: first what makes it a graph, last the note that it is unfinished."""
    for name in (layout.MANIFEST, *sorted(locations)):
        kernel.objects.delete_prefix(name)
    kernel.objects.delete(*sorted(files), layout.INIT_INTENT)

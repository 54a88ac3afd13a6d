"""Creating a graph: all of it, or nothing.

The manifest is written last. Until it exists there is no graph, so an interrupted `init` can be
run again, and a failed one takes its files away.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.base.failpoints import failpoint, register
from omnigraph.errors import AlreadyExistsError, BadRequestError, OmniGraphError, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes, Commit, TableSpec, TableVersion, digest
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.identity import GRAPH_UUID_KEY
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import REFS_LOCK
from omnigraph.storage.manifest.contracts import keep_contents
from omnigraph.storage.manifest.publish import sync_versions
from omnigraph.storage.manifest.rows import (
    GRAPH_ROOT_KEY,
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
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.versions import note_kept_from
from omnigraph.storage.tables.whole import sync_whole_files

AFTER_FILES = register("init.after_files", "contract files are written; no table exists")
AFTER_TABLES = register("init.after_tables", "tables exist; the manifest does not")
BEFORE_SYNC = register("init.before_sync", "the manifest is written, but not durable")
AFTER_MANIFEST = register("init.after_manifest", "the graph exists; projections do not")


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
    graph = str(uuid.uuid4())
    note_kept_from(kernel.objects, layout.MANIFEST, None, 0, graph)
    keep_contents(kernel, files.values())
    for name, content in sorted(files.items()):
        if name in layout.CONTRACT_FILES:
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
    manifest = kernel.tables.create(layout.MANIFEST, _first_rows(kernel, graph, changes))
    failpoint(BEFORE_SYNC)
    written = kernel.objects.list(f"{layout.MANIFEST}/{layout.DATA_DIR}")
    sync_whole_files(kernel.objects, (info.name for info in written))
    sync_versions(kernel, [manifest])
    failpoint(AFTER_MANIFEST)
    kernel.objects.delete(layout.INIT_INTENT)


def _first_rows(kernel: Kernel, graph: str, changes: Changes) -> pa.Table:
    """Return the genesis commit's rows, carrying the stamp and the graph's identity."""
    commit_id = kernel.new_commit_id()
    commit = Commit.first(
        id=commit_id,
        branch=layout.MAIN,
        manifest_version=1,
        created_at_us=kernel.clock.now_us(),
        tables=tuple(table.key for table in changes.registered),
    )
    nothing = State(layout.MAIN, commit_id, 0, commit_id, {}, {}, {}, 0)
    head = next_state(nothing, commit, changes)
    history = history_rows(nothing, commit, changes)
    head = replace(head, rows=len(history) + 1)
    rows = pa.concat_tables([history, rows_of([head_row(head)])])
    identity = {
        STAMP_KEY: str(STAMP),
        GRAPH_UUID_KEY: graph,
        GRAPH_ROOT_KEY: str(kernel.root),
    }
    return rows.cast(SCHEMA.with_metadata(identity))


def _take_away(kernel: Kernel, files: Mapping[str, bytes], locations: set[str]) -> None:
    """Undo an unfinished init: first what makes it a graph, last the note that it is unfinished."""
    for name in (layout.MANIFEST, *sorted(locations), layout.CONTRACTS_DIR):
        kernel.objects.delete_prefix(name)
    kernel.objects.delete(*sorted(files), layout.INIT_INTENT)

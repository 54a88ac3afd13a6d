"""Reading manifests of formats 1 to 3, which have no head row and no commits.

Their snapshot is derived: per table the highest version, unless a tombstone buries it. Used by
readers of old graphs, which never change them, and by `upgrade`, which does.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import FormatError
from omnigraph.storage import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import TABLE, TABLE_VERSION, TOMBSTONE, State
from omnigraph.storage.records import Commit, TableVersion
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.scan import Reader

ROW_VERSION = "_row_created_at_version"


def legacy_rows(handle: Handle) -> list[dict[str, Any]]:
    """Return the rows of an old manifest, each with the version that brought it."""
    names = handle.dataset.schema.names
    rows: list[dict[str, Any]] = Reader(handle).scan([*names, ROW_VERSION]).to_pylist()
    return rows


def derive_tables(rows: list[dict[str, Any]]) -> dict[TableKey, TableVersion]:
    """Return the snapshot that old rows describe.

    Raises:
        FormatError: a version row has no table row, or lacks a field.
    """
    locations = {row["table_key"]: row["location"] for row in rows if row["object_type"] == TABLE}
    buried: dict[str, int] = {}
    newest: dict[str, dict[str, Any]] = {}
    for row in rows:
        key, version = row["table_key"], row["table_version"]
        if row["object_type"] == TOMBSTONE:
            buried[key] = max(buried.get(key, 0), version)
        elif row["object_type"] == TABLE_VERSION and (
            key not in newest or version > newest[key]["table_version"]
        ):
            newest[key] = row
    tables = {}
    for key, row in sorted(newest.items()):
        if buried.get(key, -1) >= row["table_version"]:
            continue
        if locations.get(key) is None or row["row_count"] is None:
            raise FormatError(f"the old manifest's rows for {key} are incomplete")
        tables[TableKey(key)] = TableVersion(
            TableKey(key),
            locations[key],
            row["table_version"],
            row["table_branch"],
            row["row_count"],
        )
    return tables


def legacy_commits(kernel: Kernel, branch: BranchName) -> list[Commit]:
    """Return the commits an old graph recorded for a branch, oldest first."""
    if not kernel.objects.list(f"{layout.COMMITS}/{layout.VERSIONS_DIR}"):
        return []
    lineage = layout.lance_branch(branch)
    ref = None if lineage is None else layout.branch_ref(layout.COMMITS, lineage)
    on = lineage if ref is not None and kernel.objects.exists(ref) else None
    rows = Reader(kernel.tables.open_latest(layout.COMMITS, on)).scan()
    actors = _actors(kernel)
    stored = sorted(
        _with_micros(rows).to_pylist(),
        key=lambda row: (row["manifest_version"], row["created_at"], row["graph_commit_id"]),
    )
    return [
        Commit(
            CommitId(row["graph_commit_id"]),
            sequence,
            BranchName(row["manifest_branch"] or layout.MAIN),
            row["manifest_version"],
            row["parent_commit_id"],
            row["merged_parent_commit_id"],
            row["created_at"],
            actors.get(row["graph_commit_id"]),
            "logical",
            CommitId(row["graph_commit_id"]),
        )
        for sequence, row in enumerate(stored)
    ]


def derive_state(kernel: Kernel, branch: BranchName, handle: Handle) -> State:
    """Return the state of a branch of an old graph, without writing anything."""
    tables = derive_tables(legacy_rows(handle))
    commits = legacy_commits(kernel, branch)
    last = commits[-1] if commits else None
    commit_id = last.id if last is not None else CommitId(f"manifest:{branch}:v{handle.version}")
    sequence = last.sequence if last is not None else 0
    changed = dict.fromkeys(tables, sequence)
    return State(branch, commit_id, sequence, commit_id, tables, changed, {}, len(commits))


def _actors(kernel: Kernel) -> dict[str, str]:
    if not kernel.objects.list(f"{layout.COMMIT_ACTORS}/{layout.VERSIONS_DIR}"):
        return {}
    rows = Reader(kernel.tables.open_latest(layout.COMMIT_ACTORS, None)).scan()
    return dict(zip(rows["graph_commit_id"].to_pylist(), rows["actor_id"].to_pylist(), strict=True))


def _with_micros(rows: pa.Table) -> pa.Table:
    at = rows.column_names.index("created_at")
    return rows.set_column(at, "created_at", rows["created_at"].cast(pa.int64()))

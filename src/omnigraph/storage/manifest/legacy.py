"""Reading manifests of formats 1 to 3, which have no head row and no commits.

Their snapshot is derived: per table the highest version, unless a tombstone buries it. Used by
readers of old graphs, which never change them, and by `upgrade`, which does.
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit, TableVersion, digest
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import (
    HEAD,
    NO_ADDRESS,
    TABLE,
    TABLE_VERSION,
    TOMBSTONE,
    Head,
    State,
    commit_row,
    decode_head,
    file_row,
    find_head,
    head_row,
    read_head,
    read_rows,
    rows_of,
)
from omnigraph.storage.tables.handle import Handle, in_memory
from omnigraph.storage.tables.predicate import equals
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
            id=CommitId(row["graph_commit_id"]),
            sequence=sequence,
            branch=BranchName(row["manifest_branch"] or layout.MAIN),
            manifest_version=row["manifest_version"],
            parent=row["parent_commit_id"],
            merged_parent=row["merged_parent_commit_id"],
            created_at_us=row["created_at"],
            actor=actors.get(row["graph_commit_id"]),
            kind="logical",
            logical_id=CommitId(row["graph_commit_id"]),
        )
        for sequence, row in enumerate(stored)
    ]


def upgraded_rows(kernel: Kernel, branch: BranchName, handle: Handle, genesis: Commit) -> pa.Table:
    """Return the rows an old manifest would have in the current format.

    `genesis` stands for the past of a graph that recorded no commits.
    """
    rows = legacy_rows(handle)
    tables = derive_tables(rows)
    commits = legacy_commits(kernel, branch) or [genesis]
    last = commits[-1]
    locations = {row["table_key"]: row["location"] for row in rows if row["location"]}
    stamped = [_with_sequence(row, commits, locations) for row in rows]
    files = _files(kernel)
    recorded = [file_row(name, stated, 0) for name, stated in files.items()]
    recorded += [commit_row(commit) for commit in commits]
    state = State(
        branch,
        last.id,
        last.sequence,
        last.id,
        tables,
        {key: _changed_at(stamped, key) for key in tables},
        files,
        len(commits),
        rows=len(stamped) + len(recorded) + 1,
    )
    return rows_of([*stamped, *recorded, head_row(state)])


def read_legacy(kernel: Kernel, branch: BranchName, handle: Handle) -> Head:
    """Return the head of a branch of an old graph, without writing anything.

    Its rows are those an upgrade would write, kept in memory: history, commits and files are
    then read as from any graph.
    """
    if len(read_rows(handle, equals("object_id", HEAD))):
        return read_head(handle, branch)  # an upgrade is near its end, or was cut off there
    told = kernel.objects.info(layout.version_file(handle.location, handle.branch, handle.version))
    commit_id = CommitId(f"manifest:{branch}:v{handle.version}")
    genesis = Commit.first(
        id=commit_id,
        branch=branch,
        manifest_version=handle.version,
        created_at_us=0 if told is None else told.modified_us,
    )
    shadow = in_memory(handle, upgraded_rows(kernel, branch, handle, genesis))
    return decode_head(branch, shadow, find_head(shadow)[0], NO_ADDRESS)


def _with_sequence(
    row: dict[str, Any], commits: list[Commit], locations: dict[str, str]
) -> dict[str, Any]:
    """Give a history row the sequence of the commit that published it."""
    kept = {name: value for name, value in row.items() if name != ROW_VERSION}
    if row["object_type"] not in (TABLE_VERSION, TOMBSTONE):
        return kept
    reached = [commit for commit in commits if commit.manifest_version >= row[ROW_VERSION]]
    stated = orjson.loads(row["metadata"]) if row["metadata"] else {}
    stated["sequence"] = reached[0].sequence if reached else commits[-1].sequence
    if row["object_type"] == TABLE_VERSION:
        stated["location"] = locations[row["table_key"]]
    return {**kept, "metadata": orjson.dumps(stated).decode()}


def _changed_at(rows: list[dict[str, Any]], key: str) -> int:
    sequences = [
        orjson.loads(row["metadata"])["sequence"]
        for row in rows
        if row["table_key"] == key and row["object_type"] == TABLE_VERSION
    ]
    return max(sequences, default=0)


def _files(kernel: Kernel) -> dict[str, str]:
    """Return the digests of the contract files an old graph has."""
    found = {name: kernel.objects.find(name) for name in layout.CONTRACT_FILES}
    return {name: digest(content) for name, content in found.items() if content is not None}


def _actors(kernel: Kernel) -> dict[str, str]:
    if not kernel.objects.list(f"{layout.COMMIT_ACTORS}/{layout.VERSIONS_DIR}"):
        return {}
    rows = Reader(kernel.tables.open_latest(layout.COMMIT_ACTORS, None)).scan()
    return dict(zip(rows["graph_commit_id"].to_pylist(), rows["actor_id"].to_pylist(), strict=True))


def _with_micros(rows: pa.Table) -> pa.Table:
    at = rows.column_names.index("created_at")
    return rows.set_column(at, "created_at", rows["created_at"].cast(pa.int64()))

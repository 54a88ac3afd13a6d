"""`__manifest`: which version of which table belongs to the graph, and every commit.

Owns the columns, the row formats, the head row and the one transaction that publishes. The
head row states the whole current snapshot; it is the compare-and-swap of every publish. It is
written as the last row of the newest fragment, so reading it touches one row however long the
history is. Knows nothing of locks, staging or recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import FormatError
from omnigraph.storage import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.records import Changes, Commit, TableVersion
from omnigraph.storage.tables.commit import commit_staged, transaction_facts
from omnigraph.storage.tables.failures import DamagedError, lance_errors
from omnigraph.storage.tables.handle import PRIMARY_KEY, Handle
from omnigraph.storage.tables.predicate import AllOf, Compare, Predicate, equals, is_in
from omnigraph.storage.tables.scan import ROW_ADDRESS, Reader
from omnigraph.storage.tables.stage import Staged, stage_swap

STAMP = 4
STAMP_KEY = "omnigraph:internal_schema_version"
GRAPH_UUID_KEY = "omnigraph:graph_uuid"
GRAPH_ROOT_KEY = "omnigraph:root_uri"

HEAD = "graph_head"
COMMIT = "graph_commit"
TABLE = "table"
TABLE_VERSION = "table_version"
TOMBSTONE = "table_tombstone"
HEAD_PROPERTY = "omnigraph:head"
NO_ADDRESS = -1  # a state that was derived, not read from a head row
LAST_ROW = -2  # where every publish and every fold puts the head row

SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={PRIMARY_KEY: b"true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True)
class State:
    """What a head row states: the whole graph on one branch after one commit."""

    branch: BranchName
    commit_id: CommitId
    sequence: int
    logical_id: CommitId
    tables: Mapping[TableKey, TableVersion]
    changed: Mapping[TableKey, int]
    """Per table, the sequence of the last *logical* commit that touched it."""
    files: Mapping[str, str]
    """Digest of every contract file."""
    commit_count: int
    """Commit rows in this manifest, including those merged in from other branches."""


@dataclass(frozen=True, slots=True)
class Head(State):
    """The state of a branch, and where it was read."""

    manifest_version: int
    handle: Handle
    address: int
    """Row address of the head row, valid on `handle`; only a writer asks what `LAST_ROW` is."""
    incarnation: str = ""
    """Differs when a branch name is used again; empty for main."""


def open_manifest(kernel: Kernel, branch: BranchName) -> Handle:
    """Return the newest `__manifest` of a branch, having checked that we can read it."""
    handle = kernel.tables.open_newest(layout.MANIFEST, layout.lance_branch(branch))
    check_stamp(handle)
    return handle


def stamp_of(handle: Handle) -> int:
    """Return the format number; graphs from before stamps count as 1."""
    return int(handle.metadata.get(STAMP_KEY, "1"))


def check_stamp(handle: Handle) -> None:
    """Refuse a manifest written by a newer program."""
    found = stamp_of(handle)
    if found > STAMP:
        raise FormatError(
            f"this graph has format {found}, this program knows formats up to {STAMP}",
            hint="upgrade omnigraph first",
        )


def read_head(opened: Handle, branch: BranchName) -> Head:
    """Return the head of a branch from one small read.

    Raises:
        DamagedError: there is not exactly one head row.
    """
    stated, address = _told_by_commit(opened) or _last_row(opened) or _find_head(opened)
    return decode_head(branch, opened, stated, address)


def decode_head(
    branch: BranchName, handle: Handle, stated: Mapping[str, Any], address: int
) -> Head:
    """Turn what a head row states into a value."""
    listed: dict[TableKey, list[Any]] = stated["tables"]
    tables = {
        key: TableVersion(key, location, version, fork, rows)
        for key, (version, fork, rows, location) in listed.items()
    }
    return Head(
        branch,
        stated["commit"],
        stated["sequence"],
        stated["logical"],
        tables,
        stated["changed"],
        stated["files"],
        stated["commit_count"],
        handle.version,
        handle,
        address,
    )


def next_state(head: State, commit: Commit, changes: Changes) -> State:
    """Return the state after a commit."""
    tables = {key: value for key, value in head.tables.items() if key not in changes.dropped}
    for table in (*changes.registered, *changes.versions):
        tables[table.key] = table
    changed = {key: value for key, value in head.changed.items() if key in tables}
    if commit.kind == "logical":
        touched = (*changes.registered, *changes.versions)
        changed |= {table.key: commit.sequence for table in touched}
    return State(
        commit.branch,
        commit.id,
        commit.sequence,
        commit.logical_id,
        dict(sorted(tables.items())),
        changed,
        {**head.files, **changes.files},
        head.commit_count + 1,
    )


def stage_publish(
    kernel: Kernel, head: Head, steps: Sequence[tuple[Commit, Changes]], adopted: pa.Table | None
) -> tuple[Staged, State]:
    """Prepare the one transaction that makes commits visible: history rows and the new head.

    More than one step is for recovery, which publishes the interrupted commit and its own.
    """
    parts: list[pa.Table] = [] if adopted is None else [adopted]
    after: State = head
    for commit, changes in steps:
        parts.append(history_rows(after, commit, changes))
        after = next_state(after, commit, changes)
    if adopted is not None:
        after = replace(after, commit_count=after.commit_count + len(adopted))
    last = head_row(after)
    parts.append(rows_of([last]))
    staged = stage_swap(kernel.tables, head.handle, head_address(head), pa.concat_tables(parts))
    staged.sign({HEAD_PROPERTY: last["metadata"]})
    return staged, after


def finish_publish(kernel: Kernel, head: Head, staged: Staged, after: State) -> Head:
    """Commit the prepared transaction: the only moment at which anything becomes visible."""
    handle = commit_staged(kernel.tables, staged, remember=False)
    return with_place(after, handle, LAST_ROW, head.incarnation)


def head_address(head: Head) -> int:
    """Return the row address of the head row."""
    if head.address != LAST_ROW:
        return head.address
    newest = head.handle.dataset.get_fragments()[-1]
    return (int(newest.fragment_id) << 32) | (int(newest.physical_rows) - 1)


def with_place(state: State, handle: Handle, address: int, incarnation: str) -> Head:
    """Return a state as a head that was read or written at a place."""
    return Head(
        state.branch,
        state.commit_id,
        state.sequence,
        state.logical_id,
        state.tables,
        state.changed,
        state.files,
        state.commit_count,
        handle.version,
        handle,
        address,
        incarnation,
    )


def history_rows(head: State, commit: Commit, changes: Changes) -> pa.Table:
    """Return the rows that record a commit for ever."""
    rows = [
        _row(table.key, TABLE, table.key, location=table.location) for table in changes.registered
    ]
    rows += [
        version_row(table, commit.sequence) for table in (*changes.registered, *changes.versions)
    ]
    for key in changes.dropped:
        buried = head.tables[key].version + 1
        object_id = f"{key}$tombstone${buried:020d}"
        meta = {"sequence": commit.sequence}
        rows.append(_row(object_id, TOMBSTONE, key, metadata=meta, table_version=buried))
    rows.append(commit_row(commit))
    return rows_of(rows)


def version_row(table: TableVersion, sequence: int) -> dict[str, Any]:
    """Return the history row of one table version."""
    object_id = f"{table.key}${table.version:020d}"
    if table.branch is not None:
        object_id += f"${table.branch}"
    meta = {
        "manifest_path": layout.version_file(table.location, table.branch, table.version),
        "naming_scheme": "V2",
        "sequence": sequence,
        "location": table.location,
    }
    return _row(
        object_id,
        TABLE_VERSION,
        table.key,
        metadata=meta,
        table_version=table.version,
        table_branch=table.branch,
        row_count=table.row_count,
    )


def commit_row(commit: Commit, *, on_this_line: bool = True) -> dict[str, Any]:
    """Return the row of a commit; its sequence is the version column, if on this line."""
    return _row(
        f"{COMMIT}:{commit.id}",
        COMMIT,
        COMMIT,
        metadata=commit.as_json(),
        table_version=commit.sequence if on_this_line else None,
        table_branch=layout.lance_branch(commit.branch),
    )


def head_row(head: State) -> dict[str, Any]:
    """Return the row that states the whole snapshot."""
    meta = {
        "object": HEAD,
        "branch": head.branch,
        "commit": head.commit_id,
        "sequence": head.sequence,
        "logical": head.logical_id,
        "tables": {key: table.as_list() for key, table in head.tables.items()},
        "changed": dict(head.changed),
        "files": dict(head.files),
        "commit_count": head.commit_count,
    }
    return _row(HEAD, HEAD, HEAD, metadata=meta, table_version=head.sequence)


def rows_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table of the manifest's columns."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def read_rows(handle: Handle, where: Predicate, *, address: bool = False) -> pa.Table:
    """Return manifest rows by a filter."""
    return Reader(handle).scan(where=where, with_row_address=address)


def find_commit(handle: Handle, commit_id: str) -> Commit | None:
    """Return a commit recorded in this manifest, on its line or merged into it."""
    rows = read_rows(handle, equals("object_id", f"{COMMIT}:{commit_id}")).to_pylist()
    return Commit.from_json(orjson.loads(rows[0]["metadata"])) if rows else None


def read_commits(handle: Handle, *, since: int = 0, every: bool = False) -> list[Commit]:
    """Return the commits of this line from a sequence on; `every` adds those merged in."""
    where: Predicate = equals("object_type", COMMIT)
    if not every:
        where = AllOf((where, Compare("table_version", ">=", max(since, 0))))
    rows = read_rows(handle, where)
    commits = [Commit.from_json(orjson.loads(text)) for text in rows["metadata"].to_pylist()]
    return sorted(commits, key=lambda commit: (commit.sequence, commit.id))


def read_history(handle: Handle) -> pa.Table:
    """Return every version, registration and tombstone row."""
    return read_rows(handle, is_in("object_type", (TABLE, TABLE_VERSION, TOMBSTONE)))


def _row(
    object_id: str,
    object_type: str,
    table_key: str,
    *,
    location: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    table_version: int | None = None,
    table_branch: str | None = None,
    row_count: int | None = None,
) -> dict[str, Any]:
    return {
        "object_id": object_id,
        "object_type": object_type,
        "location": location,
        "metadata": None if metadata is None else orjson.dumps(metadata).decode(),
        "base_objects": None,
        "table_key": table_key,
        "table_version": table_version,
        "table_branch": table_branch,
        "row_count": row_count,
    }


def _told_by_commit(handle: Handle) -> tuple[dict[str, Any], int] | None:
    """Return what the newest transaction says it wrote into the head row, if it was a publish.

    A copy of the head row that travels in the same commit and is read without opening a data
    file; the row stays the authority, and `verify` compares the two.
    """
    text = transaction_facts(handle)[1].get(HEAD_PROPERTY)
    return None if text is None else (orjson.loads(text), LAST_ROW)


def _last_row(handle: Handle) -> tuple[dict[str, Any], int] | None:
    """Return the last row of the newest fragment if it is the head, else None."""
    with lance_errors(f"reading the head of {handle}"):
        fragments = handle.dataset.get_fragments()
        if not fragments or fragments[-1].num_deletions:
            return None
        newest = fragments[-1]
        last = newest.physical_rows - 1
        # One column: a second one would cost half as much again, and the text says what it is.
        text = newest.take([last], columns=["metadata"])["metadata"][0].as_py()
    stated = orjson.loads(text) if text else {}
    if stated.get("object") != HEAD:
        return None
    return stated, LAST_ROW


def _find_head(handle: Handle) -> tuple[dict[str, Any], int]:
    rows = read_rows(handle, equals("object_id", HEAD), address=True).to_pylist()
    if len(rows) != 1:
        raise DamagedError(
            f"{handle} has {len(rows)} head rows instead of one",
            hint="run `omnigraph verify`; a graph of an older format must be opened for writing",
        )
    return orjson.loads(rows[0]["metadata"]), rows[0][ROW_ADDRESS]

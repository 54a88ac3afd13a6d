"""`__manifest`: which version of which table belongs to the graph, and every commit.

Owns the columns, the row formats, the head row and the one transaction that publishes. The
head row states the whole current snapshot; it is the compare-and-swap of every publish. It is
written as the last row of the newest fragment, so reading it touches one row however long the
history is. Knows nothing of locks, staging or recovery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.errors import FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes, Commit, Kind, Merged, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.commit import commit_staged, transaction_facts
from omnigraph.storage.tables.failures import DamagedError, lance_errors
from omnigraph.storage.tables.handle import PRIMARY_KEY, Handle
from omnigraph.storage.tables.predicate import AllOf, Compare, Predicate, equals, is_in
from omnigraph.storage.tables.scan import IN_LIST_LIMIT, ROW_ADDRESS, Reader
from omnigraph.storage.tables.stage import Staged, stage_swap

STAMP = 5
FIRST_WITH_HEADS = 4
STAMP_KEY = "omnigraph:internal_schema_version"
GRAPH_ROOT_KEY = "omnigraph:root_uri"

HEAD = "graph_head"
COMMIT = "graph_commit"
TABLE = "table"
TABLE_VERSION = "table_version"
TOMBSTONE = "table_tombstone"
CONTRACT_FILE = "contract_file"
HEAD_PROPERTY = "omnigraph:head"
NO_ADDRESS = -1  # a state that was derived, not read from a head row
LAST_ROW = -2  # where every publish and every fold puts the head row

_RESTORE = "restore the files of `__manifest` from a backup"

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


class HeadRowsError(DamagedError):
    """A manifest has no head row, or several: nobody can say what the graph is."""


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
    rows: int = field(default=0, kw_only=True)
    """All rows of the manifest, this one included; 0 where an older program did not say."""


@dataclass(frozen=True, slots=True)
class Head(State):
    """The state of a branch, and where it was read."""

    manifest_version: int
    handle: Handle
    address: int
    """Row address of the head row, valid on `handle`; only a writer asks what `LAST_ROW` is."""
    incarnation: str = ""
    """Differs when a branch name is used again; empty for main."""


def commit_on(
    head: Head,
    *,
    id: CommitId,
    created_at_us: int,
    tables: tuple[TableKey, ...] = (),
    merged_parent: CommitId | None = None,
    actor: str | None = None,
    kind: Kind = "maintenance",
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    result: object = None,
    recovery: Mapping[str, Any] | None = None,
    message: str | None = None,
    merged: Merged | None = None,
) -> Commit:
    """Return the next commit of a line; only a logical one changes what the graph means."""
    return Commit(
        id=id,
        sequence=head.sequence + 1,
        branch=head.branch,
        manifest_version=head.manifest_version + 1,
        parent=head.commit_id,
        merged_parent=merged_parent,
        created_at_us=created_at_us,
        actor=actor,
        kind=kind,
        logical_id=id if kind == "logical" else head.logical_id,
        tables=tables,
        idempotency_key=idempotency_key,
        request_hash=request_hash,
        result=result,
        recovery=recovery,
        message=message,
        merged=merged,
    )


def open_manifest(kernel: Kernel, branch: BranchName) -> Handle:
    """Return the newest `__manifest` of a branch, having checked that we can read it."""
    handle = kernel.tables.open_newest(layout.MANIFEST, layout.lance_branch(branch))
    check_stamp(handle)
    return handle


def stamp_of(handle: Handle) -> int:
    """Return the format number; graphs from before stamps count as 1."""
    stated = handle.metadata.get(STAMP_KEY, "1")
    if not (stated.isascii() and stated.isdigit()):
        raise DamagedError(
            f"{handle} states the format '{stated[:20]}', which is not a number",
            hint=f"restore '{STAMP_KEY}' in the metadata of its schema, or a backup",
        )
    return int(stated)


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
        HeadRowsError: there is not exactly one head row.
        DamagedError: it does not say what a head row says.
    """
    stated, address = _told_by_commit(opened) or _last_row(opened) or find_head(opened)
    if stated.get("rows", 0) not in (0, opened.row_count):
        # Somebody else's rows are there, or ours are missing: one head row must be left.
        find_head(opened)
    return decode_head(branch, opened, stated, address)


def decode_head(
    branch: BranchName, handle: Handle, stated: Mapping[str, Any], address: int
) -> Head:
    """Turn what a head row states into a value."""
    try:
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
            rows=stated.get("rows", 0),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(
            f"the head row of {handle} lacks or garbles a field: {error}", hint=_RESTORE
        ) from error


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
    added = sum(len(part) for part in parts)
    after = replace(after, rows=head.handle.row_count + added)  # one head row goes, one comes
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
        rows=state.rows,
    )


def history_rows(head: State, commit: Commit, changes: Changes) -> pa.Table:
    """Return the rows that record a commit for ever."""
    rows = [
        _row(table.key, TABLE, table.key, location=table.location) for table in changes.registered
    ]
    for key in changes.dropped:  # before the versions: a table may be dropped and made anew
        buried = head.tables[key].version + 1
        object_id = f"{key}$tombstone${buried:020d}"
        meta = {"sequence": commit.sequence}
        rows.append(_row(object_id, TOMBSTONE, key, metadata=meta, table_version=buried))
    rows += [
        version_row(table, commit.sequence, changes.digests.get(table.key))
        for table in (*changes.registered, *changes.versions)
    ]
    rows += [file_row(name, stated, commit.sequence) for name, stated in changes.files.items()]
    rows.append(commit_row(commit))
    return rows_of(rows)


def file_row(name: str, stated: str, sequence: int) -> dict[str, Any]:
    """Return the history row of a contract file: from this commit on it has this content."""
    meta = {"sequence": sequence, "name": name, "digest": stated}
    return _row(
        f"file:{name}${sequence:020d}",
        CONTRACT_FILE,
        CONTRACT_FILE,
        location=layout.contract(stated),
        metadata=meta,
    )


def version_row(
    table: TableVersion, sequence: int, digests: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the history row of one table version, with the digests of the files it added."""
    object_id = f"{table.key}${table.version:020d}"
    if table.branch is not None:
        object_id += f"${table.branch}"
    meta = {
        "manifest_path": layout.version_file(table.location, table.branch, table.version),
        "naming_scheme": "V2",
        "sequence": sequence,
        "location": table.location,
    }
    if digests:
        meta["digests"] = dict(digests)
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
        base_objects=list(commit.parents),
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
        "rows": head.rows,
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
    rows = read_rows(handle, equals("object_id", f"{COMMIT}:{commit_id}"))["metadata"]
    return _commit_of(handle, rows[0].as_py()) if len(rows) else None


def read_commits(handle: Handle, *, since: int = 0, every: bool = False) -> list[Commit]:
    """Return the commits of this line from a sequence on; `every` adds those merged in."""
    where: Predicate = equals("object_type", COMMIT)
    if not every:
        where = AllOf((where, Compare("table_version", ">=", max(since, 0))))
    return commits_in(handle, read_rows(handle, where))


def commits_in(handle: Handle, rows: pa.Table) -> list[Commit]:
    """Return the commits that commit rows of a manifest record, in their order."""
    commits = [_commit_of(handle, text) for text in rows["metadata"].to_pylist()]
    return sorted(commits, key=lambda commit: (commit.sequence, commit.id))


def read_parents(handle: Handle, *, since: int = 0) -> dict[CommitId, tuple[CommitId, ...]]:
    """Return the parents of commits of this line from a sequence on; of 0, of those merged in, too.

    Rows of formats before 5 have them only in their metadata.
    """
    where: Predicate = equals("object_type", COMMIT)
    if since > 0:
        where = AllOf((where, Compare("table_version", ">=", since)))
    rows = Reader(handle).scan(["object_id", "base_objects"], where)
    if rows["base_objects"].null_count:
        commits = commits_in(handle, read_rows(handle, where))
        return {commit.id: commit.parents for commit in commits}
    ids = [CommitId(text.removeprefix(f"{COMMIT}:")) for text in rows["object_id"].to_pylist()]
    return dict(zip(ids, map(tuple, rows["base_objects"].to_pylist()), strict=True))


def read_commit_rows(handle: Handle, ids: Sequence[CommitId]) -> pa.Table:
    """Return the rows of some commits, as they are."""
    if len(ids) > IN_LIST_LIMIT:
        rows = read_rows(handle, equals("object_type", COMMIT))
        wanted = pa.array([f"{COMMIT}:{one}" for one in ids], pa.string())
        return rows.filter(pc.is_in(rows["object_id"], value_set=wanted)).select(SCHEMA.names)
    rows = read_rows(handle, is_in("object_id", [f"{COMMIT}:{one}" for one in ids]))
    return rows.select(SCHEMA.names)


def known_commit_ids(handle: Handle, object_ids: Sequence[str]) -> list[str]:
    """Return which of some commit rows a manifest has."""
    if len(object_ids) > IN_LIST_LIMIT:
        where: Predicate = equals("object_type", COMMIT)
    else:
        where = is_in("object_id", object_ids)
    found: list[str] = Reader(handle).scan(["object_id"], where)["object_id"].to_pylist()
    return found


def read_history(handle: Handle) -> pa.Table:
    """Return every version, registration and tombstone row."""
    return read_rows(handle, is_in("object_type", (TABLE, TABLE_VERSION, TOMBSTONE)))


def stated_in(handle: Handle, text: str | None) -> dict[str, Any]:
    """Return what the metadata of a row states.

    Raises:
        DamagedError: it is not an object of JSON.
    """
    try:
        stated = orjson.loads(text or "{}")
    except orjson.JSONDecodeError as error:
        raise DamagedError(f"a row of {handle} cannot be read: {error}", hint=_RESTORE) from error
    if not isinstance(stated, dict):
        raise DamagedError(f"a row of {handle} states no object", hint=_RESTORE)
    return stated


def _commit_of(handle: Handle, text: str | None) -> Commit:
    stated = stated_in(handle, text)
    try:
        return Commit.from_json(stated)
    except TypeError as error:
        raise DamagedError(
            f"a commit of {handle} lacks or garbles a field: {error}", hint=_RESTORE
        ) from error


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
    base_objects: list[CommitId] | None = None,
) -> dict[str, Any]:
    return {
        "object_id": object_id,
        "object_type": object_type,
        "location": location,
        "metadata": None if metadata is None else orjson.dumps(metadata).decode(),
        "base_objects": base_objects,
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
    return None if text is None else (stated_in(handle, text), LAST_ROW)


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
    try:
        stated = stated_in(handle, text)
    except DamagedError:
        return None  # if it is the head row, whoever looks at all of them will say so
    return (stated, LAST_ROW) if stated.get("object") == HEAD else None


def find_head(handle: Handle) -> tuple[dict[str, Any], int]:
    """Return what the head row states and its address, having looked at every row."""
    rows = read_rows(handle, equals("object_id", HEAD), address=True).to_pylist()
    if len(rows) != 1:
        raise HeadRowsError(
            f"{handle} has {len(rows)} head rows instead of one",
            hint="something else wrote to it; restore the version before from a backup",
        )
    return stated_in(handle, rows[0]["metadata"]), rows[0][ROW_ADDRESS]

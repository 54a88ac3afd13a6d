"""A small graph for storage tests, and what must be true of any graph at any time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from omnigraph.base.ids import TableKey
from omnigraph.storage.commit.session import Preconditions
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.rows import HEAD, open_manifest, read_rows
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.options import DEFAULTS, StorageOptions
from omnigraph.storage.store import GraphStore, init_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.scan import Reader

A, B, E = TableKey("node:A"), TableKey("node:B"), TableKey("edge:E")
KEYS = (A, B, E)
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
CONTRACT = "_schema.pg"

Contents = dict[str, dict[str, int]]
"""Per table, value by key."""
GraphState = dict[str, Contents]
"""Per branch, its contents."""


def rows(values: Mapping[str, int]) -> pa.Table:
    """Return rows with these keys and values."""
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def new_graph(root: str | Path, options: StorageOptions = DEFAULTS) -> GraphStore:
    """Create a graph with three tables, two of them filled by two commits."""
    store = empty_graph(root, options)
    write(store, {A: {"a1": 1, "a2": 2, "a3": 3}, B: {"b1": 1, "b2": 2}})
    write(store, {A: {"a4": 4}})
    return store


def empty_graph(root: str | Path, options: StorageOptions = DEFAULTS) -> GraphStore:
    """Create a graph with three empty tables."""
    specs = [TableSpec(key, SCHEMA) for key in KEYS]
    return init_store(str(root), specs, {CONTRACT: b"first"}, options)


def write(store: GraphStore, values: Mapping[str, Mapping[str, int]], branch: str = "main") -> str:
    """Upsert values into tables with one commit; return its id."""
    session = store.begin(branch)
    for key, changes in values.items():
        session.upsert(key, rows(changes))
    return session.commit().id


def once(key: str, request: str) -> Preconditions:
    """Return the precondition of a request that is to be carried out once."""
    return Preconditions(idempotency_key=key, request_hash=request)


def contents(snapshot: Snapshot) -> Contents:
    """Return everything a snapshot holds, having checked that no key occurs twice."""
    found: Contents = {}
    for key, table in snapshot.tables.items():
        read = snapshot.open(key).scan()
        ids = read["id"].to_pylist()
        assert len(ids) == len(set(ids)), f"{key} holds a key twice: {sorted(ids)}"
        assert len(ids) == table.row_count, f"{key} states {table.row_count} rows, has {len(ids)}"
        columns = [name for name in read.column_names if name != "id"]
        found[_shown(key, columns)] = dict(zip(ids, read[columns[0]].to_pylist(), strict=True))
    return found


def _shown(key: TableKey, columns: list[str]) -> str:
    """Return a table's key, and its columns if they are not those it was made with."""
    return str(key) if columns == ["v"] else f"{key} ({', '.join(columns)})"


def graph_state(store: GraphStore) -> GraphState:
    """Return the contents of every branch."""
    return {str(info.name): contents(store.snapshot(info.name)) for info in store.branches.list()}


def check_lines(store: GraphStore) -> None:
    """Every branch has one head row, and its commits form one unbroken line."""
    for info in store.branches.list():
        manifest = open_manifest(store.kernel, info.name)
        assert len(read_rows(manifest, equals("object_id", HEAD))) == 1, f"head rows of {info.name}"
        line = store.commits(info.name)
        assert [commit.sequence for commit in line] == list(range(len(line))), info.name
        parents = [commit.parent for commit in line]
        assert parents == [None, *(commit.id for commit in line[:-1])], info.name
        assert len({commit.id for commit in line}) == len(line), info.name
        assert store.snapshot(info.name).commit_id == line[-1].id, info.name
        healed = [commit.recovery["operation_id"] for commit in line if commit.recovery]
        assert len(healed) == len(set(healed)), f"{info.name}: an operation was healed twice"


def check_history(store: GraphStore, *, forgets: bool = False) -> None:
    """The first and last commits can be read, unless their files were allowed to be removed."""
    for info in store.branches.list():
        line = store.commits(info.name)
        for commit in (*line[:2], *line[2:][-4:]):
            try:
                contents(store.snapshot_at(commit_id=commit.id, branch=info.name))
            except SnapshotExpiredError:
                assert forgets, f"commit {commit.id} of {info.name} cannot be read"


def check_projections(store: GraphStore) -> None:
    """The projections of a store opened for writing know all commits, each once."""
    told = Reader(store.kernel.tables.open_latest(layout.COMMITS, None)).scan(["graph_commit_id"])
    projected = told["graph_commit_id"].to_pylist()
    assert len(projected) == len(set(projected)), "a commit is projected twice"
    line = store.commits()
    assert set(projected) >= {commit.id for commit in line}, "a commit is not projected"
    healed = {
        commit.recovery["operation_id"]
        for info in store.branches.list()
        for commit in store.commits(info.name)
        if commit.recovery
    }
    if healed:
        reader = Reader(store.kernel.tables.open_latest(layout.COMMIT_RECOVERIES, None))
        told = reader.scan(["operation_id"])["operation_id"].to_pylist()
        assert len(told) == len(set(told)), "a recovery is told twice"
        assert set(told) >= healed, "a recovery is not told"


def check_settled(store: GraphStore) -> None:
    """No intent is pending and no lock is held, once upkeep of the store itself is through."""
    store.wait_for_upkeep(60)
    pending = [info.name for info in store.kernel.objects.list(layout.RECOVERY_DIR)]
    assert pending == [], "an intent is still pending"
    assert store.locks() == [], "a lock is still held"


def check_writable(store: GraphStore) -> None:
    """Every branch takes a further write to every table, in one commit, and reads it back."""
    for info in store.branches.list():
        before = contents(store.snapshot(info.name))
        session = store.begin(info.name)
        for key in session.base.tables:
            schema = session.base.open(key).schema
            first = next(name for name in schema.names if name != "id")
            probe = [{"id": "probe", first: 77}]
            session.upsert(key, pa.Table.from_pylist(probe, schema=schema))
        session.commit()
        expected = {key: {**before[key], "probe": 77} for key in before}
        assert contents(store.snapshot(info.name)) == expected, info.name


def check_verified(store: GraphStore) -> None:
    """The kernel's own checks, of rules and of bytes, find nothing that does not heal by itself."""
    findings = [*store.verify(), *store.check_files()]
    broken = [found for found in findings if not found.harmless]
    assert broken == [], broken


def check_whole(store: GraphStore, *, forgets: bool = False) -> None:
    """Everything that must be true of a healed graph, and that it can be written again."""
    check_settled(store)
    check_verified(store)
    check_projections(store)
    check_history(store, forgets=forgets)
    check_writable(store)
    store.wait_for_upkeep(60)  # upkeep behind that write may still be committing
    check_lines(store)
    check_verified(store)

"""Columns that are renamed, dropped, added and relaxed: metadata alone, whatever is stored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.base.ids import TableKey
from omnigraph.errors import BadRequestError, InternalError
from omnigraph.storage.commit.session import SchemaChangedError
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.store import init_store
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.compute import Computed, Rewrite
from omnigraph.storage.tables.index import IndexSpec, list_indexes
from omnigraph.storage.tables.predicate import equals

P, Q = TableKey("node:P"), TableKey("node:Q")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("age", pa.int64(), nullable=False),
        pa.field("tags", pa.list_(pa.field("item", pa.string()))),
    ]
)
BLOB = pa.field("blob", pa.large_binary(), metadata={b"omnigraph:type": b"Blob"})
ADDED = (
    pa.field("email", pa.string()),
    pa.field("list", pa.list_(pa.field("item", pa.int32()))),
    pa.field("vector", pa.list_(pa.field("item", pa.float32()), 3)),
    BLOB,
)
ROWS = {"id": ["a", "b"], "name": ["x", None], "age": [1, 2], "tags": [["t"], None]}


@pytest.fixture
def store(tmp_path, quiet):
    files = {"_schema.ir.json": b"1"}
    specs = [TableSpec(key, SCHEMA) for key in (P, Q)]
    with init_store(str(tmp_path / "g"), specs, files, quiet) as found:
        session = found.begin()
        session.append(P, pa.table(ROWS, schema=SCHEMA))
        session.commit()
        yield found


def alter(store, key=P, branch="main", **change):
    session = store.begin(branch, writer_kind="SchemaApply")
    session.alter(key, Alter(**change))
    return session.commit()


def read(store, key=P, branch="main"):
    return store.snapshot(branch).open(key).scan().to_pylist()


CHANGES = [
    pytest.param({"rename": {"name": "title"}}, id="rename"),
    pytest.param({"drop": ("age",)}, id="drop"),
    pytest.param({"drop": ("tags",)}, id="drop nested"),
    pytest.param({"add": ADDED}, id="add"),
    pytest.param({"relax": ("age",)}, id="relax"),
    pytest.param(
        {"rename": {"name": "age", "age": "name"}, "drop": ("tags",), "add": ADDED}, id="swap"
    ),
    pytest.param(
        {"rename": {"age": "years"}, "drop": ("name",), "add": ADDED, "relax": ("age",)}, id="all"
    ),
    pytest.param({"drop": ("name",), "add": (pa.field("name", pa.int32()),)}, id="again"),
]


def migrated(row, rename=None, drop=(), add=(), relax=()):
    names = {name: (rename or {}).get(name, name) for name in row if name not in drop}
    kept = {new: row[old] for old, new in names.items()}
    return kept | dict.fromkeys([field.name for field in add])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [P, Q], ids=["rows", "empty"])
def test_rows_are_seen_under_the_new_columns_and_files_stay(store, key, change):
    before = store.snapshot()
    rows, files = read(store, key), {info.name for info in store.kernel.objects.list("nodes")}
    alter(store, key, **change)
    assert read(store, key) == [migrated(row, **change) for row in rows]
    after = store.snapshot().open(key).schema
    required = {"id", "age"} - {*change.get("relax", ()), *change.get("drop", ())}
    required = {change.get("rename", {}).get(name, name) for name in required}
    assert {field.name for field in after if not field.nullable} == required
    if BLOB in change.get("add", ()):
        assert after.field("blob").metadata == BLOB.metadata
    new = {info.name for info in store.kernel.objects.list("nodes")} - files
    assert not [name for name in new if "/data/" in name or "/_deletions/" in name]
    assert before.open(key).scan().to_pylist() == rows
    full = {"id": "n", "name": "z", "age": 9, "tags": ["q"]}
    fresh = migrated(full, **change)
    session = store.begin()
    session.upsert(key, pa.Table.from_pylist([fresh], schema=after))
    session.commit()
    store.optimize()
    expected = [migrated(row, **change) for row in rows] + [fresh]
    assert sorted(read(store, key), key=lambda row: row["id"]) == expected
    assert not [found for found in store.verify() if not found.harmless]


def test_a_column_that_comes_back_is_empty_after_many_changes(store):
    for number in range(4):
        alter(store, drop=("name",))
        alter(store, add=(pa.field("name", pa.string()),), relax=("age",))
        assert [row["name"] for row in read(store)] == [None] * (2 + number)
        session = store.begin()
        row = [{"id": f"n{number}", "name": "kept", "age": 1}]
        session.append(P, pa.Table.from_pylist(row, schema=store.snapshot().open(P).schema))
        session.commit()
        if number % 2:
            store.optimize()


def test_an_index_follows_its_column_and_goes_with_it(store):
    store.build_index(P, IndexSpec("name", "BTREE", "name_btree"))
    store.build_index(P, IndexSpec("age", "BTREE", "age_btree"))
    alter(store, rename={"name": "title"}, drop=("age",), add=ADDED)
    handle = store.snapshot().handle(P)
    assert [(index.name, index.columns) for index in list_indexes(handle)] == [
        ("name_btree", ("title",))
    ]
    assert store.snapshot().open(P).scan(["id"], equals("title", "x"))["id"].to_pylist() == ["a"]


def test_a_branch_changes_its_own_columns_and_nobody_elses(store):
    store.branches.create("side")
    alter(store, rename={"name": "title"})
    assert set(read(store, branch="side")[0]) == set(ROWS)
    alter(store, branch="side", add=(pa.field("phone", pa.string()),))
    alter(store, add=(pa.field("email", pa.string()),))
    assert read(store, branch="side")[0] == {k: v[0] for k, v in ROWS.items()} | {"phone": None}
    assert "title" in read(store)[0]
    assert "phone" not in read(store)[0]


def test_rows_that_come_meanwhile_are_no_obstacle(store):
    session = store.begin(writer_kind="SchemaApply")
    session.rename_table(P, "node:Person")
    session.alter("node:Person", Alter({"name": "title"}))
    other = store.begin()
    other.append(P, pa.table({"id": ["c"], "name": ["z"], "age": [3], "tags": [[]]}, schema=SCHEMA))
    other.commit()
    session.commit()
    assert [row["title"] for row in read(store, TableKey("node:Person"))] == ["x", None, "z"]


def test_rows_of_the_old_columns_are_refused_afterwards(store):
    late = store.begin()
    late.append(P, pa.table(ROWS, schema=SCHEMA))
    session = store.begin(writer_kind="SchemaApply")
    session.alter(P, Alter(add=(pa.field("email", pa.string()),)))
    session.replace_file("_schema.ir.json", b"2")
    session.commit()
    with pytest.raises(SchemaChangedError):
        late.commit()


def test_a_new_table_may_take_the_name_of_one_that_is_renamed(store):
    session = store.begin(writer_kind="SchemaApply")
    session.rename_table(P, "node:Old")
    session.create_table(TableSpec(P, SCHEMA))
    session.commit()
    assert read(store) == []
    assert len(read(store, TableKey("node:Old"))) == 2
    past = store.snapshot_at(version=store.snapshot().manifest_version)
    assert past.tables == store.snapshot().tables
    with pytest.raises(BadRequestError, match="exists"):
        store.begin().rename_table(Q, P)


@pytest.mark.parametrize(
    "change",
    [
        {"rename": {"nobody": "x"}},
        {"rename": {"name": "age"}},
        {"add": (pa.field("name", pa.string()),)},
        {"add": (pa.field("must", pa.string(), nullable=False),)},
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(store, change):
    before = store.snapshot()
    with pytest.raises(InternalError, match="cannot be altered"):
        alter(store, **change)
    assert store.snapshot() == before


def test_nothing_to_change_is_no_commit(store):
    assert alter(store).outcome == "unchanged"


def test_columns_and_rows_are_not_changed_in_one_step(store):
    session = store.begin()
    session.alter(P, Alter({"name": "title"}))
    with pytest.raises(BadRequestError, match="a change of the columns"):
        session.upsert(P, pa.table(ROWS, schema=SCHEMA))


def test_computed_columns_come_change_and_go_whatever_file_they_are_in(store):
    def made(name, kind, compute, *reads):
        return Computed(pa.field(name, kind), reads, compute)

    def rewrite(*columns, **alter):
        session = store.begin(writer_kind="SchemaApply")
        session.alter(P, Rewrite(columns, Alter(**alter)))
        session.commit()
        assert not [found for found in store.verify() if not found.harmless]

    rewrite(made("one", pa.int32(), lambda rows: pa.array([1] * len(rows), pa.int32())))
    rewrite(
        made("one", pa.int64(), lambda rows: rows["one"].cast(pa.int64()), "one"), drop=("one",)
    )
    swap = {"name": "age", "age": "name"}
    twice = made("twice", pa.int64(), lambda rows: pc.add(rows["age"], rows["age"]), "age")
    added = (pa.field("new", pa.string()),)
    rewrite(twice, rename=swap, relax=("age",), add=added, order=("id", "twice", "name", "age"))
    assert store.snapshot().open(P).schema.names[:4] == ["id", "twice", "name", "age"]
    assert read(store) == [
        {"id": "a", "twice": 2, "name": 1, "age": "x", "tags": ["t"], "one": 1, "new": None},
        {"id": "b", "twice": 4, "name": 2, "age": None, "tags": None, "one": 1, "new": None},
    ]
    alter(store, drop=("twice",), add=(pa.field("fresh", pa.int64()),))
    assert [row["fresh"] for row in read(store)] == [None, None]
    store.optimize()
    assert [row["one"] for row in read(store)] == [1, 1]
    session = store.begin()
    session.alter(Q, Rewrite((twice,), Alter(drop=("name",))))
    session.commit()
    assert store.snapshot().open(Q).schema.names == ["id", "age", "tags", "twice"]
    assert not [found for found in store.verify() if not found.harmless]

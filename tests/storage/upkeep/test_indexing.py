"""Indexes are built while writers go on, and never change an answer."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequestError
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.store import GraphStore, init_store
from omnigraph.storage.tables.index import IndexSpec, list_indexes
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.stage import MERGE_CROSSOVER
from omnigraph.storage.upkeep import indexing
from tests.storage.conftest import QUIET
from tests.support.storage_model import A, B, check_lines, write

T = "node:T"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("w", pa.string()),
    ]
)
KINDS = [("v", "BTREE"), ("v", "BITMAP"), ("w", "BTREE"), ("w", "NGRAM"), ("w", "INVERTED")]


def rows(numbers, shift=0):
    """Rows `k<number>` that hold the number, shifted, as a value and in a text."""
    values = [number + shift for number in numbers]
    return pa.table(
        [[f"k{number}" for number in numbers], values, [f"common only{value}" for value in values]],
        schema=SCHEMA,
    )


@pytest.fixture
def texts(root):
    with init_store(str(root), [TableSpec(T, SCHEMA)], {}, QUIET) as store:
        for start in range(0, 60, 20):
            upsert(store, rows(range(start, start + 20)))
        yield store


def upsert(store, table):
    session = store.begin()
    session.upsert(T, table)
    session.commit()


def delete(store, *ids):
    session = store.begin()
    session.delete(T, pa.array(ids))
    session.commit()


OLD_AND_NEW = (*range(70), *range(500, 570), *range(1000, 1070))


def assert_right(store: GraphStore, column: str, kind: str, values=OLD_AND_NEW) -> None:
    """Every value there was or is finds the rows that have it now."""
    dataset = store.snapshot().handle(T).dataset
    now = dict(zip(*dataset.to_table(["id", "v"]).to_pydict().values(), strict=True))
    for value in values:
        matches = {key for key, one in now.items() if one == value}
        match kind:
            case "INVERTED":
                found = dataset.scanner(["id"], full_text_query=f"only{value}").to_table()
            case "NGRAM":
                matches = {key for key, one in now.items() if str(one).startswith(str(value))}
                found = dataset.to_table(["id"], filter=f"contains(w, 'only{value}')")
            case _:
                wanted = value if column == "v" else f"'common only{value}'"
                found = dataset.to_table(["id"], filter=f"{column} = {wanted}")
        assert sorted(found["id"].to_pylist()) == sorted(matches), value


def build(store, column, kind, meanwhile: Callable[[], object], monkeypatch) -> bool:
    """Build an index; something happens after it was written and before it is published."""
    with monkeypatch.context() as patch:
        patch.setattr(indexing, "failpoint", lambda _: meanwhile())
        return store.build_index(T, IndexSpec(column, kind, "by_it"))


def change(store, shift=1000):
    """Update rows of every fragment, delete some, and add new ones."""
    upsert(store, rows([0, 7, 25, 41], shift))
    delete(store, "k3", "k59")
    upsert(store, rows([60, 61]))


@pytest.mark.parametrize(("column", "kind"), KINDS)
def test_writers_go_on_while_an_index_is_built(texts, column, kind, monkeypatch):
    assert build(texts, column, kind, lambda: change(texts), monkeypatch)
    assert_right(texts, column, kind)
    (made,) = list_indexes(texts.snapshot().handle(T))
    assert made.unindexed_rows == 6
    assert build(texts, column, kind, lambda: change(texts, 500), monkeypatch), "once more"
    assert_right(texts, column, kind)
    texts.optimize()
    assert_right(texts, column, kind)
    assert build(texts, column, kind, lambda: None, monkeypatch)
    (made,) = list_indexes(texts.snapshot().handle(T))
    assert made.unindexed_rows == 0
    assert_right(texts, column, kind)
    check_lines(texts)


@pytest.mark.parametrize(("column", "kind"), KINDS)
def test_many_rows_updated_meanwhile_are_found_where_they_are(texts, column, kind, monkeypatch):
    many = range(1, MERGE_CROSSOVER + 100)  # all rows but one move into new fragments
    assert build(texts, column, kind, lambda: upsert(texts, rows(many, 20_000)), monkeypatch)
    assert_right(texts, column, kind, (0, 7, 59, 20_000, 20_007, 30_050))


@pytest.mark.parametrize(("column", "kind"), KINDS)
def test_an_index_of_rows_that_were_replaced_is_not_published(texts, column, kind, monkeypatch):
    def replace_all():
        session = texts.begin()
        session.overwrite(T, rows(range(60), 1000))
        session.commit()

    assert not build(texts, column, kind, replace_all, monkeypatch)
    assert list_indexes(texts.snapshot().handle(T)) == []
    assert build(texts, column, kind, lambda: None, monkeypatch)
    assert_right(texts, column, kind)


def test_an_index_of_fragments_that_were_merged_is_built_again(texts, monkeypatch):
    assert not build(texts, "v", "BTREE", texts.optimize, monkeypatch)
    assert build(texts, "v", "BTREE", lambda: None, monkeypatch)
    assert_right(texts, "v", "BTREE")


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "NGRAM", "INVERTED"])
def test_an_index_is_published_as_maintenance_replaced_and_dropped(store, kind):
    write(store, {A: {f"k{i}": i for i in range(20)}, B: {"b": 1}})
    logical = store.snapshot().commit_id
    assert store.build_index(A, IndexSpec("id", kind, "by_id"))
    assert store.snapshot().logical_commit_id == logical
    assert [info.name for info in list_indexes(store.snapshot().handle(A))] == ["by_id"]
    write(store, {A: {"new": 1}})
    assert store.snapshot().open(A).scan(where=equals("id", "new")).num_rows == 1
    assert list_indexes(store.snapshot().handle(A))[0].unindexed_rows == 1
    assert store.build_index(A, IndexSpec("id", kind, "by_id"))
    assert [info.unindexed_rows for info in list_indexes(store.snapshot().handle(A))] == [0]
    assert store.drop_index(A, "by_id")
    assert not store.drop_index(A, "by_id"), "there is none any more"
    assert list_indexes(store.snapshot().handle(A)) == []
    assert not store.build_index("edge:E", IndexSpec("id", kind, "by_id")), "an empty table"
    check_lines(store)


@pytest.mark.parametrize(
    ("column", "kind", "told"),
    [("nope", "BTREE", "has no column 'nope'"), ("v", "NOPE", "there is no NOPE index")],
)
def test_an_index_of_nothing_is_refused(texts, column, kind, told):
    with pytest.raises(BadRequestError, match=told):
        texts.build_index(T, IndexSpec(column, kind, "by_it"))

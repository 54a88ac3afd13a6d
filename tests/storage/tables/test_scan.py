"""Reading one table at one version."""

import pytest

from omnigraph.errors import BadRequestError
from omnigraph.storage.tables.predicate import Compare, equals
from omnigraph.storage.tables.scan import Reader
from tests.support.storage_model import A, rows, write


@pytest.fixture
def reader(store):
    write(store, {A: {f"k{i}": i for i in range(10)}})
    write(store, {A: {"k3": 30, "new": 1}})
    return store.snapshot().open(A)


def test_columns_filters_and_limits(reader):
    assert reader.scan(["v"], Compare("v", ">", 7)).to_pydict() == {"v": [8, 9, 30]}
    assert reader.scan(["id"], limit=2).num_rows == 2
    assert reader.scan(["id"], limit=2, offset=2)["id"].to_pylist() == ["k2", "k4"]
    assert list(reader.scan([], with_row_id=True).column_names) == ["_rowid"]


def test_counts_come_with_and_without_a_filter(reader):
    assert (reader.count(), reader.count(equals("id", "k3"))) == (11, 1)


@pytest.mark.parametrize("limit", [2_000, 1])
def test_rows_by_key_are_the_same_by_list_and_by_scan(reader, monkeypatch, limit):
    monkeypatch.setattr("omnigraph.storage.tables.scan.IN_LIST_LIMIT", limit)
    found = reader.by_ids(["k3", "k9", "nobody"], ["v"])
    assert found.to_pydict() == {"v": [9, 30]}
    whole = reader.by_ids(["k3", "k9"], with_row_id=True)
    assert whole.column_names == ["id", "v", "_rowid"]


@pytest.fixture
def searches(monkeypatch):
    """The keys that were really searched for."""
    asked = []
    search = Reader.by_ids

    def counted(self, ids, *args, **kwargs):
        asked.append(list(ids))
        return search(self, ids, *args, **kwargs)

    monkeypatch.setattr(Reader, "by_ids", counted)
    return asked


def test_a_key_is_searched_once_per_version_whether_it_is_there_or_not(reader, searches):
    wanted = ["k9", "nobody", "k3"]
    expected = reader.by_ids(wanted, ["id"], with_row_id=True, with_row_address=True)
    searches.clear()
    first = reader.locate(wanted)
    assert first.to_pydict() == expected.to_pydict()
    assert reader.locate(["k3", "nobody"])["id"].to_pylist() == ["k3"]
    assert reader.locate(["k3", "k4"])["id"].to_pylist() == ["k4", "k3"], "in storage order"
    assert searches == [wanted, ["k4"]]


def test_rows_scanned_for_a_write_need_no_search(reader, searches):
    rows = reader.scan_to_write(["id", "v"], Compare("v", ">", 7))
    assert rows.to_pydict() == {"id": ["k8", "k9", "k3"], "v": [8, 9, 30]}
    assert reader.locate(["k3", "k8"])["id"].to_pylist() == ["k8", "k3"]
    assert searches == []


def test_places_of_one_version_are_not_those_of_the_next(store, reader):
    before = reader.locate(["k3", "k5"])
    write(store, {A: {"k3": 31}})
    session = store.begin()
    session.delete(A, ["k5"])
    session.commit()
    after = store.snapshot().open(A).locate(["k3", "k5"])
    assert after["id"].to_pylist() == ["k3"]
    assert after["_rowid"][0] == before["_rowid"][1], "the row stayed the same"
    assert after["_rowaddr"][0] != before["_rowaddr"][1], "its place did not"


def test_the_places_kept_are_bounded(reader, monkeypatch):
    monkeypatch.setattr("omnigraph.storage.tables.scan._PLACES_KEPT", 3)
    for i in range(10):
        assert reader.locate([f"k{i}", "nobody"])["id"].to_pylist() == [f"k{i}"]
        assert len(reader.handle.places) <= 3


def test_a_version_that_was_written_upon_keeps_no_places(store, reader):
    reader.locate(["k3", "nobody"])
    assert reader.handle.places
    write(store, {A: {"k3": 31}})
    assert not reader.handle.places


def test_batches_hold_all_rows(reader):
    batches = list(reader.batches(["id"], batch_size=4))
    assert sum(len(batch) for batch in batches) == 11


def test_a_delta_tells_inserts_updates_and_deletes(store, reader):
    session = store.begin()
    session.upsert(A, rows({"k1": 10, "fresh": 1}))
    session.delete(A, ["k0"])
    session.commit()
    newer = store.snapshot().open(A)
    change = newer.delta(reader.version)
    assert change.inserted["id"].to_pylist() == ["fresh"]
    assert change.updated["id"].to_pylist() == ["k1"]
    assert change.deleted_row_ids.to_pylist() == [0]
    assert not newer.has_rewrites_since(reader.version)
    with pytest.raises(BadRequestError, match="newer"):
        reader.delta(newer.version)


def test_an_overwrite_or_restore_makes_a_delta_untrustworthy(store, reader):
    session = store.begin()
    session.overwrite(A, rows({"z": 1}))
    session.commit()
    assert store.snapshot().open(A).has_rewrites_since(reader.version)


def test_compaction_leaves_an_empty_delta(store, reader):
    store.optimize()
    newer = store.snapshot().open(A)
    change = newer.delta(reader.version)
    assert (len(change.inserted), len(change.updated), len(change.deleted_row_ids)) == (0, 0, 0)
    assert not newer.has_rewrites_since(reader.version)

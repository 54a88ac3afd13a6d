"""What an image lacks to be one of a newer version, whichever way it is found."""

import itertools
from collections import Counter

import pyarrow as pa
import pytest

from omnigraph.storage.delta import warm
from omnigraph.storage.delta.warm import rows_since
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.compute import Computed, Rewrite
from tests.storage.delta.test_random_histories import STEPS, History, exactly
from tests.support.storage_model import SCHEMA, A, rows, write


@pytest.mark.property
@pytest.mark.parametrize("few", [0, 20, 10_000])
def test_an_older_version_and_what_changed_since_are_the_newer_version(tmp_path, monkeypatch, few):
    monkeypatch.setattr(warm, "_FEW", few)
    ways = Counter()
    for name in ("_by_content", "_by_lineage"):
        monkeypatch.setattr(warm, name, counted(getattr(warm, name), ways))
    history = History(tmp_path / "graph", 11)
    for _ in range(STEPS):
        history.step()
    kernel, found = history.store.kernel, 0
    states = {one.table(A).place: one for one in history.seen}
    for before, after in itertools.permutations(states.values(), 2):
        old, new = before.table(A), after.table(A)
        if old.version > new.version:
            continue
        since = rows_since(kernel, old, new)
        if since is None:
            continue
        found += 1
        now = exactly(before.open(A).scan())
        for gone in since.deleted.to_pylist():
            del now[gone]
        if len(since.upserts):
            now |= exactly(since.upserts)
        assert now == exactly(after.open(A).scan()), (old.place, new.place)
    assert found > 10
    assert ways["_by_content"]
    assert bool(ways["_by_lineage"]) == (few < 10_000)
    history.store.close()


def counted(function, ways):
    def call(*given):
        found = function(*given)
        ways[function.__name__] += found is not None
        return found

    return call


def test_a_column_of_the_same_name_is_not_the_same_column(store):
    write(store, {A: {"a": 1}})
    before = store.snapshot().table(A)
    handle = store.kernel.tables.reopen(*before.place)
    handle.dataset.drop_columns(["v"])
    handle.dataset.add_columns(pa.field("v", pa.int64()))
    newest = store.kernel.tables.open_latest(before.location, None)
    assert newest.dataset.schema.names == SCHEMA.names
    since = rows_since(store.kernel, before, before._replace(version=newest.version))
    assert since.count == 0
    assert since.columns.names == {"id": "id", "v": None}


def numbers_of(handle):
    return {field.name(): field.id() for field in handle.dataset.lance_schema.fields()}


def test_a_number_that_is_used_again_is_told_apart_by_what_rows_hold(store):
    write(store, {A: {"a": 1}})
    session = store.begin(writer_kind="SchemaApply")
    seven = Computed(pa.field("w", pa.int64()), (), lambda rows: pa.array([7] * len(rows)))
    session.alter(A, Rewrite((seven,)))
    session.commit()
    before = store.snapshot().table(A)
    for change in (Alter(drop=("w",)), Alter(add=(pa.field("x", pa.int64()),))):
        session = store.begin(writer_kind="SchemaApply")
        session.alter(A, change)
        session.commit()
    after = store.snapshot().table(A)
    was, now = (numbers_of(store.kernel.tables.open(*table.place)) for table in (before, after))
    assert was["w"] == now["x"], "Lance gives no number twice by now"
    since = rows_since(store.kernel, before, after)
    assert since.columns.names["x"] == "w"
    assert since.upserts.to_pylist() == [{"id": "a", "v": 1, "x": None}]


def test_after_an_overwrite_a_table_is_read_anew(store, monkeypatch):
    monkeypatch.setattr(warm, "_FEW", 0)
    write(store, {A: {f"k{number}": number for number in range(100)}})
    before = store.snapshot().table(A)
    session = store.begin()
    session.overwrite(A, rows({"z": 1}))
    session.commit()
    assert rows_since(store.kernel, before, store.snapshot().table(A)) is None

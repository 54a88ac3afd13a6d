"""What a delta finds, what it costs, and what it leaves behind."""

from dataclasses import replace

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.delta import table as delta_table
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.delta.table import table_delta
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec, TableVersion
from omnigraph.storage.store import init_store, open_store
from omnigraph.storage.tables.deletions import decode_bitmap
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from tests.storage.conftest import QUIET
from tests.support.storage_model import SCHEMA, A, rows, write

MANY = {f"i{number:05d}": number for number in range(20_000)}


def delta_of(store, before, after, **options):
    return table_delta(store.kernel, before.tables.get(A), after.tables.get(A), **options)


def told(delta, **options):
    """Return what a delta yields as plain values; ids must ascend."""
    found = {"inserted": [], "updated": [], "deleted": []}
    for piece in delta.batches(**options):
        found["inserted"] += piece.inserted.to_pylist()
        found["updated"] += zip(piece.before.to_pylist(), piece.after.to_pylist(), strict=True)
        found["deleted"] += piece.deleted.to_pylist()
    for name in ("inserted", "deleted"):
        assert found[name] == sorted(found[name], key=lambda row: row["id"])
    assert all(old["id"] == new["id"] for old, new in found["updated"])
    return found


def test_inserted_updated_and_deleted_rows_come_with_their_images(store):
    write(store, {A: {"a": 1, "b": 2, "c": 3}})
    before = store.snapshot()
    session = store.begin()
    session.upsert(A, rows({"b": 20, "d": 4, "c": 3}))
    session.delete(A, ["a"])
    session.commit()
    after = store.snapshot()
    delta = delta_of(store, before, after)
    assert sorted(delta.touched().ids.to_pylist()) == ["a", "b", "c", "d"]
    assert delta.touched().deleted.to_pylist() == ["a"]
    assert told(delta) == {
        "inserted": [{"id": "d", "v": 4}],
        "updated": [({"id": "b", "v": 2}, {"id": "b", "v": 20})],
        "deleted": [{"id": "a", "v": 1}],
    }
    back = told(delta_of(store, after, before))
    assert back["inserted"] == [{"id": "a", "v": 1}]
    assert back["updated"] == [({"id": "b", "v": 20}, {"id": "b", "v": 2})]
    assert back["deleted"] == [{"id": "d", "v": 4}]


def test_a_table_that_one_side_does_not_have_differs_in_all_rows(store):
    write(store, {A: {"a": 1, "b": 2}})
    now = store.snapshot().table(A)
    everything = [{"id": "a", "v": 1}, {"id": "b", "v": 2}]
    assert told(table_delta(store.kernel, None, now))["inserted"] == everything
    assert told(table_delta(store.kernel, now, None))["deleted"] == everything


def test_a_table_made_anew_differs_where_its_rows_do(store):
    write(store, {A: {"a": 1, "b": 2}})
    before = store.snapshot()
    session = store.begin()
    session.drop_table(A)
    session.create_table(TableSpec(A, SCHEMA), rows({"b": 2, "c": 3}))
    session.commit()
    after = store.snapshot()
    assert after.table(A).location != before.table(A).location
    found = told(delta_of(store, before, after))
    assert found == {
        "inserted": [{"id": "c", "v": 3}],
        "updated": [],
        "deleted": [{"id": "a", "v": 1}],
    }


def test_equal_lists_are_known_to_be_equal_without_reading(store):
    write(store, {A: MANY})
    store.branches.create("b")
    write(store, {A: {"i00001": -1}}, "b")
    main, branch = store.snapshot(), store.snapshot("b")
    assert delta_of(store, main, main).is_empty_at_list_level
    delta = delta_of(store, main, branch)
    assert not delta.is_empty_at_list_level
    assert told(delta_of(store, main, main)) == {"inserted": [], "updated": [], "deleted": []}


def test_cost_follows_the_change_and_not_the_table(store):
    for start in range(0, 20_000, 2_000):
        write(store, {A: dict(list(MANY.items())[start : start + 2_000])})
    before = store.snapshot()
    session = store.begin()
    session.upsert(A, rows({"i00001": -1, "i15000": -1}))
    session.delete(A, ["i07777"])
    session.commit()
    store.counters.reset()
    delta = delta_of(store, before, store.snapshot())
    assert delta.candidates == (3, 2)
    assert len(told(delta)["updated"]) == 2
    counted = store.counters.as_dict()
    assert counted["delta_rows"] == 5
    assert counted["delta_fragments"] == 4


def test_rows_written_again_as_they_were_are_silent(store):
    write(store, {A: MANY})
    before = store.snapshot()
    write(store, {A: {"i00003": 3, "i00004": 4}})
    delta = delta_of(store, before, store.snapshot())
    assert sorted(delta.touched().ids.to_pylist()) == ["i00003", "i00004"]
    assert list(delta.batches()) == []


def test_maintenance_is_silent_and_a_whole_rewrite_is_told_apart_by_content(store):
    write(store, {A: MANY})
    before = store.snapshot()
    write(store, {A: {"i00003": -3}})
    store.optimize()
    session = store.begin()
    session.overwrite(A, store.snapshot().open(A).scan())
    session.commit()
    found = told(delta_of(store, before, store.snapshot()))
    assert found["updated"] == [({"id": "i00003", "v": 3}, {"id": "i00003", "v": -3})]
    assert not found["inserted"]
    assert not found["deleted"]


def test_more_than_fits_into_memory_is_compared_on_disk_and_comes_in_order(store, root):
    write(store, {A: MANY})
    before = store.snapshot()
    session = store.begin()
    session.overwrite(
        A,
        rows(
            {
                f"i{number:05d}": number + (number % 1000 == 7)
                for number in reversed(range(5, 20_005))
            }
        ),
    )
    session.commit()
    after = store.snapshot()
    delta = delta_of(store, before, after, memory=100_000)
    pieces = list(delta.batches())
    assert len(pieces) > 1, "it was compared in one piece"
    updated = [row["id"] for piece in pieces for row in piece.after.to_pylist()]
    assert updated == [f"i{number:05d}" for number in range(7, 20_000, 1000)]
    assert told(delta) == told(delta_of(store, before, after))
    early = delta.batches()
    next(early)
    assert list((root / layout.STAGING_DIR).glob("*/before.arrow"))
    early.close()
    assert not list((root / layout.STAGING_DIR).glob("*/*.arrow"))  # fmt: skip


def test_a_reader_does_not_write_into_the_graph(store, root):
    write(store, {A: MANY})
    before = store.snapshot().table(A)
    with open_store(root, read_only=True, options=QUIET) as reader:
        delta = table_delta(reader.kernel, None, before, memory=100_000)
        pieces = delta.batches()
        next(pieces)
        assert not list((root / layout.STAGING_DIR).glob("*/*.arrow"))
        pieces.close()


def test_columns_are_matched_as_the_caller_says(store, root):
    """Names tell nothing: what is called `v` on one side may be another property there."""
    before = store.kernel.tables.create(
        "nodes/x", pa.table({"id": ["a", "b"], "v": [1, 2], "gone": ["g", "g"]})
    )
    after = store.kernel.tables.create(
        "nodes/y",
        pa.table(
            {"id": ["a", "b"], "renamed": [1, 20], "v": [None, "new"]},
            schema=pa.schema([("id", pa.string()), ("renamed", pa.int64()), ("v", pa.string())]),
        ),
    )
    pairs = [
        ColumnPair("number", "v", "renamed"),
        ColumnPair("text", None, "v"),
        ColumnPair("old", "gone", None),
    ]
    versions = [TableVersion(A, one.location, one.version, None, 2) for one in (before, after)]
    delta = table_delta(store.kernel, *versions, columns=pairs)
    (piece,) = delta.batches()
    assert piece.before.to_pylist() == [{"id": "b", "number": 2, "text": None, "old": "g"}]
    assert piece.after.to_pylist() == [{"id": "b", "number": 20, "text": "new"}]
    assert list(delta.batches(["old"])) == [], "the loss of a column is no change of rows"
    (only,) = delta.batches(["text"])
    assert only.after.column_names == ["id", "text"]


def test_own_fragments_are_told_and_can_be_left_out(store, root):
    write(store, {A: MANY})
    store.branches.create("load")
    write(store, {A: {"i00001": -1}}, "load")
    session = store.begin("load")
    session.append(A, rows({f"n{number}": number for number in range(500)}))
    session.commit()
    delta = delta_of(store, store.snapshot(), store.snapshot("load"))
    (loaded,) = [part for part in delta.own_fragments() if part.rows == 500]
    assert all((root / name).is_file() for name in loaded.files)
    assert sorted(delta.ids_of([loaded.fragment_id]).to_pylist()) == sorted(
        f"n{n}" for n in range(500)
    )
    left = told(delta, without=[loaded.fragment_id])
    assert [new["id"] for _, new in left["updated"]] == ["i00001"]
    assert not left["inserted"]
    assert delta.touched(without=[loaded.fragment_id]).ids.to_pylist() == ["i00001"]


BLOBS = pa.schema([pa.field("id", pa.string(), nullable=False), lance.blob.blob_field("b")])


def blobs(values):
    return pa.table(
        {"id": list(values), "b": lance.blob.blob_array(list(values.values()))}, schema=BLOBS
    )


def test_blobs_are_compared_by_their_bytes_and_only_sizes_are_shown(root, monkeypatch):
    big = {name: bytes([65 + at]) * 300_000 for at, name in enumerate("pqrstu")}
    with init_store(root, [TableSpec(A, BLOBS)], {}, QUIET) as store:
        session = store.begin()
        session.append(A, blobs({"a": b"one", "b": None, "c": b"", "d": b"same", "e": b"x", **big}))
        session.commit()
        before = store.snapshot()
        session = store.begin()
        session.overwrite(
            A,
            blobs(
                {
                    "a": b"two",
                    "b": b"",
                    "c": None,
                    "d": b"same",
                    "f": b"new",
                    **big,
                    "q": b"!" * 300_000,
                }
            ),
        )
        session.commit()
        delta = delta_of(store, before, store.snapshot())
        (piece,) = delta.batches()
        assert piece.after["id"].to_pylist() == ["a", "b", "c", "q"]
        assert piece.after["b"].to_pylist() == [{"size": 3}, {"size": 0}, None, {"size": 300_000}]
        assert piece.before["b"].to_pylist() == [{"size": 3}, None, {"size": 0}, {"size": 300_000}]
        with_bytes = told(delta, blobs=True)
        assert [new["b"] for _, new in with_bytes["updated"]] == [b"two", b"", None, b"!" * 300_000]
        assert [old["b"] for old, _ in with_bytes["updated"]] == [b"one", None, b"", big["q"]]
        assert with_bytes["inserted"] == [{"id": "f", "b": b"new"}]
        assert with_bytes["deleted"] == [{"id": "e", "b": b"x"}]
        # One row of a shared fragment, whose neighbours stay where they are.
        before = store.snapshot()
        session = store.begin()
        session.delete(A, ["p"])
        session.commit()
        found = told(delta_of(store, before, store.snapshot()), blobs=True)
        assert found["deleted"] == [{"id": "p", "b": big["p"]}]


@pytest.mark.parametrize("dead", ["every third", "every second", "a long run", "few"])
def test_deletion_files_of_both_forms_are_read(store, dead):
    number = np.arange(150_000)
    table = pa.table({"id": [f"i{one}" for one in number], "v": number}, schema=SCHEMA)
    session = store.begin()
    session.overwrite(A, table)
    session.commit()
    before = store.snapshot()
    handle = before.handle(A)
    where = {
        "every third": "v % 3 = 0",
        "every second": "v % 2 = 0",
        "a long run": "v > 20000 and v < 90000",
        "few": "v in (1, 70000, 99999, 100000)",
    }[dead]
    own = lance.dataset(handle.dataset.uri)
    own.delete(where)
    own = lance.dataset(handle.dataset.uri)
    forms = {
        part.metadata.deletion_file.file_type
        for part in own.get_fragments()
        if part.metadata.deletion_file
    }
    assert forms == ({"array"} if dead == "few" else {"bitmap"})
    after = before.table(A)._replace(version=own.version)
    expected = sorted(handle.dataset.to_table(filter=where)["id"].to_pylist())
    delta = table_delta(store.kernel, before.table(A), after)
    assert sorted(delta.touched().deleted.to_pylist()) == expected
    back = table_delta(store.kernel, after, before.table(A))
    assert [row["id"] for row in told(back)["inserted"]] == expected


def test_a_damaged_or_missing_deletion_file_is_told(store, root):
    write(store, {A: MANY})
    before = store.snapshot()
    session = store.begin()
    session.delete(A, ["i00009"])
    session.commit()
    after = store.snapshot()
    (file,) = (root / after.table(A).location).rglob("_deletions/*.arrow")
    whole = file.read_bytes()
    file.write_bytes(whole[:40])
    with pytest.raises(DamagedError, match="damaged"):
        delta_of(store, before, after)
    file.unlink()
    with pytest.raises(SnapshotExpiredError, match="is gone"):
        delta_of(store, before, after)


def test_bitmaps_without_runs_are_read_too():
    """Lance writes runs wherever they are shorter; other writers need not."""
    few = (
        b"\x3a\x30\x00\x00"
        + b"\x01\x00\x00\x00"
        + b"\x02\x00\x01\x00"
        + b"\x10\x00\x00\x00"
        + b"\x05\x00\x09\x00"
    )
    assert decode_bitmap(few).tolist() == [(2 << 16) + 5, (2 << 16) + 9]


def test_blobs_among_other_values_are_shown_alike(root):
    plain = pa.schema([pa.field("id", pa.string(), nullable=False), ("b", pa.large_binary())])
    with init_store(root, [TableSpec(A, plain)], {}, QUIET) as store:
        before = store.snapshot()
        session = store.begin()
        session.append(A, pa.table({"id": ["a", "b"], "b": [b"xyz", None]}, schema=plain))
        session.commit()
        delta = delta_of(store, before, store.snapshot())
        (piece,) = delta.batches()
        assert piece.inserted["b"].to_pylist() == [{"size": 3}, None]
        assert [row["b"] for row in told(delta, blobs=True)["inserted"]] == [b"xyz", None]


def test_wide_rows_are_read_in_small_batches(root):
    wide = pa.schema(
        [pa.field("id", pa.string(), nullable=False), pa.field("e", pa.list_(pa.float32(), 4_096))]
    )
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(4_096 * 600, np.float32)), 4_096)
    with init_store(root, [TableSpec(A, wide)], {}, replace(QUIET)) as store:
        session = store.begin()
        session.append(A, pa.table({"id": [str(n) for n in range(600)], "e": values}, schema=wide))
        session.commit()
        side = delta_table.all_rows(store.snapshot().handle(A))
        assert max(piece.nbytes for piece in side.read(["id", "e"])) < 5 << 20

"""Row versions after compaction: exact for recent versions, forgotten and said so for old ones."""

import itertools

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.optimize import Compaction

from omnigraph.storage.files import layout
from omnigraph.storage.tables import lineage, scan
from omnigraph.storage.tables.lineage import decode_runs, encode_runs, merged
from tests.support.storage_model import A, contents, empty_graph, write

RUNS = st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), max_size=30)


@given(RUNS)
def test_runs_survive_being_stored(runs):
    assert decode_runs(encode_runs(runs)) == runs


@given(st.binary(max_size=40))
def test_bytes_of_another_form_are_not_taken_for_runs(stored):
    runs = decode_runs(stored)
    assert runs is None or encode_runs(runs) == stored


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), max_size=30), st.integers(0, 20))
def test_merging_keeps_every_row_and_every_version_above_the_horizon(runs, horizon):
    short = merged(runs, horizon)
    assert _rows(short) == [max(version, horizon) for version in _rows(runs)]
    assert all(one[1] != other[1] for one, other in itertools.pairwise(short))


def _rows(runs):
    return [version for rows, version in runs for _ in range(rows)]


def test_lance_stores_row_versions_in_the_form_we_read(tmp_path):
    """A guard: if this fails, a newer Lance stores them otherwise and manifests grow again."""
    place = str(tmp_path / "t")
    data = lance.write_dataset(pa.table({"id": ["a", "b"]}), place, enable_stable_row_ids=True)
    for name in "cd":
        data.insert(pa.table({"id": [name]}))
    (task,) = Compaction.plan(data, {}).tasks
    (fragment,) = lance.optimize.RewriteResult.from_json(task.execute(data).json()).new_fragments
    stored = bytes(fragment.to_json()["created_at_version_meta"]["inline"])
    assert decode_runs(stored) == [(2, 1), (1, 2), (1, 3)]


@pytest.fixture
def short(monkeypatch):
    """A horizon of ten versions."""
    monkeypatch.setattr(lineage, "HORIZON", 10)
    monkeypatch.setattr(scan, "HORIZON", 10)


@settings(
    max_examples=6,
    # The fixture only gives a place; every example makes a graph of its own. How fast examples are
    # drawn says something about the machine.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from("abcdefghijkl"), st.integers(0, 9)),
        min_size=20,
        max_size=30,
    )
)
def test_a_trusted_delta_is_what_comparing_the_rows_says(short_store, steps):
    store = short_store()
    write(store, {A: {"a": 0, "b": 0, "c": 0}})
    for choice, key, value in steps:
        if choice == 0:
            store.optimize()
        elif choice == 1:
            session = store.begin()
            session.delete(A, [key])
            session.commit()
        else:
            write(store, {A: {key: value}})
    store.optimize()  # forgets what lies further back
    newest = store.snapshot()
    reader, now = newest.open(A), contents(newest)[A]
    trusted = 0
    for commit in store.commits():
        old = store.snapshot_at(commit_id=commit.id)
        since = old.tables[A].version
        if reader.has_rewrites_since(since):
            continue
        trusted += 1
        before, delta = contents(old)[A], reader.delta(since)
        inserted, updated = _values(delta.inserted), _values(delta.updated)
        gone = set(_keys(old, delta.deleted_row_ids))
        kept = {key: value for key, value in before.items() if key not in gone}
        assert kept | inserted | updated == now
        assert set(updated) <= set(kept), "an updated row was there before"
        assert not set(inserted) & set(kept), "an inserted row was not"
    assert trusted


def _values(rows):
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def _keys(snapshot, row_ids):
    read = snapshot.open(A).scan(["id"], with_row_id=True)
    known = dict(zip(read["_rowid"].to_pylist(), read["id"].to_pylist(), strict=True))
    return [known[row_id] for row_id in row_ids.to_pylist()]


@pytest.fixture
def short_store(tmp_path_factory, short, quiet):
    opened = []

    def make():
        opened.append(empty_graph(tmp_path_factory.mktemp("g") / "graph", quiet))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def test_far_back_a_compacted_table_says_that_it_has_forgotten(store, short):
    write(store, {A: {"first": 1}})
    early = store.snapshot().tables[A].version
    for number in range(12):
        write(store, {A: {f"k{number}": number}})
    late = store.snapshot().tables[A].version
    write(store, {A: {"last": 1}})
    assert not store.snapshot().open(A).has_rewrites_since(early)
    store.optimize()
    reader = store.snapshot().open(A)
    assert reader.has_rewrites_since(early)
    assert not reader.has_rewrites_since(late)
    assert reader.delta(late).inserted["id"].to_pylist() == ["last"]


def test_the_manifest_of_a_table_written_row_by_row_stays_small(store, root, short):
    for number in range(120):
        write(store, {A: {f"k{number}": number}})
        if number % 10 == 9:
            store.maintain()
    store.optimize()
    write(store, {A: {"last": 1}})
    size = (root / layout.version_file(*store.snapshot().tables[A].place)).stat().st_size
    assert size < 2_000, "a run for each of the newest ten versions; all 120 would take 3,500"
    assert contents(store.snapshot())[A] == {f"k{n}": n for n in range(120)} | {"last": 1}

"""Write sessions: what one commit does, and what it refuses."""

import threading

import pyarrow as pa
import pytest

from omnigraph.api.history import TableNotFoundError
from omnigraph.base import failpoints
from omnigraph.errors import BadRequestError, ConflictError, IntegrityError, InternalError
from omnigraph.storage.commit.session import (
    CommitWindow,
    ExpectedVersionMismatch,
    HeadMovedError,
    Preconditions,
)
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.manifest.history import IdempotencyConflictError
from omnigraph.storage.store import open_store
from omnigraph.storage.tables.stage import Append, Change
from tests.support.storage_model import SCHEMA, A, B, E, contents, once, rows, write


def test_one_commit_changes_several_tables_at_once(store):
    write(store, {A: {"a": 1, "b": 2}, E: {"e": 1}})
    session = store.begin(actor="ann")
    session.append(B, rows({"x": 1}))
    session.upsert(A, rows({"b": 20, "c": 3}))
    session.delete(E, ["e"])
    made = session.commit()
    commit = made.commit
    assert contents(made.snapshot) == contents(store.snapshot())
    assert contents(store.snapshot()) == {A: {"a": 1, "b": 20, "c": 3}, B: {"x": 1}, E: {}}
    assert (commit.actor, commit.tables, commit.kind) == ("ann", (E, A, B), "logical")
    assert made.outcome == "committed"
    assert made.snapshot == store.snapshot()
    assert store.snapshot().commit_id == commit.id


def test_an_update_keeps_row_ids_and_a_new_row_gets_a_fresh_one(store):
    write(store, {A: {f"k{i}": i for i in range(20)}})
    before = _row_ids(store)
    session = store.begin()
    session.upsert(A, rows({"k3": 30, "new": 1, "k17": 170}))
    session.delete(A, ["k5"])
    session.commit()
    after = _row_ids(store)
    assert {key: after[key] for key in before if key != "k5"} == {
        key: row_id for key, row_id in before.items() if key != "k5"
    }
    assert after["new"] not in before.values()
    assert "k5" not in after


def test_a_large_upsert_takes_the_other_path_to_the_same_rows(store, monkeypatch):
    write(store, {A: {f"k{i}": i for i in range(50)}})
    before = _row_ids(store)
    monkeypatch.setattr("omnigraph.storage.tables.stage.MERGE_CROSSOVER", 10)
    change = {f"k{i}": -i for i in range(40, 60)}
    write(store, {A: change})
    assert contents(store.snapshot())[A] == {f"k{i}": i for i in range(40)} | change
    after = _row_ids(store)
    assert all(after[key] == row_id for key, row_id in before.items())


def test_an_overwrite_may_change_the_columns(store):
    write(store, {A: {"a": 1}})
    wider = pa.table({"id": ["z"], "v": [1], "w": ["text"]})
    session = store.begin()
    session.overwrite(A, wider)
    session.commit()
    assert store.snapshot().open(A).scan().to_pylist() == [{"id": "z", "v": 1, "w": "text"}]


def test_overwriting_with_no_rows_empties_the_table(store):
    write(store, {A: {"a": 1}})
    session = store.begin()
    session.overwrite(A, SCHEMA.empty_table())
    session.commit()
    assert contents(store.snapshot())[A] == {}


def test_a_write_without_effect_makes_no_commit(store):
    first = write(store, {A: {"a": 1}})
    session = store.begin()
    session.delete(A, ["nobody"])
    session.append(B, rows({}))
    commit = session.commit()
    assert (commit.outcome, commit.id) == ("unchanged", first)
    assert len(store.commits()) == 2


def test_a_session_is_used_once(store):
    session = store.begin()
    session.append(A, rows({"a": 1}))
    session.commit()
    with pytest.raises(InternalError, match="finished"):
        session.commit()


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        pytest.param(pa.table({"id": ["a"]}), BadRequestError, "missing", id="missing column"),
        pytest.param(
            pa.table({"id": ["a"], "v": [1], "w": [1]}), BadRequestError, "unknown", id="unknown"
        ),
        pytest.param(
            pa.table({"id": ["a"], "v": ["text"]}), IntegrityError, "fit", id="wrong type"
        ),
        pytest.param(
            pa.table({"id": pa.array([None], pa.string()), "v": [1]}),
            IntegrityError,
            "null",
            id="null key",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_changes(store, bad, error, words):
    session = store.begin()
    session.append(A, bad)
    with pytest.raises(error, match=words):
        session.commit()
    assert contents(store.snapshot())[A] == {}
    write(store, {A: {"a": 1}})


def test_one_key_twice_in_an_upsert_is_refused(store):
    session = store.begin()
    session.upsert(A, pa.table({"id": ["a", "a"], "v": [1, 2]}, schema=SCHEMA))
    with pytest.raises(IntegrityError, match="'a' is written twice"):
        session.commit()


def test_one_key_written_and_deleted_in_one_commit_is_refused(store):
    write(store, {A: {"a": 1, "b": 1}})
    session = store.begin()
    session.upsert(A, rows({"a": 2}))
    session.delete(A, ["b", "a"])
    with pytest.raises(IntegrityError, match="'a' is both written"):
        session.commit()


def test_an_unknown_table_is_refused_at_once(store):
    with pytest.raises(TableNotFoundError, match="node:Nope"):
        store.begin().append("node:Nope", rows({"a": 1}))


def test_an_overwrite_does_not_mix_with_other_writes(store):
    session = store.begin()
    session.overwrite(A, rows({"a": 1}))
    with pytest.raises(BadRequestError, match="mixed"):
        session.append(A, rows({"b": 1}))


def test_concurrent_appends_both_land_and_the_later_one_is_revalidated(store):
    write(store, {A: {"a": 1}})
    slow = store.begin()
    slow.append(A, rows({"slow": 1}))
    fast = write(store, {A: {"fast": 1}})
    seen: list[CommitWindow] = []
    commit = slow.commit(seen.append).commit
    assert contents(store.snapshot())[A] == {"a": 1, "fast": 1, "slow": 1}
    assert commit.parent == fast
    assert [window.moved for window in seen] == [(A,)]
    assert "fast" in contents(seen[0].head)[A]
    assert "fast" not in contents(seen[0].base)[A]


def test_a_revalidation_that_raises_leaves_the_graph_alone(store):
    slow = store.begin()
    slow.append(A, rows({"slow": 1}))
    write(store, {B: {"b": 1}})

    def refuse(window: CommitWindow) -> None:
        raise IntegrityError("no longer allowed")

    with pytest.raises(IntegrityError, match="no longer"):
        slow.commit(refuse)
    assert contents(store.snapshot())[A] == {}
    assert store.kernel.objects.list("__recovery") == []


def test_an_upsert_that_lost_a_race_is_staged_again(store):
    write(store, {A: {"a": 1, "b": 2}})
    slow = store.begin()
    slow.upsert(A, rows({"a": 10}))
    write(store, {A: {"b": 20}})
    slow.commit()
    assert contents(store.snapshot())[A] == {"a": 10, "b": 20}


@pytest.mark.parametrize("kind", ["update", "delete", "overwrite"])
def test_a_strict_write_names_the_table_that_moved(store, kind):
    write(store, {A: {"a": 1, "b": 2}})
    expected = store.snapshot().table(A).version
    slow = store.begin()
    match kind:
        case "update":
            slow.upsert(A, rows({"a": 10}), strict=True)
        case "delete":
            slow.delete(A, ["a"])
        case _:
            slow.overwrite(A, rows({"z": 1}))
    write(store, {A: {"b": 20}})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        slow.commit()
    assert (caught.value.table, caught.value.expected, caught.value.actual) == (
        A,
        expected,
        expected + 1,
    )
    assert contents(store.snapshot())[A] == {"a": 1, "b": 20}


def test_a_strict_write_does_not_mind_other_tables_moving(store):
    write(store, {A: {"a": 1}})
    slow = store.begin()
    slow.delete(A, ["a"])
    write(store, {B: {"b": 1}})
    slow.commit()
    assert contents(store.snapshot())[A] == {}


def test_a_write_that_lost_only_to_maintenance_succeeds_silently(store):
    for i in range(6):
        write(store, {A: {f"k{i}": i}})
    slow = store.begin()
    slow.delete(A, ["k1"])
    slow.upsert(B, rows({"b": 1}), strict=True)
    assert any(stats.committed for stats in store.optimize())
    called: list[CommitWindow] = []
    slow.commit(called.append)
    assert contents(store.snapshot())[A] == {f"k{i}": i for i in range(6) if i != 1}
    assert called == []


def test_if_head_compares_the_last_logical_commit(store):
    first = write(store, {A: {f"k{i}": i for i in range(3)}})
    write(store, {A: {"x": 1}})
    logical = store.snapshot().commit_id
    store.optimize()
    assert store.snapshot().commit_id != logical
    session = store.begin()
    session.append(A, rows({"y": 1}))
    session.commit(preconditions=Preconditions(if_head=logical))
    session = store.begin()
    session.append(A, rows({"z": 1}))
    with pytest.raises(HeadMovedError, match=first):
        session.commit(preconditions=Preconditions(if_head=first))


def test_if_head_may_name_a_maintenance_commit(store):
    for i in range(3):
        write(store, {A: {f"k{i}": i}})
    store.optimize()
    physical = store.snapshot().commit_id
    for i in range(3):
        session = store.begin(kind="maintenance")
        session.upsert(A, rows({f"k{i}": i}))
        session.commit()
    session = store.begin()
    session.append(A, rows({"y": 1}))
    session.commit(preconditions=Preconditions(if_head=physical))


def test_an_idempotency_key_writes_once_and_returns_the_first_answer(store):
    def send() -> tuple[str, str, object]:
        session = store.begin()
        session.append(A, rows({"a": 1}))
        asked = once("k1", "h")
        made = session.commit(preconditions=asked, result={"rows": 1})
        return made.id, str(made.outcome), made.commit.result

    first, second = send(), send()
    assert second == (first[0], "replayed", {"rows": 1})
    assert contents(store.snapshot())[A] == {"a": 1}


def test_an_idempotency_key_survives_reopening_and_belongs_to_its_branch(store, root, quiet):
    session = store.begin()
    session.append(A, rows({"a": 1}))
    commit = session.commit(preconditions=once("k1", "h"))
    store.branches.create("side")
    store.close()
    with open_store(str(root), options=quiet) as again:
        session = again.begin()
        session.append(A, rows({"b": 1}))
        assert session.commit(preconditions=once("k1", "h")).id == commit.id
        session = again.begin("side")
        session.append(A, rows({"b": 1}))
        assert session.commit(preconditions=once("k1", "h")).id != commit.id


def test_an_idempotency_key_with_another_request_is_refused(store):
    session = store.begin()
    session.append(A, rows({"a": 1}))
    session.commit(preconditions=once("k1", "h"))
    session = store.begin()
    session.append(A, rows({"b": 1}))
    with pytest.raises(IdempotencyConflictError, match="another request"):
        session.commit(preconditions=once("k1", "other"))


def test_tables_are_created_renamed_and_dropped_with_the_commit(store):
    write(store, {A: {"a": 1}, B: {"b": 1}})
    before = store.snapshot()
    session = store.begin(writer_kind="SchemaApply")
    session.create_table(TableSpec("node:New", SCHEMA), rows({"n": 1}))
    session.rename_table(B, "node:Renamed")
    session.drop_table(E)
    session.replace_file("_schema.pg", b"second")
    session.commit()
    assert contents(store.snapshot()) == {
        A: {"a": 1},
        "node:New": {"n": 1},
        "node:Renamed": {"b": 1},
    }
    assert store.read_file("_schema.pg") == b"second"
    assert contents(before) == {A: {"a": 1}, B: {"b": 1}, E: {}}
    assert store.snapshot().table("node:Renamed").location == before.table(B).location


def test_a_dropped_table_can_be_added_again_and_old_snapshots_keep_theirs(store):
    write(store, {E: {"old": 1}})
    before = store.snapshot()
    session = store.begin()
    session.drop_table(E)
    session.commit()
    session = store.begin()
    session.create_table(TableSpec(E, SCHEMA), rows({"new": 2}))
    session.commit()
    assert contents(store.snapshot())[E] == {"new": 2}
    assert contents(before)[E] == {"old": 1}
    assert contents(store.snapshot_at(commit_id=before.commit_id))[E] == {"old": 1}


def test_a_published_file_is_read_even_before_it_is_in_place(store):
    session = store.begin()
    session.replace_file("_schema.pg", b"second")
    failpoints.enable("publish.after_manifest_sync=raise")
    with pytest.raises(failpoints.FailpointTriggeredError):
        session.commit()
    failpoints.disable_all()
    assert (store.kernel.objects.find("_schema.pg"), store.read_file("_schema.pg")) == (
        b"first",
        b"second",
    )
    store.recover()
    assert store.kernel.objects.find("_schema.pg") == b"second"
    assert store.kernel.objects.list("__staging") == []


def test_threads_of_one_store_form_one_line_of_commits(store):
    def work(name: str) -> None:
        for i in range(5):
            write(store, {A: {f"{name}{i}": i}})

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(contents(store.snapshot())[A]) == 15
    assert [commit.sequence for commit in store.commits()] == list(range(16))


def test_a_session_begun_on_a_deleted_and_recreated_branch_is_refused(store):
    store.branches.create("side")
    session = store.begin("side")
    session.append(A, rows({"x": 1}))
    store.branches.delete("side")
    store.branches.create("side")
    with pytest.raises(ConflictError, match="created again"):
        session.commit()


def test_writes_to_one_table_fold_into_one_transaction(store):
    version = store.snapshot().table(A).version
    session = store.begin()
    session.append(A, rows({"a": 1}))
    session.append(A, rows({"b": 1}))
    session.upsert(A, rows({"c": 1}))
    session.commit()
    assert store.snapshot().table(A).version == version + 1
    assert contents(store.snapshot())[A] == {"a": 1, "b": 1, "c": 1}
    assert isinstance(Append(rows({})), Append)
    assert isinstance(Change(), Change)


def test_blob_columns_are_appended_updated_and_compacted(store):
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )

    def blobs(values):
        return pa.table({"id": list(values), "b": list(values.values())}, schema=schema)

    session = store.begin()
    session.create_table(TableSpec("node:Blob", schema), blobs({"a": b"x", "b": b"y" * 300_000}))
    session.commit()
    session = store.begin()
    session.upsert("node:Blob", blobs({"a": b"z", "c": None}))
    session.commit()
    store.optimize()
    read = store.snapshot().open("node:Blob").scan(blobs=True).to_pylist()
    assert {row["id"]: row["b"] for row in read} == {"a": b"z", "b": b"y" * 300_000, "c": None}


def _row_ids(store):
    table = store.snapshot().open(A).scan(["id"], with_row_id=True)
    return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def test_an_append_to_a_table_that_was_replaced_meanwhile_lands_in_the_new_one(store):
    late = store.begin()
    late.append(A, rows({"late": 1}))
    for change in (lambda s: s.drop_table(A), lambda s: s.create_table(TableSpec(A, SCHEMA))):
        session = store.begin()
        change(session)
        session.commit()
    assert store.snapshot().tables[A].version == late.base.tables[A].version
    late.commit()
    assert contents(store.snapshot())[A] == {"late": 1}

"""What other tools do to the files of a table: taken over if no row changed, else refused."""

import lance
import pytest

from omnigraph.api.upkeep import DriftKind
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.storage.recovery.drift import DriftError
from omnigraph.storage.store import ReadOnlyError, open_store
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.index import IndexSpec, list_indexes
from omnigraph.storage.tables.stage import Append, stage
from tests.storage.conftest import QUIET
from tests.support.operations import interrupted
from tests.support.storage_model import A, B, check_verified, contents, rows, write

INDEX = IndexSpec("v", "BTREE", "by_v")


@pytest.fixture(params=["main", "side"])
def branch(request):
    return request.param


@pytest.fixture
def graph(store, branch):
    if branch != "main":
        store.branches.create(branch)
    for number in range(5):
        write(store, {A: {f"a{number}": number}}, branch)
    return store


def dataset(store, branch, key=A):
    """A table as another tool opens it."""
    return lance.dataset(store.snapshot(branch).handle(key).dataset.uri)


def compact(found):
    found.optimize.compact_files(target_rows_per_fragment=1_000)


def index(found):
    found.create_scalar_index("v", "BTREE", name="theirs")


def compact_and_index(found):
    compact(found)
    index(found)


PHYSICAL = [compact, index, compact_and_index]
ROWS = {
    "append": lambda found: lance.write_dataset(rows({"x": 1}), found.uri, mode="append"),
    "delete": lambda found: found.delete("id = 'a1'"),
    "append and compact": lambda found: compact(
        lance.write_dataset(rows({"x": 1}), found.uri, mode="append")
    ),
}


def told(store, branch):
    (found,) = [table for table in store.repair(branch) if table.table_key == A]
    return found.classification, found.action


@pytest.mark.parametrize("work", PHYSICAL)
def test_what_changes_no_row_is_taken_over_by_the_next_write(work, graph, branch):
    before = contents(graph.snapshot(branch))
    logical = graph.snapshot(branch).logical_commit_id
    work(dataset(graph, branch))
    newest = dataset(graph, branch).version
    check_verified(graph)
    assert told(graph, branch) == (DriftKind.MAINTENANCE, "preview")
    write(graph, {A: {"b": 1}, B: {"b": 1}}, branch)
    assert contents(graph.snapshot(branch))[A] == before[A] | {"b": 1}
    assert graph.snapshot(branch).table(A).version == newest + 1
    taken = graph.commits(branch)[-2]
    assert (taken.kind, taken.logical_id, taken.tables) == ("maintenance", logical, (A,))
    check_verified(graph)
    with open_store(graph.kernel.root.path, options=QUIET) as again:
        assert contents(again.snapshot(branch)) == contents(graph.snapshot(branch))


@pytest.mark.parametrize("work", PHYSICAL)
@pytest.mark.parametrize("next_", ["optimize", "index", "repair"])
def test_what_changes_no_row_is_taken_over_by_upkeep_too(work, next_, graph, branch):
    before = contents(graph.snapshot(branch))
    work(dataset(graph, branch))
    match next_:
        case "optimize":
            graph.optimize(branch)
        case "index":
            assert graph.build_index(A, INDEX, branch) or work is not index
        case "repair":
            (done,) = [one for one in graph.repair(branch, confirm=True) if one.table_key == A]
            assert (done.action, done.newest_version) == ("healed", dataset(graph, branch).version)
    assert contents(graph.snapshot(branch)) == before
    assert graph.snapshot(branch).table(A).version == dataset(graph, branch).version
    assert told(graph, branch) == (DriftKind.NONE, "no_op")
    check_verified(graph)


@pytest.mark.parametrize("work", ROWS)
def test_changed_rows_are_refused_by_all_and_taken_only_by_force(work, graph, branch):
    before = contents(graph.snapshot(branch))
    ROWS[work](dataset(graph, branch))
    newest = dataset(graph, branch).version
    with pytest.raises(DriftError, match="repair") as refused:
        write(graph, {A: {"b": 1}}, branch)
    assert refused.value.drift.kind is DriftKind.ROWS
    with pytest.raises(DriftError):
        graph.build_index(A, INDEX, branch)
    (skipped,) = [step for step in graph.optimize(branch) if step.table_key == A]
    assert skipped.skipped == "drift_needs_repair"
    assert told(graph, branch) == (DriftKind.ROWS, "preview")
    (kept,) = [one for one in graph.repair(branch, confirm=True) if one.table_key == A]
    assert kept.action == "refused"
    assert contents(graph.snapshot(branch)) == before
    assert dataset(graph, branch).version == newest, "something was put on top of it"
    assert [found.kind for found in graph.verify() if not found.harmless] == ["drift"]
    write(graph, {B: {"b": 1}}, branch)
    logical = graph.snapshot(branch).logical_commit_id
    (taken,) = [one for one in graph.repair(branch, confirm=True, force=True) if one.table_key == A]
    assert taken.action == "forced"
    assert graph.snapshot(branch).logical_commit_id != logical
    stored = dataset(graph, branch).to_table(columns=["id"])["id"].to_pylist()
    assert sorted(contents(graph.snapshot(branch))[A]) == sorted(stored)
    write(graph, {A: {"b": 1}}, branch)
    check_verified(graph)


def test_other_columns_are_refused_by_force(graph, branch):
    dataset(graph, branch).add_columns({"w": "1"})
    (kept,) = [one for one in graph.repair(branch, confirm=True, force=True) if one.table_key == A]
    assert (kept.action, kept.classification) == ("refused", DriftKind.ROWS)


def test_what_a_dead_write_left_is_taken_back(graph, branch):
    before = contents(graph.snapshot(branch))
    ghost = stage(graph.kernel.tables, graph.snapshot(branch).handle(A), Append(rows({"g": 1})))
    ghost.sign({"omnigraph:operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
    commit_staged(graph.kernel.tables, ghost)
    compact(dataset(graph, branch))
    assert told(graph, branch) == (DriftKind.ABANDONED, "preview")
    graph.repair(branch, confirm=True)
    assert contents(graph.snapshot(branch)) == before
    write(graph, {A: {"b": 1}}, branch)
    check_verified(graph)


def test_a_compaction_of_a_branch_by_another_tool_does_not_cost_its_lookups(store):
    write(store, {A: {"a": 1}})
    write(store, {A: {"b": 1}})
    assert store.build_index(A, IndexSpec("id", "BTREE", "by_id"))
    store.branches.create("side")
    write(store, {A: {"c": 1}}, "side")
    compact(dataset(store, "side"))
    (done,) = [one for one in store.repair("side", confirm=True) if one.table_key == A]
    assert (done.action, done.lost_indexes) == ("healed", ("by_id",))
    assert list_indexes(store.snapshot("side").handle(A)) == []
    write(store, {A: {"a": 2}}, "side")
    assert contents(store.snapshot("side"))[A] == {"a": 2, "b": 1, "c": 1}
    check_verified(store)


@pytest.mark.parametrize("then", ["a write", "mending"])
def test_an_index_lost_by_a_compaction_that_a_write_took_over_is_taken_out(store, then):
    write(store, {A: {"a": 1}})
    write(store, {A: {"b": 1}})
    assert store.build_index(A, IndexSpec("id", "BTREE", "by_id"))
    store.branches.create("side")
    write(store, {A: {"c": 1}}, "side")
    compact(dataset(store, "side"))
    write(store, {A: {"d": 1}}, "side")  # takes it over, in its turn
    if then == "a write":
        write(store, {A: {"a": 2}}, "side")
    else:
        store.mend("side")
    assert list_indexes(store.snapshot("side").handle(A)) == []
    check_verified(store)


def test_repair_shows_first_and_asks_for_a_word(graph, branch):
    compact(dataset(graph, branch))
    head = graph.snapshot(branch).commit_id
    assert told(graph, branch) == (DriftKind.MAINTENANCE, "preview")
    assert graph.snapshot(branch).commit_id == head
    assert {one.branch for one in graph.repair()} >= {branch}
    with pytest.raises(BadRequestError, match="confirm"):
        graph.repair(branch, force=True)
    with open_store(graph.kernel.root.path, read_only=True, options=QUIET) as reader:
        assert told(reader, branch) == (DriftKind.MAINTENANCE, "preview")
        with pytest.raises(ReadOnlyError):
            reader.repair(branch, confirm=True)


def test_repair_waits_for_unfinished_writes(store):
    with interrupted("publish.after_tables=raise"):
        write(store, {A: {"a": 1}})
    with pytest.raises(ConflictError, match="unfinished"):
        store.repair(confirm=True)

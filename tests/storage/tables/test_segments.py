"""Indexes that grow by segments answer like no index, whatever happened to the rows."""

import random

import pyarrow as pa
import pytest

from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables.index import IndexSpec, stage_index, usable_indexes, write_index
from omnigraph.storage.tables.predicate import Compare, equals, is_in
from tests.support.storage_model import A, rows, write

SPECS = (IndexSpec("id", "BTREE", "by_id"), IndexSpec("v", "BTREE", "by_v"))


def indexes(store, branch="main"):
    return usable_indexes(store.kernel.tables, store.snapshot(branch).handle(A))


def segments(store, branch="main"):
    dataset = store.snapshot(branch).handle(A).dataset
    return {one.name: len(one.segments) for one in dataset.describe_indices()}


def grow(store: GraphStore, branch="main"):
    for spec in SPECS:
        known = indexes(store, branch).get(spec.name)
        store.build_index(A, spec, branch, adds=known is not None and not known.is_worn)


def assert_right(store: GraphStore, branch: str, model: dict[str, int], dice: random.Random):
    reader = store.snapshot(branch).open(A)
    asked = dice.sample(sorted(model), min(6, len(model)))
    found = reader.scan(where=is_in("id", [*asked, "nobody"]))
    told = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert told == {key: model[key] for key in asked}
    value = dice.randrange(60)
    for op, keeps in (("=", int.__eq__), ("<", int.__lt__), (">=", int.__ge__)):
        found = reader.scan(["id"], Compare("v", op, value))["id"].to_pylist()
        assert sorted(found) == sorted(key for key, one in model.items() if keeps(one, value))


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_answer_like_a_plain_dictionary(store, seed):
    dice = random.Random(seed)
    lines = {"main": {f"k{at}": dice.randrange(60) for at in range(40)}}
    write(store, {A: lines["main"]})
    for step in range(40):
        branch = dice.choice(sorted(lines))
        model = lines[branch]
        match dice.choice("insert update update delete grow grow compact branch".split()):
            case "insert":
                fresh = {f"k{branch}{step}{at}": dice.randrange(60) for at in range(7)}
                write(store, {A: fresh}, branch)
                model.update(fresh)
            case "update" if model:
                changed = {key: dice.randrange(60) for key in dice.sample(sorted(model), 3)}
                write(store, {A: changed}, branch)
                model.update(changed)
            case "delete" if len(model) > 10:
                gone = dice.sample(sorted(model), 4)
                session = store.begin(branch)
                session.delete(A, gone)
                session.commit()
                for key in gone:
                    del model[key]
            case "grow":
                grow(store, branch)
            case "compact":
                store.optimize(branch)
            case "branch" if len(lines) < 3:
                store.branches.create(f"b{step}", branch)
                lines[f"b{step}"] = dict(model)
        for name, expected in lines.items():
            assert_right(store, name, expected, dice)
    findings = [*store.verify(), *store.check_files()]
    assert [one for one in findings if not one.harmless] == []


def test_a_segment_is_over_the_new_rows_alone(store):
    write(store, {A: {f"k{at}": at for at in range(100)}})
    grow(store)
    write(store, {A: {"new": 1}})
    assert indexes(store)["by_id"].unindexed_rows == 1
    own = store.snapshot().handle(A)
    built = write_index(store.kernel.tables, own, SPECS[0], adds=True)
    assert len(built.covered) == 1
    grow(store)
    assert segments(store) == {"by_id": 2, "by_v": 2}
    assert indexes(store)["by_id"].unindexed_rows == 0
    assert not store.build_index(A, SPECS[0], adds=True)  # there is nothing to add


def test_two_that_add_the_same_rows_do_not_both_count(store):
    write(store, {A: {f"k{at}": at for at in range(20)}})
    grow(store)
    write(store, {A: {"new": 1}})
    tables = store.kernel.tables
    late = write_index(tables, store.snapshot().handle(A), SPECS[0], adds=True)
    grow(store)
    assert stage_index(tables, store.snapshot().handle(A), late) is None
    assert store.snapshot().open(A).scan(where=equals("id", "new")).num_rows == 1


def test_dead_entries_are_counted(store):
    write(store, {A: {f"k{at}": at for at in range(100)}})
    grow(store)
    session = store.begin()
    session.delete(A, pa.array([f"k{at}" for at in range(20)]))
    session.commit()
    assert not indexes(store)["by_id"].is_worn
    write(store, {A: {f"k{at}": 7 for at in range(20, 40)}})
    assert indexes(store)["by_id"].is_worn  # rows that were replaced lie elsewhere now
    session = store.begin()
    session.overwrite(A, rows({"only": 1}))
    session.commit()
    assert indexes(store) == {} or indexes(store)["by_id"].unindexed_rows == 1

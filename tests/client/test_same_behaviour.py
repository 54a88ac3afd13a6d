"""Whatever is asked of a graph on disk can be asked of a server, and comes to the same."""

import io
import math
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Limits
from omnigraph.api.merges import MergeConflictError
from omnigraph.api.schemas import SchemaUnsupportedError
from omnigraph.api.upkeep import IndexStatus
from omnigraph.compiler.compile import QueryNotFoundError
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.compiler.query.params import MissingParamError
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    BudgetExceededError,
    ErrorKind,
    NotFoundError,
)
from omnigraph.storage.commit.window import HeadMovedError
from omnigraph.storage.manifest.history import IdempotencyConflictError
from omnigraph.storage.manifest.snapshot import BranchNotFoundError
from tests.cli.conftest import QUERIES, SCHEMA

ALL = "query all() { match { $p: Person } return { $p.name, $p.age, $p.bio } }"
MET = "query met() { match { $a: Person $a knows $b } return { $a.name, $b.name } }"
MEETINGS = "query q() { match { $a: Person $a $k: knows $b } return { $k.since } }"
AGE = "query age($name: String, $age: I32) { update Person set { age: $age } where name = $name }"


def names(result):
    return [row["p.name"] for row in result]


def test_queries_return_the_same_rows_and_facts(graph):
    found = graph.query(QUERIES, "adults", {"min": 18})
    assert found.to_tuples() == [(41, "Ann"), (30, "Cé")]
    assert (found.query_name, found.branch, found.columns) == (
        "adults",
        "main",
        ["p.age", "p.name"],
    )
    assert found.commit_id == graph.snapshot().commit_id
    assert graph.query(ALL).to_dicts()[0]["p.bio"] == 'likes "tea", and\nrain'
    assert graph.query(ALL + "\n").table.schema == graph.query(ALL).table.schema


def test_dates_come_back_as_dates(graph):
    row = graph.entity(
        "edge:Knows", graph.diff("main@1", "main", kinds=["edge"]).to_dicts()[0]["id"]
    )
    assert row["since"] == date(2020, 2, 29)


def test_a_query_file_is_read_here(graph, place):
    assert names(graph.query(place.parent / "people.gq", "person", {"name": "Bob"})) == ["Bob"]


def test_rows_come_in_batches(graph):
    batches = list(graph.stream(ALL, batch_rows=2))
    assert [len(one) for one in batches] == [2, 1]
    assert pa.Table.from_batches(batches).column("p.name").to_pylist() == ["Ann", "Bob", "Cé"]
    with pytest.raises(BadRequestError, match="cannot have 0 rows"):
        graph.stream(ALL, batch_rows=0)


def test_pictures_show_what_is_behind_rows(graph):
    result = graph.query("match { $a: Person $a knows $b } return { $a.name, $b.name }")
    picture = result.graph()
    ends = [(edge.source, edge.target) for edge in picture.edges]
    assert sorted(ends) == sorted(result.to_tuples())
    assert picture.commit_id == result.commit_id
    assert graph.picture(ALL, max_nodes=1).truncated
    assert {edge.type for edge in graph.show().edges} == {"Knows"}
    with pytest.raises(BadRequestError, match="cannot have 0 nodes"):
        result.graph(0)


def test_plans_and_profiles_are_the_same(graph):
    assert "scan p: Person" in graph.explain(ALL)
    found = graph.profile(QUERIES, "adults", {"min": 18})
    assert (found.query_name, found.row_count) == ("adults", 2)


def test_texts_that_are_wrong_are_shown_where(graph):
    text = "query q() {\n  match { $p: Persn }\n  return { $p.name }\n}"
    with pytest.raises(DiagnosticsError) as caught:
        graph.query(text)
    (found,) = caught.value.diagnostics
    assert caught.value.source.text[found.span.start : found.span.end] == "Persn"
    assert caught.value.hint == "did you mean `Person`?"
    assert "$p: Persn" in caught.value.render()


def test_errors_are_the_same_classes_with_the_same_facts(graph):
    with pytest.raises(QueryNotFoundError) as caught:
        graph.query(QUERIES, "kids")
    assert (caught.value.name, caught.value.kind) == ("kids", ErrorKind.NOT_FOUND)
    with pytest.raises(MissingParamError) as caught:
        graph.query(QUERIES, "adults")
    assert caught.value.param == "min"
    with pytest.raises(BranchNotFoundError) as caught:
        graph.query(ALL, branch="nope")
    assert caught.value.branch == "nope"
    with pytest.raises(BadRequestError, match="is a mutation"):
        graph.query(QUERIES, "add", {"name": "x"})
    with pytest.raises(BudgetExceededError, match="row budget"):
        graph.query(ALL, limits=Limits(rows=1))


def test_writes_are_read_back(graph):
    done = graph.mutate(QUERIES, "add", {"name": "Dan", "age": 5}, message="why not")
    assert (done.affected_nodes, done.branch, done.query_name) == (1, "main", "add")
    assert "Dan" in names(graph.query(ALL))
    newest = graph.commits.list(limit=1)[0]
    assert (newest.graph_commit_id, newest.message) == (done.commit_id, "why not")
    assert graph.commits.get(done.commit_id) == newest
    nothing = graph.mutate(AGE, params={"name": "nobody", "age": 1})
    assert (nothing.affected_nodes, nothing.commit_id) == (0, None)


def test_rules_of_the_schema_are_told_one_by_one(graph):
    with pytest.raises(ConstraintError) as caught:
        graph.mutate(QUERIES, "meet", {"a": "Ann", "b": "nobody", "on": date(2020, 1, 1)})
    (found,) = caught.value.violations
    assert (found.rule, found.type_name) == ("endpoint", "Knows")
    assert caught.value.total == 1


def test_keys_and_expected_heads_hold(graph):
    key = {"idempotency_key": "once"}
    first = graph.mutate(QUERIES, "add", {"name": "Dan"}, **key)
    again = graph.mutate(QUERIES, "add", {"name": "Dan"}, **key)
    assert (again.commit_id, again.replayed) == (first.commit_id, True)
    with pytest.raises(IdempotencyConflictError):
        graph.mutate(QUERIES, "add", {"name": "Eve"}, **key)
    with pytest.raises(HeadMovedError) as caught:
        graph.mutate(
            QUERIES, "add", {"name": "Eve"}, if_head=graph.commits.list()[-1].graph_commit_id
        )
    assert caught.value.actual == first.commit_id


def test_branches_live_and_merge(graph):
    graph.branches.create("dev")
    assert graph.branches.list() == ["main", "dev"]
    dev = graph.branch("dev")
    dev.mutate(QUERIES, "add", {"name": "Dan"})
    assert "Dan" in names(dev.query(ALL))
    assert "Dan" not in names(graph.query(ALL))
    merged = graph.branches.merge("dev", delete_source=True)
    assert (merged.outcome, merged.branch_deleted) == ("fast_forward", True)
    assert "Dan" in names(graph.query(ALL))
    with pytest.raises(NotFoundError):
        graph.branch("dev")
    with pytest.raises(AlreadyExistsError, match="cannot create branch 'main'"):
        graph.branches.create("main")


def test_conflicts_have_both_sides(graph):
    graph.branches.create("dev")
    graph.mutate(AGE, params={"name": "Ann", "age": 1})
    graph.mutate(AGE, params={"name": "Ann", "age": 2}, branch="dev")
    with pytest.raises(MergeConflictError) as caught:
        graph.branches.merge("dev")
    (found,) = caught.value.conflicts
    assert (found.ours["age"], found.theirs["age"], caught.value.total) == (1, 2, 1)
    done = graph.branches.merge("dev", strategy="theirs")
    assert done.outcome == "merged"
    assert graph.entity("node:Person", "Ann")["age"] == 2


def test_the_past_is_read_by_commit_version_and_tag(graph):
    before = graph.snapshot()
    tag = graph.tags.create("then", message="before")
    graph.mutate(QUERIES, "add", {"name": "Dan"})
    for moment in (before.commit_id, before.manifest_version, "then"):
        assert len(graph.at(moment).query(ALL)) == 3
        assert len(graph.query(ALL, at=moment)) == 3
        assert graph.at(moment).snapshot().commit_id == before.commit_id
    assert graph.tags.list() == [tag]
    graph.tags.delete("then")
    assert graph.tags.list() == []
    with pytest.raises(NotFoundError):
        graph.at("then")


def test_single_commits_are_undone_and_repeated(graph):
    done = graph.mutate(QUERIES, "add", {"name": "Dan"})
    undone = graph.revert(done.commit_id)
    assert undone.commit_id is not None
    assert graph.entity("node:Person", "Dan") is None
    assert graph.cherry_pick(done.commit_id).commit_id is not None
    assert graph.entity("node:Person", "Dan")["name"] == "Dan"
    graph.branches.reset("main", to=undone.commit_id)
    assert graph.entity("node:Person", "Dan") is None


def test_what_changed_is_told_the_same_way(graph):
    cursor = graph.cursor()
    graph.branches.create("dev")
    graph.mutate(QUERIES, "add", {"name": "Dan"}, branch="dev")
    graph.mutate(AGE, params={"name": "Ann", "age": 1}, branch="dev")
    found = graph.diff("main", "dev", images="both")
    assert [(one.op, one.id) for one in found] == [("update", "Ann"), ("insert", "Dan")]
    assert next(iter(found)).before["age"] == 41
    assert found.summary().stats.total == 2
    assert found.to_arrow().num_rows == 2
    assert found.branch == "dev"
    assert len(list(graph.diff("main...dev", types=["Person"], ops=["insert"]))) == 1
    graph.branches.merge("dev")
    (group,) = graph.changes(since=cursor)
    assert [one.id for one in group.changes] == ["Ann", "Dan"]
    assert list(graph.changes(since=group.cursor)) == []
    assert [one.op for one in graph.entity_history("node:Person", "Ann").versions] == [
        "update",
        "insert",
    ]
    blamed = {one.name: one.value for one in graph.blame("node:Person", "Ann").properties}
    assert blamed["age"] == 1
    with pytest.raises(BadRequestError, match="types is a list"):
        graph.diff("main", "dev", types="Person")


def test_loads_take_lines_files_and_frames(graph, tmp_path):
    done = graph.load(b'{"type":"Person","data":{"name":"Dan"}}\n', "merge")
    assert done.nodes_loaded == {"Person": 1}
    file = tmp_path / "more.jsonl"
    file.write_text('{"type":"Person","data":{"name":"Eve"}}\n')
    assert graph.load(file, "append").nodes_loaded == {"Person": 1}
    frame = pa.table({"name": ["Fay", "Gil"], "age": pa.array([1, 2], pa.int32())})
    assert graph.load({"Person": frame}, "append").nodes_loaded == {"Person": 2}
    csv = tmp_path / "Person.csv"
    csv.write_text("name,age\nHal,7\n")
    assert graph.load({"Person": csv}, "append").nodes_loaded == {"Person": 1}
    made = graph.ingest(io.BytesIO(b'{"type":"Person","data":{"name":"Ida"}}\n'), branch="new")
    assert (made.branch_created, made.base_branch) == (True, "main")
    assert len(graph.query(ALL, branch="new")) == 9


def test_bad_rows_are_told_by_file_and_line(graph, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"type":"Person","data":{"name":"Dan"}}\n{"type":"Person","data":{"age":1}}\n')
    with pytest.raises(ConstraintError) as caught:
        graph.load(file, "merge")
    (found,) = caught.value.violations
    assert found.place.endswith("bad.jsonl:2")
    assert graph.load(file, "merge", on_error="skip").skipped == 1
    with pytest.raises(NotFoundError, match=r"file 'nowhere\.jsonl' not found"):
        graph.load("nowhere.jsonl")


def test_a_load_under_a_key_happens_once(graph):
    line = b'{"type":"Person","data":{"name":"Dan"}}\n'
    first = graph.load(line, "append", idempotency_key="k")
    again = graph.load(line, "append", idempotency_key="k")
    assert (again.commit_id, again.replayed) == (first.commit_id, True)


def test_exports_are_the_same_bytes(graph, tmp_path):
    written = io.BytesIO()
    done = graph.export(written)
    assert written.getvalue() == b"".join(graph.iter_export())
    assert [(one.table_key, one.rows) for one in done.tables] == [
        ("edge:Knows", 1),
        ("node:Person", 3),
    ]
    graph.export(tmp_path / "out.jsonl.gz", types=["Person"])
    graph.load(tmp_path / "out.jsonl.gz", "merge")
    with pytest.raises(NotFoundError, match="unknown export type 'Nope'"):
        graph.export(io.BytesIO(), types=["Nope"])


def test_the_schema_is_told_and_planned(graph):
    assert graph.schema == SCHEMA
    plan = graph.plan_schema(SCHEMA.replace("age: I32?", "age: I32?\n  height: F32?"))
    assert (plan.supported, [step.kind for step in plan.steps]) == (True, ["add_property"])
    assert list(graph.catalog.nodes) == ["Person"]


def test_a_schema_is_applied_to_a_branch(graph, place):
    graph.branches.create("dev")
    more = SCHEMA.replace("age: I32?", "age: I32?\n  height: F32?")
    done = graph.apply_schema(more, branch="dev", message="taller")
    assert (done.applied, [step.kind for step in done.steps]) == (True, ["add_property"])
    assert graph.branch("dev").schema == more
    assert graph.at(graph.snapshot("dev").commit_id).schema == more
    assert graph.schema == SCHEMA
    assert [step.kind for step in graph.diff_schema("main", "dev").steps] == ["add_property"]
    compared = graph.diff_schema("dev", place.parent / "people.pg")
    assert [step.kind for step in compared.steps] == ["drop_property"]
    assert graph.schema_history("dev").versions[0].message == "taller"
    with pytest.raises(SchemaUnsupportedError) as caught:
        graph.apply_schema(SCHEMA.replace("age: I32?", "age: String?"))
    assert [step.kind for step in caught.value.steps] == ["unsupported_change"]


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0], "1", b"1"], ids=repr)
def test_a_value_that_is_no_number_is_never_taken_for_none(graph, value):
    text = "query q($a: F64?) { match { $p: Person } return { $p.name } }"
    with pytest.raises(BadRequestError):
        graph.query(text, params={"a": value})


def test_numbers_of_numpy_are_numbers(graph):
    text = "query q($a: I32, $n: [I32]) { match { $p: Person $p.age > $a } return { $p.name } }"
    given = {"a": np.int32(18), "n": np.array([1, 2])}
    assert names(graph.query(text, params=given)) == ["Ann", "Cé"]


def test_the_body_of_a_query_will_do(graph):
    assert graph.query(
        "match { $p: Person $p.name = $n } return { $p.age }", params={"n": "Bob"}
    ).to_tuples() == [(17,)]


def test_upkeep_is_asked_for_the_same_way(graph):
    assert [one.table_key for one in graph.optimize()] == ["edge:Knows", "node:Person"]
    assert all(one.harmless for one in graph.verify())
    assert graph.locks() == []
    assert all(one.action == "no_op" for one in graph.repair())
    assert sum(one.total for one in graph.disk_usage()) > 0
    assert {one.column for one in graph.indices()} == {"id", "name", "src", "dst"}
    assert {one.status for one in graph.indices()} <= {IndexStatus.MISSING, IndexStatus.PENDING}
    assert all(one.unindexed_rows == 0 for one in graph.ensure_indices())
    assert {one.status for one in graph.indices()} == {IndexStatus.CURRENT}


def test_what_upkeep_would_do_is_told_and_not_done(graph):
    before = graph.snapshot()
    (told,) = graph.optimize(tables=["node:Person"], preview=True)
    assert (told.committed, told.pending_indexes) == (False, ("id", "name"))
    (late, _) = graph.optimize(max_seconds=0)
    assert (late.skipped, late.committed) == ("out_of_time", False)
    assert graph.cleanup(keep=1, older_than="7d") == []
    assert graph.snapshot() == before
    with pytest.raises(NotFoundError):
        graph.optimize(tables=["node:Nobody"])
    with pytest.raises(BadRequestError, match="requires at least one of --keep or --older-than"):
        graph.cleanup()
    for what in ({"keep": -1}, {"keep": True}, {"older_than": "7y"}, {"older_than": -1.0}):
        with pytest.raises(BadRequestError):
            graph.cleanup(**what)
    with pytest.raises(BadRequestError, match="max_seconds"):
        graph.optimize(max_seconds=math.nan)


def test_parameters_of_every_kind_arrive(graph):
    body = "{ match { $p: Person $p.name in $n } return { $p.name } }"
    text = f"query q($d: Date, $n: [String], $f: F64) {body}"
    found = graph.query(text, params={"d": date(2020, 1, 1), "n": ["Ann", "Bob"], "f": 0.5})
    assert names(found) == ["Ann", "Bob"]


def test_a_closed_graph_answers_nothing(graph):
    graph.close()
    graph.close()
    with pytest.raises(BadRequestError, match="this graph is closed"):
        graph.query(ALL)


def test_met(graph):
    assert graph.query(MET).to_tuples() == [("Ann", "Bob")]

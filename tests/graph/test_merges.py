"""Merging branches as programs do it: outcomes, conflicts, resolutions, what is refused."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.merges import MergeConflictError, MergeResult
from omnigraph.engine.merge import run
from omnigraph.engine.merge.base import MergeBaseExpiredError
from omnigraph.engine.merge.run import MergeOvertakenError
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from omnigraph.graph import Graph, GraphOptions
from omnigraph.storage.options import Retention
from omnigraph.storage.tables.failures import SnapshotExpiredError
from tests.support.operations import QUIET

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  city: String?
  mail: String? @unique
  photo: Blob?
  likes: [String]?
  @range(age, 0..150)
}
edge Knows: Person -> Person { since: Date? }
edge Leads: Person -> Person @card(0..1)
"""


@pytest.fixture
def graph(tmp_path) -> Iterator[Graph]:
    options = GraphOptions(
        storage=replace(QUIET, retention=Retention(floor_s=0, newest_versions=1))
    )
    with omnigraph.init(tmp_path / "graph", SCHEMA, options=options) as opened:
        for name in ("ada", "bo", "cy", "di"):
            put(opened, name, 30)
        opened.branches.create("dev")
        yield opened


def do(graph, text, branch="main", **params):
    declared = {"n": "String", "o": "String", "v": "I32", "t": "String?"}
    given = ", ".join(f"${name}: {declared[name]}" for name in params)
    return graph.mutate(f"query q({given}) {{ {text} }}", params=params, branch=branch)


def put(graph, name, age, branch="main"):
    return do(graph, "insert Person { name: $n, age: $v }", branch, n=name, v=age)


def age(graph, name, value, branch="main"):
    return do(graph, "update Person set { age: $v } where name = $n", branch, n=name, v=value)


def city(graph, name, value, branch="main"):
    return do(graph, "update Person set { city: $t } where name = $n", branch, n=name, t=value)


def drop(graph, name, branch="main"):
    return do(graph, "delete Person where name = $n", branch, n=name)


def link(graph, kind, one, other, branch="main"):
    return do(graph, f"insert {kind} {{ from: $n, to: $o }}", branch, n=one, o=other)


def people(graph, branch="main"):
    found = graph.query(
        "query q() { match { $p: Person } return { $p.name as n, $p.age as a, $p.city as c } }",
        branch=branch,
    )
    return {row["n"]: (row["a"], row["c"]) for row in found}


def conflicts_of(graph, source="dev", **how):
    with pytest.raises(MergeConflictError) as caught:
        graph.branches.merge(source, **how)
    return caught.value


def test_a_merge_brings_rows_writes_one_commit_with_two_parents_and_says_who(graph):
    age(graph, "ada", 31, "dev")
    put(graph, "eve", 20, "dev")
    drop(graph, "di", "dev")
    link(graph, "Knows", "eve", "ada", "dev")
    age(graph, "bo", 40)
    before, theirs = graph.snapshot().commit_id, graph.branch("dev").snapshot().commit_id
    done = graph.branches.merge("dev", actor="rev", message="reviewed")
    assert people(graph) == {
        "ada": (31, None), "bo": (40, None), "cy": (30, None), "eve": (20, None)
    }  # fmt: skip
    assert (done.outcome, done.source, done.target, done.actor_id) == (
        "merged", "dev", "main", "rev"
    )  # fmt: skip
    counts = {table.table_key: table for table in done.tables}
    person = counts["node:Person"]
    assert (person.inserted, person.updated, person.deleted) == (1, 1, 1)
    assert counts["edge:Knows"].inserted == 1
    made = graph.commits.get(done.commit_id)
    assert (made.parent_commit_id, made.merged_parent_commit_id) == (before, theirs)
    assert (made.actor_id, made.message) == ("rev", "reviewed")
    assert MergeResult.from_json_value(done.to_json_value()) == done
    walk = "query q() { match { $p: Person $p knows $q } return { $q.name as n } }"
    assert graph.query(walk).to_dicts() == [{"n": "ada"}]


def test_what_was_merged_is_up_to_date_whatever_upkeep_did_meanwhile(graph):
    age(graph, "ada", 31, "dev")
    assert graph.branches.merge("dev").outcome == "fast_forward"
    head = graph.snapshot().commit_id
    graph.optimize(branch="dev")
    again = graph.branches.merge("dev")
    assert (again.outcome, again.commit_id) == ("already_up_to_date", None)
    assert graph.snapshot().commit_id == head


def test_changes_that_cancel_merge_without_moving_a_table(graph):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 30, "dev")
    age(graph, "bo", 50)
    before = graph.snapshot()
    done = graph.branches.merge("dev")
    after = graph.snapshot()
    assert (done.outcome, done.tables) == ("merged", ())
    assert after.tables == before.tables
    assert after.commit_id == done.commit_id


def test_a_branch_from_the_past_merges_what_came_later_as_what_came_later(graph):
    then = age(graph, "ada", 31).commit_id
    age(graph, "bo", 32)
    graph.branches.create("side")
    age(graph, "cy", 33, "side")
    age(graph, "di", 34)
    graph.branches.merge("side")
    graph.branches.create("past", at=then)
    assert graph.branches.merge("side", into="past").outcome == "fast_forward"
    assert people(graph, "past") == people(graph, "side")
    graph.branches.create("older", at=then)
    age(graph, "ada", 50, "older")
    done = graph.branches.merge("main", into="older", preview=True)
    assert done.bases == (then,)
    assert graph.diff("older...main").summary().stats.updates == 3


def test_rows_that_went_with_their_branch_are_told_apart_from_no_commit(graph):
    first = age(graph, "ada", 31, "dev").commit_id
    last = age(graph, "ada", 32, "dev").commit_id
    age(graph, "bo", 33)
    graph.branches.merge("dev", delete_source=True)
    assert graph.commits.get(first).graph_commit_id == first
    assert graph.diff("main", last).summary().stats.updates == 1
    with pytest.raises(SnapshotExpiredError, match="went with the branch it was made on"):
        graph.at(first)
    with pytest.raises(SnapshotExpiredError, match="went with the branch"):
        graph.revert(last)


def test_a_branch_reads_what_main_has_by_now_without_copying_it(graph):
    age(graph, "ada", 31)
    done = graph.branches.merge("main", into="dev")
    assert done.outcome == "fast_forward"
    assert graph.branch("dev").snapshot().table("node:Person").table_branch is None
    assert people(graph, "dev") == people(graph)
    age(graph, "ada", 32, "dev")
    assert people(graph)["ada"] == (31, None)


def test_a_conflict_shows_all_three_images_and_changes_nothing(graph):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 32)
    drop(graph, "bo", "dev")
    age(graph, "bo", 33)
    put(graph, "eve", 1, "dev")
    put(graph, "eve", 2)
    before = graph.snapshot().commit_id
    told = conflicts_of(graph)
    assert told.total == 3
    assert str(told).startswith(
        "merge conflicts: node:Person:ada (divergent_update); node:Person:bo (delete_vs_update); "
        "node:Person:eve (divergent_insert)"
    )
    ada, bo, eve = told.conflicts
    assert (ada.base["age"], ada.ours["age"], ada.theirs["age"]) == (30, 32, 31)
    assert ada.columns == ("age",)
    assert (bo.base["age"], bo.ours["age"], bo.theirs) == (30, 33, None)
    assert (eve.base, eve.ours["age"], eve.theirs["age"]) == (None, 2, 1)
    assert graph.snapshot().commit_id == before
    assert list(told.every) == list(told.conflicts)
    preview = graph.branches.merge("dev", preview=True)
    assert (preview.preview, preview.commit_id, preview.total_conflicts) == (True, None, 3)
    assert preview.conflicts == told.conflicts
    assert graph.snapshot().commit_id == before


@pytest.mark.parametrize(("strategy", "expected"), [("ours", 32), ("theirs", 31)])
def test_a_strategy_settles_every_row(graph, strategy, expected):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 32)
    assert graph.branches.merge("dev", strategy=strategy).outcome == "merged"
    assert people(graph)["ada"] == (expected, None)
    assert graph.branches.merge("dev").outcome == "already_up_to_date"


def test_columns_of_one_row_are_put_together_when_asked(graph):
    age(graph, "ada", 31, "dev")
    city(graph, "ada", "rome")
    assert conflicts_of(graph).total == 1
    graph.branches.merge("dev", columns=True)
    assert people(graph)["ada"] == (31, "rome")
    age(graph, "bo", 31, "dev")
    age(graph, "bo", 32)
    assert conflicts_of(graph, columns=True).conflicts[0].row_id == "bo"


def test_conflicts_are_resolved_row_by_row_by_what_was_told(graph):
    for name in ("ada", "bo", "cy", "di"):
        age(graph, name, 31, "dev")
        city(graph, name, "oslo", "dev")
        age(graph, name, 32)
        city(graph, name, "rome")
    lines = [one.to_json_value() for one in conflicts_of(graph).every]
    ways = ["ours", "theirs", {"columns": {"age": "theirs"}}, {"values": {"age": 77}}]
    answered = [{**line, "resolution": way} for line, way in zip(lines, ways, strict=True)]
    assert conflicts_of(graph, resolve=answered[:3]).conflicts[0].row_id == "di"
    graph.branches.merge("dev", resolve=answered)
    assert people(graph) == {
        "ada": (32, "rome"), "bo": (31, "oslo"), "cy": (31, "rome"), "di": (77, "rome")
    }  # fmt: skip


def test_a_value_given_by_hand_is_held_to_the_schema(graph):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 32)
    told = conflicts_of(graph, resolve={"node:Person": {"ada": {"values": {"age": 200}}}})
    assert [str(one.kind) for one in told.conflicts] == ["value_constraint_violation"]
    with pytest.raises(BadRequestError, match="age cannot be 'old'"):
        graph.branches.merge("dev", resolve={"node:Person": {"ada": {"values": {"age": "old"}}}})


def by_hand(row, **values):
    return {"node:Person": {row: {"values": values}}}


def test_a_value_given_by_hand_may_be_nobody_elses_where_it_is_unique(graph):
    do(graph, 'update Person set { mail: "bo@" } where name = "bo"')
    graph.branches.create("other")
    age(graph, "ada", 31, "other")
    age(graph, "ada", 32)
    told = conflicts_of(graph, "other", resolve=by_hand("ada", mail="bo@"))
    assert [(str(one.kind), one.row_id) for one in told.conflicts] == [("unique_violation", "ada")]
    graph.branches.merge("other", resolve=by_hand("ada", mail="ada@"))


def test_columns_of_both_sides_make_no_pair_that_another_row_has(tmp_path):
    schema = """
    node Seat { name: String @key
      row: String
      place: I32
      @unique(row, place) }
    """
    put_ = "insert Seat { name: $n, row: $t, place: $v }"
    with omnigraph.init(tmp_path / "seats", schema) as graph:
        do(graph, put_, n="ada", t="a", v=1)
        do(graph, put_, n="bo", t="b", v=2)
        graph.branches.create("dev")
        do(graph, "update Seat set { row: $t } where name = $n", n="ada", t="b")
        do(graph, "update Seat set { place: $v } where name = $n", "dev", n="ada", v=2)
        told = conflicts_of(graph, columns=True)
        assert [str(one.kind) for one in told.conflicts] == ["unique_violation"]
        assert conflicts_of(
            graph, resolve={"node:Seat": {"ada": {"columns": {"place": "theirs"}}}}
        ).conflicts == told.conflicts  # fmt: skip


def test_columns_of_both_sides_leave_no_edge_at_a_node_that_goes(graph, tmp_path):
    def edge(to, since, branch="main"):
        rows = {"id": ["e"], "from": ["ada"], "to": [to], "since": [since]}
        graph.load({"edge:Knows": pa.table(rows)}, "merge", branch=branch)

    edge("bo", date(2020, 1, 1))
    graph.branches.create("other")
    edge("di", date(2020, 1, 1))
    edge("bo", date(2021, 1, 1), "other")
    drop(graph, "di", "other")
    told = conflicts_of(graph, "other", columns=True)
    assert [str(one.kind) for one in told.conflicts] == ["orphan_edge"]


def test_a_vector_goes_with_its_text_and_not_with_a_new_one(tmp_path):
    schema = """
    node Note { name: String @key
      text: String?
      vector: Vector(2)? @embed(text) }
    """
    with omnigraph.init(tmp_path / "notes", schema, options=GraphOptions(embedder=None)) as graph:

        def note(text, vector, branch="main"):
            row = {"name": ["a"], "text": [text], "vector": [vector]}
            graph.load({"node:Note": pa.table(row)}, "merge", branch=branch)

        note("one", [1.0, 1.0])
        graph.branches.create("dev")
        note("two", [2.0, 2.0])
        note("three", [3.0, 3.0], "dev")
        taken = {"node:Note": {"a": {"columns": {"text": "theirs"}}}}
        graph.branches.merge("dev", resolve=taken)
        assert graph.entity("node:Note", "a")["vector"] == [3.0, 3.0]
        note("four", [4.0, 4.0])
        note("five", [5.0, 5.0], "dev")
        graph.branches.merge("dev", resolve={"node:Note": {"a": {"values": {"text": "six"}}}})
        assert graph.entity("node:Note", "a")["vector"] is None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": "zed"}, "no column 'name' that could be given"),
        ({"id": "zed"}, "no column 'id' that could be given"),
        ({"age": 3.5}, "age cannot be 3.5"),
        ({"likes": "tea"}, "likes cannot be 'tea'"),
        ({"mail": "\ud800"}, "mail cannot be .*not Unicode text"),
        ({"photo": "bytes"}, "photo cannot be 'bytes'"),
        ([], "does not say how to resolve"),
    ],
)
def test_a_value_given_by_hand_fits_its_column_as_a_parameter_does(graph, values, told):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 32)
    with pytest.raises(BadRequestError, match=told) as caught:
        graph.branches.merge("dev", resolve={"node:Person": {"ada": {"values": values}}})
    assert caught.value.hint


def test_values_given_by_hand_are_written_as_json_has_them(tmp_path):
    schema = """
    node Thing { name: String @key
      v: I32?
      day: Date?
      at: DateTime?
      big: U64?
      days: [Date]?
      raw: Blob? }
    """
    with omnigraph.init(tmp_path / "things", schema) as graph:
        do(graph, "insert Thing { name: $n, v: $v }", n="a", v=1)
        graph.branches.create("dev")
        do(graph, "update Thing set { v: $v } where name = $n", n="a", v=2)
        do(graph, "update Thing set { v: $v } where name = $n", "dev", n="a", v=3)
        values = {
            "day": "2026-04-25", "at": "2026-04-25T08:30:00.000Z", "big": 2**64 - 1,
            "days": ["1969-12-31"], "raw": "base64:YWI=",
        }  # fmt: skip
        graph.branches.merge("dev", resolve={"node:Thing": {"a": {"values": values}}})
        stored = graph.entity("node:Thing", "a")
        assert (stored["day"], stored["days"]) == (date(2026, 4, 25), [date(1969, 12, 31)])
        assert (stored["at"], stored["big"]) == (
            datetime(2026, 4, 25, 8, 30, tzinfo=UTC),
            2**64 - 1,
        )
        assert graph.read_blob("Thing", "a", "raw") == b"ab"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"strategy": "mine"}, "unknown merge strategy 'mine'"),
        ({"resolve": "ours"}, "resolutions are a mapping or a list"),
        ({"resolve": {"node:Person": 7}}, "does not say how to resolve"),
        ({"resolve": {"node:Person": {"ada": "both"}}}, "does not say how to resolve"),
        ({"resolve": {"node:Nobody": "ours"}}, "'node:Nobody', which is no table"),
        ({"resolve": [7]}, "is not a conflict"),
        ({"into": "dev"}, "requires distinct source and target"),
        ({"message": ""}, "message is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(graph, how, told):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 32)
    with pytest.raises(BadRequestError, match=told):
        graph.branches.merge("dev", **how)


def test_unknown_branches_are_not_found(graph):
    with pytest.raises(NotFoundError):
        graph.branches.merge("nobody")
    with pytest.raises(NotFoundError):
        graph.branches.merge("dev", into="nobody")


def test_rules_that_only_both_sides_break_are_conflicts(graph):
    mail = "update Person set { mail: $t } where name = $n"
    do(graph, mail, "dev", n="ada", t="x@")
    do(graph, mail, n="bo", t="x@")
    link(graph, "Leads", "cy", "ada", "dev")
    link(graph, "Leads", "cy", "bo")
    drop(graph, "di", "dev")
    link(graph, "Knows", "ada", "di")
    told = conflicts_of(graph, strategy="theirs")
    assert sorted((one.table_key, str(one.kind)) for one in told.conflicts) == [
        ("edge:Knows", "orphan_edge"),
        ("edge:Leads", "cardinality_violation"),
        ("node:Person", "unique_violation"),
    ]
    assert told.conflicts[1].row_id is None
    assert all(one.base is None for one in told.conflicts)


def test_every_type_is_compared_by_value(graph):
    whole = {"name": ["ada"], "age": [30], "likes": [["tea"]], "photo": [b"\x00\xff"]}
    schema = pa.schema(
        [("name", pa.string()), ("age", pa.int32()), ("likes", pa.list_(pa.string())),
         ("photo", pa.binary())]
    )  # fmt: skip
    for branch in ("main", "dev"):  # the same change on both sides
        graph.load({"Person": pa.table(whole, schema=schema)}, "merge", branch=branch)
    assert graph.branches.merge("dev").outcome == "merged"
    city(graph, "ada", "", "dev")  # the empty text is not null
    graph.branches.merge("dev")
    assert people(graph)["ada"] == (30, "")
    other = {**whole, "photo": [b"\x00\xfe"]}
    graph.load({"Person": pa.table(other, schema=schema)}, "merge", branch="dev")
    graph.branches.merge("dev")
    assert graph.read_blob("Person", "ada", "photo") == b"\x00\xfe"


def test_the_source_goes_if_asked_and_its_commits_stay_known(graph):
    made = age(graph, "ada", 31, "dev").commit_id
    done = graph.branches.merge("dev", delete_source=True)
    assert (done.branch_deleted, graph.branches.list()) == (True, ["main"])
    assert graph.commits.get(made).graph_commit_id == made


def test_a_source_that_cannot_go_does_not_undo_the_merge(graph):
    age(graph, "ada", 31, "dev")
    graph.branches.create("child", source="dev")
    done = graph.branches.merge("dev", delete_source=True)
    assert (done.branch_deleted, people(graph)["ada"]) == (False, (31, None))
    assert "descends" in done.branch_delete_error


def test_rows_the_target_gets_meanwhile_are_merged_around(graph, monkeypatch):
    age(graph, "ada", 31, "dev")
    meanwhile(monkeypatch, lambda: age(graph, "bo", 44))
    graph.branches.merge("dev")
    assert (people(graph)["ada"], people(graph)["bo"]) == ((31, None), (44, None))


def test_a_row_the_target_changes_meanwhile_is_a_conflict(graph, monkeypatch):
    age(graph, "ada", 31, "dev")
    meanwhile(monkeypatch, lambda: age(graph, "ada", 44))
    assert conflicts_of(graph).conflicts[0].ours["age"] == 44


def test_a_row_both_sides_changed_alike_and_the_target_again_meanwhile_is_a_conflict(
    graph, monkeypatch
):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 31)
    meanwhile(monkeypatch, lambda: age(graph, "ada", 44))
    assert conflicts_of(graph).conflicts[0].ours["age"] == 44


def test_a_row_kept_by_strategy_and_set_back_meanwhile_becomes_that_of_the_source(
    graph, monkeypatch
):
    age(graph, "ada", 31, "dev")
    age(graph, "ada", 44)
    meanwhile(monkeypatch, lambda: age(graph, "ada", 30))
    graph.branches.merge("dev", strategy="ours")
    assert people(graph)["ada"] == (31, None)


def test_a_table_both_sides_have_in_one_place_and_the_target_moves_meanwhile_is_decided_again(
    graph, monkeypatch
):
    base = graph.commits.list()[0].graph_commit_id
    age(graph, "ada", 31)
    graph.branches.create("late")
    link(graph, "Knows", "ada", "bo", "late")
    meanwhile(monkeypatch, lambda: age(graph, "ada", 44))
    with pytest.raises(MergeConflictError) as raised:
        graph.branches.merge("late", base=base)
    assert [(one.row_id, one.ours["age"]) for one in raised.value.conflicts] == [("ada", 44)]


def test_an_edge_the_target_gets_meanwhile_keeps_its_node(graph, monkeypatch):
    drop(graph, "di", "dev")
    meanwhile(monkeypatch, lambda: link(graph, "Knows", "ada", "di"))
    assert str(conflicts_of(graph).conflicts[0].kind) == "orphan_edge"


def test_a_target_that_never_rests_is_told_of(graph, monkeypatch):
    age(graph, "ada", 31, "dev")
    ages = iter(range(40, 60))
    meanwhile(monkeypatch, lambda: age(graph, "ada", next(ages)), times=9)
    with pytest.raises((MergeOvertakenError, MergeConflictError)):
        graph.branches.merge("dev", strategy="theirs")


def meanwhile(monkeypatch, act, times=1):
    """Let something happen between the computation of a merge and its commit."""
    left = iter(range(times))
    commit = run.commit_combined

    def late(*args, **kwargs):
        if next(left, None) is not None:
            act()
        return commit(*args, **kwargs)

    monkeypatch.setattr(run, "commit_combined", late)


def test_a_base_that_is_gone_is_told_and_can_be_named(graph):
    age(graph, "ada", 31, "dev")
    age(graph, "bo", 31)
    base = graph.branches.merge("dev", preview=True).bases[0]
    reader = graph.store.snapshot_at(commit_id=base)
    graph.store.kernel.objects.delete_prefix(
        f"{reader.table('node:Person').location}/data"
    )  # what no cleanup of ours would do
    with pytest.raises((MergeBaseExpiredError, ConflictError, NotFoundError, OSError)):
        graph.branches.merge("dev")


def test_two_threads_that_merge_one_source_make_one_merge(graph):
    for name in ("ada", "bo", "cy"):
        age(graph, name, 31, "dev")
    outcomes, failed = [], []

    def work():
        try:
            outcomes.append(graph.branches.merge("dev").outcome)
        except omnigraph.OmniGraphError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(outcomes) == ["already_up_to_date"] * 5 + ["fast_forward"]

"""The change feed: every commit once, in order, from wherever the consumer left off."""

import itertools
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.changes import ChangeGroup
from omnigraph.engine.changes.feed import FeedResetError
from omnigraph.engine.merge.run import Request, merge
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage.options import Retention
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.graph.test_diff import ADD, AGE, GO, SCHEMA, rename
from tests.support.fast import FAST


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as opened:
        opened.mutate(ADD, params={"n": "ada", "a": 1}, actor="eve")
        opened.mutate(ADD, params={"n": "bo", "a": 2})
        yield opened


def told(groups):
    return [[(one.op, one.id) for one in group.changes] for group in groups]


def replayed(groups):
    """Return the people whom a consumer that does as it is told ends up with."""
    found = {}
    for group in groups:
        for one in group.changes:
            if one.table_key == "node:Person":
                if one.op == "delete":
                    del found[one.id]
                else:
                    found[one.id] = one.after["age"]
    return found


def people(graph, branch="main"):
    rows = graph.store.snapshot(branch).open("node:Person").scan(["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in rows}


def test_every_logical_commit_is_one_group_in_order(graph):
    graph.mutate(AGE, params={"n": "ada", "a": 5})
    graph.store.optimize()
    graph.mutate(GO, params={"n": "bo"})
    groups = list(graph.changes())
    assert told(groups) == [
        [],
        [("insert", "ada")],
        [("insert", "bo")],
        [("update", "ada")],
        [("delete", "bo")],
    ]
    assert groups[1].commit.actor_id == "eve"
    assert all(group.complete for group in groups)
    assert "node:City" not in {one.table_key for group in groups for one in group.changes}
    assert [step.kind for step in groups[0].schema_steps] == ["add_type"] * 3
    assert not any(group.schema_steps for group in groups[1:])
    assert groups[3].changes[0].after["age"] == 5
    assert groups[3].changes[0].before is None


def test_every_cursor_goes_on_exactly_after_its_group(graph):
    graph.mutate(AGE, params={"n": "ada", "a": 5})
    groups = list(graph.changes(images="both"))
    for at, group in enumerate(groups):
        assert list(graph.changes(since=group.cursor, images="both")) == groups[at + 1 :]
    assert list(graph.changes(since=graph.cursor())) == []
    first = graph.commits.list(all=True, reverse=True)[1].graph_commit_id
    assert told(graph.changes(since=graph.cursor(at=first))) == told(groups[2:])


@pytest.mark.parametrize("bounds", [{"max_rows": 3}, {"max_bytes": 300}, {"max_rows": 1}])
def test_a_large_commit_comes_in_parts_and_goes_on_in_the_middle(graph, bounds):
    before = graph.cursor()
    rows = {"name": [f"p{n}" for n in range(8)], "age": list(range(8))}
    graph.load({"Person": pa.table(rows)}, "merge")
    (whole,) = graph.changes(since=before)
    parts = list(graph.changes(since=before, **bounds))
    assert len(parts) > 2
    assert [one.complete for one in parts] == [False] * (len(parts) - 1) + [True]
    assert tuple(itertools.chain.from_iterable(one.changes for one in parts)) == whole.changes
    assert parts[-1].cursor == whole.cursor
    for at, part in enumerate(parts[:-1]):
        graph.store.optimize()  # a cursor says where, not in which file
        left = list(graph.changes(since=part.cursor, **bounds))
        assert told(left) == told(parts[at + 1 :])
    with pytest.raises(BadRequestError, match="asked for otherwise"):
        graph.changes(since=parts[0].cursor, ops=["insert"])


def test_a_branch_tells_what_it_is_made_of_and_goes_on_by_itself(graph):
    graph.branches.create("b")
    graph.mutate(ADD, params={"n": "cy", "a": 3}, branch="b")
    assert replayed(graph.changes("b")) == people(graph, "b")
    assert replayed(graph.changes()) == people(graph)


def test_a_merge_tells_what_it_did_to_this_line(graph):
    graph.branches.create("b")
    graph.mutate(ADD, params={"n": "cy", "a": 3}, branch="b")
    graph.mutate(GO, params={"n": "bo"}, branch="b")
    graph.mutate(ADD, params={"n": "di", "a": 4})
    since = graph.cursor()
    merge(graph.store, graph._state.catalog, Request("b", "main"))
    (group,) = graph.changes(since=since)
    assert [(one.op, one.id) for one in group.changes] == [("delete", "bo"), ("insert", "cy")]
    assert group.commit.merged_parent_commit_id
    assert replayed(graph.changes()) == people(graph)


def test_schema_steps_are_told_and_a_rename_changes_no_row(graph):
    since = graph.cursor()
    text = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")')
    rename(graph, text, table="node:Person", old="age", new="years")
    (group,) = graph.changes(since=since)
    assert [step.kind for step in group.schema_steps] == ["rename_property"]
    assert group.changes == ()


def test_groups_have_json_both_ways(graph):
    for group in graph.changes(images="both", max_rows=1):
        assert ChangeGroup.from_json_value(group.to_json_value()) == group


def test_a_branch_made_anew_resets_the_feed(graph):
    graph.branches.create("b")
    since = graph.cursor("b")
    graph.branches.delete("b")
    graph.branches.create("b")
    with pytest.raises(FeedResetError) as caught:
        graph.changes("b", since=since)
    assert caught.value.reason == "branch_replaced"
    assert caught.value.resume_at == graph.snapshot("b").commit_id
    graph.mutate(ADD, params={"n": "cy", "a": 3}, branch="b")
    assert told(graph.changes("b", since=caught.value.cursor)) == [[("insert", "cy")]]


def test_rows_that_were_cleaned_up_reset_the_feed_and_say_where_to_go_on(graph):
    since = graph.cursor()
    for number in range(6):
        graph.mutate(AGE, params={"n": "ada", "a": 10 + number})
    late = graph.cursor(at=graph.commits.list(all=True, reverse=True)[-2].graph_commit_id)
    graph.store.optimize()
    options = Retention(floor_s=0.0, newest_versions=1, manifest_versions=1)
    graph.store.close()
    storage = replace(FAST.storage, retention=options)
    with omnigraph.connect(graph.uri, options=replace(FAST, storage=storage)) as cleaned:
        cleaned.store.cleanup(CleanupPolicy(keep_versions=1))
        with pytest.raises(FeedResetError, match="cleaned up") as caught:
            list(cleaned.changes(since=since))
        assert caught.value.reason == "expired"
        state = cleaned.at(caught.value.resume_at)
        assert state.entity("node:Person", "ada")["age"] == 15
        assert list(cleaned.changes(since=caught.value.cursor)) == []
        assert late


@pytest.mark.parametrize("cursor", ["", "x", "e30", 5, "W10"])
def test_what_is_no_cursor_is_refused(graph, cursor):
    with pytest.raises(BadRequestError, match="no cursor"):
        graph.changes(since=cursor)


def test_a_cursor_of_another_branch_or_graph_is_refused(graph, tmp_path):
    graph.branches.create("b")
    with pytest.raises(BadRequestError, match="another feed"):
        graph.changes("b", since=graph.cursor())
    with (
        omnigraph.init(tmp_path / "h.omni", SCHEMA, options=FAST) as other,
        pytest.raises(BadRequestError, match="another feed"),
    ):
        other.changes(since=graph.cursor())
    with pytest.raises(NotFoundError, match="not on the line"):
        graph.cursor(at="nope")


def test_who_follows_hears_of_every_commit_and_can_be_stopped(graph):
    stop = threading.Event()
    groups = graph.changes(since=graph.cursor(), follow=True, cancel=stop)
    writer = threading.Thread(
        target=lambda: [graph.mutate(ADD, params={"n": f"f{n}", "a": n}) for n in range(3)]
    )
    writer.start()
    heard = list(itertools.islice(groups, 3))
    writer.join()
    assert [one.changes[0].id for one in heard] == ["f0", "f1", "f2"]
    stop.set()
    assert list(groups) == []

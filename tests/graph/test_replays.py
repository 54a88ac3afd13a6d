"""Undoing, repeating and setting back; tags as programs use them."""

import pytest

import omnigraph
from omnigraph.api.merges import ChangeApplied, MergeConflictError, TagList
from omnigraph.engine.merge import replay
from omnigraph.errors import AlreadyExistsError, BadRequestError, NotFoundError
from tests.graph.test_merges import SCHEMA, age, city, drop, people, put


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA) as opened:
        for name in ("ada", "bo", "cy"):
            put(opened, name, 30)
        yield opened


def test_a_commit_is_undone_by_a_new_one(graph):
    made = age(graph, "ada", 31).commit_id
    city(graph, "bo", "rome")
    done = graph.revert(made, actor="rev", message="not so fast")
    assert (people(graph)["ada"], people(graph)["bo"]) == ((30, None), (30, "rome"))
    commit = graph.commits.get(done.commit_id)
    assert (commit.actor_id, commit.message) == ("rev", "not so fast")
    assert commit.merged_parent_commit_id is None
    assert ChangeApplied.from_json_value(done.to_json_value()) == done
    assert graph.revert(done.commit_id).commit_id
    assert people(graph)["ada"] == (31, None)


def test_what_was_changed_since_conflicts_with_undoing_it(graph):
    made = age(graph, "ada", 31).commit_id
    age(graph, "ada", 32)
    with pytest.raises(MergeConflictError) as caught:
        graph.revert(made)
    (told,) = caught.value.conflicts
    assert (told.base["age"], told.ours["age"], told.theirs["age"]) == (31, 32, 30)
    graph.revert(made, strategy="theirs")
    assert people(graph)["ada"] == (30, None)


def test_undoing_what_is_undone_already_makes_no_commit(graph):
    made = age(graph, "ada", 31).commit_id
    graph.revert(made)
    head = graph.snapshot().commit_id
    assert graph.revert(made).commit_id is None
    assert graph.snapshot().commit_id == head


def test_one_commit_is_taken_to_another_branch(graph):
    graph.branches.create("dev")
    age(graph, "ada", 31, "dev")
    made = drop(graph, "cy", "dev").commit_id
    age(graph, "bo", 31, "dev")
    graph.cherry_pick(made)
    assert people(graph) == {"ada": (30, None), "bo": (30, None)}
    graph.branches.create("other")
    graph.cherry_pick(age(graph, "bo", 50).commit_id, branch="other")
    assert people(graph, "other")["bo"] == (50, None)


def test_a_merge_is_undone_against_a_parent(graph):
    graph.branches.create("dev")
    age(graph, "ada", 31, "dev")
    age(graph, "bo", 31)
    merged = graph.branches.merge("dev").commit_id
    with pytest.raises(BadRequestError, match="is a merge of"):
        graph.revert(merged)
    graph.revert(merged, parent=1)
    assert (people(graph)["ada"], people(graph)["bo"]) == ((30, None), (31, None))
    with pytest.raises(BadRequestError, match="has no parent 3: it has 2"):
        graph.revert(merged, parent=3)


def test_a_branch_is_set_back_by_going_on(graph):
    then = graph.snapshot().commit_id
    age(graph, "ada", 31)
    drop(graph, "bo")
    put(graph, "eve", 1)
    before = people(graph)
    tried = graph.branches.reset("main", to=then, preview=True)
    assert (tried.commit_id, people(graph)) == (None, before)
    done = graph.branches.reset("main", to=then)
    assert people(graph) == dict.fromkeys(("ada", "bo", "cy"), (30, None))
    assert graph.commits.get(done.commit_id).parent_commit_id != then
    assert graph.branches.reset("main", to=then).commit_id is None


def test_what_others_write_while_a_branch_is_set_back_goes_too(graph, monkeypatch):
    then, before = graph.snapshot().commit_id, people(graph)
    age(graph, "ada", 31)
    commit, late = replay.commit_combined, iter([lambda: put(graph, "late", 1)])

    def after_another(*args, **kwargs):
        next(late, lambda: None)()
        return commit(*args, **kwargs)

    monkeypatch.setattr(replay, "commit_combined", after_another)
    graph.branches.reset("main", to=then)
    assert people(graph) == before


def test_the_first_commit_has_nothing_before_it(graph):
    first = graph.commits.list(reverse=True)[0].graph_commit_id
    with pytest.raises(BadRequestError, match="is the first one"):
        graph.revert(first)
    with pytest.raises(NotFoundError):
        graph.revert("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_tag_is_used_wherever_a_commit_is(graph):
    told = graph.as_actor("ada").tags.create("v1", message="shipped")
    assert (told.graph_commit_id, told.actor_id) == (graph.snapshot().commit_id, "ada")
    age(graph, "ada", 31)
    ask = 'query q() { match { $p: Person { name: "ada" } } return { $p.age as a } }'
    assert graph.at("v1").query(ask).to_dicts() == [{"a": 30}]
    assert graph.query(ask, at="v1").to_dicts() == [{"a": 30}]
    assert graph.commits.get("v1").graph_commit_id == told.graph_commit_id
    graph.branches.create("from-tag", at="v1")
    assert people(graph, "from-tag")["ada"] == (30, None)
    assert graph.diff("v1", "main").summary().stats.updates == 1
    graph.branches.reset("main", to="v1")
    assert people(graph)["ada"] == (30, None)
    listed = TagList(tuple(graph.tags.list()))
    assert TagList.from_json_value(listed.to_json_value()) == listed
    with pytest.raises(AlreadyExistsError):
        graph.tags.create("v1")
    graph.tags.delete("v1")
    assert graph.tags.list() == []


def test_messages_and_maintenance_are_told_of_commits(graph):
    graph.mutate(
        'query q() { update Person set { age: 50 } where name = "ada" }', message="birthday"
    )
    for number in range(6):
        age(graph, "bo", number)
    graph.optimize()
    newest = graph.commits.list()
    assert newest[0].created_at >= newest[-1].created_at
    assert not any(one.maintenance for one in newest)
    assert any(one.maintenance for one in graph.commits.list(all=True))
    assert [one.message for one in newest if one.message] == ["birthday"]
    assert graph.commits.list(limit=2) == newest[:2]
    assert graph.commits.list(reverse=True) == newest[::-1]

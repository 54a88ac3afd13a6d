"""Branches, commits, the past, plans and profiles on `Graph`."""

import pytest

import omnigraph
from omnigraph.compiler.source import Source
from omnigraph.errors import AlreadyExistsError, BadRequestError, CompileError, NotFoundError
from tests.support.fast import FAST

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n\nedge Knows: Person -> Person\n"
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
SET = "query set($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
ALL = "query all() { match { $p: Person } return { $p.name, $p.age } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        made.mutate(ADD, params={"name": "Ann", "age": 41}, actor="act-1")
        made.mutate(SET, params={"name": "Ann", "age": 42})
        yield made


def test_branches_are_created_listed_and_deleted(graph):
    graph.branches.create("dev")
    graph.branches.create("a/b", source="dev")
    assert graph.branches.list() == ["main", "a/b", "dev"]
    graph.mutate(ADD, params={"name": "Dev", "age": None}, branch="dev")
    assert len(graph.query(ALL, branch="dev")) == 2
    assert len(graph.query(ALL)) == 1
    with pytest.raises(AlreadyExistsError, match="already exists"):
        graph.branches.create("dev")
    graph.branches.delete("a/b")
    with pytest.raises(NotFoundError, match="branch 'a/b' not found"):
        graph.branches.delete("a/b")


def test_commits_carry_the_names_every_surface_uses(graph):
    first, second, third = graph.commits.list(all=True, reverse=True)
    assert first.parent_commit_id is None
    assert (second.actor_id, third.actor_id) == ("act-1", None)
    assert third.parent_commit_id == second.graph_commit_id
    assert [one.manifest_version for one in (first, second, third)] == [1, 2, 3]
    assert third.manifest_branch is None
    assert third.merged_parent_commit_id is None
    assert first.created_at < second.created_at < third.created_at
    assert graph.commits.get(second.graph_commit_id) == second
    with pytest.raises(NotFoundError, match="commit 'nope' not found"):
        graph.commits.get("nope")


def test_a_commit_of_a_branch_is_found_from_anywhere(graph):
    graph.branches.create("dev")
    done = graph.mutate(ADD, params={"name": "Dev", "age": None}, branch="dev")
    assert graph.commits.get(done.commit_id).manifest_branch == "dev"
    assert graph.commits.list("dev", all=True, reverse=True)[-1].graph_commit_id == done.commit_id
    assert graph.at(done.commit_id).entity("node:Person", "Dev") is not None


def test_the_past_is_read_by_commit_and_by_version(graph):
    empty, born, _ = [one.graph_commit_id for one in graph.commits.list(all=True, reverse=True)]
    assert len(graph.at(empty).query(ALL)) == 0
    assert graph.at(born).query(ALL).to_dicts() == [{"p.name": "Ann", "p.age": 41}]
    assert graph.at(2).query(ALL).to_dicts() == [{"p.name": "Ann", "p.age": 41}]
    assert graph.entity_at("node:Person", "Ann", empty) is None
    assert graph.entity_at("node:Person", "Ann", born) == {"id": "Ann", "name": "Ann", "age": 41}
    assert graph.entity_at("node:Person", "Ann", 3)["age"] == 42
    with pytest.raises(NotFoundError):
        graph.at("nope")
    with pytest.raises(NotFoundError, match="node:Nobody"):
        graph.entity_at("node:Nobody", "Ann", born)


def test_a_profile_tells_rows_and_time_of_every_operator(graph):
    graph.mutate(ADD, params={"name": "Bob", "age": 1})
    text = "query q() { match { $p: Person not { $p knows $x } $p.age > 10 } return { $p.name } }"
    profile = graph.profile(text)
    assert profile.result.to_dicts() == graph.query(text).to_dicts() == [{"p.name": "Ann"}]
    assert profile.steps[0].operator.startswith("scan p: Person")
    assert profile.steps[-1].operator == "return"
    assert [step.rows for step in profile.steps if step.depth == 0] == [1, 1, 1]
    assert any(step.depth == 1 for step in profile.steps)
    assert 0 < profile.compile_ms < profile.total_ms
    assert sum(step.ms for step in profile.steps if step.depth == 0) <= profile.total_ms
    with pytest.raises(BadRequestError, match="is a mutation"):
        graph.profile(ADD, params={"name": "x", "age": None})


def test_a_schema_change_is_planned_and_not_made(graph):
    plan = graph.plan_schema(SCHEMA.replace("  age: I32?\n", "  age: I32?\n  email: String?\n"))
    assert plan.supported
    assert plan.steps[0].kind == "add_property"
    assert graph.schema == SCHEMA
    drop = SCHEMA.replace("  age: I32?\n", "")
    assert not graph.plan_schema(drop).supported
    assert graph.plan_schema(drop, allow_data_loss=True).supported


def test_a_named_text_is_called_by_its_name(graph):
    with pytest.raises(CompileError, match=r"^mine\.gq:1:1"):
        graph.query(Source("nonsense", "mine.gq"))

"""Views of one state, handles of an actor: what they do is what the keywords do."""

import pytest

import omnigraph
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from tests.support.fast import FAST

SCHEMA = "node Person {\n  name: String @key\n  age: I32? @index\n  photo: Blob?\n}\n"
ADD = "query add($name: String) { insert Person { name: $name } }"
ALL = "query all() { match { $p: Person } return { $p.name } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        made.mutate(ADD, params={"name": "Ann"})
        made.branches.create("review")
        made.mutate(ADD, params={"name": "Rev"}, branch="review")
        yield made


def names(view, **how):
    return [row["p.name"] for row in view.query(ALL, **how)]


def test_a_branch_answers_as_it_is_at_every_call(graph):
    review = graph.branch("review")
    assert names(review) == names(graph, branch="review") == ["Ann", "Rev"]
    graph.mutate(ADD, params={"name": "Zoe"}, branch="review")
    assert names(review) == ["Ann", "Rev", "Zoe"]
    assert names(graph) == ["Ann"]
    with pytest.raises(NotFoundError, match="branch 'nope' not found"):
        graph.branch("nope")


def test_a_branch_is_written_through_its_view(graph):
    review = graph.branch("review")
    done = review.mutate(ADD, params={"name": "Bob"})
    assert (done.branch, done.query_name) == ("review", "add")
    loaded = review.load(b'{"type":"Person","data":{"name":"Cid"}}', "append")
    assert loaded.branch == "review"
    assert names(review) == ["Ann", "Bob", "Cid", "Rev"]
    assert {one.table_key for one in review.ensure_indices()} == {"node:Person"}
    assert [one.table_key for one in review.optimize()] == ["node:Person"]
    assert names(graph) == ["Ann"]
    assert names(review.at(done.commit_id)) == ["Ann", "Bob", "Rev"]
    assert names(review.at(1)) == []


def test_a_past_state_has_everything_that_can_be_asked_of_the_present(graph, tmp_path):
    head = graph.snapshot().commit_id
    graph.mutate(ADD, params={"name": "Late"})
    then = graph.at(head)
    assert names(then) == ["Ann"]
    assert [batch.num_rows for batch in then.stream(ALL)] == [1]
    assert then.profile(ALL).row_count == 1
    assert then.explain(ALL) == graph.explain(ALL, at=head)
    assert then.entity("node:Person", "Ann")["name"] == "Ann"
    assert then.entity("node:Person", "Late") is None
    assert graph.entity("node:Person", "Late")["name"] == "Late"
    assert then.read_blob("Person", "Ann", "photo") is None
    assert then.snapshot() == graph.snapshot(at=head)
    assert then.snapshot().commit_id == head
    assert b"".join(then.iter_export()).count(b"\n") == 1
    assert then.export(tmp_path / "then.jsonl").tables[0].rows == 1
    assert then.catalog.schema_hash == graph.catalog.schema_hash


def test_a_past_state_is_found_once_and_read_as_often_as_asked(graph, monkeypatch):
    then = graph.at(graph.snapshot().commit_id)
    monkeypatch.setattr(type(graph.store), "snapshot_at", None)
    monkeypatch.setattr(type(graph.store), "snapshot", None)
    assert names(then) == names(then) == ["Ann"]


def test_a_handle_of_an_actor_signs_everything_that_becomes_a_commit(graph):
    act = graph.as_actor("act-x")
    act.mutate(ADD, params={"name": "Bob"})
    act.load(b'{"type":"Person","data":{"name":"Cid"}}', "append")
    act.branch("main").mutate(ADD, params={"name": "Dan"})
    act.ingest(b'{"type":"Person","data":{"name":"Eve"}}', branch="new")
    before = len(graph.commits.list(all=True, reverse=True))
    assert {one.status.value for one in act.ensure_indices()} == {"built"}
    assert act.optimize()[0].committed
    signed = graph.commits.list(all=True, reverse=True)[2:]
    assert len(signed) > before - 2
    assert {one.actor_id for one in signed} == {"act-x"}
    assert graph.commits.list("new", all=True, reverse=True)[-1].actor_id == "act-x"
    assert graph.commits.list(all=True, reverse=True)[1].actor_id is None


def test_what_makes_no_commit_says_who_did_it(graph):
    act = graph.as_actor("act-x")
    assert act.branches.create("dev") == act.branches.create("dev2").__class__(
        graph.uri, "main", "dev", "act-x"
    )
    assert act.branches.delete("dev").actor_id == "act-x"
    assert graph.branches.delete("dev2").actor_id is None
    assert act.mutate(ADD, params={"name": "Bob"}).actor_id == "act-x"


def test_a_handle_speaks_for_one_actor_alone(graph):
    act = graph.as_actor("act-x")
    assert act.mutate(ADD, params={"name": "Bob"}, actor="act-x").actor_id == "act-x"
    before = graph.snapshot()
    for call in (
        lambda: act.mutate(ADD, params={"name": "Eve"}, actor="act-y"),
        lambda: act.load(b"", actor="act-y"),
        lambda: act.as_actor("act-y"),
        lambda: graph.as_actor(" "),
        lambda: graph.as_actor(None),
    ):
        with pytest.raises(BadRequestError, match=r"act-x's|actor"):
            call()
    assert graph.snapshot() == before


def test_a_condition_holds_on_a_view_as_on_the_graph(graph):
    review = graph.branch("review")
    old = review.snapshot().commit_id
    review.mutate(ADD, params={"name": "Bob"}, if_head=old)
    with pytest.raises(ConflictError):
        review.mutate(ADD, params={"name": "Cid"}, if_head=old)


def test_handles_share_one_open_graph(graph):
    act, review, then = graph.as_actor("act-x"), graph.branch("review"), graph.at(1)
    act.close()
    for view in (graph, act, review):
        with pytest.raises(BadRequestError, match="closed"):
            view.query(ALL)
    assert then is not None

"""What a caller demands of a write: once under its key, and only where the branch still is."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import omnigraph
from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.storage.options import Retention
from tests.support.fast import FAST

SCHEMA = """node Person {
  name: String @key
  email: String? @unique
  face: Vector(2)?
}

node Note {
  text: String @unique
}

edge Owns: Person -> Note @card(0..1)
"""
DAY_S = 86_400


@dataclass(slots=True)
class MovableClock:
    """The machine's clock, put forward."""

    ahead_s: float = 0.0

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us() + int(self.ahead_s * 1e6)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        SYSTEM_CLOCK.sleep(seconds)


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def graph(tmp_path, clock):
    options = replace(FAST, clock=clock)
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=options) as opened:
        opened.mutate('query m() { insert Person { name: "Ann" } insert Note { text: "a" } }')
        yield opened


def count(graph, kind):
    return graph.store.snapshot().tables[kind].row_count


def a_note(graph):
    return graph.query("query q() { match { $n: Note } return { $n } }").to_dicts()[0]["n"]


@pytest.mark.parametrize(
    ("text", "params"),
    [
        pytest.param('query m() { insert Note { text: "once" } }', {}, id="unique"),
        pytest.param(
            'query m($n: String) { insert Owns { from: "Ann", to: $n } }', {"n": ...}, id="card"
        ),
        pytest.param('query m() { delete Note where text = "a" }', {}, id="nothing left to delete"),
    ],
)
def test_a_request_whose_rows_are_there_already_is_a_replay_not_a_broken_rule(graph, text, params):
    params = {name: a_note(graph) for name in params}
    first = graph.mutate(text, params=params, idempotency_key="k")
    rows = count(graph, "node:Note"), count(graph, "edge:Owns")
    again = graph.mutate(text, params=params, idempotency_key="k")
    assert again == replace(first, replayed=True)
    with omnigraph.connect(graph.uri, options=FAST) as other:
        assert other.mutate(text, params=params, idempotency_key="k") == again
    assert (count(graph, "node:Note"), count(graph, "edge:Owns")) == rows


def test_a_repeated_conditional_request_is_a_replay_though_its_commit_moved_the_branch(graph):
    head = graph.snapshot().commit_id
    text = 'query m() { insert Note { text: "b" } }'
    first = graph.mutate(text, if_head=head, idempotency_key="k")
    again = graph.mutate(text, if_head=head, idempotency_key="k")
    assert again == replace(first, replayed=True)
    with pytest.raises(ConflictError, match="not at"):
        graph.mutate(text, if_head=head, idempotency_key="another")


def test_a_key_counts_until_its_branch_has_moved_on_by_seven_days_and_then_anew(tmp_path, clock):
    retention = Retention(idempotency_commits=1)  # the newest ones always count
    options = replace(FAST, clock=clock, storage=replace(FAST.storage, retention=retention))
    graph = omnigraph.init(str(tmp_path / "aged.omni"), SCHEMA, options=options)
    text = 'query m() { insert Person { name: "Bob" } }'
    other_text = 'query m() { insert Person { name: "Carl" } }'
    first = graph.mutate(text, idempotency_key="k")
    clock.ahead_s = 7 * DAY_S - 60
    assert graph.mutate(text, idempotency_key="k").commit_id == first.commit_id
    clock.ahead_s = 700 * DAY_S  # a clock alone, here a wrong one, makes nothing old
    assert graph.mutate(text, idempotency_key="k").commit_id == first.commit_id
    clock.ahead_s = 7 * DAY_S + 60
    graph.mutate('query m() { insert Person { name: "Dora" } }')
    second = graph.mutate(other_text, idempotency_key="k")
    assert not second.replayed
    assert graph.mutate(other_text, idempotency_key="k") == replace(second, replayed=True)
    graph.close()
    with omnigraph.connect(tmp_path / "aged.omni", options=options) as other:
        assert other.mutate(other_text, idempotency_key="k") == replace(second, replayed=True)
        with pytest.raises(ConflictError, match="for another request"):
            other.mutate(text, idempotency_key="k")


def test_a_request_is_the_same_however_its_values_are_written(graph):
    text = "query m($n: String, $f: Vector(2)) { insert Person { name: $n, face: $f } }"
    first = graph.mutate(
        text, params={"n": "Eve", "f": np.array([0.5, 1.0], np.float32)}, idempotency_key="k"
    )
    again = graph.mutate(text, params={"f": [0.5, 1], "n": "Eve"}, idempotency_key="k")
    assert again == replace(first, replayed=True)
    with pytest.raises(ConflictError, match="for another request"):
        graph.mutate(text, params={"f": [0.5, 2], "n": "Eve"}, idempotency_key="k")


def test_the_moment_of_a_request_does_not_make_it_another_one(graph, clock):
    text = 'query m() { update Person set { email: "a@x" } where name = "Ann" }'
    first = graph.mutate(text, idempotency_key="k")
    clock.ahead_s = 60
    assert graph.mutate(text, idempotency_key="k") == replace(first, replayed=True)


@pytest.mark.parametrize("key", ["", " "])
def test_an_empty_key_is_a_mistake(graph, key):
    with pytest.raises(BadRequestError, match="idempotency key is empty"):
        graph.mutate('query m() { insert Note { text: "b" } }', idempotency_key=key)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"actor": ""}, "the actor is empty", id="empty actor"),
        pytest.param({"actor": 5}, "the actor must be text, not int", id="actor"),
        pytest.param({"actor": "\ud800"}, "the actor is not Unicode", id="half an actor"),
        pytest.param({"idempotency_key": 5}, "key must be text, not int", id="key"),
        pytest.param({"idempotency_key": "\ud800"}, "key is not Unicode", id="half a key"),
        pytest.param({"if_head": 5}, "expected commit must be text, not int", id="head"),
        pytest.param({"branch": None}, "branch must be text, not NoneType", id="branch"),
        pytest.param({"params": {5: "x"}}, "5 is not the name of a parameter", id="parameter"),
        pytest.param({"params": {"t": "\ud800"}}, "lone surrogate", id="half a value"),
        pytest.param({"source": None}, "expected a text or the path", id="no text"),
        pytest.param({"source": b"query"}, "expected a text or the path", id="bytes"),
    ],
)
def test_arguments_of_the_wrong_kind_are_told_apart_and_nothing_is_written(graph, given, message):
    head = graph.snapshot().commit_id
    usual = {
        "source": "query m($t: String) { insert Note { text: $t } }",
        "params": {"t": "b"},
    }
    with pytest.raises(BadRequestError, match=message):
        graph.mutate(**(usual | given))
    assert graph.snapshot().commit_id == head


def test_a_key_belongs_to_its_actor_and_to_its_branch(graph):
    text = 'query m() { insert Note { text: "b" } }'
    first = graph.mutate(text, actor="act-ann", idempotency_key="k")
    with pytest.raises(ConflictError, match="for another request"):
        graph.mutate(text, actor="act-bob", idempotency_key="k")
    assert graph.mutate(text, actor="act-ann", idempotency_key="k").commit_id == first.commit_id
    graph.branches.create("draft")
    graph.mutate('query m() { delete Note where text = "b" }', branch="draft")
    other = graph.mutate(text, actor="act-ann", idempotency_key="k", branch="draft")
    assert not other.replayed
    again = graph.mutate(text, actor="act-ann", idempotency_key="k", branch="draft")
    assert again == replace(other, replayed=True)


def test_a_condition_on_a_new_branch_names_the_commit_it_began_at(graph):
    head = graph.snapshot().commit_id
    graph.branches.create("draft")
    text = 'query m() { insert Note { text: "b" } }'
    graph.mutate(text, branch="draft", if_head=head)
    graph.mutate(text, if_head=head)
    with pytest.raises(ConflictError, match="not at"):
        graph.mutate(text.replace('"b"', '"c"'), branch="draft", if_head=head)


def test_a_condition_holds_also_for_a_request_without_effect(graph):
    head = graph.snapshot().commit_id
    nothing = 'query m() { delete Note where text = "none" }'
    assert graph.mutate(nothing, if_head=head).commit_id is None
    graph.mutate('query m() { insert Note { text: "b" } }')
    with pytest.raises(ConflictError, match="not at"):
        graph.mutate(nothing, if_head=head)


def test_maintenance_does_not_move_the_branch_a_condition_names(graph):
    head = graph.snapshot().commit_id
    graph.ensure_indices()
    assert graph.snapshot().commit_id != head
    graph.mutate('query m() { insert Note { text: "b" } }', if_head=head)

"""A mutation beside others: what only both together break is run again, or told as a conflict."""

import pytest

import omnigraph
from omnigraph.engine.write import writer
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import ConflictError
from tests.support.fast import FAST

SCHEMA = "node P { k: String @key\n mail: String? @unique }\nedge E: P -> P"
DELETE = 'query d() { delete P where k = "a" }'
JOIN = 'query j() { insert E { from: "a", to: "b" } }'
EDGES = "query q() { match { $a e $b } return { $a.k, $b.k } }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g", SCHEMA, options=FAST) as opened:
        opened.mutate('query i() { insert P { k: "a" } insert P { k: "b" } }')
        yield opened


@pytest.fixture
def meanwhile(graph, monkeypatch):
    """Let another handle write between the statements of a mutation and its commit."""

    def arrange(*texts):
        waiting, run = list(texts), writer.run_mutation

        def run_then_let_others_write(*arguments):
            done = run(*arguments)
            if waiting:
                with (
                    omnigraph.connect(graph.uri, options=FAST) as other,
                    monkeypatch.context() as m,
                ):
                    m.setattr(writer, "run_mutation", run)
                    other.mutate(waiting.pop(0), actor="other")
            return done

        monkeypatch.setattr(writer, "run_mutation", run_then_let_others_write)
        return waiting

    return arrange


def test_a_delete_that_loses_to_a_new_edge_takes_the_edge_along(graph, meanwhile):
    meanwhile(JOIN)
    done = graph.mutate(DELETE)
    assert (done.affected_nodes, done.affected_edges) == (1, 1)
    assert graph.query(EDGES).to_tuples() == []
    assert [found for found in graph.verify() if not found.harmless] == []


def test_a_delete_that_loses_again_is_a_conflict(graph, meanwhile):
    left = meanwhile(*[JOIN] * 9)
    with pytest.raises(ConflictError, match="stale view of table edge:E"):
        graph.mutate(DELETE)
    assert graph.snapshot().table("edge:E").row_count == 9 - len(left) == 2


def test_a_delete_under_a_condition_is_not_run_again(graph, meanwhile):
    meanwhile(JOIN)
    with pytest.raises(ConflictError, match="is at commit"):
        graph.mutate(DELETE, if_head=graph.snapshot().commit_id)
    assert len(graph.query(EDGES)) == 1


def test_what_is_wrong_on_the_new_state_too_is_a_broken_rule(graph, meanwhile):
    meanwhile('query i() { insert P { k: "c", mail: "m" } }')
    with pytest.raises(ConstraintError, match="@unique violation"):
        graph.mutate('query i() { insert P { k: "d", mail: "m" } }')
    meanwhile(DELETE)
    with pytest.raises(ConstraintError, match="src 'a' not found"):
        graph.mutate(JOIN)

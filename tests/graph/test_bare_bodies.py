"""A query may be given as its body alone, in Python and on the command line."""

import pytest

import omnigraph
from omnigraph.errors import CompileError
from tests.support.fast import FAST

SCHEMA = "node P { name: String @key age: I32? }\nedge Knows: P -> P\n"
OLDER = "match { $p: P $p.age >= $min } return { $p.name as n } order { n }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        made.mutate('insert P { name: "ada" age: 36 } insert P { name: "bo" age: 12 }')
        yield made


def test_reads_of_every_kind_take_a_body(graph):
    assert graph.query(OLDER, params={"min": 18}).to_dicts() == [{"n": "ada"}]
    assert graph.branch("main").query(OLDER, params={"min": 1}).to_dicts()[1] == {"n": "bo"}
    assert sum(len(part) for part in graph.stream(OLDER, params={"min": 1})) == 2
    assert graph.profile(OLDER, params={"min": 1}).row_count == 2
    assert "P" in graph.explain("match { $p: P } return { $p.name }")


def test_mutations_take_a_body(graph):
    done = graph.mutate(
        "update P set { age: $age } where name = $who", params={"age": 40, "who": "bo"}
    )
    assert done.affected_nodes == 1
    assert len(graph.query(OLDER, params={"min": 37})) == 1


def test_a_mistake_is_shown_in_the_body_as_it_was_written(graph):
    with pytest.raises(CompileError, match="<input>:1:15: type error: T6"):
        graph.query("match { $p: P $p.agee > 3 } return { $p.name }")

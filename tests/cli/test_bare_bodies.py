"""`-e` takes the body of a query alone."""

import json

import pytest

import omnigraph
from tests.support.fast import FAST

SCHEMA = "node P { name: String @key age: I32? }\n"
OLDER = "match { $p: P $p.age >= $min } return { $p.name as n } order { n }"


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        made.mutate('insert P { name: "ada" age: 36 } insert P { name: "bo" age: 12 }')
        yield made


def test_the_command_line_takes_a_body_with_parameters(graph, cli):
    ran = cli("read", graph.uri, "-e", OLDER, "-p", "min=18", "--json")
    assert (ran.code, json.loads(ran.out)["rows"]) == (0, [{"n": "ada"}])
    ran = cli("change", graph.uri, "-e", "insert P { name: $n }", "-p", "n=cy")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "changed main via inline: 1 nodes, 0 edges")
    ran = cli("explain", "--uri", graph.uri, "-e", "match { $p: P } return { $p.name }")
    assert ran.code == 0, ran.err

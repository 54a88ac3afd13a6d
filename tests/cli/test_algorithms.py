"""Algorithms on the command line: rows as of `read`, and one commit where a property is named."""

import json

import pytest

import omnigraph
from tests.support.fast import FAST

SCHEMA = "node Person {\n  name: String @key\n  rank: F64?\n}\nedge Knows: Person -> Person\n"
LINES = b"""{"type":"Person","data":{"name":"Ann"}}
{"type":"Person","data":{"name":"Bob"}}
{"type":"Person","data":{"name":"Cid"}}
{"edge":"Knows","from":"Ann","to":"Bob"}
"""


@pytest.fixture
def knows(people):
    with omnigraph.init(people / "knows.omni", SCHEMA, options=FAST) as graph:
        graph.load(LINES, "append")
    return "knows.omni"


def test_an_algorithm_prints_a_row_per_node(cli, knows):
    ran = cli("algorithm", "degrees", knows, "--along", "out", "--format", "csv")
    assert ran.out.splitlines() == [
        "type,id,degree",
        "Person,Ann,1",
        "Person,Bob,0",
        "Person,Cid,0",
    ]
    ran = cli("algorithm", "connected-components", knows, "--json")
    assert [row["component"] for row in json.loads(ran.out)["rows"]] == [0, 0, 1]
    ran = cli(
        "algorithm", "shortest-path", knows, "--from", "Person", "Ann", "--to", "Person", "Bob"
    )
    assert ran.code == 0, ran.err
    assert "Knows" in ran.out
    ran = cli(
        "algorithm", "shortest-path", knows, "--from", "Person", "Bob", "--to", "Person", "Ann"
    )
    assert ran.code == 1
    assert "no path leads from 'Bob' to 'Ann'" in ran.err


def test_ranks_become_a_property_by_an_actor(cli, knows):
    before = json.loads(cli("commit", "list", knows, "--json").out)["commits"][0]
    ran = cli("algorithm", "pagerank", knows, "--write", "rank", "--as", "nightly", "--json")
    assert ran.code == 0, ran.err
    rows = {row["id"]: row["rank"] for row in json.loads(ran.out)["rows"]}
    (newest, *_) = json.loads(cli("commit", "list", knows, "--json").out)["commits"]
    assert (newest["actor_id"], newest["parent_commit_id"]) == (
        "nightly",
        before["graph_commit_id"],
    )
    read = cli("read", knows, "-e", "match { $p: Person } return { $p.name, $p.rank }", "--json")
    assert {row["p.name"]: row["p.rank"] for row in json.loads(read.out)["rows"]} == rows
    then = ("--snapshot", before["graph_commit_id"])
    assert cli("algorithm", "pagerank", knows, *then, "--write", "rank").code != 0
    assert cli("algorithm", "pagerank", knows, "--as", "ann").code == 2
    assert "unknown along" in cli("algorithm", "degrees", knows, "--along", "up").err

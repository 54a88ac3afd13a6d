"""`omnigraph queries …`, on a graph here and on a server."""

import json

import pytest

from tests.cli.conftest import CONFIG
from tests.support.servers import server_process


@pytest.fixture
def stored(people):
    (people / "omnigraph.yaml").write_text(CONFIG + "queries:\n  files: [people.gq]\n")
    return people


def test_queries_are_listed_and_shown(cli, stored):
    listed = cli("queries", "list")
    assert listed.code == 0, listed.err
    assert listed.out.splitlines()[:2] == [
        "write add($name: string, $age: int?, $bio: string?)",
        "read  adults($min: int)",
    ]
    shown = cli("queries", "show", "adults", "people.omni")
    assert shown.out.splitlines() == ["read adults($min: int)", "tool: q_adults"]
    assert json.loads(cli("queries", "show", "add", "--json").out)["mutation"] is True
    assert set(json.loads(cli("queries", "list", "--json").out)) == {"queries"}


def test_a_read_prints_its_rows(cli, stored):
    ran = cli("queries", "run", "adults", "-p", "min=18", "--format", "csv")
    assert ran.out.splitlines() == ["p.age,p.name", "41,Ann", "30,Cé"]
    said = json.loads(cli("queries", "run", "adults", "--params", '{"min": 40}', "--json").out)
    assert said["rows"] == [{"p.age": 41, "p.name": "Ann"}]


def test_a_text_that_looks_like_a_number_stays_text(cli, stored):
    done = cli("queries", "run", "add", "-p", "name=007", "-p", "age=7")
    assert done.out == "changed main via add: 1 nodes, 0 edges\n"
    said = json.loads(cli("queries", "run", "person", "-p", "name=007", "--json").out)
    assert said["rows"][0]["p.name"] == "007"


def test_a_write_can_be_looked_at_first(cli, stored):
    args = ("queries", "run", "add", "-p", "name=Dan", "--as", "act-x")
    assert cli(*args, "--preview").out.startswith("would change main via add: 1 nodes, 0 edges\n")
    assert json.loads(cli(*args, "--json").out)["actor_id"] == "act-x"
    again = ("change", "-q", "people.gq", "-n", "add", "-p", "name=Eve", "--preview")
    assert cli(*again).out.startswith("would change main via add")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "nope"), 1, "query 'nope' not found"),
        (("show", "../x"), 1, "query '../x' not found"),
        (("run", "adults"), 1, "parameter 'min' not provided"),
        (("run", "adults", "-p", "min"), 2, "--param min is not NAME=VALUE"),
        (("run", "adults", "-p", "min=1", "-m", "why"), 1, "takes no message"),
        (("run", "add", "-p", "name=x", "--snapshot", "y"), 2, "is of a branch"),
        (("run", "adults", "--json", "--format", "csv"), 2, "exclude each other"),
    ],
    ids=["unknown", "hostile", "missing", "param", "message", "past", "layouts"],
)
def test_what_is_wrong_is_told(cli, stored, arguments, code, said):
    ran = cli("queries", *arguments)
    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_a_schema_tells_which_queries_it_breaks(cli, stored):
    text = (stored / "people.pg").read_text()
    (stored / "people.pg").write_text(text.replace("  bio: String?\n", ""))
    ran = cli("schema", "apply", "--schema", "people.pg", "--allow-data-loss")
    assert ran.code == 0, ran.err
    assert "warning: stored query 'add'" in ran.err
    assert "warning: stored query 'person'" in ran.err


def test_a_server_is_asked_the_same(cli, stored):
    here = [cli("queries", *words).out for words in (("list",), ("show", "add"))]
    rows = cli("queries", "run", "adults", "-p", "min=18", "--json").out
    with server_process(stored, "people.omni", "--bind", "127.0.0.1:0") as server:
        at = server.hear_address()
        there = [cli("queries", *words, at).out for words in (("list",), ("show", "add"))]
        assert there == here
        assert cli("queries", "run", "adults", at, "-p", "min=18", "--json").out == rows
        done = cli("queries", "run", "add", at, "-p", "name=Dan", "-m", "over there")
        assert done.out == "changed main via add: 1 nodes, 0 edges\n", done.err
        assert cli("queries", "run", "nope", at).code == 1


def test_stored_queries_are_checked_before_a_server_is_started(cli, stored):
    ran = cli("queries", "check")
    assert (ran.code, ran.out) == (0, "4 stored queries, 0 of them wrong\n")
    text = (stored / "people.gq").read_text()
    (stored / "people.gq").write_text(text.replace("$p.bio }", "$p.boi }"))
    ran = cli("queries", "check")
    assert (ran.code, ran.out) == (1, "4 stored queries, 1 of them wrong\n")
    assert "error: stored query 'person'" in ran.err
    said = json.loads(cli("queries", "check", "--json").out)
    assert (said["status"], [one["name"] for one in said["broken"]]) == ("error", ["person"])
    assert "only supported against local" in cli("queries", "check", "http://127.0.0.1:1").err

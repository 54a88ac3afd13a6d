"""Other names of commands, help by word, and failures as JSON."""

import json

import pytest

import omnigraph
from tests.support.fast import FAST

BODY = "match { $p: P } return { $p.name as n }"


@pytest.fixture
def people(tmp_path):
    with omnigraph.init(
        str(tmp_path / "g.omni"), "node P { name: String @key age: I32? }", options=FAST
    ):
        pass
    (tmp_path / "p.gq").write_text(f"query all() {{ {BODY} }}\n")
    return "g.omni"


def test_mutate_is_change_and_query_is_read(cli, people):
    ran = cli("mutate", people, "-e", 'insert P { name: "ada" }')
    assert (ran.code, ran.out) == (0, "changed main via inline: 1 nodes, 0 edges\n")
    for words in (["query", people, "-e", BODY], ["query", "-e", BODY, people]):
        ran = cli(*words, "--json")
        assert (ran.code, json.loads(ran.out)["rows"]) == (0, [{"n": "ada"}])
    assert cli("--uri", people, "query", "-e", BODY, "--json").code == 0


def test_lint_stands_alone_and_behind_query(cli, people):
    told = [
        cli(*words, "-q", "p.gq", people, "--json").out
        for words in (["lint"], ["query", "lint"], ["query", "check"])
    ]
    assert len(set(told)) == 1
    assert json.loads(told[0])["status"] == "ok"


def test_help_is_a_command_too(cli):
    assert cli("help").out == cli("--help").out
    assert cli("help", "branch", "create").out == cli("branch", "create", "--help").out
    assert cli("help", "mutate").out == cli("change", "--help").out
    assert "lint" in cli("query", "--help").out


def test_a_failure_under_json_is_json_on_standard_output(cli, people):
    ran = cli("read", people, "-e", "match { $p: P } return { $p.nam }", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["code"], told["kind"]) == (1, "bad_request", "compile")
    assert told["error"] == "<query>:1:26: type error: T6: P has no property `nam`"
    assert told["hint"] == "did you mean `name`?"
    (found,) = told["diagnostics"]
    assert (found["code"], found["line"], found["column"]) == ("T6", 1, 26)
    assert "error[T6]" in ran.err


@pytest.mark.parametrize(
    ("words", "rc", "code", "kind"),
    [
        (["snapshot", "no-such.omni"], 1, "not_found", "not_found"),
        (["branch", "create", "main", "--uri", "g.omni"], 1, "conflict", "already_exists"),
        (["read", "g.omni", "--nope"], 2, "bad_request", "bad_request"),
        (["read", "g.omni"], 2, "bad_request", "bad_request"),
        (["change", "g.omni", "-e", "insert P { name: null }"], 1, "bad_request", "compile"),
        (["mutate", "g.omni", "-e", "insert P { name: $n }", "-p", "n=null"], 1, None, None),
    ],
)
def test_failures_of_every_kind_say_what_they_are(cli, people, words, rc, code, kind):
    ran = cli(*words, "--json")
    told = json.loads(ran.out)
    assert (ran.code, bool(told["error"])) == (rc, True)
    assert ran.err
    if code is not None:
        assert (told["code"], told["kind"]) == (code, kind)


def test_broken_rules_are_listed_under_json(cli, people, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"type":"P","data":{"name":"a","age":"x"}}\n')
    ran = cli("load", people, "--data", "rows.jsonl", "--mode", "append", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["kind"]) == (1, "integrity")
    (broken,) = told["violations"]
    assert broken["place"] == "rows.jsonl:1"


def test_without_json_standard_output_stays_empty(cli, people):
    ran = cli("read", people, "-e", "match { $p: Q } return { $p.name }")
    assert (ran.code, ran.out) == (1, "")


def test_a_parameter_that_is_nearly_right_is_named_the_right_way_round(cli, people):
    text = "query q($min: I32) { match { $p: P $p.age > $min } return { $p.name } }"
    ran = cli("read", people, "-e", text, "-p", "mn=3")
    assert ran.code == 1
    assert "hint: 'mn' was given; did you mean 'min'?" in ran.err


def test_flags_are_shown_without_a_value(cli):
    for words in (["--help"], ["lock", "show", "--help"], ["load", "--help"], ["schema", "--help"]):
        shown = cli(*words)
        assert shown.code == 0
        assert "bool" not in shown.out.lower().replace("boolean", "")


@pytest.mark.parametrize(
    "words",
    [
        ("--log-level", "x", "version"),
        ("read", "people.omni", "-e", "match { $p: Person } return { $p.name }", "--params", "{"),
        ("read", "people.omni", "-e", "match { $p: Person } return { $p.name }", "--params", "[]"),
        ("load", "people.omni", "--data", "x.csv", "--delimiter", "ab"),
        ("load", "people.omni", "--data", "x.csv", "--encoding", "klingon"),
        ("init", "x.omni"),
        ("init", "--template", "nothing", "x.omni"),
    ],
)
def test_a_wrong_command_line_ends_with_2(cli, people, words):
    ran = cli(*words)
    assert ran.code == 2, ran.err
    assert ran.err.startswith("error:")


def test_a_template_is_a_graph_to_play_with(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = cli("init", "--template", "company", "play.omni")
    assert made.code == 0, made.err
    tried = made.out.split("try: omnigraph ")[1].split()
    assert len(cli(*tried, "-f", "csv").out.split()) == 5
    ran = cli("read", "play.omni", "--query", "company.gq", "--name", "notes_about", "-p", "words=prices", "-f", "csv")  # fmt: skip  # noqa: E501
    assert ran.out.splitlines()[1].startswith("Dan,")
    for command in (
        ("fmt", "--check", "company.pg", "company.gq"),
        ("lint", "-q", "company.gq", "-s", "company.pg"),
    ):
        assert cli(*command).code == 0, command
    again = cli("init", "--template", "company", "other.omni")
    assert again.code == 1
    assert "exists" in again.err
    assert not (tmp_path / "other.omni").exists()


def test_a_width_that_nothing_offline_makes_is_told_when_the_schema_is_checked(
    cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pg").write_text(
        'node A { text: String v: Vector(768)? @embed("text") }\n'
        'node B { text: String v: Vector(256)? @embed("text") given: Vector(1536)? }\n'
    )
    ran = cli("schema", "check", "--schema", "s.pg")
    assert ran.code == 0
    assert ran.err.count("note:") == 1
    assert "A.v: nothing offline makes 768 dimensions" in ran.err
    assert "OMNIGRAPH_EMBEDDER" in ran.err


def test_a_graph_that_is_there_may_be_left_as_it_is(cli, people, tmp_path):
    (tmp_path / "p.pg").write_text("node P { name: String @key }\n")
    ran = cli("init", "--schema", "p.pg", people, "--if-missing", "--json")
    assert (ran.code, json.loads(ran.out)["config_path"]) == (0, None)
    assert cli("init", "--schema", "p.pg", people).code == 1
    made = cli("init", "--schema", "p.pg", "other.omni", "--if-missing")
    assert (made.code, made.out) == (0, "initialized other.omni\n")

"""Every command given something wrong: one readable block, the right exit code, no traceback."""

import json
import os
from pathlib import Path

import lance
import pytest

from omnigraph.storage.manifest.rows import STAMP_KEY

# Every command that opens a graph, with what else it needs.
ON_A_GRAPH = [
    ["read", "-q", "people.gq", "-n", "adults", "-p", "min=1"],
    ["change", "-q", "people.gq", "-n", "add", "-p", "name=Dan"],
    ["profile", "-q", "people.gq", "-n", "adults", "-p", "min=1"],
    ["explain", "-q", "people.gq"],
    ["query", "lint", "-q", "people.gq"],
    ["snapshot"],
    ["branch", "list"],
    ["branch", "create", "new"],
    ["branch", "delete", "old"],
    ["commit", "list"],
    ["commit", "show", "01ABC"],
    ["schema", "get"],
    ["schema", "plan", "-s", "people.pg"],
    ["verify"],
    ["repair"],
    ["lock", "show"],
    ["lock", "break", "branch:main"],
    ["shell"],
]
IDS = [" ".join(arguments[:2]) for arguments in ON_A_GRAPH]


def refused(ran, told, code=1):
    assert ran.code == code, ran.out + ran.err
    assert ran.out == ""
    assert ran.err.startswith("error")
    assert told in ran.err
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) <= 8


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_a_place_without_a_graph_is_named(cli, people, arguments):
    (people / "empty").mkdir()
    refused(cli(*arguments, "--uri", "nowhere.omni"), "there is no graph at ")
    refused(cli(*arguments, "--uri", "empty"), "there is no graph at ")
    assert not (people / "nowhere.omni").exists()
    assert list((people / "empty").iterdir()) == []


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_a_file_is_not_a_graph(cli, people, arguments):
    refused(cli(*arguments, "--uri", "people.pg"), "'people.pg' is a file, not a graph")


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_broken_settings_are_shown_where_they_break(cli, people, arguments):
    (people / "omnigraph.yaml").write_text("graphs:\n  local: {uri: x\ncli: 1\n")
    ran = cli(*arguments, "--uri", "people.omni")
    refused(ran, "not valid YAML")
    assert " --> omnigraph.yaml:3:" in ran.err


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_nothing_says_which_graph(cli, people, arguments):
    (people / "omnigraph.yaml").unlink()
    ran = cli(*arguments)
    assert ran.code == 1
    assert "URI must be provided" in ran.err or "resolvable repo target" in ran.err


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_an_unknown_target_is_refused(cli, people, arguments):
    refused(cli(*arguments, "-t", "nobody"), "graph 'nobody' not found in omnigraph.yaml")


@pytest.mark.parametrize("arguments", ON_A_GRAPH, ids=IDS)
def test_a_graph_of_a_newer_format_is_refused(cli, people, arguments):
    manifest = lance.dataset(str(people / "people.omni" / "__manifest"))
    manifest.update_schema_metadata({STAMP_KEY: "99"})
    refused(cli(*arguments, "--uri", "people.omni"), "99")


@pytest.mark.parametrize("arguments", ON_A_GRAPH[:5], ids=IDS[:5])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "query file 'people.gq' not found", id="missing"),
        pytest.param(b"\x00\x01", "control character", id="binary"),
        pytest.param(b"\xff\xfe", "not valid UTF-8", id="other encoding"),
        pytest.param(b"query adults( {", "people.gq:1:", id="broken"),
    ],
)
def test_bad_query_files_are_refused(cli, people, arguments, content, told):
    if content is None:
        (people / "people.gq").unlink()
    else:
        (people / "people.gq").write_bytes(content)
    ran = cli(*arguments)
    assert ran.code == 1
    assert told in ran.err
    assert "Traceback" not in ran.err


LONG = "x" * 5_000


@pytest.mark.parametrize(
    "words",
    [
        ["branch", "create", LONG, "new"],
        ["run", "list", "--uri", LONG],
        ["repair", LONG],
        ["verify", LONG],
        ["history", LONG, "node:Person", "ada"],
        ["schema", "infer", LONG],
        ["fmt", LONG],
        ["read", "--query", LONG, "people.omni"],
        ["query", "lint", "--query", LONG, "--schema", LONG],
        ["load", "people.omni", "--data", LONG],
        ["export", "people.omni", "--output", LONG],
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_no_file_can_have_is_an_error_like_any(cli, people, words):
    ran = cli(*words)
    assert ran.code in (1, 2)
    assert "error" in ran.err
    assert "unexpected" not in ran.err


def test_a_file_whose_name_is_no_text_is_formatted_and_told(cli, people):
    path = os.fsdecode(b"\xff.pg")
    Path(path).write_text("node A{k:String @key}")
    assert json.loads(cli("fmt", "--json", path).out)["files"] == [
        {"path": path, "status": "formatted"}
    ]
    assert cli("fmt", path).code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["read", "-n", "nope"], "query 'nope' not found", id="unknown query"),
        pytest.param(["read"], "multiple queries; pass --name", id="which query"),
        pytest.param(["read", "-n", "adults"], "parameter 'min' not provided", id="no parameter"),
        pytest.param(["read", "-n", "adults", "-p", "min=x"], "param 'min': expected", id="type"),
        pytest.param(["read", "-n", "adults", "-p", "min=1.5"], "param 'min'", id="float"),
        pytest.param(["read", "-n", "adults", "-p", "min=99999999999"], "exceeds I32", id="range"),
        pytest.param(["read", "-n", "adults", "--params", "[1]"], "must be an object", id="list"),
        pytest.param(["read", "-n", "adults", "--params", "{"], "not valid JSON", id="broken"),
        pytest.param(
            ["read", "-n", "adults", "--params", '{"a": 1, "a": 2}'],
            "'a' is given twice",
            id="twice",
        ),
        pytest.param(
            ["read", "-n", "adults", "--params", "[" * 9_999 + "]" * 9_999],
            "not valid JSON",
            id="deep",
        ),
        pytest.param(
            ["read", "-n", "adults", "-p", "min=" + "[" * 9_999 + "]" * 9_999],
            "nested too deeply",
            id="deep word",
        ),
        pytest.param(
            ["read", "-n", "adults", "--params-file", "no.json"],
            "params file 'no.json' not found",
            id="no params file",
        ),
        pytest.param(["read", "-n", "add", "-p", "name=x"], "is a mutation", id="a mutation"),
        pytest.param(["profile", "-n", "add", "-p", "name=x"], "is a mutation", id="profiled"),
        pytest.param(["change", "-n", "adults", "-p", "min=1"], "is a read", id="a read"),
        pytest.param(
            ["read", "-n", "adults", "-p", "min=1", "-b", "no"], "branch 'no' not found", id="b"
        ),
        pytest.param(
            ["read", "-n", "adults", "-p", "min=1", "--snapshot", "no"],
            "commit 'no' not found",
            id="snapshot",
        ),
        pytest.param(
            ["change", "-n", "add", "-p", "name=x", "-b", "no"], "branch 'no' not found", id="cb"
        ),
        pytest.param(
            ["change", "-n", "meet", "-p", "a=No", "-p", "b=Ann", "-p", "on=2020-01-01"],
            "src 'No' not found in Person",
            id="endpoint",
        ),
        pytest.param(
            ["change", "-n", "meet", "-p", "a=Ann", "-p", "b=Bob", "-p", "on=2020-02-30"],
            "param 'on'",
            id="date",
        ),
    ],
)
def test_wrong_requests_are_refused(cli, people, arguments, told):
    command, *rest = arguments
    code = 2 if "--params" in rest else 1  # what stands on the command line itself
    refused(cli(command, "-q", "people.gq", *rest), told, code)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["read", "--alias", "nope"], "alias 'nope' not found"),
        (["commit", "show", "nope"], "commit 'nope' not found"),
        (["snapshot", "-b", "nope"], "branch 'nope' not found"),
        (["commit", "list", "-b", "nope"], "branch 'nope' not found"),
        (["shell", "-b", "nope"], "branch 'nope' not found"),
        (["schema", "plan", "-s", "nope.pg"], "schema file 'nope.pg' not found (No such file)"),
        (["init", "-s", "nope.pg", "x.omni"], "schema file 'nope.pg' not found (No such file)"),
        (["init", "-s", "people.gq", "x.omni"], "people.gq:1:1"),
        (["init", "-s", "people.pg", "people.gq"], "'people.gq' is a file, not a graph"),
        (["init", "-s", "people.pg", "people.gq/x"], "cannot create 'people.gq/x'"),
        (["init", "-s", "people.pg", "/proc/nope/x.omni"], "cannot create '/proc/nope/x.omni'"),
        (["init", "-s", "people.pg", "https://x"], "only supported against local repo URIs"),
        (["init", "-s", "people.pg", "gopher://x/y"], "is not a storage address"),
        (["snapshot", "s3://"], "lacks a bucket or prefix"),
        (["snapshot", "--config", "nope.yaml"], "config file 'nope.yaml' not found"),
        (["snapshot", "--config", "."], "cannot read config file '.'"),
    ],
)
def test_wrong_names_are_told(cli, people, arguments, told):
    refused(cli(*arguments), told)


def test_an_alias_of_the_other_kind_is_refused(cli, people):
    text = (people / "omnigraph.yaml").read_text()
    alias = "aliases:\n  a: {command: read, query: people.gq, name: adults}\n"
    (people / "omnigraph.yaml").write_text(text + alias)
    refused(cli("change", "--alias", "a"), "alias 'a' is a Read alias, not a Change alias")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["branch"],
        ["branch", "nope"],
        ["branch", "create"],
        ["read", "--nope"],
        ["read", "--format", "xml"],
        ["init", "x.omni"],
        ["schema", "plan"],
        ["query", "lint"],
        ["commit", "show"],
        ["lock", "break"],
    ],
)
def test_wrong_usage_exits_with_two(cli, people, arguments):
    ran = cli(*arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_what_nobody_foresaw_is_told_without_a_traceback(cli, people, monkeypatch):
    def explode(*_arguments, **_named):
        raise RuntimeError("boom")

    monkeypatch.setattr("omnigraph.graph.connect", explode)
    ran = cli("snapshot")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: unexpected RuntimeError: boom\n")
    assert "--debug" in ran.err
    with pytest.raises(RuntimeError, match="boom"):
        cli("snapshot", "--debug")

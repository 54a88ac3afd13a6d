"""`schema check`, `query lint`, `explain`, `fmt`, `version` as a user meets them."""

import json

import pytest

from omnigraph import __version__

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n\nedge Knows: Person -> Person\n"
QUERIES = (
    "query adults($min: I32) {\n"
    "  match {\n"
    "    $p: Person\n"
    "    $p.age >= $min\n"
    "  }\n"
    "  return { $p.name }\n"
    "}\n"
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "q.gq").write_text(QUERIES)
    return tmp_path


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-v"]])
def test_the_version_is_printed_in_every_spelling(omnigraph, arguments):
    ran = omnigraph(*arguments)
    assert (ran.code, ran.out) == (0, f"omnigraph {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["nope"], id="unknown command"),
        pytest.param(["schema", "check"], id="missing flag"),
        pytest.param(["query", "lint", "--query", "q.gq", "--what"], id="unknown flag"),
    ],
)
def test_wrong_usage_exits_with_two(cli, arguments):
    assert cli(*arguments).code == 2


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        pytest.param(["nope"], "No such command 'nope'.", "omnigraph", id="unknown command"),
        pytest.param(
            ["schema", "check"], "Missing option '--schema'", "omnigraph schema check", id="missing"
        ),
        pytest.param(["read", "--what"], "No such option: --what", "omnigraph read", id="unknown"),
    ],
)
def test_wrong_usage_is_one_block_like_every_error(omnigraph, arguments, message, command):
    ran = omnigraph(*arguments)
    first, hint = ran.err.splitlines()
    assert first.startswith(f"error: {message}")
    assert hint == f"  hint: {command} --help"
    assert (ran.code, ran.out) == (2, "")


def test_a_good_schema_is_summarised(cli, files):
    ran = cli("schema", "check", "--schema", "s.pg")
    assert (ran.code, ran.out) == (0, "OK    s.pg: 0 interfaces, 1 nodes, 1 edges\n")
    report = json.loads(cli("schema", "check", "--schema", "s.pg", "--json").out)
    assert report["status"] == "ok"
    assert report["nodes"] == 1
    assert report["schema_hash"].startswith("sha256:")


def test_every_error_of_a_schema_is_shown_where_it_is(cli, files):
    (files / "s.pg").write_text("node A {\n  x: Strin\n}\n\nedge E: A -> Ghost\n")
    ran = cli("schema", "check", "--schema", "s.pg")
    assert ran.code == 1
    assert ran.out == ""
    assert "--> s.pg:2:6" in ran.err
    assert "did you mean `String`?" in ran.err
    assert "--> s.pg:5:" in ran.err
    report = json.loads(cli("schema", "check", "--schema", "s.pg", "--json").out)
    assert report["status"] == "error"
    assert {finding["line"] for finding in report["findings"]} == {2, 5}


def test_lint_and_check_are_the_same_command(cli, files):
    both = [cli("query", verb, "--query", "q.gq", "--schema", "s.pg") for verb in ("lint", "check")]
    assert both[0] == both[1]
    assert both[0].code == 0
    assert both[0].out == (
        "OK    query `adults` (read)\n"
        "INFO  Lint complete: 1 queries processed (0 error(s), 0 warning(s), 0 info item(s))\n"
    )


def test_lint_reports_errors_on_both_streams_and_exits_with_one(cli, files):
    (files / "q.gq").write_text(QUERIES.replace("$p.age >=", "$p.agee >="))
    ran = cli("query", "lint", "--query", "q.gq", "--schema", "s.pg")
    assert ran.code == 1
    assert ran.out.startswith("ERROR query `adults`: type error: T6: ")
    assert "--> q.gq:4:" in ran.err
    assert "did you mean `age`?" in ran.err


def test_lint_json_has_the_stable_shape(cli, files):
    ran = cli("query", "lint", "--query", "q.gq", "--schema", "s.pg", "--json")
    assert json.loads(ran.out) == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": str(files / "s.pg")},
        "query_path": str(files / "q.gq"),
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [{"name": "adults", "kind": "read", "status": "ok", "warnings": []}],
        "findings": [],
    }


def test_warnings_do_not_fail_the_lint(cli, files):
    (files / "q.gq").write_text('query drop() {\n  delete Person where name = "x"\n}\n')
    ran = cli("query", "lint", "--query", "q.gq", "--schema", "s.pg")
    assert ran.code == 0
    assert "WARN  query `drop`: mutation declares no params" in ran.out


def test_explain_shows_the_operators(cli, files):
    ran = cli("explain", "--query", "q.gq", "--schema", "s.pg")
    assert ran.code == 0
    assert "adults" in ran.out
    assert "Person" in ran.out
    plans = json.loads(cli("explain", "--query", "q.gq", "--schema", "s.pg", "--json").out)
    assert plans["queries"][0]["name"] == "adults"
    missing = cli("explain", "--query", "q.gq", "--schema", "s.pg", "--name", "adult")
    assert missing.code == 1
    assert "query 'adult' not found" in missing.err


def test_fmt_rewrites_files_and_then_has_nothing_to_do(cli, files):
    (files / "s.pg").write_text(SCHEMA.replace("  name: String", "name:String"))
    assert cli("fmt", "--check", ".").code == 1
    assert cli("fmt", ".").out == "formatted s.pg\n"
    assert (files / "s.pg").read_text() == SCHEMA
    again = cli("fmt", "--check", ".")
    assert (again.code, again.out) == (0, "")


def test_fmt_shows_a_diff_and_changes_nothing(cli, files):
    messy = SCHEMA.replace("  age", "age")
    (files / "s.pg").write_text(messy)
    ran = cli("fmt", "--diff", "s.pg")
    assert "-age: I32?" in ran.out
    assert "+  age: I32?" in ran.out
    assert (files / "s.pg").read_text() == messy


def test_fmt_reads_stdin(omnigraph):
    ran = omnigraph("fmt", "-", "--language", "pg", stdin=b"node A{x:String}")
    assert (ran.code, ran.out) == (0, "node A {\n  x: String\n}\n")


def test_fmt_leaves_broken_files_alone_and_formats_the_others(cli, files):
    (files / "broken.pg").write_text("node {")
    (files / "s.pg").write_text(SCHEMA.replace("  age", "age"))
    ran = cli("fmt", ".")
    assert ran.code == 1
    assert "broken.pg:1:" in ran.err
    assert (files / "broken.pg").read_text() == "node {"
    assert (files / "s.pg").read_text() == SCHEMA


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"\x00\x01\x02", "control character U+0000", id="binary"),
        pytest.param(b"node A { \xff\xfe }", "not valid UTF-8", id="other encoding"),
        pytest.param(b"x" * 10_000_000, "characters; at most", id="10 MB"),
        pytest.param(b"node A " + b"{" * 1_000, "nested deeper than", id="deep"),
        pytest.param("node A { ü: String }".encode(), "unexpected", id="unicode identifier"),
        pytest.param(b'node A { x: String @description("', "never closed", id="open string"),
        pytest.param(b"/* node", "never closed", id="open comment"),
        pytest.param(b"node A {}\nnode A {}\n", "duplicate", id="duplicate"),
    ],
)
def test_bad_schema_files_give_a_placed_error_and_no_traceback(cli, files, content, told):
    (files / "s.pg").write_bytes(content)
    ran = cli("schema", "check", "--schema", "s.pg")
    assert "Traceback" not in ran.err
    if not told:
        assert ran.code == 0
        return
    assert ran.code == 1
    assert told in ran.err
    assert "--> s.pg:" in ran.err


def test_a_bom_and_windows_line_ends_are_fine(cli, files):
    (files / "s.pg").write_bytes(b"\xef\xbb\xbf" + SCHEMA.replace("\n", "\r\n").encode())
    assert cli("schema", "check", "--schema", "s.pg").code == 0


def test_missing_files_and_folders_are_named(cli, files):
    ran = cli("schema", "check", "--schema", "none.pg")
    assert (ran.code, ran.err) == (1, "error: schema file 'none.pg' not found (No such file)\n")
    ran = cli("query", "lint", "--query", ".", "--schema", "s.pg")
    assert ran.code == 1
    assert "cannot read query file '.'" in ran.err
    assert cli("fmt", "s.txt").code == 1


def test_debug_shows_the_traceback(omnigraph, files):
    ran = omnigraph("--debug", "schema", "check", "--schema", "none.pg")
    assert "Traceback" in ran.err


def test_colours_are_for_terminals_and_can_be_refused(omnigraph, terminal, files):
    (files / "s.pg").write_text("node A { x: Strin }")
    arguments = ("schema", "check", "--schema", "s.pg")
    assert "\x1b[" not in omnigraph(*arguments).err
    assert "\x1b[1;31m" in terminal(*arguments).out
    assert "\x1b[" not in terminal(*arguments, env={"NO_COLOR": "1"}).out
    assert "\x1b[" in omnigraph(*arguments, env={"FORCE_COLOR": "1"}).err


def test_a_schema_is_drafted_from_files(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "person.csv").write_text("name,age,Bad Name\nada,3,\n")
    shown = cli("schema", "infer", "person.csv")
    assert shown.code == 0
    assert "  name: String @key\n  age: I64\n" in shown.out
    assert shown.err.splitlines() == [
        "note: Person: bad_name is always missing; its type is a guess",
        "note: some columns or types have other names here; --map FILE says how to load them",
    ]
    made = cli("schema", "infer", "person.csv", "--output", "p.pg")
    assert made.out == "drafted p.pg: 1 nodes, 0 edges\n"
    assert (tmp_path / "p.pg").read_text() == shown.out
    assert cli("schema", "check", "--schema", "p.pg").code == 0
    assert cli("schema", "infer", "person.csv", "--output", "p.pg").code == 1
    facts = json.loads(cli("schema", "infer", "person.csv", "--json").out)
    assert (facts["nodes"], facts["rows"], facts["output"]) == (["Person"], 1, None)

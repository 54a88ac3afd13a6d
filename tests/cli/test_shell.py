"""The shell: where statements end, what completes them, and whole sessions."""

import io
import re

import pytest

from omnigraph.cli.shell.complete import complete
from omnigraph.cli.shell.loop import forgiving
from omnigraph.cli.shell.session import COMMANDS, HELP
from omnigraph.cli.shell.statement import is_complete, parse_statement
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError
from tests.cli.conftest import SCHEMA

CATALOG = load_schema(Source(SCHEMA)).catalog


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("\n", True),
        ("// just a comment\n", True),
        ("\\help", True),
        ("exit", True),
        ("help;", True),
        ("exits", False),
        ("\\branch main", True),
        ("match { $p: Person", False),
        ("match { $p: Person } return { $p.name }", False),
        ("match { $p: Person } return { $p.name };", True),
        ("match { $p: Person }\nreturn { $p.name }\n", False),
        ("match { $p: Person }\nreturn { $p.name }\n\n", True),
        ("match {\n\n", False),
        ('insert Person { name: "a;', False),
        ('insert Person { name: "};" }', False),
        ('insert Person { name: "};" };', True),
        ("query q() {", False),
        ("query q() {\n  match { $p: Person }\n  return { $p.name }\n}", True),
        ("query q() { /* }", False),
        ("}", True),
        ("\\explain match { $p: Person }", False),
        ("\\explain match { $p: Person } return { $p.name };", True),
        ("\\profile query q() { match { $p: Person } return { $p.name } }", True),
    ],
)
def test_a_statement_ends_where_it_should(text, whole):
    assert is_complete(text) is whole


def test_a_body_gets_a_declaration_with_the_parameters_it_mentions():
    text = "match { $p: Person { name: $who } $p.age > $min } return { $p.name };"
    statement = parse_statement(text, {"who": "Ann", "min": 3, "other": True})
    assert statement.text.startswith("query inline($who: String, $min: I64) {\nmatch ")
    assert statement.written.text == text.removesuffix(";")
    assert parse_statement("query q() { }", {}).written is None


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("match { $p: Pe", ["Person"]),
        ("match { $p: ", ["Person", "Knows"]),
        ("insert ", ["Person", "Knows"]),
        ("match { $p: Person $p.", ["name", "age", "bio"]),
        ("match { $p: Person $p.a", ["age"]),
        ("match { $p: Person $p $k:knows $q $k.", ["since", "from", "to"]),
        ("match { $x.n", ["name"]),
        ("match { $p: Person { ", ["name", "age", "bio"]),
        ('match { $p: Person { name: "x", b', ["bio"]),
        ("insert Person { a", ["age"]),
        ("insert Knows { f", ["from"]),
        ("update Person set { bio: null } where n", ["name"]),
        ("match { $p: Person $p kn", ["knows"]),
        ("match { $p: Person $p ", ["knows"]),
        ("match { $person: Person $pe", ["person"]),
        ("ret", ["return"]),
        ("", []),
        ("\\ex", ["explain"]),
        ("\\d Per", ["Person"]),
        ("\\branch re", ["review"]),
        ("\\", list(COMMANDS)),
    ],
)
def test_what_fits_is_offered(before, expected):
    assert [one.text for one in complete(before, CATALOG, COMMANDS, ["main", "review"])] == expected


def test_every_command_is_explained():
    assert all(f"\\{command}" in HELP for command in COMMANDS)


@pytest.fixture
def piped(cli, people, monkeypatch):
    def run(text, *arguments):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return cli("shell", *arguments)

    return run


def test_a_pipe_runs_statement_by_statement(piped):
    ran = piped(
        "\\format csv\n"
        "match { $p: Person } return { $p.name }\norder { $p.name desc } limit 1\n"
        "\n"
        'insert Person { name: "Dan" };\n'
        "query q($min: I32) {\n  match { $p: Person $p.age >= $min }\n  return { $p.name }\n}\n"
    )
    assert ran.code == 1
    assert ran.out == "p.name\nCé\nchanged main via inline: 1 nodes, 0 edges\n"
    assert "(1 rows, " in ran.err
    assert "(commit 01" in ran.err
    assert "parameter 'min' not provided" in ran.err


def test_parameters_are_set_shown_and_forgotten(piped):
    query = "query q($min: I32) { match { $p: Person $p.age >= $min } return { $p.name } }\n"
    ran = piped("\\format csv\n\\set min 40\n" + query + "\\set who Ann\n\\unset min\n\\set\n")
    assert ran.code == 0, ran.err
    assert ran.out == "$min = 40\np.name\nAnn\n$min = 40\n$who = 'Ann'\n$who = 'Ann'\n"


def test_branches_are_switched(piped, cli):
    cli("branch", "create", "dev")
    ran = piped(
        '\\branch\n\\branch dev\ninsert Person { name: "Dev" };\n\\branch nope\n', "--as", "me"
    )
    assert ran.out == "branch: main\nbranch: dev\nchanged dev via inline: 1 nodes, 0 edges\n"
    assert "branch 'nope' not found" in ran.err
    assert "actor=me" in cli("commit", "list", "-b", "dev").out
    assert "rows=3" in cli("snapshot").out


def test_plans_profiles_and_the_schema_are_shown(piped):
    body = "match { $p: Person } return { $p.name };\n"
    ran = piped(f"\\explain {body}\\profile {body}\\schema\n\\help\n\\quit\nnonsense\n")
    assert ran.code == 0, ran.err
    assert "read inline()\n  scan p: Person  | " in ran.out
    assert re.search(r"^ *3 .*\d  scan p: Person", ran.out, re.MULTILINE)
    assert "3 rows in " in ran.out
    assert SCHEMA in ran.out
    assert HELP in ran.out


def test_a_plan_follows_the_branch_one_is_on(piped, cli):
    cli("branch", "create", "dev")
    people = " ".join(f'insert Person {{ name: "p{number}" }}' for number in range(60))
    cli("change", "-e", f"query m() {{ {people} }}", "-b", "dev")
    body = "match { $p: Person } return { $p.name };\n"
    ran = piped(f"\\explain {body}\\branch dev\n\\explain {body}")
    there, here = re.findall(r"scan p: Person .*about (\d+) rows", ran.out)
    assert int(there) < 10 < 60 <= int(here)


def test_a_mistake_is_shown_where_it_was_typed_and_ends_the_run(piped):
    ran = piped('match {\n  $p: Persn\n}\nreturn { $p.name }\n\ninsert Person { name: "Never" };\n')
    assert ran.code == 1
    assert " --> <shell>:2:7\n" in ran.err
    assert "2 |   $p: Persn\n" in ran.err
    assert "did you mean `Person`?" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\\hlep\n", "did you mean `help`?"),
        ("\\format xml\n", "there is no format 'xml'"),
        ("\\set min\n", "lacks a value"),
        ("match { $p: Person\n", "never closed"),
        ('insert Person { name: "x"\n', "never closed"),
        ("nonsense;\n", "unexpected"),
        ("}\n", "unexpected"),
    ],
)
def test_wrong_input_is_told(piped, text, told):
    ran = piped(text)
    assert ran.code == 1
    assert told in ran.err


def test_a_read_only_shell_refuses_mutations(piped, cli):
    ran = piped('insert Person { name: "Dan" };\n', "--read-only")
    assert ran.code == 1
    assert "reading only" in ran.err


def test_rows_come_as_json_when_asked(piped):
    ran = piped('match { $p: Person { name: "Bob" } } return { $p.age };\n', "--json")
    assert '"rows": [\n    {\n      "p.age": 17\n    }\n  ]' in ran.out


def test_a_person_types_several_lines_and_completes_words(terminal, people):
    history = people / "history" / "file"
    ran = terminal(
        "shell",
        "people.omni",
        env={"OMNIGRAPH_HISTORY": str(history), "NO_COLOR": "1"},
        typed=(
            ("people:main>", "match { $p: Per\t"),
            ("son", " }\rreturn { $p.name };\r"),
            ("\\(3 rows.*people:main>", "match { $p: Persn } return { $p.name };\r"),
            ("did you mean.*people:main>", "\\branch\r"),
            ("branch: main.*people:main>", "\x04"),
        ),
    )
    assert ran.code == 0, ran.out
    assert "3 rows from branch main via inline" in ran.out
    assert "did you mean `Person`?" in ran.out
    assert "branch: main" in ran.out
    assert "match { $p: Person" in history.read_text()


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        pytest.param(BadRequestError("no such thing"), "error: no such thing\n", id="a mistake"),
        pytest.param(KeyboardInterrupt(), "interrupted\n", id="an interrupt"),
        pytest.param(
            ZeroDivisionError("oops"), "unexpected ZeroDivisionError: oops", id="a defect"
        ),
    ],
)
def test_nothing_that_goes_wrong_ends_a_persons_shell(capsys, error, shown):
    def run(_):
        raise error

    forgiving(run, "match …")
    assert shown in capsys.readouterr().err


def test_words_of_other_shells_mean_what_they_mean_there(piped):
    ran = piped("help\nexit\nnonsense\n")
    assert (ran.code, ran.out) == (0, HELP + "\n")


def test_a_type_is_described(piped):
    ran = piped("\\d\n\\d Person\n\\d knows\n")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "node Person",
        "edge Knows: Person -> Person",
        "node Person",
        "  name: String @key",
        "  age: I32?",
        "  bio: String?",
        "  edge Knows: Person -> Person",
        "edge Knows: Person -> Person",
        "  since: Date",
    ]
    assert "Nope" in piped("\\d Nope\n").err

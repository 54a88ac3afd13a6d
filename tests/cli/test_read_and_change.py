"""`read` and `change`: which query, which parameters, which graph, which branch."""

import json

import pytest

from tests.cli.conftest import CONFIG, QUERIES

ALIASES = """\
aliases:
  older:
    command: read
    query: people.gq
    name: adults
    args: [min]
    format: kv
    params: {min: 18}
  who:
    command: read
    query: people.gq
    name: person
    args: [name]
    format: csv
  add:
    command: change
    query: people.gq
    name: add
    args: [name, age]
  on-dev:
    command: read
    query: people.gq
    name: adults
    branch: dev
    args: [min]
  elsewhere:
    command: read
    query: people.gq
    name: person
    args: [name]
    graph: local
"""


@pytest.fixture
def aliases(people):
    (people / "omnigraph.yaml").write_text(CONFIG + ALIASES)
    return people


def rows(ran):
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["rows"]


ADULTS = ("-q", "people.gq", "-n", "adults")


def test_a_read_finds_its_graph_in_every_way(cli, people):
    ways = [
        ("read", "people.omni", *ADULTS, "-p", "min=40", "--json"),
        ("read", *ADULTS, "-p", "min=40", "--json", "people.omni"),
        ("read", *ADULTS, "-p", "min=40", "--json", "--uri", "people.omni"),
        ("read", *ADULTS, "-p", "min=40", "--json", "--target", "local"),
        ("read", *ADULTS, "-p", "min=40", "--json"),
        ("read", *ADULTS, "-p", "min=40", "--json", "--config", "omnigraph.yaml"),
        ("--config", "omnigraph.yaml", "read", *ADULTS, "-p", "min=40", "--json"),
        ("--uri", "people.omni", "read", *ADULTS, "-p", "min=40", "--json"),
        ("--target", "local", "read", *ADULTS, "-p", "min=40", "--json"),
        ("read", *ADULTS, "-p", "min=40", "--json", f"file://{people}/people.omni"),
    ]
    for arguments in ways:
        assert rows(cli(*arguments)) == [{"p.age": 41, "p.name": "Ann"}], arguments


def test_the_json_of_a_read_has_the_stable_shape(cli, people):
    told = json.loads(cli("read", *ADULTS, "-p", "min=40", "--json").out)
    assert told == {
        "query_name": "adults",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.age", "p.name"],
        "rows": [{"p.age": 41, "p.name": "Ann"}],
    }


def test_queries_come_from_files_text_and_stdin(cli, people, monkeypatch):
    import io

    inline = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
    assert rows(cli("read", "-e", inline, "-p", "n=Bob", "--json")) == [{"p.age": 17}]

    class Stdin:
        buffer = io.BytesIO(inline.encode())

    monkeypatch.setattr("sys.stdin", Stdin())
    assert rows(cli("read", "-q", "-", "-p", "n=Bob", "--json")) == [{"p.age": 17}]


def test_parameters_come_as_json_from_a_file_and_one_by_one(cli, people):
    (people / "params.json").write_text('{"min": 40}')
    for given in (
        ("--params", '{"min": 40}'),
        ("--params-file", "params.json"),
        ("--param", "min=40"),
        ("-p", "$min=40"),
        ("--params", '{"min": 1}', "-p", "min=40"),
    ):
        assert len(rows(cli("read", *ADULTS, *given, "--json"))) == 1, given


def test_words_for_text_parameters_stay_text(cli, people):
    ran = cli("change", "-q", "people.gq", "-n", "add", "-p", "name=29", "-p", "age=29")
    assert ran.code == 0, ran.err
    person = ("read", "-q", "people.gq", "-n", "person", "--json")
    assert rows(cli(*person, "-p", "name=29"))[0]["p.age"] == 29
    assert rows(cli(*person, "-p", 'name="29"'))[0]["p.age"] == 29
    null = cli(*person, "-p", "name=null")
    assert null.code == 1
    assert "null is not accepted" in null.err


def test_the_past_is_read_by_commit(cli, people):
    commits = json.loads(cli("commit", "list", "--reverse", "--json").out)["commits"]
    past = commits[1]["graph_commit_id"]
    told = json.loads(cli("read", *ADULTS, "-p", "min=0", "--snapshot", past, "--json").out)
    assert told["target"] == {"branch": None, "snapshot": past}
    assert told["row_count"] == 1
    table = cli("read", *ADULTS, "-p", "min=0", "--snapshot", past)
    assert table.out.startswith(f"1 rows from snapshot {past} via adults\n")


def test_a_change_is_one_commit_with_an_actor_and_shows_what_it_did(cli, people):
    ran = cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "--as", "act-dan")
    assert ran.out == "changed main via add: 1 nodes, 0 edges\nactor_id: act-dan\n"
    told = json.loads(cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Eve", "--json").out)
    assert told.pop("commit_id")
    assert told == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
        "replayed": False,
    }
    commits = json.loads(cli("commit", "list", "--reverse", "--json").out)["commits"]
    assert [commit["actor_id"] for commit in commits[-2:]] == ["act-dan", None]


def test_the_environment_may_name_the_actor(cli, people, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "act-env")
    assert (
        "actor_id: act-env" in cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan").out
    )
    assert (
        "actor_id: act-flag"
        in cli("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "--as", "act-flag").out
    )


def test_a_repeated_request_under_a_key_writes_once(cli, people):
    again = ("change", "-q", "people.gq", "-n", "meet", "-p", "a=Ann", "-p", "b=Bob")
    again = (*again, "-p", "on=2021-01-01", "--idempotency-key", "k1", "--json")
    first, second = json.loads(cli(*again).out), json.loads(cli(*again).out)
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["commit_id"] == second["commit_id"]
    assert "edge:Knows v3 branch=main rows=2" in cli("snapshot").out


def test_a_write_may_insist_on_the_commit_it_saw(cli, people):
    head = json.loads(cli("commit", "list", "--reverse", "--json").out)["commits"][-1][
        "graph_commit_id"
    ]
    write = ("change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "--if-commit")
    assert cli(*write, head).code == 0
    late = cli(*write, head)
    assert late.code == 1
    assert f"not at {head}" in late.err


def test_several_broken_rules_are_all_shown_and_nothing_is_written(cli, people):
    text = (
        "query q() {\n"
        '  insert Knows { from: "Zoe", to: "Ann", since: date("2020-01-01") }\n'
        '  insert Knows { from: "Ann", to: "Yan", since: date("2020-01-01") }\n'
        "}\n"
    )
    ran = cli("change", "-e", text)
    assert ran.code == 1
    assert ran.err.startswith("error: 2 rules of the schema are broken; nothing was written\n")
    assert "  - statement 1: Knows: src 'Zoe' not found in Person\n" in ran.err
    assert "  - statement 2: Knows: dst 'Yan' not found in Person\n" in ran.err
    assert "rows=1" in cli("snapshot").out


def test_the_first_hundred_broken_rules_are_shown_and_the_others_counted(cli, people):
    edges = 'insert Knows { from: "Zoe", to: "Ann", since: date("2020-01-01") }\n' * 120
    ran = cli("change", "-e", f"query m() {{ {edges} }}")
    lines = ran.err.splitlines()
    assert lines[0] == "error: 120 rules of the schema are broken; nothing was written"
    assert lines[100] == "  - statement 100: Knows: src 'Zoe' not found in Person"
    assert lines[101:] == ["  … and 20 more"]


def test_an_alias_brings_query_name_arguments_format_and_defaults(cli, aliases):
    assert cli("read", "--alias", "older", "40").out == (
        "1 rows from branch main via adults\nrow 1\np.age: 41\np.name: Ann\n"
    )
    assert "row 2" in cli("read", "--alias", "older").out  # min: 18 of the alias
    assert cli("read", "-a", "older", "40", "--format", "csv").out == "p.age,p.name\n41,Ann\n"
    overridden = cli("read", "-a", "older", "40", "--params", '{"min": 1}', "--json")
    assert len(rows(overridden)) == 3
    assert cli("read", "-a", "who", "Bob").out == "p.name,p.age,p.bio\nBob,17,null\n"


def test_a_change_alias_parses_numbers(cli, aliases):
    assert cli("change", "--alias", "add", "Eve", "29").code == 0
    assert "Eve,29,null" in cli("read", "-a", "who", "Eve").out


def test_an_alias_with_a_known_graph_takes_addresses_as_data(cli, aliases):
    cli("change", "-a", "add", "https://example.com")
    assert "https://example.com" in cli("read", "-a", "elsewhere", "https://example.com").out
    assert "https://example.com" in cli("read", "-a", "who", "https://example.com").out


def test_an_alias_without_a_graph_takes_the_address_first(cli, aliases):
    config = (aliases / "omnigraph.yaml").read_text()
    (aliases / "omnigraph.yaml").write_text(config.replace("  graph: local\nstorage", "storage"))
    assert cli("read", "-a", "who", "people.omni", "Bob").out.endswith("Bob,17,null\n")
    nowhere = cli("read", "-a", "who", "Bob")
    assert nowhere.code == 1
    assert "URI must be provided via <URI>, --target, or config" in nowhere.err


def test_the_branch_is_taken_from_flag_alias_settings_main(cli, aliases):
    cli("branch", "create", "dev")
    cli("change", "-a", "add", "Dev", "99", "--branch", "dev")
    assert "Dev" in cli("read", "-a", "on-dev", "90").out
    assert "Dev" not in cli("read", "-a", "on-dev", "90", "--branch", "main").out
    assert "Dev" not in cli("read", "-a", "older", "90").out
    config = (aliases / "omnigraph.yaml").read_text()
    (aliases / "omnigraph.yaml").write_text(
        config.replace("  graph: local\nstorage", "  graph: local\n  branch: dev\nstorage")
    )
    assert "Dev" in cli("read", "-a", "older", "90").out
    assert "branch: dev" in cli("snapshot").out
    assert cli("branch", "create", "x").out == "created branch x from dev\n"


def test_the_output_format_of_the_settings_is_the_default(cli, people):
    text = CONFIG.replace("  graph: local\n", "  graph: local\n  output_format: csv\n")
    (people / "omnigraph.yaml").write_text(text)
    assert cli("read", *ADULTS, "-p", "min=40").out == "p.age,p.name\n41,Ann\n"
    text = CONFIG.replace("  graph: local\n", "  graph: local\n  table_max_column_width: 8\n")
    (people / "omnigraph.yaml").write_text(text)
    shown = cli("read", "-q", "people.gq", "-n", "person", "-p", "name=Ann").out
    assert 'likes "…' in shown
    wrapped = text.replace("width: 8\n", "width: 8\n  table_cell_layout: wrap\n")
    (people / "omnigraph.yaml").write_text(wrapped)
    shown = cli("read", "-q", "people.gq", "-n", "person", "-p", "name=Ann").out
    assert "rain" in shown.replace(" ", "").replace("\n", "")


def test_a_query_file_belongs_to_the_settings_not_to_the_current_folder(cli, people, tmp_path):
    other = people / "other"
    other.mkdir()
    (other / "omnigraph.yaml").write_text(
        CONFIG.replace("people.omni", f"{people}/people.omni") + "query: {roots: [deep]}\n"
    )
    (other / "people.gq").write_text(QUERIES.replace("query adults", "query theirs"))
    (other / "deep").mkdir()
    (other / "deep" / "rooted.gq").write_text(QUERIES)
    ran = cli("read", "--config", "other/omnigraph.yaml", *ADULTS, "-p", "min=0")
    assert ran.code == 1
    assert "query 'adults' not found" in ran.err
    rooted = ("-q", "rooted.gq", "-n", "adults", "-p", "min=40", "--json")
    assert len(rows(cli("read", "--config", "other/omnigraph.yaml", *rooted))) == 1


def test_unknown_settings_are_warned_about_and_the_command_still_runs(cli, people):
    (people / "omnigraph.yaml").write_text(CONFIG + "targets:\n  x: {uri: y}\n")
    ran = cli("read", *ADULTS, "-p", "min=40", "-f", "csv")
    assert (ran.code, ran.out) == (0, "p.age,p.name\n41,Ann\n")
    assert "`targets` is not a setting and is ignored" in ran.err
    assert "write `graphs`" in ran.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["read"], "exactly one of --alias or --query must be provided"),
        (["read", "-q", "people.gq", "-a", "x"], "exactly one of --alias or --query"),
        (["change"], "exactly one of --alias or --query must be provided"),
        (["read", *ADULTS, "--params", "{}", "--params-file", "x"], "exclude each other"),
        (["read", *ADULTS, "-b", "main", "--snapshot", "x"], "exclude each other"),
        (["profile", *ADULTS, "-b", "main", "--snapshot", "x"], "exclude each other"),
        (["read", *ADULTS, "--json", "--format", "csv"], "exclude each other"),
        (["shell", "--json", "--format", "csv"], "exclude each other"),
        (["explain"], "exactly one of --query or --query-string"),
        (["read", *ADULTS, "-p", "min"], "is not NAME=VALUE"),
        (["read", *ADULTS, "one", "two"], "at most one URI"),
        (["read", *ADULTS, "one", "--uri", "two"], "two addresses are given"),
        (["snapshot", "one", "--uri", "two"], "two addresses are given"),
        (["branch", "create", "a", "b", "c"], "at most one URI, got 3 words"),
        (["branch", "create", "a", "b", "--uri", "c"], "two addresses are given"),
        (["read", "-a", "who", "Bob", "more"], "expects at most 1 args but got 2"),
    ],
)
def test_flags_that_contradict_each_other_are_usage_errors(cli, aliases, arguments, told):
    ran = cli(*arguments)
    assert ran.code == 2
    assert told in ran.err
    assert ("--json" in arguments) is bool(ran.out)


def test_a_parameter_that_the_query_does_not_have_is_told(cli, people):
    given = ("--query", "people.gq", "--name", "add", "-p", "name=Zoe", "-p", "city=Oslo")
    ran = cli("change", *given)
    assert ran.code == 0
    assert "warning: query 'add' has no parameter $city; it has $name, $age, $bio" in ran.err
    wrong = cli("change", *given, "-p", "aeg=7")
    assert wrong.code == 1
    assert "did you mean `age`?" in wrong.err
    alias = "aliases:\n  who: {command: read, query: people.gq, name: adults, args: [min, city]}\n"
    (people / "omnigraph.yaml").write_text(CONFIG + alias)
    ran = cli("read", "--alias", "who", "18", "Oslo")
    assert "warning: query 'adults' has no parameter $city; it has $min" in ran.err

"""Every command says the same of a graph on disk and of the same graph on a server."""

import io
import json
import re
import shutil

import pytest
import typer.main

from omnigraph.cli.tree import app
from tests.support.servers import server_thread

READ = ["read", "-q", "people.gq", "-n", "adults", "-p", "min=1"]
FORMATS = [[*READ, "--format", one] for one in ("table", "kv", "csv", "jsonl", "json")]
READS = [
    *FORMATS,
    [*READ, "--json"],
    ["read", "-e", "match { $p: Person } return { $p.bio }"],
    ["read", "-q", "people.gq", "-n", "person", "-p", "name=nobody"],
    ["read", "-q", "people.gq", "-n", "kids"],
    ["read", "-e", "query q() { match { $p: Persn } return { $p.name } }"],
    ["read", "-e", "query q($n: I32) { match { $p: Person $p.age > $n } return { $p.name } }"],
    ["read", "-e", "match { $p: Person } return { $p.name }", "-b", "nope"],
    ["read", "-e", "match { $p: Person } return { $p.name }", "--max-rows", "1"],
    ["read", "-e", "match { $p: Person } return { $p.name }", "--snapshot", "01HXXXXXXXXXX"],
    [
        "change",
        "-q",
        "people.gq",
        "-n",
        "meet",
        "--params",
        '{"a":"Ann","b":"x","on":"2020-01-01"}',
    ],
    ["export"],
    ["export", "--type", "Person"],
    ["export", "--type", "Nope"],
    ["snapshot"],
    ["snapshot", "--json"],
    ["snapshot", "--branch", "nope"],
    ["branch", "list"],
    ["branch", "list", "--json"],
    ["commit", "list"],
    ["commit", "list", "--json"],
    ["commit", "list", "--graph", "--branch", "side"],
    ["commit", "list", "--reverse", "--limit", "2"],
    ["commit", "show", "first"],
    ["commit", "show", "01HXXXXXXXXXX"],
    ["tag", "list"],
    ["tag", "list", "--json"],
    ["run", "list"],
    ["run", "list", "--json"],
    ["run", "show", "01HXXXXXXXXXX"],
    ["diff", "main", "side"],
    ["diff", "main...side", "--json"],
    ["diff", "main", "side", "--stat"],
    ["diff", "main", "side", "--format", "csv"],
    ["diff", "main", "side", "--format", "jsonl", "--images", "both"],
    ["diff", "main", "nowhere"],
    ["changes", "--branch", "side"],
    ["history", "node:Person", "Ann", "--branch", "side"],
    ["history", "node:Person", "Ann", "--json"],
    ["blame", "node:Person", "Ann"],
    ["blame", "node:Person", "nobody"],
    ["schema", "get"],
    ["schema", "show"],
    ["schema", "get", "--json"],
    ["schema", "diff", "main", "taller.pg"],
    ["schema", "history"],
    ["schema", "history", "--json"],
    ["diff", "main", "side", "--format", "table"],
    ["diff", "main", "side", "--type", "Person", "--op", "insert", "--json"],
    ["changes", "--branch", "side", "--type", "Person"],
    ["history", "node:Person", "nobody"],
    ["blame", "node:Person", "Ann", "--json"],
    ["commit", "list", "--graph"],
    ["commit", "show", "first", "--json"],
    ["run", "show", "01HXXXXXXXXXX", "--json"],
    ["du"],
    ["du", "--json"],
    ["index", "list"],
    ["index", "list", "--branch", "side", "--json"],
    ["queries", "list", "--json"],
    ["queries", "show", "nope"],
    ["queries", "run", "nope"],
]
# What writes, and what tells how it is done, which depends on what was done before.
FRESH = [
    ["explain", "-q", "people.gq"],
    ["profile", *READ[1:]],
    ["profile", *READ[1:], "--json"],
    ["change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "-p", "age=5"],
    ["change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "-m", "why", "--json"],
    ["change", "-q", "people.gq", "-n", "adults", "-p", "min=1"],
    ["change", "-q", "people.gq", "-n", "add", "-p", "name=Dan", "--if-commit", "01HXXXXXXXXX"],
    ["load", "--data", "more.jsonl", "--mode", "merge"],
    ["load", "--data", "more.jsonl", "--mode", "merge", "--json"],
    ["load", "--data", "bad.jsonl", "--mode", "merge"],
    ["load", "--data", "bad.jsonl", "--mode", "merge", "--skip-bad-rows"],
    ["load", "--type", "Person=Person.csv", "--mode", "append"],
    ["load", "--data", "nowhere.jsonl"],
    ["ingest", "--data", "more.jsonl", "--branch", "fresh"],
    ["ingest", "--data", "more.jsonl", "--branch", "fresh", "--json"],
    ["branch", "create", "dev"],
    ["branch", "create", "dev", "--json"],
    ["branch", "create", "main"],
    ["branch", "create", "../x"],
    ["branch", "delete", "side"],
    ["branch", "delete", "side", "--json"],
    ["branch", "delete", "nope"],
    ["branch", "merge", "side"],
    ["branch", "merge", "side", "--json"],
    ["branch", "merge", "side", "--preview"],
    ["branch", "merge", "side", "--strategy", "theirs", "--delete-branch"],
    ["branch", "merge", "main"],
    ["branch", "reset", "side", "--to", "first", "--preview"],
    ["tag", "create", "v1", "-m", "as shipped"],
    ["tag", "create", "first"],
    ["tag", "delete", "first"],
    ["revert", "first"],
    ["cherry-pick", "first", "--branch", "side", "--json"],
    ["schema", "apply", "--schema", "taller.pg"],
    ["schema", "apply", "--schema", "taller.pg", "--json", "--preview"],
    ["schema", "apply", "--schema", "taller.pg", "--only-main"],
    ["schema", "apply", "--schema", "worse.pg"],
    ["optimize"],
    ["optimize", "--json"],
    ["optimize", "--branch", "side", "--preview", "--max-seconds", "60", "--json"],
    ["optimize", "--table", "node:Nope"],
    ["cleanup", "--keep", "1", "--older-than", "7d", "--json"],
    ["cleanup", "--older-than", "0", "--confirm"],
    ["cleanup"],
    ["run", "publish", "01HXXXXXXXXXX"],
    ["run", "abort", "01HXXXXXXXXXX"],
    ["index", "build"],
    ["index", "build", "--branch", "side", "--json"],
]
REFUSED = [
    ["init", "--schema", "people.pg"],
    ["schema", "plan", "--schema", "people.pg"],
    ["query", "lint", "-q", "people.gq"],
    ["queries", "check"],
    ["verify"],
    ["relocate"],
    ["clone", "copy.omni"],
    ["repair"],
    ["lock", "show"],
    ["lock", "break", "branch:main"],
    ["algorithm", "degrees"],
    ["algorithm", "connected-components"],
    ["algorithm", "pagerank"],
    ["algorithm", "shortest-path", "--from", "Person", "Ann", "--to", "Person", "Cé"],
    ["cache", "list"],
    ["cache", "build"],
    ["cache", "purge"],
    ["embed", "--graph"],
    ["serve"],
]
NOT_OF_A_GRAPH = {
    ("fmt",), ("version",), ("schema", "check"), ("schema", "infer"), ("query", "check"),
    ("policy", "validate"), ("policy", "test"), ("policy", "explain"), ("local", "start"),
    ("local", "stop"), ("local", "status"),
}  # fmt: skip
ELSEWHERE = {("shell",), ("doctor",), ("mcp",)}
"""Told by tests of their own: one is typed into, one is about the machine, one is for agents."""
VOLATILE = (
    (re.compile(r"\b01[0-9A-Z]{24}\b"), "<id>"),
    (re.compile(r'"created_at": ?\d+'), '"created_at": 0'),
    (
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]*|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?"),
        "<time>",
    ),
    (
        re.compile(r'"(ms|compile_ms|total_ms|plan|read|check|embed|write|commit)": \d[\d.e-]*'),
        r'"\1": 0',
    ),
    (re.compile(r" +\d+\.\d{3}\b"), " 0.000"),
    (re.compile(r'"cursor":"[^"]*"'), '"cursor":""'),
    (re.compile(r'"schema_hash": "[^"]*"'), '"schema_hash": ""'),
    (re.compile(r'"engine_reason": "[^"]*"'), '"engine_reason": ""'),
)


@pytest.fixture(scope="session")
def to_read(template, tmp_path_factory):
    return parity_folder(template, tmp_path_factory.mktemp("reads"))


@pytest.fixture(scope="session")
def to_write(template, tmp_path_factory):
    return parity_folder(template, tmp_path_factory.mktemp("writes"))


def parity_folder(template, folder):
    """Make a graph that has a branch and a tag, and a copy of it to begin from again."""
    import omnigraph
    from tests.cli.conftest import QUERIES, SCHEMA
    from tests.support.fast import FAST

    shutil.copytree(template, folder, dirs_exist_ok=True)
    with omnigraph.connect(folder / "people.omni", options=FAST) as graph:
        graph.tags.create("first")
        graph.branches.create("side")
        graph.mutate(QUERIES, "add", {"name": "Eve", "age": 9}, branch="side")
        age = 'query q() { update Person set { age: 1 } where name = "Ann" }'
        graph.mutate(age, branch="side")
        graph.mutate(age.replace("1", "2"))
    (folder / "more.jsonl").write_text('{"type":"Person","data":{"name":"Fay","age":3}}\n')
    bad = '{"type":"Person","data":{"name":"Gil"}}\n{"type":"Person","data":{"age":1}}\n'
    (folder / "bad.jsonl").write_text(bad)
    (folder / "Person.csv").write_text("name,age\nHal,7\n")
    (folder / "taller.pg").write_text(SCHEMA.replace("age: I32?", "age: I32?\n  height: F32?"))
    (folder / "worse.pg").write_text(SCHEMA.replace("age: I32?", "age: String?"))
    (folder / "omnigraph.yaml").unlink()
    shutil.copytree(folder / "people.omni", folder / "people.backup")
    return folder


@pytest.fixture(scope="session")
def only_read(to_read):
    """A server of the graph for commands that change nothing."""
    with server_thread(str(to_read / "people.omni")) as address:
        yield address


@pytest.fixture
def both(to_write, cli, monkeypatch):
    """Run a command on a graph here and then on a server, each time as it was at first."""
    monkeypatch.chdir(to_write)

    def run(*arguments):
        restore(to_write)
        local = plain(cli(*arguments, "--uri", "people.omni"), "people.omni", to_write)
        restore(to_write)
        with server_thread(str(to_write / "people.omni")) as address:
            return local, plain(cli(*arguments, "--uri", address), address, to_write)

    return run


def restore(folder):
    """Put the graph back; a graph with branches only lives where it was made."""
    shutil.rmtree(folder / "people.omni")
    shutil.copytree(folder / "people.backup", folder / "people.omni")


def plain(ran, address, folder):
    """What a command said, without what differs from run to run."""
    found = []
    for text in (ran.out, ran.err):
        said = text.replace(address, "<graph>").replace(str(folder) + "/", "")
        for pattern, stead in VOLATILE:
            said = pattern.sub(stead, said)
        found.append(said)
    return ran.code, *found


def leaves(command, words=()):
    """Yield every command of a tree."""
    below = getattr(command, "commands", None)
    if below is None:
        yield words
        return
    for name, one in below.items():
        yield from leaves(one, (*words, name))


def test_every_command_is_asked_of_a_server_or_needs_none():
    asked = {tuple(one[:size]) for one in (*READS, *FRESH, *REFUSED) for size in (1, 2)}
    known = set(leaves(typer.main.get_command(app)))
    assert known - asked == ELSEWHERE | NOT_OF_A_GRAPH


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_a_command_reads_the_same_here_and_there(to_read, only_read, cli, monkeypatch, arguments):
    monkeypatch.chdir(to_read)
    local = plain(cli(*arguments, "--uri", "people.omni"), "people.omni", to_read)
    remote = plain(cli(*arguments, "--uri", only_read), only_read, to_read)
    assert remote == local
    assert local[1] or local[2] or arguments == ["run", "list"]


@pytest.mark.parametrize("arguments", FRESH, ids=" ".join)
def test_a_command_does_the_same_here_and_there(both, arguments):
    local, remote = both(*arguments)
    assert remote == local
    assert local[1] or local[2]


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_what_a_server_is_not_asked_is_refused_clearly(cli, people, arguments):
    address = ["https://graph.example/"] if arguments[-1] == "--graph" else []
    uri = [] if address or arguments[0] == "init" else ["--uri", "https://graph.example/"]
    if arguments[0] == "init":
        address = ["https://graph.example/"]
    ran = cli(*arguments, *address, *uri)
    assert ran.code == 1, ran.out + ran.err
    assert "is only supported against local repo URIs in this milestone" in ran.err
    assert "run it where the graph is" in ran.err


def test_an_export_may_go_to_a_file_but_not_to_parquet(cli, people, address):
    assert cli("export", "--uri", address, "-o", "out.jsonl.gz").code == 0
    assert (people / "out.jsonl.gz").stat().st_size > 0
    ran = cli("export", "--uri", address, "--format", "parquet", "-o", "out")
    assert "a server does not export parquet" in ran.err


def test_who_writes_is_not_said_to_a_server(cli, people, address, monkeypatch):
    query = ["-q", "people.gq", "-n", "add", "-p", "name=Dan"]
    ran = cli("change", *query, "--uri", address, "--as", "me")
    assert (ran.code, "the token says who writes" in ran.err) == (1, True)
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "me")
    assert "actor_id" not in cli("change", *query, "--uri", address).out


@pytest.fixture
def address(people):
    with server_thread(str(people / "people.omni")) as found:
        yield found


@pytest.fixture
def guarded(people, monkeypatch):
    """A server that only knows the token `sesame`."""
    monkeypatch.setenv("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON", '{"act-ann": "sesame"}')
    with server_thread(str(people / "people.omni")) as found:
        monkeypatch.delenv("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON")
        yield found


def settings(people, address, *more):
    lines = [
        "graphs:",
        "  shared:",
        f"    uri: {address}",
        "    bearer_token_env: TEAM_TOKEN",
        *more,
    ]
    (people / "omnigraph.yaml").write_text("\n".join(lines) + "\n")


def test_the_token_of_a_named_graph_is_sent_to_it(cli, people, guarded, monkeypatch):
    settings(people, guarded)
    assert "missing bearer token" in cli("branch", "list", "-t", "shared").err
    monkeypatch.setenv("TEAM_TOKEN", "  sesame ")
    assert cli("branch", "list", "-t", "shared").out == "main\n"


def test_the_usual_token_stands_in_and_a_blank_one_is_none(cli, people, guarded, monkeypatch):
    settings(people, guarded)
    monkeypatch.setenv("TEAM_TOKEN", " ")
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "sesame")
    assert cli("branch", "list", "-t", "shared").out == "main\n"
    assert cli("branch", "list", "--uri", guarded).out == "main\n"


def test_the_token_of_a_named_graph_never_goes_elsewhere(cli, people, guarded, monkeypatch):
    settings(people, "http://127.0.0.1:9", "cli:", "  graph: shared")
    monkeypatch.setenv("TEAM_TOKEN", "sesame")
    assert "missing bearer token" in cli("branch", "list", "--uri", guarded).err
    assert "missing bearer token" in cli("branch", "list", "--uri", guarded, "-t", "shared").err


def test_a_token_may_stand_in_the_env_file(cli, people, guarded):
    settings(people, guarded, "auth:", "  env_file: .env.omni")
    (people / ".env.omni").write_text("export TEAM_TOKEN='sesame'\n")
    assert cli("branch", "list", "-t", "shared").out == "main\n"


def test_a_base_with_a_path_is_joined(cli, people, address):
    assert cli("branch", "list", "--uri", f"{address}/graphs/default/").out == "main\n"
    assert cli("branch", "list", "--target", f"{address}/graphs/default").out == "main\n"
    assert (
        "there is no graph of that name"
        in cli("branch", "list", "--uri", f"{address}/graphs/other").err
    )


def test_nobody_at_the_address_is_one_line(cli, people):
    ran = cli("branch", "list", "--uri", "http://127.0.0.1:9")
    assert ran.code == 1
    assert ran.err.startswith("error: http://127.0.0.1:9 does not answer")
    assert "Traceback" not in ran.err


def test_the_shell_works_on_a_server(cli, people, address, monkeypatch):
    import io

    monkeypatch.setattr(
        "sys.stdin", io.StringIO("match { $p: Person } return { count($p) as n };\n")
    )
    ran = cli("shell", "--uri", address, "--json")
    assert '"n": 3' in ran.out, ran.err


def test_a_doctor_looks_at_a_graph_on_a_server(cli, people, address):
    ran = cli("doctor", "--uri", address, "--json")
    (found,) = [one for one in json.loads(ran.out)["checks"] if one["name"] == "graph"]
    assert (found["status"], found["detail"].startswith(f"{address}: ")) == ("ok", True)
    gone = cli("doctor", "--uri", "http://127.0.0.1:9", "--json")
    assert (gone.code, "does not answer" in gone.out) == (1, True)


def test_a_shell_is_typed_into_a_graph_on_a_server(cli, people, address, monkeypatch):
    def typed(uri):
        lines = "match { $p: Person } return { $p.name };\n\\schema\n\\x\n"
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        ran = cli("shell", "--uri", uri)
        return ran.code, *(re.sub(r"\d[\d.]* ms", "", one) for one in (ran.out, ran.err))

    local = typed("people.omni")
    assert "Ann" in local[1]
    assert typed(address) == local

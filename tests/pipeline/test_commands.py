"""The commands `load`, `ingest` and `export`, as a shell sees them."""

import io
import json
import sys

import orjson
import pytest

from omnigraph.cli.app import run
from tests.pipeline.conftest import edge, jsonl, node

SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n\nedge Knows: Person -> Person\n"
DATA = jsonl(node("Person", name="ada"), node("Person", name="bob"), edge("Knows", "ada", "bob"))


@pytest.fixture
def cli(tmp_path, monkeypatch, capfdbinary):
    """Run a command in a folder with a graph `g.omni` and a file `data.jsonl`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.pg").write_text(SCHEMA)
    (tmp_path / "data.jsonl").write_bytes(DATA)
    (tmp_path / "omnigraph.yaml").write_text("storage:\n  durability: os\n")

    def call(*words):
        code = run(words)
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    assert call("init", "--schema", "p.pg", "g.omni")[0] == 0
    return call


def test_load_says_what_it_loaded(cli):
    assert cli("load", "g.omni", "--data", "data.jsonl") == (
        0,
        "loaded g.omni on branch main with overwrite: 2 nodes across 1 node types, "
        "1 edges across 1 edge types\n",
        "",
    )
    code, out, _ = cli("load", "g.omni", "-d", "data.jsonl", "--mode", "merge", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["nodes_loaded"], told["edge_types_loaded"], told["mode"]) == (2, 1, "merge")
    assert (told["engine"], told["files"], told["skipped"]) == ("inline", 1, 0)


def test_tables_are_loaded_by_type(cli, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\nada,36\n")
    (tmp_path / "knows.csv").write_text("from,to\nada,ada\n")
    words = ("--type", "Person=people.csv", "--edge", "Knows=knows.csv")
    assert cli("load", "g.omni", *words)[1].endswith(
        "1 nodes across 1 node types, 1 edges across 1 edge types\n"
    )


def test_ingest_creates_its_branch(cli):
    assert cli("ingest", "g.omni", "--branch", "new", "--data", "data.jsonl", "--as", "tess") == (
        0,
        "ingested g.omni into branch new from main with merge (branch created)\n"
        "edge:Knows rows_loaded=1\nnode:Person rows_loaded=2\nactor_id: tess\n",
        "",
    )


def test_bad_rows_are_listed_and_written_to_a_file(cli, tmp_path):
    (tmp_path / "bad.jsonl").write_bytes(DATA + b'{"type":"Robot"}\n{}\n')
    code, out, err = cli("load", "g.omni", "-d", "bad.jsonl", "--errors", "errors.jsonl")
    assert (code, out) == (1, "")
    assert "bad.jsonl:4: unknown node type 'Robot'" in err
    lines = (tmp_path / "errors.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["place"] for line in lines] == ["bad.jsonl:4", "bad.jsonl:5"]
    code, out, err = cli("load", "g.omni", "-d", "bad.jsonl", "--skip-bad-rows")
    assert (code, out.startswith("loaded g.omni")) == (0, True)
    assert "2 rows were left out" in err


def test_export_writes_what_load_reads(cli, tmp_path, monkeypatch):
    cli("load", "g.omni", "-d", "data.jsonl")
    code, out, err = cli("export", "g.omni")
    assert (code, err) == (0, "")
    assert [json.loads(line).get("type", "edge") for line in out.splitlines()] == [
        "edge",
        "Person",
        "Person",
    ]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert cli("load", "g.omni", "-d", "-")[0] == 0
    assert cli("export", "g.omni")[1] == out
    assert cli("export", "g.omni", "--format", "parquet", "-o", "out")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "Knows.parquet",
        "Person.parquet",
    ]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("load", "g.omni"), id="nothing"),
        pytest.param(("load", "g.omni", "--type", "people.csv"), id="no-name"),
        pytest.param(("load", "g.omni", "-d", "x", "--mode", "replace"), id="mode"),
        pytest.param(("export", "g.omni", "--format", "parquet"), id="no-folder"),
        pytest.param(("export", "g.omni", "-b", "x", "--snapshot", "y"), id="both"),
    ],
)
def test_wrong_usage_exits_with_two(cli, words):
    assert cli(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(("load", "g.omni", "-d", "no.jsonl"), "file 'no.jsonl' not found", id="file"),
        pytest.param(
            ("load", "http://127.0.0.1:1", "-d", "data.jsonl"), "does not answer", id="remote"
        ),
        pytest.param(
            ("export", "g.omni", "--type", "Robot"), "unknown export type 'Robot'", id="type"
        ),
        pytest.param(
            ("load", "g.omni", "--type", "Knows=some.csv"), "no node type 'Knows'", id="an-edge"
        ),
        pytest.param(
            ("load", "g.omni", "--edge", "Person=some.csv"), "no edge type 'Person'", id="a-node"
        ),
    ],
)
def test_failures_exit_with_one(cli, tmp_path, words, message):
    (tmp_path / "some.csv").write_text("name\nann\n")
    code, out, err = cli(*words)
    assert (code, out) == (1, "")
    assert message in err


def test_a_report_that_cannot_be_written_is_told_before_anything_is_loaded(cli, tmp_path):
    (tmp_path / "one.jsonl").write_text('{"type":"Person","data":{"name":"x"}}\n{}\n')
    for words in ((), ("--skip-bad-rows",)):
        code, _, err = cli("load", "g.omni", "-d", "one.jsonl", "--errors", "no/e.jsonl", *words)
        assert (code, err.splitlines()[0]) == (
            1,
            "error: cannot write 'no/e.jsonl': No such file or directory",
        )
    code, out, _ = cli("export", "g.omni")
    assert (code, out) == (0, "")


@pytest.mark.parametrize("words", [["load", "--mode", "append"], ["ingest", "--branch", "new"]])
def test_a_load_under_a_key_is_made_once(cli, words):
    arguments = [*words, "g.omni", "--data", "data.jsonl", "--idempotency-key", "k"]
    first, again = (json.loads(cli(*arguments, "--json")[1]) for _ in range(2))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert first["commit_id"] == again["commit_id"]
    assert f"made before by commit {first['commit_id']}" in cli(*arguments)[1]

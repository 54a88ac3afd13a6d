"""`omnigraph embed`: files, manifests and graphs."""

import json

import pytest

from tests.support.embedding_service import embedding_service

SPEC = {"dimension": 4, "types": {"Doc": {"target": "vector", "fields": ["text"]}}}
ROWS = (
    '{"type":"Doc","data":{"slug":"a","text":"one"}}\n'
    '{"type":"Doc","data":{"slug":"b","text":"two","vector":[1,0,0,0]}}\n'
    '{"edge":"Next","from":"a","to":"b"}\n'
)
SCHEMA = (
    'node Doc {\n  slug: String @key\n  text: String?\n  vector: Vector(4)? @embed("text")\n}\n'
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(ROWS)
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    return ["embed", "--input", "in.jsonl", "--output", "o.jsonl", "--spec", "spec.json"]


def test_files_are_embedded_offline_and_the_counts_are_told(cli, files):
    done = cli(*files)
    assert done.code == 0
    assert done.out == (
        "embedded 1 rows (selected 2, cleaned 0) from in.jsonl -> o.jsonl [fill_missing 4d]\n"
    )
    facts = json.loads(cli(*files, "--reembed_all", "--json").out)
    assert facts == {
        "input": "in.jsonl",
        "output": "o.jsonl",
        "rows": 3,
        "selected_rows": 2,
        "embedded_rows": 2,
        "cleaned_rows": 0,
        "mode": "reembed_all",
        "dimension": 4,
        "model": "wordllama/l2_supercat_256",
    }


def test_vectors_of_selected_rows_are_removed(cli, files, tmp_path):
    assert (
        json.loads(cli(*files, "--clean", "--select", "slug=b", "--json").out)["cleaned_rows"] == 1
    )
    assert "vector" not in (tmp_path / "o.jsonl").read_text()


def test_a_manifest_says_it_all_and_excludes_other_files(cli, files, tmp_path):
    (tmp_path / "seed.yaml").write_text(
        f"sources: {{raw_seed: in.jsonl}}\nembeddings: {json.dumps(SPEC)}\n"
    )
    assert cli("embed", "--seed", "seed.yaml").code == 0
    assert (tmp_path / "build/seed.embedded.jsonl").exists()
    assert cli(*files, "--seed", "seed.yaml").code == 2


def test_a_service_named_by_the_environment_is_asked(cli, files, monkeypatch):
    with embedding_service() as service:
        monkeypatch.setenv("OMNIGRAPH_EMBEDDER", "gemini")
        monkeypatch.setenv("GEMINI_API_KEY", "k")
        monkeypatch.setenv("OMNIGRAPH_GEMINI_BASE_URL", service.url)
        facts = json.loads(cli(*files, "--json").out)
        assert facts["model"] == "gemini/gemini-embedding-2-preview"
        assert service.texts == ["type: Doc\ntext: one"]


def test_the_model_of_a_specification_chooses_its_provider(cli, files, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(SPEC | {"model": "gemini-embedding-001"}))
    done = cli(*files)
    assert done.code == 1
    assert "GEMINI_API_KEY" in done.err
    assert not (tmp_path / "o.jsonl").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["embed"],
        ["embed", "--input", "in.jsonl"],
        ["embed", "g.omni", "--input", "in.jsonl"],
        ["embed", "--graph", "--clean"],
    ],
)
def test_words_that_do_not_belong_together_are_refused(cli, files, words):
    assert cli(*words).code == 2


def test_a_graph_is_filled_as_one_commit(cli, files, tmp_path):
    (tmp_path / "s.pg").write_text(SCHEMA)
    nodes = ROWS.partition('{"edge"')[0].replace(',"vector":[1,0,0,0]', "")
    (tmp_path / "rows.jsonl").write_text(nodes)
    assert cli("init", "g.omni", "--schema", "s.pg").code == 0
    assert cli("load", "g.omni", "--data", "rows.jsonl", "--quiet").code == 0
    done = cli("embed", "g.omni", "--reembed-all", "--as", "ada", "--json")
    facts = json.loads(done.out)
    assert facts["embedded"] == {"Doc.vector": 2}
    shown = json.loads(cli("commit", "show", "--uri", "g.omni", facts["commit_id"], "--json").out)
    assert shown["actor_id"] == "ada"
    said = cli("embed", "--graph", "--uri", "g.omni").out
    assert said == (
        "embedded 0 rows of g.omni on branch main with wordllama/l2_supercat_256 "
        "[fill_missing]: Doc.vector 0\n"
    )

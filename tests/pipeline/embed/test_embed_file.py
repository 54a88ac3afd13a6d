"""Embedding JSON lines without a graph."""

import gzip
import json
import os
import threading
from dataclasses import replace

import numpy as np
import pytest

from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import EmbeddingError
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.embed.file import Choice, choice_of, embed_files, embedding_text
from omnigraph.pipeline.embed.spec import parse_selectors, read_files, read_manifest, spec_of
from omnigraph.pipeline.model import UnreadableError

SPEC = {
    "dimension": 4,
    "types": {
        "Doc": {"target": "vector", "fields": ["title", "tags", "stars", "draft"]},
        "Note": {"target": "v", "fields": ["text"]},
    },
}
LINES = [
    '{"type":"Doc","data":{"slug":"a","title":" Intro ","tags":["x","","y"],"stars":4.5}}',
    '{"type":"Doc","data":{"slug":"b","title":"Kept","vector":[1,2]}}',
    '{"type":"Doc","data":{"slug":"c","title":"Null","vector":null,"draft":true}}',
    '{"type":"Note","data":{"text":"n","v":[]}}',
    '{"type":"Other", "data":{"n":123456789012345678901234567890}}',
    '{"edge": "Wrote", "from":"x", "to":"a"}',
]


@pytest.fixture
def job(tmp_path):
    def make(lines=LINES, spec=SPEC):
        (tmp_path / "in.jsonl").write_text("\n\n".join(lines) + "\n")
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        return read_files(
            str(tmp_path / "in.jsonl"), str(tmp_path / "out/o.jsonl"), str(tmp_path / "spec.json")
        )

    return make


def written(files):
    return [json.loads(line) for line in files.output.read_text().splitlines()]


def vector(text):
    return MockEmbedder().embed_documents([text], 4)[0]


def test_only_missing_vectors_are_made_and_other_lines_stay_as_they_are(job):
    files = job()
    report = embed_files(files, Choice(), MockEmbedder())
    assert (report.rows, report.selected_rows, report.embedded_rows) == (6, 4, 3)
    lines = files.output.read_text().splitlines()
    assert [lines[1], *lines[4:]] == [LINES[1], *LINES[4:]]
    rows = written(files)
    text = "type: Doc\ntitle: Intro\ntags: x, y\nstars: 4.5"
    assert np.array_equal(np.float32(rows[0]["data"]["vector"]), vector(text))
    made = np.float32(rows[2]["data"]["vector"])
    assert np.array_equal(made, vector("type: Doc\ntitle: Null\ndraft: true"))
    assert np.array_equal(np.float32(rows[3]["data"]["v"]), vector("type: Note\ntext: n"))


def test_everything_is_made_again_when_asked(job):
    files = job()
    report = embed_files(files, Choice("reembed_all"), MockEmbedder())
    assert report.embedded_rows == 4
    assert len(written(files)[1]["data"]["vector"]) == 4


def test_selected_rows_are_made_again_and_missing_others_stay_missing(job):
    files = job()
    choice = choice_of([], parse_selectors(["Doc:slug=b"]), clean=False, all_rows=False)
    report = embed_files(files, choice, MockEmbedder())
    assert (report.mode, report.selected_rows, report.embedded_rows) == ("reembed_selected", 1, 1)
    rows = written(files)
    assert len(rows[1]["data"]["vector"]) == 4
    assert "vector" not in rows[0]["data"]


def test_selectors_compare_what_a_value_looks_like_as_text(job):
    files = job()
    choice = choice_of(
        [], parse_selectors(["draft=true", "tags=x, y"]), clean=False, all_rows=False
    )
    assert embed_files(files, choice, MockEmbedder()).embedded_rows == 2


def test_a_type_filter_leaves_other_types_alone(job):
    files = job()
    assert embed_files(files, Choice(types=frozenset({"Note"})), MockEmbedder()).embedded_rows == 1


def test_cleaning_removes_vectors_and_needs_no_embedder(job):
    files = job()
    choice = choice_of([], parse_selectors(["Doc:slug=b"]), clean=True, all_rows=False)
    report = embed_files(files, choice, None)
    assert (report.cleaned_rows, report.embedded_rows) == (1, 0)
    assert "vector" not in written(files)[1]["data"]
    assert written(files)[2]["data"]["vector"] is None


def test_a_file_of_many_batches_keeps_its_order(job):
    lines = [json.dumps({"type": "Note", "data": {"text": f"t{at}"}}) for at in range(2_000)]
    files = job(lines)
    assert embed_files(files, Choice(), MockEmbedder()).embedded_rows == 2_000
    assert [row["data"]["text"] for row in written(files)] == [f"t{at}" for at in range(2_000)]


def test_compressed_files_are_read_and_written(job, tmp_path):
    files = job()
    packed, out = tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl.gz"
    packed.write_bytes(gzip.compress(files.source.read_bytes()))
    again = read_files(str(packed), str(out), str(tmp_path / "spec.json"))
    embed_files(again, Choice(), MockEmbedder())
    embed_files(files, Choice(), MockEmbedder())
    assert gzip.decompress(out.read_bytes()) == files.output.read_bytes()


class Broken:
    space = "broken/x"

    def embed_documents(self, texts, dim):
        raise EmbeddingError("away")


def test_a_pipe_is_written_to_and_stays_a_pipe(job, tmp_path):
    files = job()
    embed_files(files, Choice(), MockEmbedder())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    embed_files(replace(files, output=pipe), Choice(), MockEmbedder())
    reader.join(60)
    assert found == [files.output.read_bytes()]
    assert pipe.is_fifo()


def test_a_failure_leaves_neither_output_nor_traces(job):
    files = job()
    with pytest.raises(EmbeddingError):
        embed_files(files, Choice(), Broken())
    assert list(files.output.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nope", "line 1 is not valid JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ("[" * 9_999 + "]" * 9_999, "line 1 is not valid JSON"),
        ('{"type":"Doc","data":{"title":"\\uD800"}}', "line 1 is not valid JSON: .*surrogates"),
        ('{"type":"Doc","data":{"title":"x","\\udc80":1}}', "line 1 is not valid JSON"),
        ('{"type":"Doc","data":{"stars":NaN}}', "line 1 is not valid JSON: NaN"),
        ('{"type":"Doc","data":3}', "line 1: `data` of a Doc is not an object"),
    ],
)
def test_a_line_that_is_no_row_is_told_with_its_number(job, line, said):
    with pytest.raises(BadRequestError, match=said):
        embed_files(job([line]), Choice(), MockEmbedder())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ([], "expected names and values"),
        ({"types": {"A": {}}}, "`dimension`"),
        ({"dimension": True, "types": {}}, "`dimension`"),
        ({"dimension": 3}, "names no node type"),
        ({"dimension": 3, "types": {"A": {"fields": ["x"]}}}, r"types.A: `target`"),
        ({"dimension": 3, "types": {"A": {"target": "v", "fields": []}}}, r"types.A: `fields`"),
        ({"dimension": 3, "model": 4, "types": {}}, "`model`"),
    ],
)
def test_a_wrong_specification_is_refused(spec, said):
    with pytest.raises(BadRequestError, match=said):
        spec_of(spec, "spec.json")


def test_a_manifest_names_files_beside_it(tmp_path):
    (tmp_path / "raw.jsonl").write_text(LINES[0])
    manifest = tmp_path / "seed.yaml"
    manifest.write_text(f"sources: {{raw_seed: raw.jsonl}}\nembeddings: {json.dumps(SPEC)}\n")
    files = read_manifest(str(manifest))
    assert files.source == tmp_path / "raw.jsonl"
    assert files.output == tmp_path / "build/seed.embedded.jsonl"
    manifest.write_text(
        f"seed: {{data: raw.jsonl}}\nartifacts: {{embedded_seed: o.jsonl}}\n"
        f"embeddings: {json.dumps(SPEC)}\nother: 1\n"
    )
    assert read_manifest(str(manifest)).output == tmp_path / "o.jsonl"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("embeddings: {}", BadRequestError, "missing sources.raw_seed"),
        ("sources: {raw_seed: x}", BadRequestError, "missing embeddings"),
        ("a: [", BadRequestError, "not valid YAML"),
        ("{" * 20_000, BadRequestError, "not valid YAML"),
        (
            f"sources: {{raw_seed: gone.jsonl}}\nembeddings: {json.dumps(SPEC)}",
            NotFoundError,
            "seed input does not exist",
        ),
    ],
)
def test_a_manifest_that_does_not_say_enough_is_refused(tmp_path, text, error, said):
    (tmp_path / "seed.yaml").write_text(text)
    with pytest.raises(error, match=said):
        read_manifest(str(tmp_path / "seed.yaml"))


@pytest.mark.parametrize("text", ["", "x", "=v", ":f=v", "T:=v"])
def test_a_malformed_selector_is_refused(text):
    with pytest.raises(BadRequestError, match="is not a selector"):
        parse_selectors([text])


def test_empty_fields_are_left_out_of_the_text():
    assert embedding_text("T", {"a": "", "b": [], "c": 0}, ["a", "b", "c"]) == "type: T\nc: 0"


def test_an_input_that_breaks_is_named_and_nothing_is_written(job, tmp_path):
    job()
    (tmp_path / "in.jsonl.gz").write_bytes(b"\x1f\x8bjunk")
    files = read_files(
        str(tmp_path / "in.jsonl.gz"), str(tmp_path / "o.jsonl"), str(tmp_path / "spec.json")
    )
    with pytest.raises(UnreadableError, match=r"cannot read '.*in\.jsonl\.gz'"):
        embed_files(files, Choice(), MockEmbedder())
    assert not list(tmp_path.glob("o.jsonl*"))

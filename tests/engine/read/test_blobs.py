"""A Blob comes back as a description, however its row came into memory; its bytes on request."""

import base64
import dataclasses

import pyarrow as pa
import pytest
from lance.blob import blob_array, blob_field

import omnigraph
from omnigraph.engine.image.blobs import DESCRIPTION, described
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.store import init_store
from tests.support.fast import FAST

SCHEMA = "node Doc {\n  slug: String @key\n  file: Blob?\n}\nedge Has: Doc -> Doc { scan: Blob? }\n"
ADD = "query m($s: String, $f: Blob?) { insert Doc { slug: $s, file: $f } }"
ALL = "query q() { match { $d: Doc } return { $d.slug as slug, $d.file as file } }"
BIG = b"\x00\xff" * 60_000


def text(content):
    return "base64:" + base64.b64encode(content).decode()


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as opened:
        for slug, content in (("a", b"x" * 10), ("big", BIG), ("empty", b""), ("none", None)):
            given = None if content is None else text(content)
            opened.mutate(ADD, params={"s": slug, "f": given})
        yield opened


WANTED = [
    {"slug": "a", "file": {"size": 10}},
    {"slug": "big", "file": {"size": len(BIG)}},
    {"slug": "empty", "file": {"size": 0}},
    {"slug": "none", "file": None},
]


def test_cold_resident_and_refreshed_rows_are_described_alike(graph):
    with omnigraph.connect(graph.uri, read_only=True, options=FAST) as reader:
        found = [reader.query(ALL) for _ in range(3)]  # fetched, then read whole
        assert all(one.to_dicts() == WANTED for one in found)
        assert all(one.to_arrow().column("file").type == DESCRIPTION for one in found)
        graph.query(ALL)
        graph.query(ALL)
        graph.mutate(ADD, params={"s": "a", "f": text(b"longer than that")})
        graph.mutate(ADD, params={"s": "z", "f": text(b"new")})
        after = [
            {"slug": "a", "file": {"size": 16}},
            *WANTED[1:],
            {"slug": "z", "file": {"size": 3}},
        ]
        assert graph.query(ALL).to_dicts() == after  # handed over by the writer
        assert reader.query(ALL).to_dicts() == after  # refreshed by what changed
        graph.store.optimize()
        assert reader.query(ALL).to_dicts() == after
    assert '"file":{"size":3}' in graph.query(ALL).to_json()
    assert "size" in graph.query(ALL)._repr_html_()


def test_an_empty_result_keeps_its_type(graph):
    text = 'query q() { match { $d: Doc { slug: "?" } } return { $d.file as file } }'
    for _ in range(3):
        assert graph.query(text).to_arrow().schema.field("file").type == DESCRIPTION


def test_an_update_of_another_property_keeps_the_bytes(graph):
    graph.query(ALL)
    graph.query(ALL)
    graph.mutate(ADD, params={"s": "other", "f": None})
    assert graph.read_blob("Doc", "big", "file") == BIG
    assert graph.read_blob("Doc", "empty", "file") == b""
    assert graph.read_blob("Doc", "none", "file") is None


def test_bytes_of_the_past_and_of_branches_are_theirs(graph):
    before = graph.snapshot().commit_id
    graph.branches.create("side")
    graph.mutate(ADD, params={"s": "a", "f": text(b"here")}, branch="side")
    graph.mutate(ADD, params={"s": "a", "f": text(b"there")})
    assert graph.read_blob("Doc", "a", "file") == b"there"
    assert graph.read_blob("Doc", "a", "file", branch="side") == b"here"
    assert graph.read_blob("Doc", "a", "file", at=before) == b"x" * 10


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (("Nope", "a", "file"), NotFoundError),
        (("Doc", "a", "nope"), NotFoundError),
        (("Doc", "nobody", "file"), NotFoundError),
        (("Doc", "a", "slug"), BadRequestError),
    ],
)
def test_asking_for_bytes_that_cannot_be_says_why(graph, asked, error):
    with pytest.raises(error) as caught:
        graph.read_blob(*asked)
    assert caught.value.hint


def test_columns_that_storage_keeps_apart_are_described_alike(tmp_path):
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), blob_field("file")])
    spec = TableSpec("node:Doc", schema)
    options = dataclasses.replace(FAST.storage)
    with init_store(str(tmp_path / "g"), [spec], {"_schema.pg": b""}, options) as store:
        session = store.begin()
        rows = pa.table({"id": ["a", "b"], "file": blob_array([b"xyz", None])}, schema=schema)
        session.append("node:Doc", rows)
        session.commit()
        found = described(store.snapshot().open("node:Doc").scan())
    assert found.column("file").to_pylist() == [{"size": 3}, None]

"""Python programs take the embedding variables the command line takes."""

import dataclasses

import pytest

import omnigraph
from omnigraph.embedders.local import LocalEmbedder
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.errors import BadRequestError
from tests.support.fast import FAST

SCHEMA = "node Doc { slug: String @key text: String? v: Vector(4)? @embed(text) }"
ADD = 'query add() { insert Doc { slug: "a" text: "alpha" } }'
VECTOR = "query q() { match { $d: Doc } return { $d.v as v } }"


def made(tmp_path, options=FAST):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=options) as graph:
        graph.mutate(ADD)
        (row,) = graph.query(VECTOR)
        return row["v"]


def test_the_flag_for_the_mock_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert made(tmp_path) == MockEmbedder().embed_documents(["alpha"], 4)[0].tolist()


def test_the_named_provider_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBEDDER", "mock")
    assert made(tmp_path) == MockEmbedder().embed_documents(["alpha"], 4)[0].tolist()


def test_an_embedder_that_is_given_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBEDDER", "openai")
    options = dataclasses.replace(FAST, embedder=LocalEmbedder())
    assert made(tmp_path, options) == LocalEmbedder().embed_documents(["alpha"], 4)[0].tolist()


def test_a_provider_there_is_none_of_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBEDDER", "nobody")
    with pytest.raises(BadRequestError, match="OMNIGRAPH_EMBEDDER=nobody"):
        made(tmp_path)

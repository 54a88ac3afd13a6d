"""Text in, vectors stored and asked for, through the public API."""

import dataclasses

import numpy as np
import pytest

import omnigraph
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import EmbeddingError, SpaceMismatchError
from omnigraph.errors import BadRequestError, IntegrityError
from tests.support.fast import FAST

SCHEMA = """node Doc {
  slug: String @key
  text: String?
  vector: Vector(8)? @embed(text)
}

node Pinned {
  slug: String @key
  text: String
  vector: Vector(8) @embed(text, model="other-model")
}

node Author {
  name: String @key
}

edge Wrote: Author -> Doc
"""
MOCK = dataclasses.replace(FAST, embedder=MockEmbedder())
NEAREST = (
    "query q($t: String) { match { $d: Doc } return { $d.slug, nearest($d.vector, $t) as far } "
    "order { nearest($d.vector, $t) } limit 3 }"
)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=MOCK) as opened:
        opened.mutate(
            'query m() { insert Doc { slug: "a", text: "alpha" } '
            'insert Doc { slug: "b", text: "beta" } insert Doc { slug: "none" } '
            'insert Author { name: "Ann" } '
            'insert Wrote { from: "Ann", to: "b" } }'
        )
        yield opened


def vectors(graph):
    rows = graph.query("query q() { match { $d: Doc } return { $d.slug as slug, $d.vector as v } }")
    return {row["slug"]: row["v"] for row in rows}


def expected(text):
    return MockEmbedder().embed_queries([text], 8)[0].tolist()


def test_missing_vectors_are_made_from_their_text(graph):
    assert vectors(graph) == {"a": expected("alpha"), "b": expected("beta"), "none": None}


def test_given_vectors_are_kept(graph):
    graph.mutate(
        'query m($v: Vector(8)) { insert Doc { slug: "c", text: "gamma", vector: $v } }',
        params={"v": [1, 0, 0, 0, 0, 0, 0, 0]},
    )
    assert vectors(graph)["c"] == [1, 0, 0, 0, 0, 0, 0, 0]


def test_changing_the_text_makes_the_vector_again(graph):
    graph.mutate('query m() { update Doc set { text: "delta" } where slug = "a" }')
    assert vectors(graph)["a"] == expected("delta")
    graph.mutate('query m($t: String?) { update Doc set { text: $t } where slug = "a" }', params={})
    assert vectors(graph)["a"] is None


def test_text_in_nearest_equals_its_vector(graph):
    by_text = graph.query(NEAREST, params={"t": "beta"}).to_dicts()
    assert by_text[0]["d.slug"] == "b"
    assert by_text[0]["far"] == pytest.approx(0, abs=1e-6)
    by_vector = graph.query(
        NEAREST.replace("$t: String", "$t: Vector(8)"), params={"t": expected("beta")}
    ).to_dicts()
    assert by_text == by_vector


def test_text_literals_and_fusion_and_reached_variables_work(graph):
    rows = graph.query(
        'query q() { match { $p: Author { name: "Ann" }  $p wrote $d } '
        'return { $d.slug, rrf(nearest($d.vector, "beta"), bm25($d.text, "beta")) as score } '
        "order { score desc } limit 2 }"
    ).to_dicts()
    assert [row["d.slug"] for row in rows] == ["b"]


def test_without_an_embedder_text_is_refused_and_columns_stay_empty(graph):
    with omnigraph.connect(graph.uri, options=dataclasses.replace(FAST, embedder=None)) as bare:
        with pytest.raises(EmbeddingError, match="no embedder is configured"):
            bare.query(NEAREST, params={"t": "beta"})
        bare.mutate('query m() { insert Doc { slug: "c", text: "gamma" } }')
        assert vectors(bare)["c"] is None
        with pytest.raises(IntegrityError, match="required"):
            bare.mutate('query m() { insert Pinned { slug: "p", text: "x" } }')


def test_a_pinned_model_refuses_another_one(graph):
    with pytest.raises(SpaceMismatchError, match="other-model"):
        graph.mutate('query m() { insert Pinned { slug: "p", text: "x" } }')
    with pytest.raises(SpaceMismatchError):
        graph.query(NEAREST.replace("Doc", "Pinned"), params={"t": "x"})


def test_the_default_embedder_is_real_and_offline(tmp_path):
    schema = SCHEMA.replace("Vector(8)?", "Vector(256)?")
    options = dataclasses.replace(MOCK, embedder=omnigraph.GraphOptions().embedder)
    with omnigraph.init(str(tmp_path / "real.omni"), schema, options=options) as graph:
        graph.mutate(
            'query m() { insert Doc { slug: "db", text: "a database of nodes and edges" } '
            'insert Doc { slug: "soup", text: "carrots, leek and salt in water" } }'
        )
        rows = graph.query(NEAREST, params={"t": "graph storage"}).to_dicts()
        assert [row["d.slug"] for row in rows] == ["db", "soup"]
        assert np.isfinite([row["far"] for row in rows]).all()


def test_a_null_text_ranks_nothing(graph):
    text = NEAREST.replace("$t: String", "$t: String?")
    assert graph.query(text, params={}).to_dicts() == []
    with pytest.raises(BadRequestError):
        graph.query(NEAREST, params={})

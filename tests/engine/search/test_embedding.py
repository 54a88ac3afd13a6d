"""Text in, vectors stored and asked for, through the public API."""

import dataclasses
import json

import numpy as np
import pytest

import omnigraph
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import EmbeddingError, SpaceMismatchError
from omnigraph.engine.search.spaces import (
    Filled,
    MixedVectorsError,
    check_filled,
    record_of,
    spaces_of,
)
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


class Other(MockEmbedder):
    """The same numbers under another name: a space is what it is called."""

    space = "mock/other"


def other(graph):
    return omnigraph.connect(graph.uri, options=dataclasses.replace(FAST, embedder=Other()))


ADD = 'query m() { insert Doc { slug: "new", text: "gamma" } }'


def test_a_preview_refuses_what_the_write_would(graph):
    head = graph.snapshot().commit_id
    with other(graph) as asking:
        for preview in (True, False):
            with pytest.raises(SpaceMismatchError):
                asking.mutate(ADD, preview=preview)
    assert graph.mutate(ADD, preview=True).commit_id is None
    assert graph.snapshot().commit_id == head


def test_a_column_remembers_who_filled_it_and_refuses_questions_of_another_model(graph):
    with other(graph) as asking:
        with pytest.raises(
            SpaceMismatchError, match=r"Doc.vector holds vectors of mock/.*mock/other"
        ):
            asking.query(NEAREST, params={"t": "beta"})
        with pytest.raises(SpaceMismatchError):
            asking.mutate(ADD)
        vector = {"v": [1.0] * 8}
        text = 'query m($v: Vector(8)) { insert Doc { slug: "c", text: "c", vector: $v } }'
        assert asking.mutate(text, params=vector).affected_nodes == 1  # a given vector is given
    assert graph.query(NEAREST, params={"t": "beta"}).to_dicts()[0]["d.slug"] == "b"


def test_a_column_nobody_filled_takes_any_model_and_past_states_keep_theirs(graph):
    before = graph.snapshot().commit_id
    with other(graph) as fresh:
        fresh.mutate('query m() { delete Doc where slug != "none" }')
        with pytest.raises(SpaceMismatchError):
            fresh.mutate(ADD)
        fresh.load(b'{"type": "Doc", "data": {"slug": "x", "text": "beta"}}\n', "overwrite")
        assert fresh.query(NEAREST, params={"t": "beta"}).to_dicts()[0]["d.slug"] == "x"
        with pytest.raises(SpaceMismatchError):
            fresh.query(NEAREST, params={"t": "beta"}, at=before)
    with pytest.raises(SpaceMismatchError, match="mock/other"):
        graph.query(NEAREST, params={"t": "beta"})
    assert graph.query(NEAREST, params={"t": "beta"}, at=before).to_dicts()[0]["d.slug"] == "b"
    assert [found for found in graph.verify() if not found.harmless] == []


def test_filling_everything_again_changes_the_model_of_one_branch(graph):
    graph.branches.create("trial")
    with other(graph) as trying:
        with pytest.raises(SpaceMismatchError):
            trying.load(
                b'{"type": "Doc", "data": {"slug": "x", "text": "beta"}}\n', "merge", branch="trial"
            )
        trying.embed(mode="reembed_all", branch="trial")
        assert len(trying.query(NEAREST, params={"t": "beta"}, branch="trial")) == 2
        trying.mutate(ADD, branch="trial")
        with pytest.raises(SpaceMismatchError):
            trying.query(NEAREST, params={"t": "beta"})
    assert len(graph.query(NEAREST, params={"t": "beta"})) == 2
    with pytest.raises(SpaceMismatchError):
        graph.query(NEAREST, params={"t": "beta"}, branch="trial")
    assert [found for found in graph.verify() if not found.harmless] == []


@dataclasses.dataclass(frozen=True)
class At:
    """A snapshot, as far as spaces look at it."""

    files: dict[str, str]
    sequence: int


def test_records_count_from_their_commit_on_and_two_at_once_count_as_none(graph):
    node = graph.catalog.nodes["Pinned"]
    mine, theirs = Filled(node, "vector", "a/b c"), Filled(node, "vector", "a/d")
    empty = At({}, 4)
    name, content = record_of(empty, mine)
    assert "/" not in name
    assert content
    after = At({name: "digest"}, 5)
    assert spaces_of(after, node, "vector") == ("a/b c",)
    assert spaces_of(dataclasses.replace(after, sequence=4), node, "vector") == ()
    check_filled(after, mine)
    assert record_of(after, mine) is None
    with pytest.raises(SpaceMismatchError):
        check_filled(after, theirs)
    second, _ = record_of(empty, theirs)
    merged = At({name: "digest", second: "digest"}, 9)
    assert spaces_of(merged, node, "vector") == ("a/b c", "a/d")
    for one in (mine, theirs):
        with pytest.raises(SpaceMismatchError, match="a/b c and a/d"):
            check_filled(merged, one)
    third, _ = record_of(merged, dataclasses.replace(theirs, replaces=True))
    assert spaces_of(At({**merged.files, third: "digest"}, 10), node, "vector") == ("a/d",)


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


# Texts without words, and vectors given by hand


BLANKS = ["", "   ", "\n\t"]
PUT = """query add($s: String, $t: String?, $v: Vector(8)?) {
  insert Doc { slug: $s text: $t vector: $v } }"""
GIVEN = [1.0] + [0.0] * 7
BY_HAND = SCHEMA.replace(
    "vector: Vector(8)? @embed(text)", 'vector: Vector(8)? @embed(text, model="given")'
)


def rows_of(texts, vector=None):
    return [
        {"type": "Doc", "data": {"slug": f"r{at}", "text": text, "vector": vector}}
        for at, text in enumerate(texts)
    ]


def as_file(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


class Silent(MockEmbedder):
    """Knows one word only, as a model whose vocabulary lacks a script would."""

    def embed_documents(self, texts, dim):
        known = np.array([[text == "alpha"] for text in texts])
        return np.where(known, super().embed_documents(texts, dim), np.float32(0))


@pytest.mark.parametrize("text", BLANKS)
def test_a_text_without_words_has_no_vector_and_is_not_counted(graph, tmp_path, text):
    graph.mutate(PUT, params={"s": "m", "t": text})
    loaded = graph.load(as_file(tmp_path, rows_of([text, "gamma"])), mode="append")
    assert loaded.embedded == 1
    assert {slug for slug, found in vectors(graph).items() if found is not None} == {"a", "b", "r1"}
    assert graph.embed(mode="reembed_all").embedded == {"Doc.vector": 3, "Pinned.vector": 0}
    near = [row["d.slug"] for row in graph.query(NEAREST, params={"t": "gamma"})]
    assert near[0] == "r1"
    assert set(near) == {"a", "b", "r1"}


@pytest.mark.parametrize("text", BLANKS)
def test_a_question_without_words_is_refused(graph, text):
    with pytest.raises(EmbeddingError, match="without words"):
        graph.query(NEAREST, params={"t": text})


def test_a_text_that_says_nothing_to_the_model_has_no_vector(tmp_path):
    options = dataclasses.replace(FAST, embedder=Silent())
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=options) as graph:
        graph.load(as_file(tmp_path, rows_of(["alpha", "\N{SNOWMAN}"])), mode="append")
        assert {slug: found is None for slug, found in vectors(graph).items()} == {
            "r0": False,
            "r1": True,
        }


def test_a_required_vector_of_an_empty_text_is_refused_with_its_reason(tmp_path):
    schema = "node Doc { slug: String @key text: String vector: Vector(8) @embed(text) }"
    with omnigraph.init(str(tmp_path / "g.omni"), schema, options=MOCK) as graph:
        with pytest.raises(IntegrityError, match="`text` has no words to make it from"):
            graph.mutate('query m() { insert Doc { slug: "a" text: "" } }')
        with pytest.raises(IntegrityError, match="`text` has no words to make it from"):
            graph.load(as_file(tmp_path, rows_of(["ok", " "])), mode="append")


def test_a_model_does_not_put_its_vectors_beside_given_ones(graph, tmp_path):
    with omnigraph.init(str(tmp_path / "given"), SCHEMA, options=MOCK) as given:
        given.mutate(PUT, params={"s": "x", "t": "ex", "v": GIVEN})
        head = given.snapshot().commit_id
        for write in (
            lambda: given.mutate(PUT, params={"s": "y", "t": "why"}),
            lambda: given.load(as_file(tmp_path, rows_of(["one"])), mode="append"),
        ):
            with pytest.raises(MixedVectorsError, match="holds vectors that were given"):
                write()
        assert given.snapshot().commit_id == head
        assert given.embed(mode="reembed_all").embedded["Doc.vector"] == 1
        given.mutate(PUT, params={"s": "y", "t": "why"})
        assert vectors(given)["y"] == expected("why")


def test_one_load_does_not_mix_given_and_made_vectors(graph, tmp_path):
    rows = [*rows_of(["one"]), {"type": "Doc", "data": {"slug": "g", "text": "x", "vector": GIVEN}}]
    with omnigraph.init(str(tmp_path / "new"), SCHEMA, options=MOCK) as new:
        for mode in ("append", "merge", "overwrite"):
            with pytest.raises(MixedVectorsError):
                new.load(as_file(tmp_path, rows), mode=mode)
    graph.load(as_file(tmp_path, rows), mode="append")  # this column is known to be the model's


def test_given_vectors_of_a_pinned_column_are_those_of_its_model(tmp_path):
    schema = SCHEMA.replace("@embed(text)", f'@embed(text, model="{MockEmbedder().space}")', 1)
    with omnigraph.init(str(tmp_path / "g"), schema, options=MOCK) as graph:
        graph.mutate(PUT, params={"s": "x", "t": "ex", "v": GIVEN})
        graph.mutate(PUT, params={"s": "y", "t": "why"})
        assert vectors(graph) == {"x": GIVEN, "y": expected("why")}


def test_a_column_kept_by_hand_is_never_filled(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), BY_HAND, options=MOCK) as graph:
        graph.mutate(PUT, params={"s": "x", "t": "ex", "v": GIVEN})
        graph.mutate(PUT, params={"s": "y", "t": "why"})
        assert vectors(graph) == {"x": GIVEN, "y": None}
        with pytest.raises(EmbeddingError, match="given by hand"):
            graph.query(NEAREST, params={"t": "alpha"})
        with pytest.raises(BadRequestError, match="that a model fills"):
            graph.embed(["Doc"])
        assert "Doc.vector" not in graph.embed().embedded

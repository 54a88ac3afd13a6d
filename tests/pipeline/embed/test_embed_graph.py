"""Filling the `@embed` columns of a graph."""

import dataclasses

import numpy as np
import pytest

import omnigraph
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import EmbeddingError
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from tests.support.fast import FAST

SCHEMA = """node Doc {
  slug: String @key
  text: String?
  vector: Vector(8)? @embed("text")
}

node Tag {
  name: String @key
}
"""
NO_EMBEDDER = dataclasses.replace(FAST, embedder=None)
MOCK = dataclasses.replace(FAST, embedder=MockEmbedder())
ALL = "query q() { match { $d: Doc } return { $d.slug as slug, $d.vector as vector } }"


class Other(MockEmbedder):
    """Another space."""

    space = "mock/other"

    def embed_documents(self, texts, dim):
        return super().embed_documents([text + "!" for text in texts], dim)


@pytest.fixture
def place(tmp_path):
    """A graph whose vectors are missing."""
    uri = str(tmp_path / "g.omni")
    rows = b"\n".join(
        b'{"type":"Doc","data":{"slug":"d%d","text":"text %d"}}' % (at, at) for at in range(20)
    )
    with omnigraph.init(uri, SCHEMA, options=NO_EMBEDDER) as graph:
        graph.load(rows + b'\n{"type":"Doc","data":{"slug":"none"}}')
    return uri


def vectors(graph, **where):
    return {row["slug"]: row["vector"] for row in graph.query(ALL, **where).to_dicts()}


def expected(count=20, suffix=""):
    made = MockEmbedder().embed_documents([f"text {at}{suffix}" for at in range(count)], 8)
    return {f"d{at}": row for at, row in enumerate(made)}


def same(found, wanted):
    assert found["none"] is None
    return all(np.array_equal(np.float32(found[slug]), row) for slug, row in wanted.items())


def test_missing_vectors_are_filled_in_one_commit(place):
    with omnigraph.connect(place, options=MOCK) as graph:
        before = len(graph.commits.list(all=True, reverse=True))
        done = graph.embed(actor="ada")
        assert done.embedded == {"Doc.vector": 20}
        assert same(vectors(graph), expected())
        commits = graph.commits.list(all=True, reverse=True)
        assert len(commits) == before + 1
        assert done.commit_id in {commit.graph_commit_id for commit in commits}
        again = graph.embed()
        assert (again.embedded, again.commit_id) == ({"Doc.vector": 0}, None)


def test_everything_is_made_again_with_another_embedder(place):
    with omnigraph.connect(place, options=MOCK) as graph:
        graph.embed()
    with omnigraph.connect(place, options=dataclasses.replace(FAST, embedder=Other())) as graph:
        assert graph.embed().commit_id is None
        done = graph.embed(["Doc"], "reembed_all")
        assert done.model == "mock/other"
        assert same(vectors(graph), expected(suffix="!"))


def test_a_branch_is_filled_alone(place):
    with omnigraph.connect(place, options=MOCK) as graph:
        graph.branches.create("try")
        graph.embed(branch="try")
        assert same(vectors(graph, branch="try"), expected())
        assert set(vectors(graph).values()) == {None}


def test_a_table_with_many_changes_is_written_anew_with_the_same_rows(place):
    storage = dataclasses.replace(FAST.storage, max_rows_per_file=5)
    many = dataclasses.replace(FAST, storage=storage, embedder=MockEmbedder())
    with omnigraph.connect(place, options=many) as graph:
        assert graph.embed().embedded == {"Doc.vector": 20}
        assert same(vectors(graph), expected())
        assert all(finding.harmless for finding in graph.verify())


def test_what_cannot_be_filled_is_refused(place):
    with omnigraph.connect(place, options=MOCK) as graph:
        with pytest.raises(BadRequestError, match="Tag has no @embed property"):
            graph.embed(["Tag"])
        with pytest.raises(NotFoundError, match="'Dox'"):
            graph.embed(["Dox"])
        with pytest.raises(BadRequestError, match="unknown mode 'x'"):
            graph.embed(mode="x")
    with (
        omnigraph.connect(place, options=NO_EMBEDDER) as graph,
        pytest.raises(EmbeddingError, match="no embedder"),
    ):
        graph.embed()


class Interrupting(MockEmbedder):
    """Somebody writes while the embedder works."""

    def __init__(self, act):
        self.act = act

    def embed_documents(self, texts, dim):
        self.act()
        return super().embed_documents(texts, dim)


def test_a_table_that_moved_meanwhile_is_a_conflict_and_nothing_is_written(place):
    with omnigraph.connect(place, options=NO_EMBEDDER) as other:
        change = 'query m() { update Doc set { text: "new" } where slug = "d3" }'
        options = dataclasses.replace(FAST, embedder=Interrupting(lambda: other.mutate(change)))
        with omnigraph.connect(place, options=options) as graph:
            with pytest.raises(ConflictError):
                graph.embed()
            assert set(vectors(graph).values()) == {None}

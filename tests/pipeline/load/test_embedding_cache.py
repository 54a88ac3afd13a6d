"""Vectors made during a load: one per text, however often the text or the load comes again."""

import hashlib
import tracemalloc

import numpy as np
import pytest

import omnigraph
from omnigraph.engine.search.embedder import EmbeddingError
from omnigraph.pipeline.load.embedding_cache import KeepingEmbedder
from omnigraph.pipeline.model import StagingError
from omnigraph.storage.options import StorageOptions
from tests.pipeline.conftest import jsonl, node, rows
from tests.support.fast import FAST

DOCS = 'node Doc {\n  slug: String @key\n  text: String\n  v: Vector(4)? @embed("text")\n}\n'


def vector(text, dim):
    """A vector that tells its text."""
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)[:dim].astype(np.float32)


class Counting:
    """An embedder that remembers what it was asked, and may do something else meanwhile."""

    space = "test/counting"

    def __init__(self):
        self.asked = []
        self.act = lambda: None

    def embed_documents(self, texts, dim):
        self.act()
        self.asked += [(text, dim) for text in texts]
        return np.stack([vector(text, dim) for text in texts])

    embed_queries = embed_documents


class At:
    """Does something whenever a stage of a load begins, given how often it has begun."""

    def __init__(self, name, act):
        self._name, self._act, self.times = name, act, 0

    def stage(self, name, tasks):
        if name == self._name:
            self.times += 1
            self._act(self.times)

    def done(self, rows, bad, size=0):
        pass


@pytest.fixture
def docs(tmp_path):
    """A graph with small fragments, so that a few rows are too many to be replaced as rows."""
    storage = StorageOptions(durability="os", maintenance="manual", max_rows_per_file=5)
    options = omnigraph.GraphOptions(storage=storage, embedder=Counting())
    with omnigraph.init(str(tmp_path / "docs.omni"), DOCS, options=options) as graph:
        graph.counting = options.embedder
        yield graph


def doc(slug, text):
    return node("Doc", slug=slug, text=text)


def write_beside(graph, slug):
    options = omnigraph.GraphOptions(storage=FAST.storage, embedder=None)
    with omnigraph.connect(graph.uri, options=options) as other:
        other.mutate(f'query q() {{ insert Doc {{ slug: "{slug}", text: "theirs" }} }}')


def test_equal_texts_of_a_load_are_embedded_once(docs, tmp_path):
    texts = ["a cat", "a dog", "a cat", "ein Käfer", "a dog", "a cat"]
    records = [doc(f"d{at}", text) for at, text in enumerate(texts)]
    (tmp_path / "1.jsonl").write_bytes(jsonl(*records[:4]))
    (tmp_path / "2.jsonl").write_bytes(jsonl(*records[4:]))
    result = docs.load([tmp_path / "1.jsonl", tmp_path / "2.jsonl"])
    assert sorted(docs.counting.asked) == [("a cat", 4), ("a dog", 4), ("ein Käfer", 4)]
    assert result.embedded == 6
    found = rows(docs, "node:Doc")
    for at, text in enumerate(texts):
        assert found[f"d{at}"]["v"] == vector(text, 4).tolist()


def test_a_load_that_is_checked_again_after_a_collision_embeds_nothing_again(docs):
    docs.load(jsonl(doc("old", "old")))
    docs.counting.asked.clear()
    mine = [doc(f"d{at}", f"text {at}") for at in range(8)]
    collide = At("commit", lambda times: write_beside(docs, "d3") if times == 1 else None)
    result = docs.load(jsonl(*mine), mode="merge", progress=collide)
    assert collide.times == 2
    assert docs.counting.asked == [(f"text {at}", 4) for at in range(8)]
    assert result.embedded == 8
    found = rows(docs, "node:Doc")
    assert set(found) == {"old", *(f"d{at}" for at in range(8))}
    assert found["d3"]["text"] == "text 3"
    for at in range(8):
        assert found[f"d{at}"]["v"] == vector(f"text {at}", 4).tolist()


def test_what_was_kept_goes_with_the_load(docs):
    seen = []
    staging = docs.store.kernel.objects.path("__staging")
    look = At("commit", lambda _: seen.extend(staging.rglob("vectors.*")))
    docs.load(jsonl(doc("a", "a")), progress=look)
    assert {path.name for path in seen} == {"vectors.f32", "vectors.sqlite"}
    assert list(staging.rglob("vectors.*")) == []
    docs.load(jsonl(doc("a", "a")))
    assert docs.counting.asked == [("a", 4)] * 2


def test_widths_and_spaces_do_not_share_vectors(tmp_path):
    inner = Counting()
    with KeepingEmbedder(inner, tmp_path) as keeping:
        for dim in (2, 3, 2):
            assert keeping.embed_documents(["x"], dim).tolist() == [vector("x", dim).tolist()]
        inner.space = "test/other"
        keeping.embed_documents(["x"], 2)
    assert inner.asked == [("x", 2), ("x", 3), ("x", 2)]


def test_old_and_new_texts_of_a_batch_come_in_their_order(tmp_path):
    inner = Counting()
    with KeepingEmbedder(inner, tmp_path) as keeping:
        for texts in (["a", "b"], ["c", "b", "c", "d", "a"], ["d", "c", "b", "a"]):
            found = keeping.embed_documents(texts, 5)
            assert found.tolist() == [vector(text, 5).tolist() for text in texts]
    assert [text for text, _ in inner.asked] == ["a", "b", "c", "d"]


def test_no_texts_need_no_embedder(tmp_path):
    inner = Counting()
    with KeepingEmbedder(inner, tmp_path) as keeping:
        assert keeping.embed_documents([], 3).shape == (0, 3)
    assert inner.asked == []


def test_memory_does_not_follow_the_number_of_texts(tmp_path):
    inner, peaks = Counting(), []
    inner.asked = Forgetful()
    with KeepingEmbedder(inner, tmp_path) as keeping:
        tracemalloc.start()
        try:
            for part in range(6):
                tracemalloc.reset_peak()
                keeping.embed_documents([f"{part} {at}" for at in range(2_000)], 8)
                peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert max(peaks[2:]) < 1.2 * peaks[1]


class Forgetful(list):
    """Keeps nothing."""

    def __iadd__(self, _):
        return self


def test_vectors_of_a_wrong_shape_are_refused(tmp_path):
    class Wrong(Counting):
        def embed_documents(self, texts, dim):
            return np.ones((len(texts), dim + 1), np.float32)

    with (
        KeepingEmbedder(Wrong(), tmp_path) as keeping,
        pytest.raises(EmbeddingError, match=r"shape \(1, 4\), not \(1, 3\)"),
    ):
        keeping.embed_documents(["x"], 3)


def test_a_disk_that_takes_no_vectors_is_a_typed_error(tmp_path):
    with (
        KeepingEmbedder(Counting(), tmp_path / "gone") as keeping,
        pytest.raises(StagingError, match="cannot keep vectors"),
    ):
        keeping.embed_documents(["x"], 3)

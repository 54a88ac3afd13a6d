import numpy as np
import pytest

from omnigraph.embedders.local import LocalEmbedder
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import EmbeddingError


def test_the_mock_gives_the_published_vector():
    found = MockEmbedder().embed_queries(["alpha"], 4)[0]
    assert found == pytest.approx([-0.542049, -0.471799, 0.160905, 0.676534], abs=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("embedder", [MockEmbedder(), LocalEmbedder()], ids=["mock", "local"])
def test_vectors_are_reproducible_unit_vectors_of_the_asked_width(embedder):
    texts = ["a graph database", "bread and butter", "a graph database"]
    for dim in (3, 64, 256):
        found = embedder.embed_documents(texts, dim)
        assert found.shape == (3, dim)
        assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
        assert np.array_equal(found[0], found[2])
        assert np.array_equal(found, embedder.embed_queries(texts, dim))
    assert embedder.embed_queries([], 5).shape == (0, 5)


def test_the_local_embedder_knows_what_is_alike():
    question, near, far = LocalEmbedder().embed_queries(
        ["How do we store a graph?", "databases for nodes and edges", "a recipe for soup"], 256
    )
    assert question @ near > question @ far


def test_widths_no_model_has_are_refused_with_advice():
    with pytest.raises(EmbeddingError, match="up to 256") as caught:
        LocalEmbedder().embed_queries(["x"], 1536)
    assert "provider" in str(caught.value.hint)
    with pytest.raises(EmbeddingError):
        MockEmbedder().embed_queries(["x"], 0)

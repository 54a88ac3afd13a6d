"""Embedding services over real HTTP: what is asked, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from omnigraph.config.embedding import embedder_options
from omnigraph.config.environment import Environment
from omnigraph.config.settings import EmbeddingSettings
from omnigraph.embedders.choose import embedder_of
from omnigraph.embedders.mock import MockEmbedder
from omnigraph.engine.search.embedder import (
    Embedder,
    EmbedderUnavailableError,
    EmbeddingError,
)
from omnigraph.engine.search.options import EmbedderOptions
from omnigraph.errors import BadRequestError
from tests.support.embedding_service import Service, embedding_service, silence, status

FAST = EmbedderOptions("openai", api_key="secret", backoff_s=0.001, timeout_s=60.0)


@pytest.fixture
def service() -> Iterator[Service]:
    with embedding_service() as running:
        yield running


def made(service: Service, **changes: object) -> Embedder:
    return embedder_of(replace(FAST, base_url=service.url, **changes))  # type: ignore[arg-type]  # by name


def test_openai_is_asked_in_batches_and_answers_in_the_order_of_the_texts(service: Service) -> None:
    texts = [f"text {at}" for at in range(300)]
    found = made(service).embed_documents(texts, 8)
    assert np.allclose(found, MockEmbedder().embed_documents(texts, 8), atol=1e-6)
    assert sorted(len(body["input"]) for _, _, body in service.requests) == [44, 128, 128]
    path, headers, body = service.requests[0]
    assert path == "/v1/embeddings"
    assert headers["authorization"] == "Bearer secret"
    assert (body["model"], body["dimensions"]) == ("text-embedding-3-small", 8)


def test_gemini_is_told_whether_a_text_is_a_question_or_a_document(service: Service) -> None:
    gemini = made(service, provider="gemini")
    question = gemini.embed_queries(["who?"], 4)
    gemini.embed_documents(["a", "b"], 4)
    assert np.allclose(question, MockEmbedder().embed_queries(["who?"], 4), atol=1e-6)
    path, headers, body = service.requests[0]
    assert path == "/v1/models/gemini-embedding-2-preview:embedContent"
    assert headers["x-goog-api-key"] == "secret"
    assert body == {
        "model": "models/gemini-embedding-2-preview",
        "content": {"parts": [{"text": "who?"}]},
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": 4,
    }
    assert {body["taskType"] for _, _, body in service.requests[1:]} == {"RETRIEVAL_DOCUMENT"}


@pytest.mark.parametrize("fault", [status(503), status(429), status(429, retry_after="0")])
def test_a_busy_service_is_asked_again(service: Service, fault: object) -> None:
    service.faults += [fault, fault]  # type: ignore[list-item]  # a fault
    assert made(service).embed_queries(["a"], 4).shape == (1, 4)
    assert len(service.requests) == 3


def test_a_service_that_does_not_answer_is_given_up_after_some_attempts(service: Service) -> None:
    service.faults += [silence(0.3)] * 2
    with pytest.raises(EmbedderUnavailableError, match=r"OpenAI .*\(2 attempts\)"):
        made(service, timeout_s=0.05, attempts=2).embed_queries(["a"], 4)


def test_a_deadline_ends_waiting_before_the_attempts_do(service: Service) -> None:
    service.faults += [status(503, retry_after="300")] * 3
    with pytest.raises(EmbedderUnavailableError, match=r"HTTP 503 \(1 attempts\)"):
        made(service, deadline_s=60.0).embed_queries(["a"], 4)


def test_nobody_listening_is_told(service: Service) -> None:
    gone = replace(FAST, base_url="http://127.0.0.1:9", attempts=2)
    with pytest.raises(EmbedderUnavailableError, match="ConnectError"):
        embedder_of(gone).embed_queries(["a"], 4)


def test_a_refusal_is_final_and_shows_what_the_service_said(service: Service) -> None:
    service.faults.append(status(401, b'{"error": "bad key"}'))
    with pytest.raises(EmbeddingError, match=r'HTTP 401: \{"error": "bad key"\}') as caught:
        made(service).embed_queries(["a"], 4)
    assert not isinstance(caught.value, EmbedderUnavailableError)
    assert len(service.requests) == 1


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_an_answer_of_another_width_is_refused(service: Service, provider: str) -> None:
    service.width = 6
    with pytest.raises(EmbeddingError, match="6 dimensions, the column has 4"):
        made(service, provider=provider).embed_queries(["a"], 4)
    assert len(service.requests) == 1


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.parametrize("body", [b"no json", b"{}", b'{"data": [{"index": 7}]}', b"[1]"])
def test_an_answer_without_vectors_is_refused(service: Service, provider: str, body: bytes) -> None:
    service.faults.append(status(200, body))
    with pytest.raises(EmbeddingError, match="answered with"):
        made(service, provider=provider).embed_queries(["a"], 4)


def test_one_failure_among_many_requests_fails_the_call(service: Service) -> None:
    service.faults.append(status(400, b"no"))
    service.pause_s = 0.1  # the others need seconds: time enough to hear of the failure
    with pytest.raises(EmbeddingError, match="HTTP 400"):
        made(service, provider="gemini").embed_documents([f"t{at}" for at in range(40)], 4)
    assert len(service.requests) < 40


@pytest.mark.parametrize(("provider", "variable"), [("openai", "OPENAI"), ("gemini", "GEMINI")])
def test_a_missing_key_is_told_when_it_is_needed(provider: str, variable: str) -> None:
    embedder = embedder_of(EmbedderOptions(provider))  # type: ignore[arg-type]  # one of them
    assert embedder.space.startswith(provider)
    with pytest.raises(EmbeddingError, match=f"{variable}_API_KEY"):
        embedder.embed_queries(["a"], 4)


def options(model: str | None = None, /, **variables: str) -> EmbedderOptions:
    return embedder_options(EmbeddingSettings(), Environment(variables), model)


def test_without_a_word_the_offline_embedder_is_used() -> None:
    assert embedder_of(options(OPENAI_API_KEY="k")).space == "wordllama/l2_supercat_256"


def test_the_environment_chooses_the_provider_and_its_patience() -> None:
    found = options(
        OMNIGRAPH_EMBEDDER="OpenAI",
        OPENAI_API_KEY="k",
        OPENAI_BASE_URL="http://here",
        NANOGRAPH_EMBED_MODEL="m",
        NANOGRAPH_EMBED_TIMEOUT_MS="100",
        OMNIGRAPH_EMBED_RETRY_ATTEMPTS="7",
        OMNIGRAPH_EMBED_RETRY_BACKOFF_MS="nonsense",
        OMNIGRAPH_EMBED_DEADLINE_MS="0",
    )
    assert found == EmbedderOptions("openai", "m", "k", "http://here", 0.1, 7, 0.2, None)
    assert "'k'" not in repr(found)


@pytest.mark.parametrize("variable", ["OMNIGRAPH_EMBEDDINGS_MOCK", "NANOGRAPH_EMBEDDINGS_MOCK"])
def test_the_mock_flag_comes_before_everything(variable: str) -> None:
    assert options("gemini-x", **{variable: " Yes ", "OMNIGRAPH_EMBEDDER": "openai"}) == (
        EmbedderOptions("mock")
    )


def test_a_model_tells_its_provider() -> None:
    assert options("gemini-embedding-001").provider == "gemini"
    assert options("text-embedding-3-large").provider == "openai"
    assert options("wordllama").provider == "local"
    with pytest.raises(BadRequestError, match="whose embedding model is 'other'"):
        options("other")
    with pytest.raises(BadRequestError, match="OMNIGRAPH_EMBEDDER=x"):
        options(OMNIGRAPH_EMBEDDER="x")
    with pytest.raises(EmbeddingError, match="not 'other'"):
        embedder_of(options("other", OMNIGRAPH_EMBEDDER="local"))

"""Asking an embedding service: JSON over HTTP, with patience and an end to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from omnigraph.engine.search.embedder import (
    EmbedderUnavailableError,
    EmbeddingError,
    Matrix,
)
from omnigraph.engine.search.options import EmbedderOptions

if TYPE_CHECKING:
    import httpx2

WORKERS = 4
"""Requests under way at a time."""
_TOO_MANY, _SERVER_ERRORS = 429, 500
_SHOWN = 200

T = TypeVar("T")
R = TypeVar("R")


class Service:
    """One service; connections are kept between requests. Thread-safe."""

    def __init__(self, name: str, options: EmbedderOptions, headers: Mapping[str, str]) -> None:
        import httpx2  # most programs never talk to a service

        self._name = name
        self._options = options
        self._client = httpx2.Client(headers=dict(headers), timeout=options.timeout_s)
        self._retryable = (httpx2.TimeoutException, httpx2.TransportError)

    def post(self, url: str, body: object, sleep: Callable[[float], None] = time.sleep) -> Any:  # noqa: ANN401 - any JSON
        """Return the answer to a request; a service that is busy or away is asked again.

        Raises:
            EmbedderUnavailableError: it stayed busy or away.
            EmbeddingError: it refused the request, or its answer is not JSON.
        """
        options = self._options
        started = time.monotonic()
        for attempt in range(1, options.attempts + 1):
            failure, wait = self._try(url, body)
            if not isinstance(failure, str):
                return self._json(failure)
            pause = max(options.backoff_s * 2 ** min(attempt - 1, 10), wait)
            spent = time.monotonic() - started
            late = options.deadline_s is not None and spent + pause > options.deadline_s
            if attempt == options.attempts or late:
                raise EmbedderUnavailableError(
                    f"{self._name} did not embed the text: {failure} ({attempt} attempts)",
                    hint="try again later, or raise the limits OMNIGRAPH_EMBED_RETRY_ATTEMPTS, "
                    "OMNIGRAPH_EMBED_TIMEOUT_MS and OMNIGRAPH_EMBED_DEADLINE_MS",
                )
            sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _try(self, url: str, body: object) -> tuple[httpx2.Response | str, float]:
        """Return an answer, or why there is none and how long the service asks to wait."""
        try:
            response = self._client.post(url, json=body)
        except self._retryable as error:
            return f"{type(error).__name__}: {error}", 0.0
        if response.status_code == _TOO_MANY or response.status_code >= _SERVER_ERRORS:
            return f"HTTP {response.status_code}", _retry_after(response)
        return response, 0.0

    def _json(self, response: httpx2.Response) -> Any:  # noqa: ANN401 - any JSON
        if not response.is_success:
            said = " ".join(response.text.split())[:_SHOWN]
            raise EmbeddingError(f"{self._name} refused: HTTP {response.status_code}: {said}")
        try:
            return response.json()
        except ValueError:
            raise EmbeddingError(f"{self._name} answered with something that is not JSON") from None


def _retry_after(response: httpx2.Response) -> float:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else 0.0


def at_once(work: Callable[[T], R], items: list[T]) -> list[R]:
    """Run requests beside each other and return their results in order; the first failure ends it.

    What was not begun by then is not begun any more.
    """
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(WORKERS, len(items)), "omnigraph-embed") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def unit_rows(name: str, rows: object, dim: int) -> Matrix:
    """Return a service's vectors with length one.

    Raises:
        EmbeddingError: they are not `dim` finite numbers each.
    """
    try:
        found = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        raise EmbeddingError(f"{name} answered with vectors of different widths") from None
    if found.ndim != 2 or found.shape[1] != dim:
        width = found.shape[1] if found.ndim == 2 else "no"
        raise EmbeddingError(
            f"{name} answered with {width} dimensions, the column has {dim}",
            hint="choose a model that gives that many, or change the width of the column",
        )
    if not np.isfinite(found).all():
        raise EmbeddingError(f"{name} answered with numbers that are not finite")
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(np.divide(found, norms, out=np.zeros_like(found), where=norms > 0))


def key_or_refuse(options: EmbedderOptions, variable: str) -> str:
    """Return the key of a service, which is needed from the first request on."""
    if not options.api_key:
        raise EmbeddingError(
            f"the embedding provider '{options.provider}' needs {variable}",
            hint=f"set {variable}, or use the offline embedder",
        )
    return options.api_key

"""Errors as answers: which status they mean, and what a caller may be told.

Every answer but a good one has the same shape. Where the server itself failed, the text says so
and no more: paths, addresses and the words of storage are for the log, found there by the id of the
request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from omnigraph.api.problems import details
from omnigraph.errors import ErrorKind, OmniGraphError

_STATUS: Final = {
    ErrorKind.COMPILE: 400,
    ErrorKind.BAD_REQUEST: 400,
    ErrorKind.INTEGRITY: 400,
    ErrorKind.DENIED: 403,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.SNAPSHOT_EXPIRED: 404,
    ErrorKind.ALREADY_EXISTS: 409,
    ErrorKind.CONFLICT: 409,
    ErrorKind.EXPECTED_VERSION_MISMATCH: 409,
    ErrorKind.LOCK_TIMEOUT: 409,
    ErrorKind.MERGE_CONFLICTS: 409,
    ErrorKind.BUDGET_EXCEEDED: 413,
    ErrorKind.STORAGE: 500,
    ErrorKind.FORMAT: 500,
    ErrorKind.CORRUPT: 500,
    ErrorKind.INTERNAL: 500,
    ErrorKind.OUTCOME_PENDING: 503,
}
_CODE: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "bad_request",
    408: "bad_request",
    409: "conflict",
    413: "bad_request",
    415: "bad_request",
    421: "bad_request",
    431: "bad_request",
    500: "internal",
}
"""By status; of others clients know no code, so none is sent."""

_FAILED: Final = "the server could not finish this request"
_PENDING: Final = "the write is neither done nor undone yet; the next write to the graph settles it"
_BUSY_LOCK: Final = "another writer holds what this request needs"


class ProblemError(Exception):
    """A request is refused by the server itself, before or instead of the graph."""

    def __init__(
        self,
        status: int,
        error: str,
        *,
        kind: ErrorKind | None = None,
        hint: str | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
        more: dict[str, Any] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(error)
        self.status, self.error, self.kind, self.hint = status, error, kind, hint
        self.headers = tuple(headers)
        self.more = more or {}
        self.closes = closes
        """Whether the connection cannot be used any further."""

    def body(self) -> dict[str, Any]:
        """Return the answer."""
        found: dict[str, Any] = {"error": self.error}
        if self.status in _CODE:
            found["code"] = _CODE[self.status]
        if self.kind is not None:
            found["kind"] = self.kind.value
        if self.hint is not None:
            found["hint"] = self.hint
        return found | self.more


def bad_request(error: str, hint: str | None = None) -> ProblemError:
    """Return the refusal of a request that is wrong in itself."""
    return ProblemError(400, error, kind=ErrorKind.BAD_REQUEST, hint=hint)


def busy(error: str, retry_after_s: int) -> ProblemError:
    """Return the refusal of a request that would have to wait too long."""
    return ProblemError(
        429,
        error,
        hint=f"try again in {retry_after_s} s",
        headers=[(b"retry-after", str(retry_after_s).encode())],
    )


def status_of(error: OmniGraphError) -> int:
    """Return the status that an error of the graph means."""
    return _STATUS[error.kind]


def body_of(error: OmniGraphError, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a caller is told of an error of the graph.

    Args:
        error: what went wrong.
        secrets: texts that must not leave the server, such as where the graph is kept.
    """
    status = status_of(error)
    text, hint = error.message, error.hint
    if status == 500:
        text, hint = _FAILED, "the log of the server has more, under the id of this request"
    elif error.kind is ErrorKind.OUTCOME_PENDING:
        text, hint = _PENDING, "repeat it under the same idempotency key: it never writes twice"
    elif error.kind is ErrorKind.LOCK_TIMEOUT:
        text = _BUSY_LOCK
    found: dict[str, Any] = {"error": _without(text, secrets)}
    if status in _CODE:
        found["code"] = _CODE[status]
    found |= {"kind": error.kind.value, "class": type(error).__name__}
    if hint is not None:
        found["hint"] = _without(hint, secrets)
    if status != 500:
        found |= details(error)
    return found


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "<graph>")
    return text

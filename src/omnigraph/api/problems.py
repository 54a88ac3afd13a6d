"""What is told of an error to whoever cannot catch it: one shape, over HTTP and on a terminal.

An error is asked for what it has and not for its class: a surface must not load the rooms that
raise it.
"""

from __future__ import annotations

from typing import Any, Final

from omnigraph.api.schemas import LoadsRunningError, OnlyMainError, SchemaUnsupportedError
from omnigraph.errors import ErrorKind, OmniGraphError

CODES: Final = {
    ErrorKind.COMPILE: "bad_request",
    ErrorKind.BAD_REQUEST: "bad_request",
    ErrorKind.INTEGRITY: "bad_request",
    ErrorKind.BUDGET_EXCEEDED: "bad_request",
    ErrorKind.DENIED: "forbidden",
    ErrorKind.NOT_FOUND: "not_found",
    ErrorKind.SNAPSHOT_EXPIRED: "not_found",
    ErrorKind.ALREADY_EXISTS: "conflict",
    ErrorKind.CONFLICT: "conflict",
    ErrorKind.EXPECTED_VERSION_MISMATCH: "conflict",
    ErrorKind.LOCK_TIMEOUT: "conflict",
    ErrorKind.MERGE_CONFLICTS: "conflict",
    ErrorKind.STORAGE: "internal",
    ErrorKind.FORMAT: "internal",
    ErrorKind.CORRUPT: "internal",
    ErrorKind.INTERNAL: "internal",
}
"""The few words clients know; an outcome that is still open has none."""

_FIELDS: Final = (
    "param",
    "query",
    "reason",
    "branch",
    "expected",
    "actual",
    "table",
    "name",
    "total",
    "limit",
)
"""Attributes of errors that may leave the process, where they are words or numbers."""


def problem(error: OmniGraphError) -> dict[str, Any]:
    """Return an error as JSON: its text, code, kind and hint, and all that it has beside them."""
    found: dict[str, Any] = {"error": error.message}
    if error.kind in CODES:
        found["code"] = CODES[error.kind]
    found |= {"kind": error.kind.value, "class": type(error).__name__}
    if error.hint is not None:
        found["hint"] = error.hint
    return found | details(error)


def details(error: OmniGraphError) -> dict[str, Any]:
    """Return what an error has beside its words, as far as a caller can use it."""
    found: dict[str, Any] = {}
    fields = {name: getattr(error, name, None) for name in _FIELDS}
    told = {name: one for name, one in fields.items() if isinstance(one, str | int | float)}
    if told:
        found["fields"] = told
    # By what an error has and not by its class: a surface must not load the rooms that raise it.
    if hasattr(error, "diagnostics"):
        found["diagnostics"] = error.to_json()  # type: ignore[attr-defined] # as its sister
    if hasattr(error, "violations"):
        found["violations"] = [one.to_json_value() for one in error.violations]
    if isinstance(error, SchemaUnsupportedError):
        found["steps"] = [one.to_json_value() for one in error.steps]
    if isinstance(error, LoadsRunningError):
        found["loads"] = {name: list(tables) for name, tables in error.loads.items()}
    if isinstance(error, OnlyMainError):
        found["branches"] = list(error.branches)
    if error.kind is ErrorKind.MERGE_CONFLICTS:
        found["merge_conflicts"] = [one.to_json_value() for one in getattr(error, "every", ())]
    if error.kind is ErrorKind.EXPECTED_VERSION_MISMATCH:
        found["manifest_conflict"] = {
            "table_key": getattr(error, "table", None),
            "expected": getattr(error, "expected", None),
            "actual": getattr(error, "actual", None),
        }
    if error.kind is ErrorKind.OUTCOME_PENDING:
        commit = getattr(error, "commit_id", None)
        found["recovery_required"] = {"operation_id": None, "commit_id": commit}
    if error.kind is ErrorKind.BUDGET_EXCEEDED:
        limit = getattr(error, "limit", None)
        found["resource_limit"] = {"resource": _resource(error.message), "limit": limit}
    return found


def _resource(message: str) -> str:
    """Return which limit a refusal is about; budgets say it in words."""
    for word in ("time", "row", "memory"):
        if f"{word} budget" in message:
            return {"time": "seconds", "row": "rows", "memory": "bytes"}[word]
    return "cancelled" if "cancelled" in message else "memory"

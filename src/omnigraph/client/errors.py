"""Errors as a server tells them, made into the classes that a local graph raises.

No constructor runs: a class says in its own way how it is made, and the text is there already. A
class this version does not know becomes the category of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import orjson

from omnigraph.api.merges import MergeConflict
from omnigraph.api.texts import SchemaStep
from omnigraph.api.violations import Violation
from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticsError, Phase, Severity
from omnigraph.compiler.source import Source, Span
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    BudgetExceededError,
    CompileError,
    ConflictError,
    DeniedError,
    ErrorKind,
    FormatError,
    IntegrityError,
    InternalError,
    NotFoundError,
    OmniGraphError,
    StorageError,
)

SHOWN_CONFLICTS: Final = 100


class ServerBusyError(ConflictError):
    """The server has too much to do; it was asked several times."""


class ServerUnreachableError(StorageError):
    """Nobody answers at the address of the server, or the answer broke off."""


def closed_error() -> BadRequestError:
    """Return the error that a graph was closed."""
    return BadRequestError("this graph is closed", hint="connect again")


HOMES: Final[Mapping[str, str]] = {
    "DiagnosticsError": "omnigraph.compiler.diagnostics",
    "QueryNotFoundError": "omnigraph.compiler.compile",
    "AmbiguousQueryError": "omnigraph.compiler.compile",
    "MixedMutationError": "omnigraph.compiler.ir.mutation_mix",
    "ParamError": "omnigraph.compiler.query.params",
    "MissingParamError": "omnigraph.compiler.query.params",
    "ConstraintError": "omnigraph.engine.write.violations",
    "OvertakenError": "omnigraph.engine.write.commit",
    "FeedResetError": "omnigraph.engine.changes.feed",
    "EmbeddingError": "omnigraph.engine.search.embedder",
    "EmbedderUnavailableError": "omnigraph.engine.search.embedder",
    "SpaceMismatchError": "omnigraph.engine.search.embedder",
    "MixedVectorsError": "omnigraph.engine.search.spaces",
    "SchemaOvertakenError": "omnigraph.engine.schema.apply",
    "MergeBaseExpiredError": "omnigraph.engine.merge.base",
    "SchemasDifferError": "omnigraph.engine.merge.replay",
    "MergeOvertakenError": "omnigraph.engine.merge.run",
    "MergeConflictError": "omnigraph.api.merges",
    "SchemaUnsupportedError": "omnigraph.api.schemas",
    "LoadsRunningError": "omnigraph.api.schemas",
    "OnlyMainError": "omnigraph.api.schemas",
    "StoredQueryError": "omnigraph.api.stored",
    "StoredQueryNotFoundError": "omnigraph.api.stored",
    "TableNotFoundError": "omnigraph.api.history",
    "ShapeError": "omnigraph.api.wire",
    "RowRulesError": "omnigraph.api.visibility",
    "QueryCancelledError": "omnigraph.base.budget",
    "CommitNotFoundError": "omnigraph.storage.manifest.history",
    "IdempotencyConflictError": "omnigraph.storage.manifest.history",
    "BranchNotFoundError": "omnigraph.storage.manifest.snapshot",
    "SnapshotExpiredError": "omnigraph.storage.tables.failures",
    "CommitRaceError": "omnigraph.storage.tables.failures",
    "ExpectedVersionMismatch": "omnigraph.storage.commit.window",
    "HeadMovedError": "omnigraph.storage.commit.window",
    "SchemaChangedError": "omnigraph.storage.commit.window",
    "OutcomePendingError": "omnigraph.storage.files.sidecar",
    "GraphReplacedError": "omnigraph.storage.identity",
    "RunNotFoundError": "omnigraph.storage.branches.runs",
    "RunUnrecordedError": "omnigraph.storage.branches.runs",
    "RunEndedError": "omnigraph.storage.branches.runs",
    "DriftError": "omnigraph.storage.recovery.drift",
    "LeaseLostError": "omnigraph.storage.locks.leases",
    "LeaseMissedError": "omnigraph.storage.locks.leases",
    "LockTimeoutError": "omnigraph.storage.locks.by_name",
    "ReadOnlyError": "omnigraph.storage.store",
    "InputError": "omnigraph.pipeline.model",
    "CollidedError": "omnigraph.pipeline.checks.recheck",
    "ClosedError": "omnigraph.graph.state",
}
"""Where the classes are that a server may name; loaded only when one is met."""

_CATEGORIES: Final[Mapping[ErrorKind, type[OmniGraphError]]] = {
    ErrorKind.COMPILE: CompileError,
    ErrorKind.NOT_FOUND: NotFoundError,
    ErrorKind.ALREADY_EXISTS: AlreadyExistsError,
    ErrorKind.CONFLICT: ConflictError,
    ErrorKind.EXPECTED_VERSION_MISMATCH: ConflictError,
    ErrorKind.LOCK_TIMEOUT: ConflictError,
    ErrorKind.MERGE_CONFLICTS: ConflictError,
    ErrorKind.INTEGRITY: IntegrityError,
    ErrorKind.DENIED: DeniedError,
    ErrorKind.BUDGET_EXCEEDED: BudgetExceededError,
    ErrorKind.BAD_REQUEST: BadRequestError,
    ErrorKind.STORAGE: StorageError,
    ErrorKind.OUTCOME_PENDING: StorageError,
    ErrorKind.FORMAT: FormatError,
    ErrorKind.CORRUPT: FormatError,
    ErrorKind.SNAPSHOT_EXPIRED: NotFoundError,
    ErrorKind.INTERNAL: InternalError,
}
_BY_STATUS: Final[Mapping[int, type[OmniGraphError]]] = {
    400: BadRequestError,
    401: DeniedError,
    403: DeniedError,
    404: NotFoundError,
    405: BadRequestError,
    408: BadRequestError,
    409: ConflictError,
    412: ConflictError,
    413: BadRequestError,
    429: ServerBusyError,
    503: ServerUnreachableError,
}


def error_of(status: int, body: bytes, source: Source | None = None) -> OmniGraphError:
    """Return the error that an answer stands for.

    Args:
        status: of the answer.
        body: of the answer, whatever it is.
        source: the text the request was about, to show places in it.
    """
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("error"), str):
        shown = body[:200].decode("utf-8", "replace").strip()
        made = _BY_STATUS.get(status, InternalError)
        return made(f"server returned {status}: {shown}", hint="is this an OmniGraph server?")
    if source is not None and said.get("diagnostics"):
        return DiagnosticsError(source, [_diagnostic(source, one) for one in said["diagnostics"]])
    return _rebuilt(_class_of(status, said), said)


def _class_of(status: int, said: Mapping[str, Any]) -> type[OmniGraphError]:
    home = HOMES.get(str(said.get("class")))
    if home is not None:
        found = getattr(import_module(home), str(said["class"]), None)
        if isinstance(found, type) and issubclass(found, OmniGraphError):
            return found
    if status in (429, 503) and "class" not in said:
        return _BY_STATUS[status]
    known = {kind.value: kind for kind in ErrorKind}
    kind = known.get(str(said.get("kind")))
    return _BY_STATUS.get(status, InternalError) if kind is None else _CATEGORIES[kind]


def _rebuilt(made: type[OmniGraphError], said: Mapping[str, Any]) -> OmniGraphError:
    error = made.__new__(made)
    hint = said.get("hint")
    OmniGraphError.__init__(error, said["error"], hint=hint if isinstance(hint, str) else None)
    found: dict[str, Any] = dict(said.get("fields") or {})
    if isinstance(said.get("violations"), list):
        found["violations"] = tuple(map(Violation.from_json_value, said["violations"]))
        found.setdefault("total", len(found["violations"]))
    if isinstance(said.get("merge_conflicts"), list):
        every = tuple(map(MergeConflict.from_json_value, said["merge_conflicts"]))
        found |= {"conflicts": every[:SHOWN_CONFLICTS], "total": len(every), "every": every}
    if isinstance(said.get("steps"), list):
        found["steps"] = tuple(map(SchemaStep.from_json_value, said["steps"]))
    if isinstance(said.get("loads"), dict):
        found["loads"] = {name: tuple(tables) for name, tables in said["loads"].items()}
    if isinstance(said.get("branches"), list):
        found["branches"] = tuple(said["branches"])
    for name, value in found.items():
        setattr(error, name, value)
    return error


def _diagnostic(source: Source, said: Mapping[str, Any]) -> Diagnostic:
    span = said.get("span")
    raw = source.text.encode()
    place = None
    if isinstance(span, dict):
        start, end = (len(raw[: span[name]].decode("utf-8", "ignore")) for name in ("start", "end"))
        place = Span(start, end)
    return Diagnostic(
        said["code"],
        Phase(said["phase"]),
        said["message"],
        place,
        said.get("hint"),
        Severity(said["severity"]),
    )

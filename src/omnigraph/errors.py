"""The error tree, grouped by what a caller can do about it.

Categories and kinds live here; a specific error lives beside the code that raises it and
subclasses one category. Surfaces map categories to status and exit codes; nothing here
knows about either.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorKind(StrEnum):
    """Stable machine-readable names; append-only, because callers match on them."""

    COMPILE = "compile"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    CONFLICT = "conflict"
    EXPECTED_VERSION_MISMATCH = "expected_version_mismatch"
    LOCK_TIMEOUT = "lock_timeout"
    MERGE_CONFLICTS = "merge_conflicts"
    INTEGRITY = "integrity"
    DENIED = "denied"
    BUDGET_EXCEEDED = "budget_exceeded"
    BAD_REQUEST = "bad_request"
    STORAGE = "storage"
    OUTCOME_PENDING = "outcome_pending"
    FORMAT = "format"
    CORRUPT = "corrupt"
    SNAPSHOT_EXPIRED = "snapshot_expired"
    INTERNAL = "internal"


class OmniGraphError(Exception):
    """Base of everything this package raises on purpose.

    Attributes:
        kind: stable name of the error.
        hint: what the caller can do next, or None.
    """

    kind: ErrorKind = ErrorKind.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} (hint: {self.hint})"


class CompileError(OmniGraphError, ValueError):
    """A schema or query text is wrong; fix the text."""

    kind = ErrorKind.COMPILE


class BadRequestError(OmniGraphError, ValueError):
    """A call's arguments are wrong; fix the call."""

    kind = ErrorKind.BAD_REQUEST


class NotFoundError(OmniGraphError, KeyError):
    """A named graph, branch, commit, query or object does not exist."""

    kind = ErrorKind.NOT_FOUND

    __str__ = OmniGraphError.__str__  # KeyError would print the repr of the message


class AlreadyExistsError(OmniGraphError):
    """The name is taken."""

    kind = ErrorKind.ALREADY_EXISTS


class ConflictError(OmniGraphError):
    """Somebody else changed what this call relied on; re-read and try again."""

    kind = ErrorKind.CONFLICT


class IntegrityError(OmniGraphError, ValueError):
    """Data breaks a rule of the schema; fix the data."""

    kind = ErrorKind.INTEGRITY


class DeniedError(OmniGraphError, PermissionError):
    """The actor may not do this."""

    kind = ErrorKind.DENIED


class BudgetExceededError(OmniGraphError):
    """A query or job ran into its time, memory or row limit.

    Attributes:
        limit: what was allowed: seconds, bytes or rows.
    """

    kind = ErrorKind.BUDGET_EXCEEDED
    limit: float | None = None

    def __init__(
        self, message: str, *, hint: str | None = None, limit: float | None = None
    ) -> None:
        self.limit = limit
        super().__init__(message, hint=hint)


class StorageError(OmniGraphError, OSError):
    """The disk or object store failed or refused; the graph is unchanged."""

    kind = ErrorKind.STORAGE

    __str__ = OmniGraphError.__str__  # OSError formats errno/strerror instead


class FormatError(OmniGraphError):
    """Stored bytes are of another version or are damaged."""

    kind = ErrorKind.FORMAT


class InternalError(OmniGraphError):
    """An invariant of this package is broken; please report it."""

    kind = ErrorKind.INTERNAL

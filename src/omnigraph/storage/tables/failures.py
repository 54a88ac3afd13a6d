"""Errors of the substrate, told in our words.

Lance raises `ValueError`, `OSError` and `RuntimeError` for most things and says what happened
only in the text; this is the one place that looks at the text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lance.commit import CommitConflictError

from omnigraph.errors import ConflictError, ErrorKind, FormatError, NotFoundError, StorageError

LANCE_ERRORS = (OSError, ValueError, RuntimeError, NotImplementedError)
_MISSING = (
    "was not found",
    "Not found",
    "not found:",
    "Version not found",
    "No such file",
    "does not exist",
)
_SILENT = ("HTTP error: ", "status code: 5")
"""How a store is told of that was asked in vain, again and again."""
_RACES = ("Too many concurrent writers", "Retryable commit conflict", "Commit conflict")
_DAMAGED = (
    "Invalid range",
    "magic",
    "decode",
    "corrupt",
    "truncated",
    "too small",
    "EOF",
    "failed to fill whole buffer",
    "sufficient data",
)
_NO_TEXT = ("Invalid UTF8", "invalid utf-8")
_PANIC = "PanicException"
_RESTORE = "`omnigraph verify` names what is damaged; restore it from a backup"
_INDEX_FILE = "/_indices/"


class SnapshotExpiredError(NotFoundError):
    """A version of a table was removed by cleanup; the snapshot cannot be read any more."""

    kind = ErrorKind.SNAPSHOT_EXPIRED


class LostIndexError(FormatError):
    """Files of an index are not where they should be; the rows are all there."""

    kind = ErrorKind.CORRUPT


class StoreSilentError(StorageError):
    """The store did not answer, which says nothing about what is stored there."""


class ForkedProcessError(StorageError):
    """Lance was used before this process was forked; its threads exist only in the parent."""


class CommitRaceError(ConflictError):
    """Another writer moved a dataset first; nothing of ours became visible."""


class DamagedError(FormatError):
    """Stored bytes of a dataset cannot be read."""

    kind = ErrorKind.CORRUPT


class UnreadableTextError(DamagedError):
    """Stored text is not UTF-8: rows that an older program took in without looking at them."""


@contextlib.contextmanager
def lance_errors(doing: str) -> Iterator[None]:
    """Translate errors of Lance calls; `doing` says what was tried and on which dataset."""
    try:
        yield
    except (StorageError, NotFoundError, ConflictError, FormatError):
        raise
    except CommitConflictError as error:
        raise CommitRaceError(f"lost a race {doing}: {_reason(error)}") from error
    except LANCE_ERRORS as error:
        text = str(error)
        if any(sign in text for sign in _RACES):
            raise CommitRaceError(f"lost a race {doing}: {_reason(error)}") from error
        if any(sign in text for sign in _SILENT):
            raise StoreSilentError(f"failed {doing}: {_reason(error)}") from error
        if any(sign in text for sign in _MISSING):
            if _INDEX_FILE in text:
                raise LostIndexError(
                    f"an index is gone {doing}: {_reason(error)}",
                    hint="`omnigraph repair` takes it out, `ensure_indices` builds it again",
                ) from error
            raise SnapshotExpiredError(
                f"files are gone {doing}: {_reason(error)}",
                hint="the version was cleaned up or never existed; read a newer snapshot",
            ) from error
        if any(sign in text for sign in _NO_TEXT):
            raise UnreadableTextError(
                f"text that is not UTF-8 {doing}: {_reason(error)}",
                hint="`omnigraph verify` names the rows; delete them by their id",
            ) from error
        if any(sign in text for sign in _DAMAGED):
            raise DamagedError(f"damaged bytes {doing}: {_reason(error)}", hint=_RESTORE) from error
        raise StorageError(f"failed {doing}: {_reason(error)}") from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        # Lance does not check lengths everywhere: some torn bytes make it panic, and pyo3
        # reports that outside of the `Exception` tree, under a class it does not export.
        raise DamagedError(f"damaged bytes {doing}: {_reason(error)}", hint=_RESTORE) from error


def _reason(error: BaseException) -> str:
    """Return the first line of an error without the source positions Lance appends."""
    return (str(error).splitlines() or [type(error).__name__])[0].partition(", /")[0]

"""Identifiers: ULIDs that sort by creation time, and the names of the id types."""

from __future__ import annotations

import threading
from typing import NewType

from ulid import ULID

TableKey = NewType("TableKey", str)
BranchName = NewType("BranchName", str)
CommitId = NewType("CommitId", str)
OperationId = NewType("OperationId", str)


class UlidSource:
    """Strictly increasing ULIDs within one process, also inside one millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self, now_us: int) -> str:
        """Return a new id that sorts after every id this source returned before."""
        fresh = int(ULID.from_timestamp(now_us // 1_000))
        with self._lock:
            self._last = fresh if fresh > self._last else self._last + 1
            return str(ULID.from_int(self._last))


ULIDS = UlidSource()

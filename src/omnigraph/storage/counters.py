"""What the storage kernel did, counted: for operators, tests and benchmarks.

Knows nothing of what is counted. Counting is cheap enough to be always on.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

_RECENT_SYNCS = 512


class Counters:
    """Named totals, plus the order of the most recent durability barriers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()
        self._syncs: deque[str] = deque(maxlen=_RECENT_SYNCS)

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a total."""
        with self._lock:
            self._totals[name] += amount

    def set(self, name: str, value: int) -> None:
        """Replace a gauge."""
        with self._lock:
            self._totals[name] = value

    def peak(self, name: str, value: int) -> None:
        """Keep the highest value seen."""
        with self._lock:
            self._totals[name] = max(self._totals[name], value)

    def synced(self, what: str) -> None:
        """Record one fsync of a file or directory."""
        with self._lock:
            self._totals["fsyncs"] += 1
            self._syncs.append(what)

    def get(self, name: str) -> int:
        """Return a total; zero if nothing was counted yet."""
        with self._lock:
            return self._totals[name]

    def as_dict(self) -> dict[str, int]:
        """Return every total, by name."""
        with self._lock:
            return dict(sorted(self._totals.items()))

    def recent_syncs(self) -> list[str]:
        """Return the latest fsynced names, oldest first."""
        with self._lock:
            return list(self._syncs)

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self._totals.clear()
            self._syncs.clear()

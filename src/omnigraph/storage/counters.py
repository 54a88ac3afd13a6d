"""What the storage kernel did, counted: for operators, tests and benchmarks.

Counting is cheap enough to be always on here; the metrics of the process count along once somebody
looks at them.
"""

from __future__ import annotations

import threading
from collections import Counter, deque

from omnigraph.base.metrics import METRICS

_RECENT_SYNCS = 512

TOTALS = {
    "requests": "Requests to object stores.",
    "fsyncs": "Files and folders forced to the disk.",
    "lock_waits": "Writes that had to wait for a lock.",
    "lock_wait_us": "Microseconds that writes waited for locks.",
    "publish_retries": "Commits tried again because somebody got in between.",
    "publish_races": "Swaps of a head that somebody else won.",
    "restaged_writes": "Tables staged again because they moved.",
    "interrupted_commits": "Commits whose end met an error.",
    "unfinished_commits": "Commits that stand and were left to recovery to tidy up.",
    "unfinished_deletions": "Deletions of branches that were left to recovery.",
    "recoveries": "Interrupted writes that were finished or undone.",
    "deferred_sidecars": "Interrupted writes left for the next writer.",
    "quarantined_versions": "Torn versions set aside.",
    "drift_taken_over": "Tables whose work by other tools was taken over.",
    "rebuilt_projections": "Projections of the history made anew.",
    "upgraded_branches": "Branches brought to the current format.",
    "compactions": "Tables compacted.",
    "manifest_folds": "Catalogs folded.",
    "rows_rewritten": "Rows that maintenance wrote anew.",
    "upkeep_conflicts": "Maintenance given up because a writer was faster.",
    "upkeep_failures": "Maintenance that failed.",
    "versions_removed": "Versions that cleanup removed.",
    "delta_fragments": "Fragments read to compare versions.",
    "delta_rows": "Rows read to compare versions.",
}
GAUGES = {
    "pending_sidecars": "Interrupted writes that nobody has settled yet.",
    "oldest_sidecar_age_s": "Seconds since the oldest of them began.",
    "manifest_fragments": "Fragments of the catalog that was written last.",
    "lock_wait_peak_us": "The longest wait for a lock, in microseconds.",
}
_TOTALS = {
    name: METRICS.counter(f"omnigraph_storage_{name}_total", told) for name, told in TOTALS.items()
}
_GAUGES = {name: METRICS.gauge(f"omnigraph_storage_{name}", told) for name, told in GAUGES.items()}


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
        if METRICS.active:
            _TOTALS[name].add(amount)

    def set(self, name: str, value: int) -> None:
        """Replace a gauge."""
        with self._lock:
            self._totals[name] = value
        if METRICS.active:
            _GAUGES[name].set(value)

    def peak(self, name: str, value: int) -> None:
        """Keep the highest value seen."""
        with self._lock:
            peak = self._totals[name] = max(self._totals[name], value)
        if METRICS.active:
            _GAUGES[name].set(peak)

    def synced(self, what: str) -> None:
        """Record one fsync of a file or directory."""
        with self._lock:
            self._totals["fsyncs"] += 1
            self._syncs.append(what)
        if METRICS.active:
            _TOTALS["fsyncs"].add()

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

"""Calls as an operator sees them: how many of which kind, how long, and which took too long.

Knows no query and no value of one: what is told of a slow call is its name, its branch and its
size, never a text or a parameter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.base.clock import Clock
from omnigraph.base.metrics import METRICS
from omnigraph.errors import BudgetExceededError, ConflictError, OmniGraphError

log = logging.getLogger("omnigraph.slow")

CALLS = METRICS.counter(
    "omnigraph_queries_total",
    "Queries and mutations, by kind and how they ended.",
    "kind",
    "outcome",
)
TOOK = METRICS.histogram("omnigraph_query_seconds", "Time of queries and mutations.", "kind")
ROWS = METRICS.counter("omnigraph_query_rows_total", "Rows that queries returned.")
SLOW = METRICS.counter("omnigraph_slow_queries_total", "Calls that the log of slow ones told.")
JOBS = METRICS.counter(
    "omnigraph_jobs_total",
    "Loads, exports and embeddings, by job and how they ended.",
    "job",
    "outcome",
)
JOB_TOOK = METRICS.histogram("omnigraph_job_seconds", "Time of bulk jobs.", "job")
JOB_ROWS = METRICS.counter("omnigraph_job_rows_total", "Rows that bulk jobs wrote.", "job")


@dataclass(slots=True)
class Call:
    """What is known of a call once it is through."""

    name: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """Watches the calls of one open graph."""

    clock: Clock
    slow_ms: float | None = None
    """From how long on a call is told in the log; None is never."""

    @contextmanager
    def call(self, kind: str, name: str | None, branch: str) -> Iterator[Call]:
        """Watch one query or mutation; the block says what came of it."""
        seen, started, outcome = (
            Call("the only one" if name is None else name),
            self.clock.monotonic(),
            ["ok"],
        )
        try:
            with _outcome(outcome):
                yield seen
        finally:
            seconds = self.clock.monotonic() - started
            CALLS.add(1, kind, outcome[0])
            TOOK.observe(seconds, kind)
            ROWS.add(seen.rows)
            if self.slow_ms is not None and seconds * 1_000 >= self.slow_ms:
                SLOW.add()
                told = (kind, seen.name, branch, seconds * 1_000, seen.rows, outcome[0])
                log.warning("%s '%s' on '%s' took %.0f ms, %d rows: %s", *told)

    @contextmanager
    def job(self, name: str) -> Iterator[Call]:
        """Watch one bulk job; the block says how many rows it wrote."""
        seen, started, outcome = Call(name), self.clock.monotonic(), ["ok"]
        try:
            with _outcome(outcome):
                yield seen
        finally:
            JOBS.add(1, name, outcome[0])
            JOB_TOOK.observe(self.clock.monotonic() - started, name)
            JOB_ROWS.add(seen.rows, name)


@contextmanager
def _outcome(found: list[str]) -> Iterator[None]:
    try:
        yield
    except BudgetExceededError:
        found[0] = "limit"
        raise
    except ConflictError:
        found[0] = "conflict"
        raise
    except OmniGraphError:
        found[0] = "refused"
        raise
    except BaseException:
        found[0] = "failed"
        raise

"""What every operator of one run did: rows and time. Only a profiled run pays for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.compiler.ir.explain import explain_ops
from omnigraph.compiler.ir.ops import Op


@dataclass(slots=True)
class Step:
    """One operator; what runs inside an anti-join is one level deeper and part of its time."""

    operator: str
    depth: int
    rows: int = 0
    ms: float = 0.0
    access: str | None = None
    """How it gets at its rows."""
    expected: float | None = None
    """How many rows were expected."""


@dataclass(slots=True)
class Trace:
    """The operators of a run in the order they started."""

    clock: Clock = SYSTEM_CLOCK
    steps: list[Step] = field(default_factory=list)
    expected: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    """Access path and expected rows, by the identity of an operator of the plan."""
    _depth: int = 0

    @contextmanager
    def step(self, op: Op | str) -> Iterator[Step]:
        """Time the block as one operator; the block sets the rows it made."""
        text = op if isinstance(op, str) else next(explain_ops([op]))
        access, rows = self.expected.get(id(op), (None, None))
        current = Step(text, self._depth, access=access, expected=rows)
        self.steps.append(current)
        started = self.clock.monotonic()
        self._depth += 1
        try:
            yield current
        finally:
            self._depth -= 1
            current.ms = (self.clock.monotonic() - started) * 1_000

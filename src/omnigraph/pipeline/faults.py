"""What is wrong with rows of one input: the first 100 by their place in it, all counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.engine.write.violations import MAX_REPORTED, Violation
from omnigraph.pipeline.row_ids import Ints


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule and the row that breaks it, counted from 1 within its task."""

    row: int
    violation: Violation


class Faults:
    """Collects what is wrong; a million bad rows stay a small report."""

    def __init__(self) -> None:
        self.items: list[Fault] = []
        self.total = 0

    def add(self, row: int, violation: Violation) -> None:
        """Keep one fault."""
        self.total += 1
        if len(self.items) < MAX_REPORTED:
            self.items.append(Fault(row, violation))

    def add_all(self, rows: Ints, describe: Callable[[int], Violation]) -> None:
        """Keep faults of many rows; `describe` is asked by position for those that are kept."""
        room = max(MAX_REPORTED - len(self.items), 0)
        self.items += [Fault(int(row), describe(at)) for at, row in enumerate(rows[:room])]
        self.total += len(rows)

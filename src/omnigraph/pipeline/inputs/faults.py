"""What is wrong with rows of one input: the first by their place in it, all counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.api.violations import Violation
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.write.violations import MAX_REPORTED, Broken
from omnigraph.pipeline.inputs.row_ids import Ints


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule and the row that breaks it, counted from 1 within its task."""

    row: int
    violation: Violation


class Faults:
    """Collects what is wrong; a million bad rows stay a small report.

    Kept are the first faults by row, in whatever order they are found, so that the report does
    not depend on how the input was cut.
    """

    def __init__(self, limit: int = MAX_REPORTED) -> None:
        self._limit = limit
        self._kept: list[Fault] = []
        self.total = 0
        self.refused = 0
        """How many rows were refused; one row may have several faults."""

    @property
    def items(self) -> tuple[Fault, ...]:
        """The first faults, by row."""
        self._prune()
        return tuple(self._kept)

    def add(self, row: int, violation: Violation, *, again: bool = False) -> None:
        """Keep the fault of one row; `again` says that the row is refused already."""
        self.add_row(row, [violation])
        self.refused -= again

    def add_row(self, row: int, violations: Sequence[Violation]) -> None:
        """Keep everything that is wrong with one row."""
        self.total += len(violations)
        self.refused += 1
        self._keep([Fault(row, one) for one in violations])

    def add_more(self, rows: Ints, describe: Callable[[int], Violation]) -> None:
        """Keep another fault each of rows that are refused already."""
        self._add_many(rows, describe)

    def add_all(self, rows: Ints, describe: Callable[[int], Violation]) -> None:
        """Keep one fault each of many rows, which ascend; `describe` is asked by position."""
        self.refused += len(rows)
        self._add_many(rows, describe)

    def add_broken(self, found: Iterable[Broken], at: Ints) -> Mask:
        """Keep the rules that rows with the numbers `at` break; return which rows they are."""
        bad = np.zeros(len(at), dtype=bool)
        for broken in found:
            bad[broken.rows] = True
            self._add_many(at[broken.rows], broken.tell)
        self.refused += int(bad.sum())
        return bad

    def _add_many(self, rows: Ints, describe: Callable[[int], Violation]) -> None:
        self.total += len(rows)
        first = rows[: self._limit]
        if len(self._kept) >= self._limit:  # later ones are only asked for if they can matter
            self._prune()
            first = first[first < self._kept[-1].row]
        self._keep([Fault(int(row), describe(at)) for at, row in enumerate(first)])

    def _keep(self, faults: list[Fault]) -> None:
        self._kept += faults
        if len(self._kept) > 4 * self._limit:
            self._prune()

    def _prune(self) -> None:
        self._kept.sort(key=lambda fault: fault.row)
        del self._kept[self._limit :]

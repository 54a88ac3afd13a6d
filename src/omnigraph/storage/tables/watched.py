"""Rows on their way into Lance, under the limits of the call that writes them.

A single call of Lance writes a whole table, which may take far longer than the call was given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.base.budget import Budget
from omnigraph.errors import BudgetExceededError, OmniGraphError
from omnigraph.storage.tables.failures import lance_errors

PIECE_ROWS = 32_768


class Watched:
    """Hands rows to Lance piece by piece, so that a call that has to stop does so in between.

    Lance turns whatever a reader raises into an error of its own; `passed_on` raises ours again.
    """

    def __init__(self, step: str, budget: Budget | None) -> None:
        self._step, self._budget = step, budget
        self._stopped: BudgetExceededError | None = None

    def check(self) -> None:
        """Stop here if the call has to."""
        if self._budget is not None:
            self._budget.check(self._step)

    def rows(self, rows: pa.Table) -> pa.Table | pa.RecordBatchReader:
        """Return the rows as Lance may read them."""
        if self._budget is None or len(rows) <= PIECE_ROWS:
            return rows
        return pa.RecordBatchReader.from_batches(rows.schema, self._pieces(rows))

    def _pieces(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for piece in rows.to_batches(max_chunksize=PIECE_ROWS):
            try:
                self.check()
            except BudgetExceededError as error:
                self._stopped = error
                raise
            yield piece

    @contextlib.contextmanager
    def passed_on(self, doing: str) -> Iterator[None]:
        """Translate errors of Lance calls in the block; one of ours stays what it is."""
        try:
            with lance_errors(doing):
                yield
        except OmniGraphError:
            if self._stopped is not None:
                raise self._stopped from None
            raise

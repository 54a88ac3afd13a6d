"""What an operator may use while a query runs: images of one snapshot, parameters, budgets."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.compiler.query.typed import Direction, Rrf
from omnigraph.engine.image.arrays import Floats, Ints
from omnigraph.engine.image.postings import Postings
from omnigraph.engine.image.table import TableImage
from omnigraph.engine.image.vectors import Vectors
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.errors import BudgetExceededError

_NUMBER_BYTES = 8


class Images(Protocol):
    """Resident state of one snapshot."""

    def node(self, type_name: str) -> TableImage:
        """Return the image of a node type."""
        ...

    def edge(self, edge: str) -> TableImage:
        """Return the image of an edge type."""
        ...

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Return one direction (out or in) of an edge type."""
        ...

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return the postings of a text property."""
        ...

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the vectors of a property."""
        ...


class QueryCancelledError(BudgetExceededError):
    """Another thread cancelled the query."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use; None is unlimited."""

    seconds: float | None = None
    rows: int | None = None
    bytes: int | None = None
    """Memory for the rows in the making and the result; resident tables are shared, not counted."""


@dataclass(slots=True)
class Budget:
    """Counts what a query uses and stops it at its limits; checked between and inside operators."""

    limits: Limits = field(default_factory=Limits)
    clock: Clock = SYSTEM_CLOCK
    cancelled: threading.Event | None = None
    """Set by another thread to stop the query."""
    counts_rows: bool = False
    """Whether it pays to know the size of a step before it is taken."""
    _deadline: float | None = None

    def __post_init__(self) -> None:
        self.counts_rows = self.limits.rows is not None or self.limits.bytes is not None
        if self.limits.seconds is not None:
            self._deadline = self.clock.monotonic() + self.limits.seconds

    def check(self, operator: str, rows: int = 0, columns: int = 1) -> None:
        """Raise when the operator is about to hold more rows, or take longer, than allowed.

        Args:
            operator: what the message calls it.
            rows: how many rows it holds, or is about to.
            columns: how many numbers every row has.
        """
        if self.cancelled is not None and self.cancelled.is_set():
            raise QueryCancelledError(f"the query was cancelled in {operator}")
        if self.limits.rows is not None and rows > self.limits.rows:
            raise BudgetExceededError(
                f"{operator} needs {rows} rows; the row budget is {self.limits.rows}",
                hint="add filters or a limit, or raise the row budget",
            )
        self.hold(operator, rows * columns * _NUMBER_BYTES)
        if self._deadline is not None and self.clock.monotonic() > self._deadline:
            raise BudgetExceededError(
                f"{operator} ran past the time budget of {self.limits.seconds} s",
                hint="add filters, or raise the time budget",
            )

    def hold(self, operator: str, nbytes: int) -> None:
        """Raise when the operator holds more memory than allowed, or is about to."""
        most = self.limits.bytes
        if most is not None and nbytes > most:
            raise BudgetExceededError(
                f"{operator} needs {nbytes} bytes; the memory budget is {most}",
                hint="add filters or a limit, or raise the memory budget",
            )


@dataclass(frozen=True, slots=True)
class Ranked:
    """Nodes with their score and a key that sorts the best first; equal keys are ties."""

    positions: Ints
    scores: Floats
    keys: Floats


@dataclass(frozen=True, slots=True)
class ReadContext:
    """One run of one query.

    `types` tells the table behind every variable: name, and if edge. `fused` are the fused scores
    of the whole match, known once it is complete.
    """

    images: Images
    params: Mapping[str, Any]
    types: Mapping[str, tuple[str, bool]]
    budget: Budget
    fused: dict[Rrf, Ranked] = field(default_factory=dict)
    trace: Trace | None = None

    def image(self, var: str) -> TableImage:
        """Return the image a variable's positions point into."""
        name, is_edge = self.types[var]
        return self.images.edge(name) if is_edge else self.images.node(name)

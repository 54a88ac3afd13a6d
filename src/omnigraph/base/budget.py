"""What one call may use of time, rows and memory, and what all calls of a process share.

A budget is the running call's own: it counts what the call holds and stops it at its limits, and
never changes an answer. Whatever works for a call finds its budget with `current`; so loading a
table, which many queries share, is paid by the one that asked for it.

Memory is counted as the most that was held at once, from sizes that are known before anything is
made. Every byte counted is also taken from the process's account and given back when the call ends.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeVar

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.metrics import METRICS
from omnigraph.errors import BadRequestError, BudgetExceededError

Piece = TypeVar("Piece")

_LOOK_S = 0.05
"""How long a call waits for another one without looking whether it has to stop."""

NUMBER_BYTES = 8
_UNCOUNTED = 1 << 20
"""Calls that hold less do not ask the account: there are many, and they add up to little."""
_NO_MACHINE = 1 << 46
"""More bytes than any machine has; refused without limits too, before a library fails at it."""


class QueryCancelledError(BudgetExceededError):
    """Another thread cancelled the query."""


class _Unsaid(Enum):
    """Stands for a limit nobody spoke of; None says that there is none."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Unsaid.DEFAULT
"""The limit that the settings, or else the machine, give."""
Unsaid = Literal[_Unsaid.DEFAULT]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use. What is not said is as the settings have it; None is unlimited."""

    seconds: float | Unsaid | None = DEFAULT
    """Wall time from the call on; of what is returned in pieces, without that of the caller."""
    rows: int | Unsaid | None = DEFAULT
    """Rows of any step."""
    bytes: int | Unsaid | None = DEFAULT
    """Memory the call takes: rows in the making, the result, and tables read for it."""

    def __post_init__(self) -> None:
        """Refuse what is no limit.

        Raises:
            BadRequestError: a limit is not a number from 0 on.
        """
        _check_seconds(self.seconds)
        for name in ("rows", "bytes"):
            _check_count(name, getattr(self, name))

    def over(self, defaults: Limits) -> Limits:
        """Return these limits, and for what they do not say those of `defaults`."""
        if DEFAULT not in (self.seconds, self.rows, self.bytes):
            return self
        return Limits(
            defaults.seconds if self.seconds is DEFAULT else self.seconds,
            defaults.rows if self.rows is DEFAULT else self.rows,
            defaults.bytes if self.bytes is DEFAULT else self.bytes,
        )


def _check_seconds(value: object) -> None:
    if value is None or value is DEFAULT:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadRequestError(
            f"a limit of {value!r} seconds is none", hint="a number from 0 on, or None for no limit"
        )
    if value < 0:
        raise BadRequestError(f"a limit of {value!r} seconds is none", hint="a number from 0 on")


def _check_count(name: str, value: Any) -> None:  # noqa: ANN401 - whatever a caller passes
    if value is None or value is DEFAULT:
        return
    try:
        is_count = not isinstance(value, bool) and operator.index(value) >= 0
    except TypeError:
        is_count = False
    if not is_count:
        raise BadRequestError(
            f"a limit of {value!r} {name} is none", hint="a whole number from 0 on, or None"
        )


class Account:
    """The memory that all calls of a process hold together; thread-safe.

    `limit` may be changed at any time; None is unlimited, and so is one nobody has set yet.
    """

    def __init__(self, limit: int | Unsaid | None) -> None:
        self.limit: int | Unsaid | None = limit
        self._used = 0
        self._lock = threading.Lock()

    def open(self, limit: int | None) -> None:
        """Set the limit unless somebody did."""
        if self.limit is DEFAULT:
            self.limit = limit

    @property
    def used(self) -> int:
        """How much is held now."""
        return self._used

    def take(self, step: str, nbytes: int) -> None:
        """Count bytes that are about to be held.

        Raises:
            BudgetExceededError: together with what others hold it would be too much.
        """
        with self._lock:
            limit = self.limit
            if limit is None or limit is DEFAULT or self._used + nbytes <= limit:
                self._used += nbytes
                return
            used = self._used
        REFUSALS.add(1, "process memory")
        raise BudgetExceededError(
            f"{step} needs {nbytes} bytes more, and the calls of this process hold {used}; "
            f"the memory budget of the process is {limit}",
            hint="run fewer at a time, or raise limits.process_memory "
            "(OMNIGRAPH_PROCESS_MEMORY); none switches it off",
            limit=limit,
        )

    def give_back(self, nbytes: int) -> None:
        """Count bytes that are not held any more."""
        with self._lock:
            self._used -= nbytes


PROCESS = Account(DEFAULT)
"""The account of this process."""

REFUSALS = METRICS.counter(
    "omnigraph_budget_refusals_total", "Calls stopped at a limit, by the limit.", "limit"
)
METRICS.gauge(
    "omnigraph_budget_process_bytes",
    "Memory that all calls of the process hold together.",
    lambda: PROCESS.used,
)


def limit_process_memory(nbytes: int | None) -> None:
    """Set what all calls of this process may hold together; None is unlimited.

    Raises:
        BadRequestError: it is not a number from 0 on.
    """
    _check_count("bytes", nbytes)
    PROCESS.limit = nbytes


_CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


class Signal(Protocol):
    """What says that a call has to stop, as a `threading.Event` does."""

    def is_set(self) -> bool:
        """Whether it has to."""
        ...


class Budget:
    """Counts what one call uses and stops it at its limits. As a context it is the current one."""

    __slots__ = (
        "_account",
        "_clock",
        "_deadline",
        "_kept",
        "_max_bytes",
        "_max_rows",
        "_taken",
        "_token",
        "cancelled",
        "limits",
        "peak",
        "what",
    )

    def __init__(
        self,
        limits: Limits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        cancelled: Signal | None = None,
        *,
        account: Account = PROCESS,
        what: Literal["query", "job"] = "query",
    ) -> None:
        """Start the clock.

        Args:
            limits: what is not said in them is unlimited.
            clock: what time it is.
            cancelled: set by another thread to stop the call.
            account: what the memory is taken from.
            what: which settings a message names.
        """
        self.limits = Limits() if limits is None else limits
        self.cancelled = cancelled
        self.what = what
        self.peak = 0
        """The most bytes that were held at once so far."""
        self._clock = clock
        self._account = account
        seconds, rows, most = self.limits.seconds, self.limits.rows, self.limits.bytes
        self._deadline = (
            None if seconds is None or seconds is DEFAULT else clock.monotonic() + seconds
        )
        self._max_rows = None if rows is DEFAULT else rows
        self._max_bytes = None if most is DEFAULT else most
        self._kept = 0
        self._taken = 0
        self._token: Token[Budget | None] | None = None

    @property
    def can_end(self) -> bool:
        """Whether time or somebody else may stop the call."""
        return self._deadline is not None or self.cancelled is not None

    def check(self, step: str, rows: int = 0, columns: int = 1) -> None:
        """Raise when a step is about to hold more rows, or take longer, than allowed.

        Args:
            step: what the message calls it.
            rows: how many rows it holds, or is about to.
            columns: how many numbers every row has.
        """
        if self.cancelled is not None and self.cancelled.is_set():
            REFUSALS.add(1, "cancelled")
            raise QueryCancelledError(f"the {self.what} was cancelled in {step}")
        if self._deadline is not None and self._clock.monotonic() > self._deadline:
            REFUSALS.add(1, "time")
            seconds = self.limits.seconds
            raise BudgetExceededError(
                f"{step} ran past the time budget of {seconds} s",
                hint=f"add filters, or raise the time budget: {self._ways('seconds')}",
                limit=None if seconds is DEFAULT else seconds,
            )
        if rows:
            if self._max_rows is not None and rows > self._max_rows:
                REFUSALS.add(1, "rows")
                raise BudgetExceededError(
                    f"{step} needs {rows} rows; the row budget is {self._max_rows}",
                    hint=f"add filters or a limit, or raise the row budget: {self._ways('rows')}",
                    limit=self._max_rows,
                )
            self.hold(step, rows * columns * NUMBER_BYTES)

    def hold(self, step: str, nbytes: int) -> None:
        """Raise when a step, beside what is kept, is about to hold more memory than allowed."""
        total = self._kept + nbytes
        if total <= self.peak:
            return
        most = _NO_MACHINE if self._max_bytes is None else self._max_bytes
        if total > most:
            REFUSALS.add(1, "memory")
            raise BudgetExceededError(
                f"{step} needs {total} bytes; the memory budget is {most}",
                hint=f"add filters or a limit, or raise the memory budget: {self._ways('bytes')}",
                limit=most,
            )
        if total > _UNCOUNTED:
            self._account.take(step, total - self._taken)
            self._taken = total
        self.peak = total

    def is_small(self, rows: int, columns: int) -> bool:
        """Whether so many rows are certainly allowed and too few to be counted."""
        nbytes = self._kept + rows * columns * NUMBER_BYTES
        if nbytes > self.peak:
            if nbytes > _UNCOUNTED:
                return False
            if self._max_bytes is not None and nbytes > self._max_bytes:
                return False
        return self._max_rows is None or rows <= self._max_rows

    def keep(self, step: str, nbytes: int) -> None:
        """Count memory that is held from now on, like a table that was read.

        Raises:
            BudgetExceededError: there is not so much left.
        """
        self._kept += nbytes
        self.check(step)
        self.hold(step, 0)

    def close(self) -> None:
        """Give everything back to the process; again is fine."""
        taken, self._taken, self.peak = self._taken, 0, 0
        if taken:
            self._account.give_back(taken)

    def __enter__(self) -> Self:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _CURRENT.reset(self._token)
        if self._taken:
            self.close()
        if kind is not None:
            self.explain(error)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Be the current budget for a while, of a call that goes on later."""
        self._token = _CURRENT.set(self)
        try:
            yield
        except MemoryError as error:
            self.explain(error)
            raise
        finally:
            self.pause()

    def over(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield pieces that are made under this budget; closes it with the last one.

        What the caller does before and between them takes none of its time.
        """
        return self._over(pieces, self._clock.monotonic())

    def _over(self, pieces: Iterator[Piece], since: float) -> Iterator[Piece]:
        try:
            while True:
                if self._deadline is not None:
                    self._deadline += self._clock.monotonic() - since
                with self.current():
                    piece = next(pieces, None)
                    self.check("return")
                if piece is None:
                    return
                since = self._clock.monotonic()
                yield piece
        finally:
            self.close()

    def pause(self) -> None:
        """Stop being the current budget."""
        assert self._token is not None
        _CURRENT.reset(self._token)
        self._token = None

    def explain(self, error: BaseException | None) -> None:
        """Raise the typed error when it was memory that ran out, which no estimate foresaw."""
        if isinstance(error, MemoryError):
            REFUSALS.add(1, "machine memory")
            raise BudgetExceededError(
                f"the {self.what} needs more memory than there is: {error}",
                hint=f"add filters or a limit, or lower the memory budget: {self._ways('bytes')}",
            ) from error

    def _ways(self, limit: str) -> str:
        """Return where a limit is set."""
        flag = {"seconds": "--max-seconds", "rows": "--max-rows", "bytes": "--max-memory"}[limit]
        word = {"seconds": "seconds", "rows": None, "bytes": "memory"}[limit]
        name = None if word is None or (self.what, limit) == ("job", "seconds") else word
        setting = "" if name is None else f", limits.{self.what}_{name} in omnigraph.yaml"
        variable = "" if name is None else f", OMNIGRAPH_{self.what.upper()}_{name.upper()}"
        return f"Limits({limit}=…), {flag}{setting}{variable}; none switches it off"


def current() -> Budget | None:
    """Return the budget of the running call."""
    return _CURRENT.get()


def checkpoint(step: str, nbytes: int = 0) -> None:
    """Stop here if the running call has to, or if it may not hold so much beside what it keeps."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.check(step)
        if nbytes:
            budget.hold(step, nbytes)


@contextmanager
def waited(lock: threading.Lock, step: str) -> Iterator[None]:
    """Hold a lock inside the block; a call that has to stop does not wait for it any longer."""
    while not lock.acquire(timeout=_LOOK_S):
        checkpoint(step)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def passing() -> Iterator[None]:
    """Let go, at the end of the block, of what the running call keeps inside it."""
    budget = _CURRENT.get()
    before = 0 if budget is None else budget._kept
    try:
        yield
    finally:
        if budget is not None:
            budget._kept = before


@contextmanager
def unstoppable() -> Iterator[None]:
    """Run the block to its end whatever the budget says: half of it must not happen."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def keep(step: str, nbytes: int) -> None:
    """Count memory that the running call holds from now on."""
    budget = _CURRENT.get()
    if budget is not None:
        budget.keep(step, nbytes)

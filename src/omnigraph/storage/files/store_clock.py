"""The clock that dates the files of a graph, as far as this process can tell.

How old a file is can only be said by the clock that dated it. The clocks of machines differ, by
weeks if one is set wrong; a cleanup that went by its own would take the files of a write under way
for those of a dead one, and a live reader's pin for an expired one. So the store is asked once what
time it is, by writing something, and the monotonic clock counts on from there.

The answer is known within bounds: the store dated the file at some moment between question and
answer, and may have cut the fraction of a second off. Whoever judges what is old enough to go takes
the earliest time it can be, whoever says until when something must stay takes the latest. A machine
that slept is behind, which only makes files look younger.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omnigraph.base.clock import Clock
from omnigraph.errors import StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects

_SECOND_US = 1_000_000
_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the store's clock showed when the monotonic clock showed zero, at least and at most."""

    earliest_us: int
    latest_us: int

    @property
    def doubt_us(self) -> int:
        return self.latest_us - self.earliest_us


class StoreClock:
    """Wall time by the store's clock; waiting is this machine's business.

    Whoever only reads does not write to ask, and is told what this machine's clock says: readers
    remove nothing.
    """

    def __init__(self, objects: Objects, clock: Clock, *, may_write: bool) -> None:
        self._objects = objects
        self._clock = clock
        self._may_write = may_write
        self._lock = threading.Lock()
        self._zero: _Reading | None = None

    @property
    def may_write(self) -> bool:
        """Whether the graph is open for writing."""
        return self._may_write

    def now_us(self) -> int:
        """Return the earliest it can be by the store's clock; the first question writes a file."""
        if not self._may_write:
            return self._clock.now_us()
        return self._reading().earliest_us + self._monotonic_us()

    def latest_us(self) -> int:
        """Return the latest it can be by the store's clock."""
        if not self._may_write:
            return self._clock.now_us()
        return self._reading().latest_us + self._monotonic_us()

    def for_writing(self) -> StoreClock:
        """Return the clock for somebody who writes in spite of reading only, like one who pins."""
        return self if self._may_write else StoreClock(self._objects, self._clock, may_write=True)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._clock.sleep(seconds)

    def _reading(self) -> _Reading:
        with self._lock:
            if self._zero is None:
                self._zero = self._ask()
                for _ in range(_TRIES - 1):
                    if self._zero.doubt_us <= 2 * _SECOND_US:
                        break
                    self._zero = min(self._zero, self._ask(), key=lambda zero: zero.doubt_us)
            return self._zero

    def _ask(self) -> _Reading:
        before_us = self._monotonic_us()
        self._objects.put(layout.CLOCK, b"")
        written = self._objects.info(layout.CLOCK)
        if written is None:
            raise StorageError(f"'{layout.CLOCK}' is gone as soon as it is written")
        after_us = self._monotonic_us()
        dated_us = written.modified_us
        cut_us = _SECOND_US if dated_us % _SECOND_US == 0 else 0
        return _Reading(dated_us - after_us, dated_us + cut_us - before_us)

    def _monotonic_us(self) -> int:
        return int(self._clock.monotonic() * _SECOND_US)

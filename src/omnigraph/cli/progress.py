"""Progress of long jobs on stderr: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.cli.output import warn

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from omnigraph.api.progress import Progress

_LINE_EVERY_S = 5.0
_MIB = 1 << 20


@contextlib.contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Give something that shows progress as stderr allows; nothing if asked to be quiet."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        from rich.console import Console  # only terminals pay for it
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[shown]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bars(bar)


class _Counter:
    """Rows kept and refused in the stage at hand, and how fast."""

    def __init__(self) -> None:
        self.rows = self.bad = self.bytes = 0
        self._started = time.monotonic()

    def add(self, rows: int, bad: int, size: int) -> str:
        self.rows += rows
        self.bad += bad
        self.bytes += size
        speed = self.rows / max(time.monotonic() - self._started, 1e-3)
        refused = f", {self.bad:,} bad" if self.bad else ""
        read = f"{self.bytes / _MIB:,.1f} MiB, " if self.bytes else ""
        return f"{read}{self.rows:,} rows, {speed:,.0f} rows/s{refused}"


class _Bars:
    """One bar per stage."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._counter = _Counter()

    def stage(self, name: str, tasks: int) -> None:
        self._counter = _Counter()
        self._task = self._bar.add_task(name, total=tasks, shown="")

    def done(self, rows: int, bad: int, size: int = 0) -> None:
        assert self._task is not None
        self._bar.update(self._task, advance=1, shown=self._counter.add(rows, bad, size))


class _Lines:
    """A line every few seconds; short jobs stay silent."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._name, self._tasks, self._finished = "", 0, 0
        self._counter = _Counter()

    def stage(self, name: str, tasks: int) -> None:
        self._name, self._tasks, self._finished = name, tasks, 0
        self._counter = _Counter()

    def done(self, rows: int, bad: int, size: int = 0) -> None:
        self._finished += 1
        shown = self._counter.add(rows, bad, size)
        if time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            warn(f"{self._name}: {self._finished} of {self._tasks} parts, {shown}")

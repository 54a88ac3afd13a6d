"""Work nobody waits for, one piece at a time per process: what it makes is used once it is there.

Only for what can be left out without changing an answer. A piece that fails is told to the log and
counted; whoever asked for it goes on as before. At the end of the process what is running is asked
to stop and given a moment, and what has not begun is dropped.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable

from omnigraph.base.budget import Budget, QueryCancelledError
from omnigraph.base.metrics import METRICS

log = logging.getLogger(__name__)

_MOST_WAITING = 32
"""Pieces that may stand in line; what comes after them is refused and may be asked for again."""
_LAST_MOMENT_S = 5.0

PIECES = METRICS.counter(
    "omnigraph_background_total", "Work done behind the calls, by how it ended.", "result"
)


class Background:
    """A line of work and the one thread that does it; thread-safe."""

    def __init__(self) -> None:
        self._line: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._keys: set[Hashable] = set()
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ends_with_process = False

    def start(self, key: Hashable, work: Callable[[], None]) -> bool:
        """Put work in line unless the same is there; return whether it will be done.

        Args:
            key: tells the same work.
            work: must be harmless to leave out or to break off at any checkpoint.
        """
        with self._changed:
            if key in self._keys:
                return True
            if len(self._line) >= _MOST_WAITING or self._stopped.is_set():
                return False
            self._keys.add(key)
            self._line.append((key, work))
            if not self._ends_with_process:
                # Only now: what is registered last is called first, before the libraries it uses.
                atexit.register(self.stop)
                self._ends_with_process = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, daemon=True, name="omnigraph-background"
                )
                self._thread.start()
            return True

    def is_doing(self, key: Hashable) -> bool:
        """Whether work is in line or being done."""
        with self._changed:
            return key in self._keys

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to do; return whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._keys, seconds)

    def stop(self) -> None:
        """Drop what is in line, ask the running piece to stop, and give it a moment."""
        self._stopped.set()
        with self._changed:
            self._keys -= {key for key, _ in self._line}
            self._line.clear()
        self.wait(_LAST_MOMENT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._line:
                    self._thread = None
                    self._changed.notify_all()
                    return
                key, work = self._line.popleft()
            try:
                self._do(work)
            finally:
                del work  # a graph may have been closed meanwhile
                with self._changed:
                    self._keys.discard(key)
                    self._changed.notify_all()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            with Budget(cancelled=self._stopped, what="job"):
                work()
            PIECES.add(1, "done")
        except QueryCancelledError:
            PIECES.add(1, "stopped")
        except Exception:
            PIECES.add(1, "failed")
            log.warning("work in the background failed; everything works without it", exc_info=True)

    def forked(self) -> None:
        """Begin anew in a child of a fork, which has no thread of its parent."""
        self.__init__()  # type: ignore[misc]  # nothing of the parent's locks may stay


BACKGROUND = Background()
"""That of this process."""

os.register_at_fork(after_in_child=lambda: BACKGROUND.forked())

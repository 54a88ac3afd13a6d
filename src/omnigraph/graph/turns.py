"""Readers give way to writers of the same process.

Threads of a process share one interpreter. A writer lets go of it at every look at the disk and
then waits for it again behind readers, who always have work; without a pause between two of their
queries a few of them leave next to nothing to writers. Only mutations and merges count as writers:
a bulk job may take hours, and most of them without the interpreter. This decides nothing about what
is read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSE_S = 0.002
"""How long a query waits at most: some times what a short one takes."""


class Turns:
    """Who is writing; thread-safe."""

    def __init__(self, pause_s: float = _PAUSE_S) -> None:
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._quiet = threading.Event()
        self._quiet.set()
        self.writers = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Count as a writer inside the block."""
        with self._lock:
            self.writers += 1
            self._quiet.clear()
        try:
            yield
        finally:
            with self._lock:
                self.writers -= 1
                if not self.writers:
                    self._quiet.set()

    def give_way(self) -> None:
        """Wait for a moment if somebody is writing, or until nobody is."""
        if self.writers:
            self._quiet.wait(self._pause_s)


TURNS = Turns()
"""Those of this process: all its graphs share the interpreter."""

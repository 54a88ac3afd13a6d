"""What a server notes: its start, every request, every decision, on stderr, one line each.

Every request makes two lines, so making a line has to cost little: what no line says is not looked
up, and a second is put into words once.
"""

from __future__ import annotations

import logging
import sys
import time

_NAMES = ("omnigraph.server", "omnigraph.access", "omnigraph.policy", "omnigraph.slow")


def log_to_stderr() -> None:
    """Show what the server notes; once is enough, again is harmless. For a process of its own."""
    # As the manual of `logging` advises: no line says which thread, process or place it is from.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    vars(logging)["_srcfile"] = None
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    for name in _NAMES:
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.handlers[:] = [handler]
        log.propagate = False


class Line(logging.Formatter):
    """Time, level, name and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._second = -1
        self._words = ""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line; with more lines below it where something failed."""
        if record.exc_info or record.stack_info:
            return super().format(record)
        second = int(record.created)
        if second != self._second:
            words = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second, self._words = second, words
        when = f"{self._words},{int(record.msecs):03d}"
        return f"{when} {record.levelname} {record.name}: {record.getMessage()}"

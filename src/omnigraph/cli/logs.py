"""What the program notes beside its answers: on stderr, and only as much as was asked for."""

from __future__ import annotations

import logging

from omnigraph.cli.output import warn
from omnigraph.config.logs import LogLevel


class _Notes(logging.Handler):
    """Writes one line per note to what is stderr at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a note."""
        warn(self.format(record))


_NOTES = _Notes()
_NOTES.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))


def log_to_stderr(level: LogLevel | None) -> None:
    """Show notes of a level and above; None leaves logging as it is."""
    if level is not None:
        log = logging.getLogger("omnigraph")
        log.setLevel(level.upper())
        log.propagate = False
        if _NOTES not in log.handlers:
            log.addHandler(_NOTES)

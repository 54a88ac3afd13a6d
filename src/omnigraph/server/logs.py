"""What a server notes: its start, every request, every decision, on stderr, one line each."""

from __future__ import annotations

import logging
import sys

_NAMES = ("omnigraph.server", "omnigraph.access", "omnigraph.policy", "omnigraph.slow")


def log_to_stderr() -> None:
    """Show what the server notes; once is enough, again is harmless."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in _NAMES:
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)
        log.handlers[:] = [handler]
        log.propagate = False

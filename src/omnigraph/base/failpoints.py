"""Named gaps between two durable steps, where a test can stop the world.

Off unless `enable` was called: a disabled failpoint is one dictionary test. Every name is
declared in `REGISTRY`; `failpoint()` refuses an unknown one, so a crash matrix that walks the
registry walks every gap.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass

from omnigraph.errors import InternalError

REGISTRY: dict[str, str] = {}
_active: dict[str, Action] = {}
_lock = threading.Lock()


class FailpointTriggeredError(InternalError):
    """Raised at a failpoint whose action is `raise`."""


@dataclass(slots=True)
class Action:
    """What to do on the `skip + 1`-th pass: `raise`, `kill`, `stop`, or `sleep:SECONDS`."""

    verb: str
    skip: int = 0
    passes: int = 0


def register(name: str, gap: str) -> str:
    """Declare a failpoint; `gap` says which two durable steps it lies between."""
    REGISTRY[name] = gap
    return name


def enable(spec: str) -> None:
    """Arm failpoints from `name=verb[@skip];name=verb…`."""
    with _lock:
        for part in filter(None, (piece.strip() for piece in spec.split(";"))):
            name, _, action = part.partition("=")
            verb, _, skip = action.partition("@")
            _active[name] = Action(verb, int(skip or 0))


def disable_all() -> None:
    """Disarm every failpoint."""
    with _lock:
        _active.clear()


def passes() -> dict[str, int]:
    """Return how often each armed failpoint was passed, so a dry run can list its gaps."""
    with _lock:
        return {name: action.passes for name, action in _active.items()}


def failpoint(name: str) -> None:
    """Pass through, unless a test armed `name`."""
    if not _active:
        return
    if name not in REGISTRY:
        raise InternalError(f"failpoint '{name}' is not in the registry")
    with _lock:
        action = _active.get(name)
        if action is None:
            return
        action.passes += 1
        if action.passes <= action.skip:
            return
    _run(name, action.verb)


def _run(name: str, verb: str) -> None:
    word, _, argument = verb.partition(":")
    match word:
        case "raise":
            raise FailpointTriggeredError(f"injected failpoint triggered: {name}")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            time.sleep(float(argument))
        case _:
            raise InternalError(f"unknown failpoint action '{verb}'")

"""How results and errors look, and which exit code they mean.

Results go to stdout and nothing else does; findings, errors and warnings go to stderr.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from omnigraph.config.environment import wants_color
from omnigraph.errors import OmniGraphError

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def say(text: str) -> None:
    """Write one result line (or block) to stdout."""
    sys.stdout.write(text + "\n")


def say_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write a result as JSON with two-space indent."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def warn(text: str) -> None:
    """Write a note to stderr."""
    sys.stderr.write(text + "\n")


def complain(error: OmniGraphError) -> None:
    """Write an error to stderr as one readable block."""
    # Only a compile error has places to show; importing its module is not worth it for others.
    render = getattr(error, "render", None)
    if render is not None:
        warn(render(color=wants_color(sys.stderr)))
        return
    color = wants_color(sys.stderr)
    label, hint = (
        ("\x1b[1;31merror\x1b[0m", "\x1b[1;32mhint\x1b[0m") if color else ("error", "hint")
    )
    warn(f"{label}: {error.message}")
    if error.hint:
        warn(f"  {hint}: {error.hint}")

"""The only reader of the environment. Everything else is told its settings."""

from __future__ import annotations

import os
from typing import TextIO


def wants_color(stream: TextIO) -> bool:
    """Whether to write colour codes to `stream`: a terminal, and the user did not opt out."""
    if os.environ.get("NO_COLOR"):  # noqa: TID251 - this module is the sole reader
        return False
    if os.environ.get("FORCE_COLOR"):  # noqa: TID251 - this module is the sole reader
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"  # noqa: TID251 - as above

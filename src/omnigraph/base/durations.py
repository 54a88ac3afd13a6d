"""How long: `7d` and its like, as command lines, settings and calls say it."""

from __future__ import annotations

import math
from datetime import timedelta

from omnigraph.base.arguments import shown
from omnigraph.errors import BadRequestError

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_HINT = "a whole number and one unit, as 30s, 15m, 12h, 7d or 2w"


def parse_duration(text: str) -> int:
    """Return the seconds of a whole number with at most one unit; without one, it is seconds.

    >>> parse_duration("7d"), parse_duration(" 90 ")
    (604800, 90)

    Raises:
        BadRequestError: it says something else.
    """
    said = text.strip()
    if not said:
        raise BadRequestError("duration is empty", hint=_HINT)
    number, unit = (said, "s") if said[-1].isdecimal() else (said[:-1], said[-1])
    if unit not in _UNITS:
        known = ", ".join(_UNITS)
        raise BadRequestError(f"unknown duration unit '{unit}'. Supported: {known}", hint=_HINT)
    if not (number.isascii() and number.isdecimal()):
        raise BadRequestError(
            f"invalid duration '{said}': '{number}' is no whole number", hint=_HINT
        )
    return int(number) * _UNITS[unit]


def seconds_of(value: object, what: str) -> float | None:
    """Return the seconds that a duration, a number of seconds or a time span means.

    Raises:
        BadRequestError: it means none, or a negative or endless one; `what` says which.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return parse_duration(value)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not 0 <= seconds < math.inf
    ):
        raise BadRequestError(
            f"{what} cannot be {shown(value)}", hint=f"seconds from 0 on, or {_HINT}"
        )
    return seconds

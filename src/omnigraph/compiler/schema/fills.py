"""What `@default` and `@backfill` say: a literal or a moment, as a property stores it.

A default fills what an insert leaves out, and required properties that a load leaves out; a
backfill is an instruction to one migration, for rows that are there already.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeAlias

from omnigraph.compiler.types import FLOATS, INTEGER_BOUNDS, INTEGERS, PropType, Scalar

DEFAULT, BACKFILL = "default", "backfill"
FILLS: Final = frozenset({DEFAULT, BACKFILL})
NOW: Final = "now()"
"""The moment of the write, or of the migration."""
Value: TypeAlias = str | int | float | bool

_TRUTHS = {"true": True, "false": False}


def is_fillable(kind: PropType) -> bool:
    """Whether a literal can stand for a value of this type."""
    return not kind.is_list and kind.scalar not in (Scalar.BLOB, Scalar.VECTOR)


def fill_value(kind: PropType, text: str, now_ms: int) -> Value:
    """Return the value a text stands for: dates as days, moments as milliseconds.

    Raises:
        ValueError: it is none of this type; the message says why.
    """
    if not is_fillable(kind):
        raise ValueError(f"no literal stands for {kind.required()}")
    match kind.scalar:
        case Scalar.STRING:
            if kind.enum_values is not None and text not in kind.enum_values:
                raise ValueError(f"'{text}' is not one of {kind.required()}")
            return text
        case Scalar.BOOL:
            if text not in _TRUTHS:
                raise ValueError(f"'{text}' is neither true nor false")
            return _TRUTHS[text]
        case Scalar.DATE:
            return (_date(text) - date(1970, 1, 1)).days
        case Scalar.DATETIME:
            return now_ms if text == NOW else _milliseconds(text)
        case _:
            return _number(kind, text)


def _number(kind: PropType, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if kind.scalar in FLOATS:
        if not math.isfinite(number):
            raise ValueError(f"{text} is larger than {kind.scalar} can hold")
        return _single(number, text) if kind.scalar is Scalar.F32 else number
    assert kind.scalar in INTEGERS, kind
    if not text.removeprefix("-").isdigit():
        raise ValueError(f"{text} is not a whole number")
    low, high = INTEGER_BOUNDS[kind.scalar]
    if not (len(text) <= len(str(low)) + 1 and low <= int(text) <= high):
        raise ValueError(f"{text} is out of range for {kind.scalar}")
    return int(text)


def _single(number: float, text: str) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        raise ValueError(f"{text} is larger than F32 can hold") from None


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a date, as in 2024-01-31") from None


def _milliseconds(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not a moment, as in 2024-01-31T12:00:00Z, or now()"
        ) from None
    moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

"""What values look like: from the values of a column to a property type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from omnigraph.compiler.query.literals import EXACT_INTEGERS, parse_date, parse_datetime
from omnigraph.compiler.types import PropType, Scalar

_SHORTEST_VECTOR = 8
"""Lists of as many decimal numbers, all of one length, are taken for vectors."""
_I64_MIN, _I64_MAX, _U64_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_LONGEST_INTEGER = len(str(_U64_MAX))
_NUMBERS = frozenset({Scalar.I64, Scalar.U64, Scalar.F64})
_F32_MAX = (2 - 2**-23) * 2.0**127
_DECIMAL = re.compile(r"-?\d+(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)", re.ASCII)


@dataclass(slots=True)
class Seen:
    """What was seen of one column."""

    rows: int = 0
    present: int = 0
    kinds: set[Scalar] = field(default_factory=set)
    odd: set[str] = field(default_factory=set)
    """Kinds of values that no property can hold."""
    items: Seen | None = None
    lengths: set[int] = field(default_factory=set)
    is_text: bool = False
    """Whether all values came as text, whatever they look like."""
    values: set[Any] | None = field(default_factory=set)
    """The different values, while there are no two equal ones."""
    largest: float = 0.0
    longest: int = 0
    """The largest number, and the largest integer, without their signs."""
    is_negative: bool = False

    def add(self, value: object, *, is_text: bool = False) -> None:
        """Look at one value; `is_text` says that the file holds nothing but text."""
        self.rows += 1
        self.is_text = is_text
        if value is None:
            return
        self.present += 1
        if isinstance(value, list | tuple):
            self._add_list(list(value))
            return
        if (odd := _odd(value)) is not None:
            self.odd.add(odd)
            return
        kind = _text_kind(str(value)) if is_text else _kind(value)
        self.kinds.add(kind)
        if kind in _NUMBERS:
            self._add_number(str(value) if is_text else value, kind)
        if self.values is not None:
            if value in self.values:
                self.values = None
            else:
                self.values.add(value)

    def _add_number(self, value: Any, kind: Scalar) -> None:  # noqa: ANN401 - a number, or its text
        if kind is not Scalar.F64:
            self.longest = max(self.longest, abs(int(value)))
            self.is_negative = self.is_negative or int(value) < 0
        self.largest = max(self.largest, abs(float(value)))

    def _add_list(self, value: list[Any]) -> None:
        self.items = self.items or Seen(values=None)
        self.lengths.add(len(value))
        self.values = None
        for item in value:
            if isinstance(item, list | tuple):
                self.odd.add("lists of lists")
            else:
                self.items.add(item)

    @property
    def is_optional(self) -> bool:
        """Whether some row has no value."""
        return self.present < self.rows

    @property
    def is_unique(self) -> bool:
        """Whether every row has a value of its own."""
        return self.values is not None and self.present == self.rows > 0


def guessed(seen: Seen) -> PropType | None:
    """Return the type that holds all values, or None if no type does."""
    if seen.odd or (seen.items is not None and seen.kinds):
        return None
    if seen.items is None:
        scalar = _one_of(seen)
        if scalar is None and seen.is_text:
            scalar = Scalar.STRING
        return None if scalar is None else PropType(scalar, nullable=seen.is_optional)
    scalar = _one_of(seen.items)
    if scalar is None or seen.items.is_optional or seen.items.odd:
        return None
    if scalar is Scalar.F64 and _is_vector(seen):
        return PropType(Scalar.VECTOR, nullable=seen.is_optional, dim=next(iter(seen.lengths)))
    return PropType(scalar, nullable=seen.is_optional, is_list=True)


def _is_vector(seen: Seen) -> bool:
    items = seen.items
    fits = items is not None and items.largest <= _F32_MAX
    exact = items is not None and items.longest < EXACT_INTEGERS[Scalar.F32]
    return (
        fits and exact and len(seen.lengths) == 1 and next(iter(seen.lengths)) >= _SHORTEST_VECTOR
    )


def _one_of(seen: Seen) -> Scalar | None:
    """Return the one scalar type that holds values of all kinds seen."""
    kinds = seen.kinds
    if not kinds:
        return Scalar.STRING
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {Scalar.I64, Scalar.U64}:
        return None if seen.is_negative else Scalar.U64
    if kinds <= {Scalar.I64, Scalar.U64, Scalar.F64}:
        return Scalar.F64 if seen.longest < EXACT_INTEGERS[Scalar.F64] else None
    text = {Scalar.STRING, Scalar.DATE, Scalar.DATETIME}
    return Scalar.STRING if kinds <= text else None


def _odd(value: object) -> str | None:
    """Return what a value is that no property holds, in words for people."""
    match value:
        case dict():
            return "objects"
        case time() | timedelta():
            return "times without a date"
        case float() | Decimal() if not math.isfinite(value):
            return "numbers that are not finite"
        case int() if not _I64_MIN <= value <= _U64_MAX:
            return "integers beyond 64 bits"
        case Decimal() if value == value.to_integral_value() and not _I64_MIN <= value <= _U64_MAX:
            return "integers beyond 64 bits"
        case datetime() if value.microsecond % 1_000 or getattr(value, "nanosecond", 0):
            return "moments finer than a millisecond"
        case _:
            return None


def _kind(value: object) -> Scalar:
    match value:
        case bool():
            return Scalar.BOOL
        case int():
            return Scalar.U64 if value > _I64_MAX else Scalar.I64
        case Decimal() if value == value.to_integral_value() and not value.as_tuple().exponent:
            return _kind(int(value))
        case float() | Decimal():
            return Scalar.F64
        case bytes():
            return Scalar.BLOB
        case datetime():
            return Scalar.DATETIME
        case date():
            return Scalar.DATE
        case _:
            return _moment_kind(str(value))


def _text_kind(text: str) -> Scalar:
    """Return what a cell of a text file looks like."""
    if text in ("true", "false"):
        return Scalar.BOOL
    # A leading zero or plus is part of a code, such as a postcode, and would get lost.
    digits = text.removeprefix("-")
    is_code = (digits.startswith("0") and digits != "0") or len(digits) > _LONGEST_INTEGER
    if digits.isascii() and digits.isdecimal() and not is_code:
        return _integer_kind(int(text))
    if _DECIMAL.fullmatch(text) and math.isfinite(float(text)):
        return Scalar.F64
    return _moment_kind(text)


def _integer_kind(value: int) -> Scalar:
    if not _I64_MIN <= value <= _U64_MAX:
        return Scalar.STRING
    return Scalar.U64 if value > _I64_MAX else Scalar.I64


def _moment_kind(text: str) -> Scalar:
    if len(text) == len("2026-01-31") and _reads(parse_date, text):
        return Scalar.DATE
    return Scalar.DATETIME if "T" in text and _reads(parse_datetime, text) else Scalar.STRING


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True

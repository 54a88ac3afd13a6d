"""Written and passed values to typed ones: dates, ranges, lists, vectors.

Raises `ValueError` with a message without place or code: the caller knows where the value stood.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta

from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.types import FLOATS, INTEGER_BOUNDS, INTEGERS, PropType, Scalar

_EPOCH = date(1970, 1, 1).toordinal()
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"(?:[Tt ](\d{2}:\d{2})(?:(:\d{2})(\.\d{1,9})?)?([Zz]|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)

_KIND_TYPES = {
    ast.LiteralKind.STRING: PropType(Scalar.STRING),
    ast.LiteralKind.INT: PropType(Scalar.I64),
    ast.LiteralKind.FLOAT: PropType(Scalar.F64),
    ast.LiteralKind.BOOL: PropType(Scalar.BOOL),
    ast.LiteralKind.DATE: PropType(Scalar.DATE),
    ast.LiteralKind.DATETIME: PropType(Scalar.DATETIME),
}
_MAX_I64 = INTEGER_BOUNDS[Scalar.I64][1]
_F32_MAX = 3.4028234663852886e38
EXACT_INTEGERS = {Scalar.F32: 2**24, Scalar.F64: 2**53}
"""Up to here, and down to its negative, a float type holds every integer."""
_NUMBER_KINDS = frozenset({ast.LiteralKind.INT, ast.LiteralKind.FLOAT})


def parse_date(text: str) -> int:
    """Return the days since 1970-01-01 of a `YYYY-MM-DD` text.

    >>> parse_date("1970-01-02")
    1
    """
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"invalid Date literal '{text}', expected YYYY-MM-DD") from None


def parse_datetime(text: str) -> int:
    """Return the milliseconds since the epoch of an ISO date and time.

    A missing offset is UTC, a missing time midnight; digits below a millisecond are dropped.

    >>> parse_datetime("1970-01-01T01:00:00.5+01:00")
    500
    """
    try:
        found = _DATETIME.fullmatch(text)
        if found is None:
            raise ValueError
        day, minutes, seconds, fraction, offset = found.groups()
        zone = "+00:00" if offset is None or offset in "Zz" else offset
        moment = datetime.fromisoformat(f"{day}T{minutes or '00:00'}{seconds or ':00'}{zone}")
        millis = int((fraction or ".")[1:].ljust(3, "0")[:3])
        # Whole seconds first: float timestamps would lose milliseconds far from the epoch.
        delta = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000 + millis
    except (ValueError, OverflowError):
        raise ValueError(
            f"invalid DateTime literal '{text}', expected for example 2026-01-31T12:00:00Z"
        ) from None


def show_date(days: int) -> str:
    """Return the text of a date; the inverse of `parse_date`."""
    return date.fromordinal(days + _EPOCH).isoformat()


def show_datetime(millis: int) -> str:
    """Return the text of a moment in UTC; the inverse of `parse_datetime`."""
    seconds, rest = divmod(millis, 1_000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment.replace(tzinfo=None).isoformat()}.{rest:03}Z"


def infer(literal: ast.Literal) -> typed.Literal:
    """Return a literal with the type it has on its own; `[]` is a list of String."""
    if literal.kind is ast.LiteralKind.LIST:
        return _infer_list(literal)
    kind = _KIND_TYPES[literal.kind]
    match literal.kind, literal.value:
        case ast.LiteralKind.DATE, str(text):
            return typed.Literal(parse_date(text), kind)
        case ast.LiteralKind.DATETIME, str(text):
            return typed.Literal(parse_datetime(text), kind)
        case ast.LiteralKind.INT, int(number) if number > _MAX_I64:
            return typed.Literal(number, PropType(Scalar.U64))
        case _, (str() | int() | float()) as value:
            return typed.Literal(value, kind)
        case _:
            raise AssertionError(literal)


def _infer_list(literal: ast.Literal) -> typed.Literal:
    assert isinstance(literal.value, tuple)
    if not literal.value:
        return typed.Literal((), PropType(Scalar.STRING, is_list=True))
    if any(item.kind is ast.LiteralKind.LIST for item in literal.value):
        raise ListLiteralError("lists cannot be nested")
    items = [infer(item) for item in literal.value]
    first = items[0].type
    for item in items[1:]:
        if item.type.scalar is first.scalar:
            continue
        if item.type.is_numeric and first.is_numeric:
            first = PropType(Scalar.F64)
            continue
        raise ListLiteralError(f"a list holds one type, here are {first} and {item.type}")
    return typed.Literal(tuple(item.value for item in items), PropType(first.scalar, is_list=True))


class ListLiteralError(ValueError):
    """A list literal that is wrong whatever it is used for."""


def is_vector_literal(literal: ast.Literal) -> bool:
    """Whether a literal may stand for a vector: a non-empty list of numbers."""
    return (
        literal.kind is ast.LiteralKind.LIST
        and isinstance(literal.value, tuple)
        and bool(literal.value)
        and all(item.kind in _NUMBER_KINDS for item in literal.value)
    )


def as_vector(literal: ast.Literal, dim: int | None) -> typed.Literal:
    """Return a list of numbers as a vector of exactly `dim` values."""
    assert isinstance(literal.value, tuple)
    if dim is not None and len(literal.value) != dim:
        raise ValueError(f"expected {dim} values for Vector({dim}), got {len(literal.value)}")
    values = tuple(
        as_float(item.value, Scalar.F32)
        for item in literal.value
        if isinstance(item.value, int | float)
    )
    return typed.Literal(values, PropType(Scalar.VECTOR, dim=len(values)))


def conform(literal: typed.Literal, kind: PropType) -> typed.Literal:
    """Return the literal as it will be stored in a property: same value, checked range.

    The types are already known to be compatible; a value that would change is refused.
    """
    if kind.is_list:
        assert isinstance(literal.value, tuple)
        item_type = literal.type.item()
        values = tuple(
            conform(typed.Literal(value, item_type), kind.item()).value for value in literal.value
        )
        return typed.Literal(values, kind.required())
    value = literal.value
    if kind.enum_values is not None and value not in kind.enum_values:
        raise ValueError(f"'{value}' is not one of {kind.required()}")
    if kind.scalar in INTEGERS:
        return typed.Literal(_integer(value, kind.scalar), kind.required())
    if kind.scalar in FLOATS:
        assert isinstance(value, int | float)
        return typed.Literal(as_float(value, kind.scalar), kind.required())
    return typed.Literal(value, kind.required())


def whole_number(value: float, scalar: Scalar) -> int:
    """Return a number that is written with a fraction as the integer it is.

    From 2^53 on its text may have named another integer before it became a float.

    >>> whole_number(3.0, Scalar.I64)
    3
    """
    if not value.is_integer():
        raise ValueError(f"{value} is not a whole number, which {scalar} needs")
    if abs(value) >= EXACT_INTEGERS[Scalar.F64]:
        raise ValueError(f"{value} may have been rounded; write {scalar} without a fraction")
    return int(value)


def _integer(value: typed.LiteralValue, scalar: Scalar) -> int:
    assert isinstance(value, int | float)
    whole = whole_number(value, scalar) if isinstance(value, float) else value
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= whole <= high:
        raise ValueError(f"value {whole} exceeds {scalar}")
    return whole


def as_float(value: float, scalar: Scalar) -> float:
    """Return a number as a float type holds it, before F32 drops digits.

    A fraction is rounded, as everywhere; an integer counts things or names them, so one that would
    become another integer is refused.

    >>> as_float(2**53, Scalar.F64)
    9007199254740992.0
    """
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"the integer is too large for {scalar}") from None
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    if scalar is Scalar.F32 and abs(number) > _F32_MAX:
        raise ValueError(f"value {number} exceeds F32")
    if isinstance(value, int) and abs(value) > EXACT_INTEGERS[scalar]:
        stored = struct.unpack("f", struct.pack("f", number))[0] if scalar is Scalar.F32 else number
        nearest = int(stored)
        if nearest != value:
            raise ValueError(
                f"the integer {value} would become {nearest} as {scalar}; "
                f"give that one, or {value}.0 if rounding is meant, or use I64"
            )
    return number

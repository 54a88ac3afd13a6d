"""Values a caller passes, against the parameters a query declares. Nothing runs unchecked.

Dates become days and datetimes milliseconds since the epoch, lists and vectors tuples: the same
forms literals have in the IR.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from omnigraph.compiler.diagnostics import closest, did_you_mean
from omnigraph.compiler.query.literals import as_float, parse_date, parse_datetime
from omnigraph.compiler.query.typed import NOW_PARAM, Param, RowCount
from omnigraph.compiler.types import FLOATS, INTEGER_BOUNDS, INTEGERS, PropType, Scalar
from omnigraph.errors import BadRequestError

MAX_SAFE_INTEGER = 2**53 - 1
_MAX_I64 = INTEGER_BOUNDS[Scalar.I64][1]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = parse_datetime("0001-01-01")
_LAST_MS = parse_datetime("9999-12-31T23:59:59.999Z")
_SURELY_F32 = 3.4e38
"""Numbers between this and its negative are finite 32-bit numbers; others are looked at."""

_PYTHON_TYPES = frozenset({str, int, float, bool, list, tuple, bytes, date, datetime, type(None)})

ParamValue = str | int | float | bool | tuple["ParamValue", ...] | None
"""A bound value; None is null."""


class ParamMode(StrEnum):
    """How numbers arrive: as written, or through a language whose integers stop at 2^53."""

    STANDARD = "standard"
    JAVASCRIPT = "javascript"


class ParamError(BadRequestError):
    """A parameter is missing, of the wrong type or out of range.

    Attributes:
        param: the parameter's name without `$`.
        expected: the declared type, or None when it is not declared.
    """

    def __init__(
        self,
        param: str,
        reason: str,
        expected: PropType | None = None,
        *,
        message: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.param = param
        self.reason = reason
        self.expected = expected
        super().__init__(message or f"param '{param}': {reason}", hint=hint)


class MissingParamError(ParamError):
    """A parameter without `?` was not passed."""

    def __init__(self, param: Param, given: Sequence[str]) -> None:
        message = f"parameter '{param.name}' not provided, expected {param.type}"
        close = closest(param.name, given)
        hint = None if close is None else f"'{close}' was given; did you mean '{param.name}'?"
        super().__init__(param.name, "not provided", param.type, message=message, hint=hint)


def bind_params(
    declared: Sequence[Param],
    given: Mapping[str, Any] | None,
    *,
    now_ms: int,
    mode: ParamMode = ParamMode.STANDARD,
) -> dict[str, ParamValue]:
    """Return a value for every declared parameter and for `now()`.

    Args:
        declared: the parameters of the query.
        given: JSON values by name without `$`; None is the same as nothing.
        now_ms: the time of the request, unless the caller passes the reserved parameter.
        mode: how integers are checked.

    Raises:
        ParamError: the first value that does not fit, in declaration order, or one whose name is
            nearly that of a parameter that is left out.
    """
    if given is not None and type(given) is not dict and not isinstance(given, Mapping):
        raise BadRequestError("params must be a JSON object")
    values: dict[Any, Any] = dict(given or {})
    for name in values:
        if not isinstance(name, str) or not name.isprintable():
            raise BadRequestError(f"{name!r} is not the name of a parameter")
    bound: dict[str, ParamValue] = {}
    for param in declared:
        bound[param.name] = _bind(param, values, mode)
    moment = values.pop(NOW_PARAM, None)
    bound[NOW_PARAM] = now_ms if moment is None else _coerce_moment(moment)
    if not bound.keys() >= values.keys():
        left_out = [param.name for param in declared if param.name not in values]
        for name in values.keys() - bound.keys():
            _refuse_misspelt(name, left_out)
            bound[name] = _inferred(name, values[name], mode)
    return bound


def _refuse_misspelt(name: str, left_out: Sequence[str]) -> None:
    """Refuse a name that is nearly that of a parameter nobody gave, which would be null instead.

    Other names that a query does not declare may come along: callers share their values.
    """
    close = did_you_mean(name, left_out) if left_out else None
    if close is not None:
        raise ParamError(name, "the query has no such parameter", hint=close)


def check_row_count(
    word: str, count: RowCount | None, bound: Mapping[str, ParamValue]
) -> int | None:
    """Return how many rows `limit` or `offset` means; a null or negative parameter is refused."""
    if count is None or isinstance(count, int):
        return count
    return check_count(word, count, 0, bound)


def check_count(word: str, param: Param, lowest: int, bound: Mapping[str, ParamValue]) -> int:
    """Return the value of a parameter that counts something; null and less than `lowest` fail."""
    value = bound[param.name]
    if value is None:
        raise ParamError(param.name, f"null is not accepted for `{word}`", param.type)
    assert isinstance(value, int)
    if value < lowest:
        reason = f"`{word}` must be at least {lowest}, got {value}"
        raise ParamError(param.name, reason, param.type)
    return value


def _bind(param: Param, values: Mapping[str, Any], mode: ParamMode) -> ParamValue:
    kind = param.type
    if param.name not in values:
        if kind.nullable:
            return None
        raise MissingParamError(param, [name for name in values if name != NOW_PARAM])
    value = values[param.name]
    if value is None:
        if kind.nullable:
            return None
        reason = "null is not accepted for non-nullable parameter"
        hint = f"declare it `${param.name}: {kind}?`"
        raise ParamError(param.name, reason, kind, hint=hint)
    try:
        bound = coerce(value, kind, mode)
    except ValueError as error:
        raise ParamError(param.name, str(error), kind) from None
    for enum in (*((kind,) if kind.enum_values else ()), *param.enums):
        for word in bound if isinstance(bound, tuple) else (bound,):
            _check_word(param, word, enum)
    return bound


def _check_word(param: Param, word: ParamValue, enum: PropType) -> None:
    """Refuse a word that no row can hold: the comparison would silently find nothing."""
    assert enum.enum_values is not None
    if word not in enum.enum_values:
        hint = did_you_mean(str(word), enum.enum_values)
        reason = f"'{word}' is not one of {enum.required()}"
        raise ParamError(param.name, reason, param.type, hint=hint)


def coerce(value: object, kind: PropType, mode: ParamMode = ParamMode.STANDARD) -> ParamValue:
    """Return a JSON or Python value as a parameter of a type holds it.

    Raises:
        ValueError: it does not fit.
    """
    value = _plain(value)
    if kind.is_list:
        items = _array(value, f"array for {kind}")
        return tuple(coerce(item, kind.item(), mode) for item in items)
    scalar = kind.scalar
    if scalar is Scalar.VECTOR:
        return _vector(value, kind)
    if scalar in INTEGERS:
        return _integer(value, scalar, mode)
    if scalar in FLOATS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong("number", value)
        return as_float(value, scalar)
    if scalar is Scalar.BOOL:
        if not isinstance(value, bool):
            raise _wrong("boolean", value)
        return value
    if scalar is Scalar.DATE:
        return parse_date(value) if isinstance(value, str) else _days(value)
    if scalar is Scalar.DATETIME:
        return parse_datetime(value) if isinstance(value, str) else _millis(value)
    if scalar is Scalar.BLOB and isinstance(value, bytes):
        return f"base64:{base64.b64encode(value).decode()}"
    if not isinstance(value, str):
        raise _wrong("string", value)
    return _unicode(value)


def _plain(value: object) -> object:
    """Return what a NumPy number or array holds, or anything that acts like one."""
    if type(value) in _PYTHON_TYPES:
        return value
    as_list = getattr(value, "tolist", None)
    return value if as_list is None else as_list()


def _days(value: object) -> int:
    if isinstance(value, datetime):  # which is a date, too
        raise ValueError("a Date has no time of day; pass the date of the moment you mean")
    if not isinstance(value, date):
        raise _wrong("string", value)
    return value.toordinal() - _EPOCH.toordinal()


def _millis(value: object) -> int:
    """Return a moment; one without a zone is UTC, digits below a millisecond are dropped."""
    if not isinstance(value, datetime):
        raise _wrong("string", value)
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    millis = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not _FIRST_MS <= millis <= _LAST_MS:
        raise ValueError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC")
    return millis


def _unicode(text: str) -> str:
    """Return a text that can be stored: half of a surrogate pair is not a character."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"not Unicode text: lone surrogate at {error.start}") from None
    return text


def _integer(value: object, scalar: Scalar, mode: ParamMode) -> int:
    number: int
    match value:
        case bool() | float():
            raise _wrong("integer", value)
        case int():
            if mode is ParamMode.JAVASCRIPT and abs(value) > MAX_SAFE_INTEGER:
                raise ValueError(
                    f"integer {value} is beyond 2^53-1 and may have lost digits; "
                    "pass it as a decimal string"
                )
            number = value
        case str():
            number = _decimal(value)
        case _:
            raise _wrong("integer", value)
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= number <= high:
        raise ValueError(f"value {number} exceeds {scalar}")
    return number


def _decimal(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal():
        raise ValueError(f"expected integer, got string '{text}'")
    if len(digits) > 40:  # longer than any integer type; Python would refuse to convert it
        raise ValueError(f"value of {len(digits)} digits exceeds every integer type")
    return int(text)


def _vector(value: object, kind: PropType) -> tuple[float, ...]:
    items = _array(value, f"array for {kind.required()}")
    if len(items) != kind.dim:
        raise ValueError(f"expected {kind.dim} values for Vector({kind.dim}), got {len(items)}")
    if all(type(item) is float and -_SURELY_F32 < item < _SURELY_F32 for item in items):
        return tuple(items)  # type: ignore[arg-type]  # all of them are floats
    numbers: list[float] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise _wrong("number", item)
        numbers.append(as_float(item, Scalar.F32))
    return tuple(numbers)


def _array(value: object, wanted: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _wrong(wanted, value)
    return value


def _coerce_moment(value: object) -> int:
    try:
        if not isinstance(value, str):
            raise _wrong("string", value)
        return parse_datetime(value)
    except ValueError as error:
        raise ParamError(NOW_PARAM, str(error), PropType(Scalar.DATETIME)) from None


def _inferred(name: str, value: object, mode: ParamMode) -> ParamValue:
    """Return the value of a parameter nobody declared; it has the type it arrives with."""
    try:
        return _infer(value, mode)
    except ValueError as error:
        raise ParamError(name, str(error)) from None


def _infer(value: object, mode: ParamMode) -> ParamValue:
    value = _plain(value)
    match value:
        case None | bool():
            return value
        case str():
            return _unicode(value)
        case int():
            return _integer(value, Scalar.U64 if value > _MAX_I64 else Scalar.I64, mode)
        case float():
            return as_float(value, Scalar.F64)
        case list() | tuple():
            if any(isinstance(item, list | tuple) for item in value):
                raise ValueError("nested arrays are not supported")
            return tuple(_infer(item, mode) for item in value)
        case _:
            raise ValueError(f"{_kind_of(value)} values are not supported")


def _wrong(wanted: str, value: object) -> ValueError:
    return ValueError(f"expected {wanted}, got {_kind_of(value)}")


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
        case _:
            return type(value).__name__

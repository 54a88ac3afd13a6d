"""Values into typed columns: exact or refused, never narrowed, never guessed."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.query.literals import as_float, whole_number
from omnigraph.compiler.types import INTEGER_BOUNDS, PropType, Scalar

_BASE64 = "base64:"


class CellError(ValueError):
    """A value does not fit its property; the text says why."""


def fit(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - any value of a query or file
    """Return the value as the property stores it.

    Dates are days, datetimes milliseconds since the epoch, as compiled queries hold them. Null and
    enum values pass: the validator reports those the same for every input.

    Raises:
        CellError: it does not fit.
    """
    if value is None:
        return None
    if kind.is_list:
        if not isinstance(value, list | tuple):
            raise CellError(f"expected a list, got {_name(value)}")
        return [None if item is None else _scalar(item, kind.item()) for item in value]
    return _scalar(value, kind)


def _scalar(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - as above
    match kind.scalar:
        case Scalar.VECTOR:
            return _vector(value, kind)
        case Scalar.STRING:
            if not isinstance(value, str):
                raise CellError(f"expected a String, got {_name(value)}")
            return value
        case Scalar.BOOL:
            if not isinstance(value, bool):
                raise CellError(f"expected a Bool, got {_name(value)}")
            return value
        case Scalar.BLOB:
            return _blob(value)
        case Scalar.F32 | Scalar.F64:
            return _float(value, kind.scalar)
        case Scalar.DATE | Scalar.DATETIME:
            if not isinstance(value, int) or isinstance(value, bool):
                raise CellError(f"expected a {kind.scalar}, got {_name(value)}")
            return value
        case _:
            return _integer(value, kind.scalar)


def _integer(value: Any, scalar: Scalar) -> int:  # noqa: ANN401 - as above
    if isinstance(value, float) and value.is_integer():
        try:
            value = whole_number(value, scalar)
        except ValueError as error:
            raise CellError(str(error)) from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise CellError(f"expected {_a(scalar)}, got {_name(value)}")
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= value <= high:
        raise CellError(f"{value} is out of range for {scalar}")
    return value


def _float(value: Any, scalar: Scalar) -> float:  # noqa: ANN401 - as above
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CellError(f"expected {_a(scalar)}, got {_name(value)}")
    try:
        return as_float(value, scalar)
    except ValueError as error:
        raise CellError(str(error)) from None


def _vector(value: Any, kind: PropType) -> list[float]:  # noqa: ANN401 - as above
    if not isinstance(value, list | tuple):
        raise CellError(f"expected {kind.required()}, got {_name(value)}")
    if len(value) != kind.dim:
        raise CellError(f"expects {kind.dim} dimensions, got {len(value)}")
    return [_float(item, Scalar.F32) for item in value]


def _blob(value: Any) -> bytes:  # noqa: ANN401 - as above
    if not isinstance(value, str):
        raise CellError(f"expected text for a Blob, got {_name(value)}")
    if not value.startswith(_BASE64):
        raise CellError("a reference to outside bytes cannot be stored yet; pass base64:…")
    try:
        return base64.b64decode(value.removeprefix(_BASE64), validate=True)
    except binascii.Error as error:
        raise CellError(f"invalid base64: {error}") from None


def column(values: list[Any], kind: PropType) -> pa.Array:
    """Return fitted values as an Arrow column."""
    target = arrow_type(kind)
    if kind.scalar in (Scalar.DATE, Scalar.DATETIME):
        storage = pa.int32() if kind.scalar is Scalar.DATE else pa.int64()
        if kind.is_list:
            return pa.array(values, pa.list_(storage)).view(target)
        return pa.array(values, storage).view(target)
    return pa.array(values, target)


_WORDS = {
    str: "text",
    bool: "a Bool",
    int: "an integer",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "an object",
    type(None): "null",
}


def _name(value: object) -> str:
    return _WORDS.get(type(value), type(value).__name__)


def _a(scalar: Scalar) -> str:
    return f"{'a' if scalar.startswith('U') else 'an'} {scalar}"

"""Cells of a table one by one, where a column as a whole did not fit: which ones do, and why not.

A cell means the same here as in a column of which every cell fits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.types import FLOATS, PropType, Scalar
from omnigraph.engine.write.cells import CellError
from omnigraph.pipeline.inputs.columns import DAY_MS, FIRST_DAY, LAST_DAY
from omnigraph.pipeline.inputs.moments import are_finer, is_moment, millis_of
from omnigraph.pipeline.inputs.strict import RecordError, exact_json, json_cell

_NUMBER = re.compile(r"[+-]?(?:\d+(\.\d*)?|(\.\d+))([eE][+-]?\d+)?", re.ASCII)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    *_TEXTS,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or moment of a table, in milliseconds: Python's own know fewer years."""

    millis: int
    is_finer: bool = False
    """Whether there were digits below."""


def arrow_values(values: pa.Array, kind: PropType) -> list[Any]:
    """Return the values of a column for `arrow_cell`; those of no fitting type stay Arrow's own."""
    found = values.type
    if isinstance(values, pa.DictionaryArray):
        return arrow_values(plain_values(values), kind)
    if is_moment(found) and kind.scalar in (Scalar.DATE, Scalar.DATETIME):
        millis, finer = millis_of(values, kind.scalar).to_pylist(), are_finer(values)
        return [
            None if one is None else Moment(one, bool(fine))
            for one, fine in zip(millis, finer, strict=True)
        ]
    if is_list(found):
        items = iter(arrow_values(values.flatten(), kind.item() if kind.is_list else kind))
        lengths = pc.list_value_length(values).to_pylist()
        return [None if one is None else [next(items) for _ in range(one)] for one in lengths]
    if any(is_one(found) for is_one in _PLAIN):
        return list(values.to_pylist())
    return [one if one.is_valid else None for one in values]


def is_list(found: pa.DataType) -> bool:
    """Whether a type holds any number of values of another, whichever way Arrow keeps them."""
    return any(is_one(found) for is_one in _LISTS)


def is_text(found: pa.DataType) -> bool:
    """Whether a type holds text, whichever way Arrow keeps it."""
    return any(is_one(found) for is_one in _TEXTS)


def plain_values(values: pa.DictionaryArray) -> pa.Array:
    """Return the values of a dictionary one by one; polars keeps its text in views."""
    words = values.dictionary
    if pa.types.is_string_view(words.type):
        words = words.cast(pa.large_string())
    return pa.DictionaryArray.from_arrays(values.indices, words).dictionary_decode()


def arrow_cell(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - any value of a table
    """Return a value of an Arrow column as its property stores it.

    Raises:
        CellError: it does not fit.
    """
    match value:
        case None:
            return None
        case list() if kind.is_list:
            return [arrow_cell(one, kind.item()) for one in value]
        case list():
            return json_cell([_plain(one, kind) for one in value], kind)
        case _:
            return json_cell(_plain(value, kind), kind)


def _plain(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - any value of a table
    """Return a value as JSON would have brought it."""
    match value:
        case Moment(is_finer=True):
            raise CellError(f"a {kind.scalar} has no digits below a millisecond")
        case Moment():
            return _counted(value.millis, kind)
        case Decimal():
            return _number(value, kind)
        case pa.Scalar():
            raise CellError(f"expected {kind.required()}, got {value.type}")
        case _:
            return value


def _counted(millis: int, kind: PropType) -> int:
    days, rest = divmod(millis, DAY_MS)
    if not FIRST_DAY <= days <= LAST_DAY:
        raise CellError(f"a {kind.scalar} is of a year from 1 to 9999")
    if kind.scalar is Scalar.DATETIME:
        return millis
    if rest:
        raise CellError("a Date has no time of day")
    return days


def _number(value: Decimal, kind: PropType) -> float:
    """Return a decimal as the number it is; without digits behind the point it is an integer."""
    _, _, exponent = value.as_tuple()
    is_whole = value == value.to_integral_value()
    return int(value) if is_whole and not (exponent and kind.scalar in FLOATS) else float(value)


def text_cell(text: str, kind: PropType) -> Any:  # noqa: ANN401 - any property value
    """Return the text of a CSV cell as its property stores it.

    Raises:
        CellError: it does not fit.
    """
    if kind.is_list or kind.scalar is Scalar.VECTOR:
        try:
            return json_cell(exact_json(text.encode()), kind)
        except (orjson.JSONDecodeError, RecordError):
            raise _not_a(kind, text) from None
    if kind.scalar is Scalar.BOOL:
        found = {"true": True, "false": False}.get(text.strip())
        if found is None:
            raise _not_a(kind, text)
        return found
    return json_cell(_written_number(text, kind) if kind.is_numeric else text, kind)


def _written_number(text: str, kind: PropType) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise _not_a(kind, text)
    try:
        return float(found[0]) if any(found.groups()) else int(found[0])
    except ValueError:  # more digits than Python reads
        raise _not_a(kind, text) from None


def _not_a(kind: PropType, text: str) -> CellError:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return CellError(f"expected {kind.required()}, got '{shown}'")


def shown_value(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    """Return a value for a report, which travels between processes."""
    match value:
        case Moment():
            return value.millis
        case list():
            return [shown_value(one) for one in value]
        case pa.Scalar():
            try:
                return str(value)
            except UnicodeDecodeError:  # text inside a value of no fitting type
                return f"a {value.type}"
        case _:
            return value

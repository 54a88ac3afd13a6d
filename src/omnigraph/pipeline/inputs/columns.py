"""Columns of a parsed file into the columns of a table: exact, or handed back.

The column form of `engine.write.cells`, with the same meaning. What a column as a whole does not
allow raises `OddColumnError`; the caller then looks value by value and can say which one is wrong.
Rules of the schema (required, enum, range) are the validator's, not checked here.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.query.literals import EXACT_INTEGERS, parse_date
from omnigraph.compiler.types import FLOATS, PropType, Scalar

FIRST_DAY: Final = parse_date("0001-01-01")
LAST_DAY: Final = parse_date("9999-12-31")
DAY_MS: Final = 86_400_000
F32_MAX: Final = float(np.finfo(np.float32).max)
BASE64: Final = "base64:"
_WHOLE_SECONDS, _WITH_MILLIS = len("2026-01-31T12:00:00Z"), len("2026-01-31T12:00:00.000Z")


class OddColumnError(ValueError):
    """Some value of a column needs a closer look."""


def json_type(kind: PropType) -> pa.DataType:
    """Return the type a property is read as from JSON, before it is made exact."""
    if kind.scalar is Scalar.VECTOR:
        return pa.list_(pa.float64())
    if kind.is_list:
        return pa.list_(json_type(kind.item()))
    if kind.scalar in (Scalar.DATE, Scalar.DATETIME, Scalar.BLOB):
        return pa.string()
    return pa.float64() if kind.scalar in FLOATS else arrow_type(kind)


def from_json(values: pa.Array, kind: PropType) -> pa.Array:
    """Return a column read as `json_type` as the property stores it.

    Raises:
        OddColumnError: some value may not fit.
    """
    if kind.scalar is Scalar.VECTOR:
        return _vectors(values, kind)
    if kind.is_list:
        items = from_json(values.values, kind.item())
        return _lists(values, items, arrow_type(kind))
    match kind.scalar:
        case Scalar.DATE:
            return _dates(values)
        case Scalar.DATETIME:
            return _moments(values)
        case Scalar.BLOB:
            return _blobs(values)
        case Scalar.F32 | Scalar.F64:
            return _floats(values, kind.scalar)
        case _:
            return values


def _lists(lists: pa.ListArray, items: pa.Array, kind: pa.DataType) -> pa.Array:
    plain = pa.ListArray.from_arrays(lists.offsets, items, mask=_nulls(lists))
    return plain.cast(kind)


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _floats(values: pa.Array, scalar: Scalar) -> pa.Array:
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise OddColumnError("a number is not finite")
    if scalar is Scalar.F64:
        return values
    largest = pc.max(pc.abs(values)).as_py()
    if largest is not None and largest > F32_MAX:
        raise OddColumnError("a number is beyond F32")
    return values.cast(pa.float32(), safe=False)


def may_be_rounded(values: pa.Array, kind: PropType) -> bool:
    """Whether numbers read as `json_type` are so large that integers would have lost digits.

    A fraction loses some too and may; only the text knows which of the two was written.
    """
    if kind.scalar in FLOATS or kind.scalar is Scalar.VECTOR:
        flat = values.flatten() if pa.types.is_list(values.type) else values
        largest = pc.max(pc.abs(flat)).as_py()
        scalar = Scalar.F64 if kind.scalar is Scalar.F64 else Scalar.F32
        return largest is not None and largest >= EXACT_INTEGERS[scalar]
    return False


def _vectors(values: pa.Array, kind: PropType) -> pa.Array:
    """Return lists of exactly `dim` numbers as vectors; null lists stay null."""
    lengths = pc.list_value_length(values)
    if pc.all(pc.equal(lengths, kind.dim)).as_py() is False:
        raise OddColumnError("a vector has another width")
    flat = values.flatten()
    if flat.null_count:
        raise OddColumnError("a vector has a hole")
    flat = _floats(flat, Scalar.F32)
    if values.null_count:
        # A fixed-size list has room for every row, so null rows need values nobody reads.
        valid = np.asarray(values.is_valid())
        room = np.zeros((len(values), kind.dim or 0), np.float32)
        room[valid] = flat.to_numpy(zero_copy_only=False).reshape(-1, kind.dim or 1)
        flat = pa.array(room.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, type=arrow_type(kind), mask=_nulls(values))


def _dates(texts: pa.Array) -> pa.Array:
    try:
        days = texts.cast(pa.date32())
    except pa.ArrowInvalid:
        raise OddColumnError("a date is not YYYY-MM-DD") from None
    lowest = pc.min(days.view(pa.int32())).as_py()
    if lowest is not None and lowest < FIRST_DAY:
        raise OddColumnError("a date is before the year 1")
    return days


def _moments(texts: pa.Array) -> pa.Array:
    """Return UTC texts in whole seconds or milliseconds; other spellings are rare."""
    lengths = pc.utf8_length(texts)
    usual = pc.or_(pc.equal(lengths, _WHOLE_SECONDS), pc.equal(lengths, _WITH_MILLIS))
    if pc.all(pc.and_(usual, pc.ends_with(texts, "Z"))).as_py() is False:
        raise OddColumnError("a moment is in an unusual form")
    try:
        moments = pc.utf8_slice_codeunits(texts, 0, -1).cast(pa.timestamp("ms"))
    except pa.ArrowInvalid:
        raise OddColumnError("a moment is not a date and time") from None
    millis = moments.view(pa.int64())
    lowest = pc.min(millis).as_py()
    if lowest is not None and lowest < FIRST_DAY * DAY_MS:
        raise OddColumnError("a moment is before the year 1")
    return millis.view(pa.date64())


def _blobs(texts: pa.Array) -> pa.Array:
    if pc.all(pc.starts_with(texts, BASE64)).as_py() is False:
        raise OddColumnError("a blob is not base64")
    try:
        return pa.array(
            [None if one is None else _decoded(one) for one in texts.to_pylist()], pa.large_binary()
        )
    except binascii.Error:
        raise OddColumnError("a blob is not valid base64") from None


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.removeprefix(BASE64), validate=True)

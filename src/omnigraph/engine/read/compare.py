"""Comparing columns with values and with each other, exactly.

Arrow widens operands before it compares, which is lossy where a 64-bit integer meets a double or
where signed meets unsigned. Here numbers compare as the numbers they are. A comparison with null
is never true, so every function returns a mask without nulls.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.operations import CompareOp
from omnigraph.engine.image.arrays import Mask

_KERNELS = {
    CompareOp.EQ: pc.equal,
    CompareOp.NE: pc.not_equal,
    CompareOp.LT: pc.less,
    CompareOp.LE: pc.less_equal,
    CompareOp.GT: pc.greater,
    CompareOp.GE: pc.greater_equal,
}
_PLAIN = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}
"""The same on NumPy arrays."""
FLIPPED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.NE: CompareOp.NE,
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}
_NUMPY = {
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal,
}

Value = str | int | float | bool | Sequence[Any] | None


def compare_value(column: pa.Array, op: CompareOp, value: Value) -> Mask:
    """Return where `column op value` is true; `value` is a plain Python value or None."""
    if value is None:
        return np.zeros(len(column), dtype=bool)
    column = plain_column(column)
    match op:
        case CompareOp.CONTAINS:
            return _contains(column, value)
        case CompareOp.STARTS_WITH:
            return mask_of(pc.starts_with(column, pattern=value))
        case CompareOp.IN:
            assert isinstance(value, Sequence)
            return is_in(column, value)
        case _:
            pass
    if pa.types.is_integer(column.type):
        return _integers_with_number(column, op, value)
    if pa.types.is_floating(column.type):
        return _floats_with_number(column, op, value)
    return mask_of(_KERNELS[op](column, pa.scalar(value, column.type)))


def is_in(column: pa.Array, values: Sequence[Any]) -> Mask:
    """Return where the column equals one of the values; null is in nothing."""
    column = plain_column(column)
    kept = [fitted for one in values if (fitted := _fit(one, column.type)) is not None]
    if not kept:
        return np.zeros(len(column), dtype=bool)
    found = pc.is_in(column, value_set=pa.array(kept, column.type), skip_nulls=True)
    return mask_of(found)


def compare_columns(left: pa.Array, op: CompareOp, right: pa.Array) -> Mask:
    """Return where `left op right` is true, row by row."""
    left, right = plain_column(left), plain_column(right)
    if op is CompareOp.CONTAINS:
        return _contains_rows(left, right)
    if op is CompareOp.STARTS_WITH:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter(
            (a is not None and b is not None and a.startswith(b) for a, b in pairs), bool, len(left)
        )
    if pa.types.is_integer(left.type) and pa.types.is_floating(right.type):
        return _integers_with_floats(left, op, right)
    if pa.types.is_floating(left.type) and pa.types.is_integer(right.type):
        return _integers_with_floats(right, FLIPPED[op], left)
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        return _mixed_integers(left, op, right)
    return mask_of(_KERNELS[op](left, right))


def mask_of(result: pa.Array) -> Mask:
    """Return a three-valued Arrow result as a mask; null counts as false."""
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    filled = pc.fill_null(result, False) if result.null_count else result
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=bool)


def plain_column(column: pa.Array) -> pa.Array:
    """Return days and milliseconds as the integers they are; other columns unchanged."""
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_date64(column.type) else column


def _fit(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - any literal value
    """Return the value as the column's type would hold it, or None if it cannot equal any."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        exact = isinstance(value, float) or int(_nearest_float(value, kind)) == value
        return float(value) if exact else None
    if not pa.types.is_integer(kind):
        return value
    if isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    low, high = _bounds(kind)
    return value if low <= value <= high else None


@cache
def _bounds(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _integers_with_number(column: pa.Array, op: CompareOp, value: Any) -> Mask:  # noqa: ANN401
    """Compare integers with any number by moving the number to the nearest integer bound."""
    if isinstance(value, float) and not value.is_integer():
        match op:
            case CompareOp.EQ:
                return np.zeros(len(column), dtype=bool)
            case CompareOp.NE:
                return _valid(column)
            case CompareOp.LT | CompareOp.LE:
                op, value = CompareOp.LE, math.floor(value)
            case _:
                op, value = CompareOp.GE, math.ceil(value)
    value = int(value)
    low, high = _bounds(column.type)
    if low <= value <= high:
        if not column.null_count:  # a few rows are compared before a kernel would be found
            return np.asarray(_PLAIN[op](column.to_numpy(), value))
        return mask_of(_KERNELS[op](column, pa.scalar(value, column.type)))
    always = op is CompareOp.NE or (op in (CompareOp.LT, CompareOp.LE)) == (value > high)
    if op is CompareOp.EQ:
        always = False
    return _valid(column) if always else np.zeros(len(column), dtype=bool)


def _valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _nearest_float(value: float, kind: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        return float(kind.to_pandas_dtype()(value))


def _floats_with_number(column: pa.Array, op: CompareOp, value: Any) -> Mask:  # noqa: ANN401
    """Compare floats with a number: a double narrows as stored ones did, an integer is exact."""
    near = _nearest_float(value, column.type)
    if isinstance(value, int) and int(near) != value:
        # No stored number lies between the integer and the float nearest to it.
        above = int(near) > value
        match op:
            case CompareOp.EQ:
                return np.zeros(len(column), dtype=bool)
            case CompareOp.NE:
                return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
            case CompareOp.LT | CompareOp.LE:
                op = CompareOp.LT if above else CompareOp.LE
            case _:
                op = CompareOp.GE if above else CompareOp.GT
    return mask_of(_KERNELS[op](column, pa.scalar(near, column.type)))


def _integers_with_floats(ints: pa.Array, op: CompareOp, floats: pa.Array) -> Mask:
    """Compare 64-bit integers with doubles without rounding the integers."""
    valid = _both_valid(ints, floats)
    left = _filled(ints)
    right = pc.fill_null(floats, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    low, high = _bounds(ints.type)
    with np.errstate(invalid="ignore"):
        whole = np.floor(right)
        too_low, too_high = whole < float(low), whole >= float(high) + 1.0
        clamped = np.where(too_low | too_high | np.isnan(right), 0.0, whole)
    floor = clamped.astype(left.dtype)
    fraction = whole != right
    # Three-way: -1, 0, 1 for integer below, equal, above the double.
    sign = np.where(left > floor, 1, np.where(left < floor, -1, np.where(fraction, -1, 0)))
    sign = np.where(too_low, 1, np.where(too_high, -1, sign))
    result = _NUMPY[op](sign, 0) & ~np.isnan(right)
    if op is CompareOp.NE:
        result = result | np.isnan(right)
    return np.asarray(result & valid)


def _mixed_integers(left: pa.Array, op: CompareOp, right: pa.Array) -> Mask:
    if left.type == right.type:
        return mask_of(_KERNELS[op](left, right))
    if not (pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type)):
        return mask_of(_KERNELS[op](left.cast(pa.int64()), right.cast(pa.int64())))
    if not pa.types.is_uint64(left.type):
        return _mixed_integers(right, FLIPPED[op], left)
    unsigned, signed = _filled(left), _filled(right).astype(np.int64)
    sign = np.where(unsigned > np.maximum(signed, 0).astype(np.uint64), 1, 0)
    sign = np.where(unsigned < np.maximum(signed, 0).astype(np.uint64), -1, sign)
    sign = np.where(signed < 0, 1, sign)
    return np.asarray(_NUMPY[op](sign, 0) & _both_valid(left, right))


def _filled(column: pa.Array) -> npt.NDArray[Any]:
    filled = pc.fill_null(column, 0) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _both_valid(left: pa.Array, right: pa.Array) -> Mask:
    both = pc.and_(left.is_valid(), right.is_valid())
    return np.asarray(both.to_numpy(zero_copy_only=False))


def _contains(column: pa.Array, value: Any) -> Mask:  # noqa: ANN401 - any literal value
    if pa.types.is_string(column.type):
        return mask_of(pc.match_substring(column, pattern=value))
    items = column.flatten()
    hits = compare_value(items, CompareOp.EQ, value)
    parents = pc.list_parent_indices(column).to_numpy()
    return np.bincount(parents[hits], minlength=len(column)).astype(bool)


def _contains_rows(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_string(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter(
            (a is not None and b is not None and b in a for a, b in pairs), bool, len(left)
        )
    parents = pc.list_parent_indices(left)
    hits = compare_columns(left.flatten(), CompareOp.EQ, right.take(parents))
    return np.bincount(parents.to_numpy()[hits], minlength=len(left)).astype(bool)

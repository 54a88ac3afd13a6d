"""Stored columns as they travel through Spark inside a query, bit for bit, and back.

Spark has no unsigned numbers, no days of its own kind and no lists of a fixed size; here they
travel as integers and lists, which nobody but this room sees. What orders, groups or tells rows
apart are keys of bytes, whose order is that of the values: null, NaN, then the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import one_array

_NULL, _NAN, _VALUE, _END = b"\x00", b"\x01", b"\x02", b"\x00"
_SIGN = np.uint64(1 << 63)


def carried_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of another travel."""
    if pa.types.is_date64(kind) or pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(pa.field("element", carried_type(kind.value_type)))
    return kind


def carried(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values as they travel."""
    values = one_array(values)
    kind = values.type
    if pa.types.is_uint64(kind) or pa.types.is_date64(kind):
        return values.view(pa.int64())
    if pa.types.is_unsigned_integer(kind):
        return values.cast(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    if pa.types.is_fixed_size_list(kind):
        values = values.cast(pa.list_(kind.value_type))
        kind = values.type
    if pa.types.is_list(kind):
        nulls = values.is_null() if values.null_count else None
        offsets = values.offsets
        if nulls is not None and values.offset:
            values = pa.concat_arrays([values])
            nulls, offsets = values.is_null(), values.offsets
        made = pa.ListArray.from_arrays(offsets, carried(values.values), mask=nulls)
        return made.cast(carried_type(kind))
    return values


def restored(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return values that have travelled, as they are stored."""
    values = one_array(values)
    if pa.types.is_uint64(kind) or pa.types.is_date64(kind):
        return values.view(kind)
    if pa.types.is_unsigned_integer(kind):
        return values.cast(kind)
    if pa.types.is_date32(kind):
        return values.view(kind)
    if pa.types.is_fixed_size_list(kind):
        return _fixed(values, kind)
    if pa.types.is_list(kind):
        nulls = values.is_null() if values.null_count else None
        items = restored(values.flatten(), kind.value_type)
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, items, mask=nulls).cast(kind)
    return values.cast(kind)


def _fixed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists of one length as such; a missing one takes its room all the same."""
    size = kind.list_size
    there = values.is_valid().to_numpy(zero_copy_only=False)
    at = np.full((len(values), size), -1, np.int64)
    at[there] = np.arange(int(there.sum()) * size).reshape(-1, size)
    places = pa.array(at.ravel(), mask=np.repeat(~there, size))
    items = values.flatten().cast(kind.value_type).take(places)
    mask = None if there.all() else pa.array(~there)
    return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)


def sort_key(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return bytes that are equal for equal values and sort like them; null is lowest, then NaN."""
    values = one_array(values)
    kind = values.type
    if pa.types.is_string(kind):
        texts = values.cast(pa.binary())
        marked = pc.binary_join_element_wise(pa.scalar(_VALUE), texts, pa.scalar(b""))
        return pc.fill_null(marked, _NULL)
    if pa.types.is_nested(kind):
        return pa.array([_list_key(one) for one in _items(values)], pa.binary())
    return _bytes_of(_numbers(values), values)


def _numbers(values: pa.Array) -> Any:  # noqa: ANN401 - an array of unsigned numbers
    """Return unsigned numbers that sort like plain values; null and NaN are anything."""
    kind = values.type
    if pa.types.is_floating(kind):
        doubles = np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False)) + 0.0
        bits = doubles.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits | _SIGN)
    if pa.types.is_date64(kind):
        values = values.view(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    if pa.types.is_uint64(kind):
        return filled.astype(np.uint64)
    return filled.astype(np.int64).view(np.uint64) ^ _SIGN


def _bytes_of(numbers: Any, values: pa.Array) -> pa.Array:  # noqa: ANN401 - as above
    marks = np.full(len(values), _VALUE[0], np.uint8)
    if pa.types.is_floating(values.type):
        nan = pc.fill_null(pc.is_nan(values), False).to_numpy(zero_copy_only=False)
        marks[nan] = _NAN[0]
    marks[values.is_null().to_numpy(zero_copy_only=False)] = _NULL[0]
    found = np.empty((len(values), 9), np.uint8)
    found[:, 0] = marks
    found[:, 1:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    found[marks != _VALUE[0], 1:] = 0
    made = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(9), len(values), [None, pa.py_buffer(found.tobytes())]
    )
    return made.cast(pa.binary())


def _items(values: pa.Array) -> Sequence[pa.Array | None]:
    """Return the keys of the items of every list."""
    keys = sort_key(values.flatten()).to_pylist()
    found: list[Any] = []
    start = 0
    for length in pc.list_value_length(values).to_pylist():
        found.append(None if length is None else keys[start : start + length])
        start += length or 0
    return found


def _list_key(items: Sequence[bytes] | None) -> bytes:
    """Return the key of a list: item by item, and a list before those that go on."""
    if items is None:
        return _NULL
    # Within a list an item must not look like the end of one that goes on.
    escaped = (item.replace(b"\x00", b"\x00\xff") + b"\x00\x01" for item in items)
    return _VALUE + b"".join(b"\x01" + one for one in escaped) + _END

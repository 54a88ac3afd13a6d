"""Arrow columns as JSON text, column by column.

Text columns are quoted in one step unless a value needs escaping; numbers are written so that they
read back as the same number. Whole lines are then joined without looking at single rows.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.query.literals import show_date, show_datetime
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.pipeline.inputs.columns import BASE64

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def json_texts(values: pa.Array, kind: PropType) -> pa.Array:
    """Return one JSON text per value, null where the value is."""
    if kind.is_list or kind.scalar in (Scalar.VECTOR, Scalar.BLOB):
        return _one_by_one(values, kind)
    match kind.scalar:
        case Scalar.STRING:
            return quoted(values)
        case Scalar.DATE:
            return _between('"', values.cast(pa.string()), '"')
        case Scalar.DATETIME:
            moments = values.view(pa.int64()).cast(pa.timestamp("ms"))
            return _between('"', pc.strftime(moments, "%Y-%m-%dT%H:%M:%S"), 'Z"')
        case Scalar.F32 | Scalar.F64:
            shown = values.cast(pa.float64()).cast(pa.string())
            # Read as an integer, as it may be, a zero would lose its sign.
            return pc.if_else(pc.equal(shown, "-0"), "-0.0", shown)
        case _:
            return values.cast(pa.string())


def quoted(values: pa.Array) -> pa.Array:
    """Return texts as JSON strings."""
    if pc.any(pc.match_substring_regex(values, _NEEDS_ESCAPE)).as_py():
        listed = values.to_pylist()
        return pa.array([None if one is None else _dumped(one) for one in listed], pa.string())
    return _between('"', values, '"')


def joined(parts: Sequence[pa.Array | str]) -> pa.Array:
    """Return the parts of every row one after another; a missing part is left out."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def labelled(name: str, texts: pa.Array) -> pa.Array:
    """Return `,"name":text` for every text; null stands for those that are missing."""
    return _between(f',"{name}":', pc.fill_null(texts, "null"), "")


def _between(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _one_by_one(values: pa.Array, kind: PropType) -> pa.Array:
    shown = [None if one is None else _dumped(one) for one in _plain(values, kind)]
    return pa.array(shown, pa.string())


def _plain(values: pa.Array, kind: PropType) -> list[Any]:
    """Return values of lists, vectors and blobs as JSON takes them."""
    if kind.scalar is Scalar.BLOB:
        listed = values.to_pylist()
        return [None if one is None else BASE64 + b64encode(one).decode() for one in listed]
    if kind.scalar in (Scalar.DATE, Scalar.DATETIME):
        show = show_date if kind.scalar is Scalar.DATE else show_datetime
        number = pa.int32() if kind.scalar is Scalar.DATE else pa.int64()
        found = pa.ListArray.from_arrays(
            values.offsets, values.values.view(number), mask=values.is_null()
        )
        return [
            None if one is None else [None if item is None else show(item) for item in one]
            for one in found.to_pylist()
        ]
    rows: list[Any] = values.to_pylist()
    return rows


def _dumped(value: object) -> str:
    return orjson.dumps(value).decode()

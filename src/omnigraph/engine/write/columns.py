"""Columns as the validator needs them: compared as tuples, cut into questions, told to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.columns import dense_ranks

KEYS_AT_ONCE = 8_192
"""How many keys one question asks storage for."""

KEYS_WORTH_ASKING = 4 * KEYS_AT_ONCE
"""Beyond this many keys one pass over the columns beats asking for them."""


def are_distinct(values: pa.ChunkedArray) -> bool:
    """Whether no two values are equal; false also where only a closer look can tell."""
    if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return False
    return bool(pc.count_distinct(values, mode="all").as_py() == len(values))


def tuple_codes(tables: list[pa.Table], columns: tuple[str, ...]) -> Any:  # noqa: ANN401 - int array
    """Return one integer per row over all tables; equal for equal value tuples."""
    parts = [table.select(list(columns)) for table in tables]
    whole = pa.concat_tables(parts, promote_options="permissive")
    codes = np.zeros(len(whole), np.int64)
    for name in columns:
        fresh = dense_ranks(one_array(whole[name]))
        width = int(fresh.max()) + 1 if len(fresh) else 1
        _, codes = np.unique(codes * width + fresh, return_inverse=True)
    return codes


def joined(parts: list[pa.Array]) -> pa.Array:
    """Return text in one piece; a bulk load brings more than 32-bit offsets can count."""
    large = any(pa.types.is_large_string(part.type) for part in parts)
    return pa.concat_arrays([part.cast(pa.large_string()) if large else part for part in parts])


def minus(values: pa.Array, others: pa.Array) -> pa.Array:
    """Return the values that are not among the others."""
    return values.filter(pc.invert(pc.is_in(values, value_set=others)))


def all_valid(rows: pa.Table, columns: tuple[str, ...]) -> pa.ChunkedArray:
    """Return which rows have a value in every column."""
    valid = pc.is_valid(rows[columns[0]])
    for name in columns[1:]:
        valid = pc.and_(valid, pc.is_valid(rows[name]))
    return valid


def chunks(values: pa.Array) -> Iterator[list[Any]]:
    """Yield the values in pieces of one question each."""
    for start in range(0, len(values), KEYS_AT_ONCE):
        yield list(values.slice(start, KEYS_AT_ONCE).to_pylist())


def value_at(values: pa.Array, at: int) -> Any:  # noqa: ANN401 - any stored value
    """Return a value; a datetime with its time of day, which Arrow's date64 forgets."""
    if pa.types.is_date64(values.type):
        values = values.slice(at, 1).cast(pa.timestamp("ms", "UTC"))
        return values[0].as_py()
    return values[at].as_py()


def in_words(value: object) -> str:
    """Return a value as queries write it."""
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


def says_something(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which texts are neither null nor blank."""
    return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False)

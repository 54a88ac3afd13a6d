"""Ids of loaded rows: made from keys, or from where in which input a row stood.

A made-up id is a ULID of the load's time, the input, the row's offset there and the load itself.
It is the same whoever reads the row and however often, and it sorts in input order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from ulid import ULID

from omnigraph.compiler.ir.key_id import canonical_text
from omnigraph.compiler.types import FLOATS, PropType, Scalar

Ints = npt.NDArray[np.int64]
MAX_SOURCES = 1 << 16
_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def generated_ids(operation_id: str, source: int, offsets: Ints) -> pa.Array:
    """Return one ULID per offset; `operation_id` is itself a ULID and gives time and salt."""
    operation = ULID.from_str(operation_id)
    salt = int(operation) & 0xFFFF
    high = (np.int64(source) << 24) | (offsets >> 24)
    low = ((offsets & 0xFF_FFFF) << 16) | salt
    text = np.empty((len(offsets), 26), np.uint8)
    text[:, :10] = np.frombuffer(str(operation)[:10].encode(), np.uint8)
    for half, start in ((high, 10), (low, 18)):
        for place in range(8):
            text[:, start + place] = _ALPHABET[(half >> (35 - 5 * place)) & 31]
    ends = np.arange(0, 26 * len(offsets) + 1, 26, dtype=np.int32)
    return pa.StringArray.from_buffers(len(offsets), pa.py_buffer(ends), pa.py_buffer(text))


def key_ids(columns: Sequence[tuple[pa.Array, PropType]]) -> pa.Array:
    """Return the ids that key columns give, null where a key value is: `key_id` for columns."""
    texts = [_texts(values, kind) for values, kind in columns]
    if len(texts) == 1:
        return texts[0]
    if any(pc.any(pc.match_substring_regex(one, _NEEDS_ESCAPE)).as_py() for one in texts):
        rows = zip(*(one.to_pylist() for one in texts), strict=True)
        return pa.array([None if None in row else _array_text(row) for row in rows], pa.string())
    joined = pc.binary_join_element_wise(*texts, '","')
    return pc.binary_join_element_wise('["', joined, '"]', "")


def _array_text(texts: Sequence[str]) -> str:
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def _texts(values: pa.Array, kind: PropType) -> pa.Array:
    match kind.scalar:
        case Scalar.STRING:
            return values
        case Scalar.DATE:
            return values.view(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            return values.view(pa.int64()).cast(pa.string())
        case scalar if scalar in FLOATS:
            listed = values.to_pylist()
            shown = [None if one is None else canonical_text(one, kind) for one in listed]
            return pa.array(shown, pa.string())
        case _:
            return values.cast(pa.string())

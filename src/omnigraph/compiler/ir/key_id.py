"""The id a key gives a node: the one text form of key values, for plans, loads and writes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence

from omnigraph.compiler.types import FLOATS, PropType, Scalar

KeyValue = str | int | float | bool


def key_id(parts: Sequence[tuple[KeyValue, PropType]]) -> str:
    """Return the id of a node from the values of its key columns.

    One column is its canonical text; several are a compact JSON array of those texts.

    >>> from omnigraph.compiler.types import PropType, Scalar
    >>> key_id([("ada", PropType(Scalar.STRING))])
    'ada'
    >>> key_id([("ada", PropType(Scalar.STRING)), (True, PropType(Scalar.BOOL))])
    '["ada","true"]'
    """
    texts = [canonical_text(value, kind) for value, kind in parts]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def canonical_text(value: KeyValue, kind: PropType) -> str:
    """Return the one text of a scalar: dates are days, datetimes milliseconds since the epoch.

    Raises:
        ValueError: the number is not finite.
    """
    if kind.scalar is Scalar.STRING:
        return str(value)
    if kind.scalar is Scalar.BOOL:
        return "true" if value else "false"
    if kind.scalar in FLOATS:
        return _float_text(float(value), kind.scalar)
    return str(int(value))


def _float_text(value: float, scalar: Scalar) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be part of a key")
    if value == 0:
        return "0"  # both zeros are equal, so they are one key
    text = repr(value) if scalar is Scalar.F64 else _short_f32(value)
    return text.removesuffix(".0")


def _short_f32(value: float) -> str:
    """Return the shortest text that reads back as the same 32-bit number."""
    stored = struct.unpack("f", struct.pack("f", value))[0]
    for digits in range(1, 10):
        text = f"{stored:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == stored:
            return repr(float(text))
    raise AssertionError(value)  # nine digits always identify a 32-bit float

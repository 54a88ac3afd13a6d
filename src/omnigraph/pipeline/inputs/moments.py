"""Days and moments of Arrow columns, whatever their unit and zone, as properties store them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.types import Scalar
from omnigraph.engine.image.arrays import Mask
from omnigraph.pipeline.inputs.columns import DAY_MS, FIRST_DAY, LAST_DAY, OddColumnError

_PARTS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
"""How many units a millisecond has."""
_DAY: Final = {"s": 86_400, "ms": DAY_MS, "us": DAY_MS * 1_000}
"""How many units a day has; one of nanoseconds has no years that could not be told."""


def is_moment(found: pa.DataType) -> bool:
    """Whether values of a type name a day or a moment."""
    return bool(pa.types.is_timestamp(found) or pa.types.is_date(found))


@lru_cache(maxsize=64)
def is_zone(name: str) -> bool:
    """Whether anybody knows a time zone of that name."""
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("s", name)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def from_moments(values: pa.Array, scalar: Scalar) -> pa.Array:
    """Return a column of dates or moments as a Date or DateTime property stores it.

    Raises:
        OddColumnError: some value has a time of day where none may be, or no year of the calendar,
            or is finer than a millisecond.
    """
    if are_finer(values).any():
        raise OddColumnError("finer than a millisecond")
    millis = millis_of(values, scalar)
    ends = pc.min_max(millis)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not FIRST_DAY * DAY_MS <= low <= high < (LAST_DAY + 1) * DAY_MS:
        raise OddColumnError("a year outside the calendar")
    if scalar is Scalar.DATETIME:
        return millis.view(pa.date64())
    days = pc.cast(pc.floor(pc.divide(millis.cast(pa.float64()), DAY_MS)), pa.int64())
    if pc.all(pc.equal(pc.multiply(days, DAY_MS), millis)).as_py() is False:
        raise OddColumnError("a moment within a day")
    return days.cast(pa.int32()).view(pa.date32())


def are_finer(values: pa.Array) -> Mask:
    """Return which values have digits below a millisecond, which no property can hold."""
    parts = _PARTS.get(getattr(values.type, "unit", ""), 1)
    if parts == 1 or not pa.types.is_timestamp(values.type):
        return np.zeros(len(values), bool)
    counts = pc.fill_null(values.view(pa.int64()), 0).to_numpy()
    finer: Mask = counts % parts != 0
    return finer


def millis_of(values: pa.Array, scalar: Scalar) -> pa.Array:
    """Return milliseconds since the epoch; digits below (see `are_finer`) are dropped.

    For a Date they are those of the calendar in the zone of the column: midnight in Berlin is
    where a day begins there, although it is still the day before in UTC.
    """
    if pa.types.is_date64(values.type):
        return values.view(pa.int64())
    if pa.types.is_date32(values.type):
        return pc.multiply(values.view(pa.int32()).cast(pa.int64()), DAY_MS)
    values = _within_reach(values)
    if scalar is Scalar.DATE and values.type.tz not in (None, "UTC"):
        values = pc.local_timestamp(values)
    counts = values.view(pa.int64())
    if values.type.unit == "s":
        return pc.multiply(counts, 1_000)
    parts = _PARTS[values.type.unit]
    floored = np.floor_divide(pc.fill_null(counts, 0).to_numpy(), parts)
    return pa.array(floored, mask=np.asarray(counts.is_null(), dtype=bool))


def _within_reach(values: pa.Array) -> pa.Array:
    """Return timestamps that can be counted with; one far outside the calendar stays outside."""
    day = _DAY.get(values.type.unit)
    if day is None:
        return values
    counts = values.view(pa.int64())
    low, high = (FIRST_DAY - 2) * day, (LAST_DAY + 3) * day
    ends = pc.min_max(counts)
    if not len(counts.drop_null()) or low <= ends["min"].as_py() <= ends["max"].as_py() <= high:
        return values
    reached = pc.max_element_wise(counts, low, skip_nulls=False)
    return pc.min_element_wise(reached, high, skip_nulls=False).view(values.type)

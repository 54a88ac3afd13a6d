"""The same values as a type that holds more."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.errors import ConflictError

Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


def widened(values: Values, kind: pa.DataType) -> Values:
    """Return values as another type: a single one as a list of one, any other by a safe cast.

    Raises:
        ConflictError: some do not fit, as where branches made one U32 an I64 and a U64.
    """
    if values.type == kind:
        return values
    if pa.types.is_list(kind) and not pa.types.is_list(values.type):
        if isinstance(values, pa.ChunkedArray):
            return pa.chunked_array([_listed(chunk, kind) for chunk in values.chunks], kind)
        return _listed(values, kind)
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise ConflictError(
            f"values of a column that is {values.type} on one side do not fit {kind}: {error}",
            hint="give both sides the same type, or leave the column out",
        ) from None


def _listed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    values = widened(values, kind.value_type)  # to more bits first, where it was widened twice
    valid = np.asarray(values.is_valid())
    ends = pa.array(np.concatenate([[0], np.cumsum(valid)]), pa.int32())
    return pa.ListArray.from_arrays(
        ends, values.drop_null(), type=kind, mask=pa.array(~valid) if not valid.all() else None
    )

"""Blobs as queries see them: a description, never the bytes.

Bytes stay in storage; an image holds how long each value is, whichever way its row came here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DESCRIPTION = pa.struct([pa.field("size", pa.int64())])
"""What a query returns for a Blob."""


def described(rows: pa.Table) -> pa.Table:
    """Return rows with a description in place of every blob."""
    for at, field in enumerate(rows.schema):
        if _is_blob(field.type):
            parts = [_description(part) for part in rows.column(at).chunks]
            column = pa.chunked_array(parts, DESCRIPTION)
            rows = rows.set_column(at, pa.field(field.name, DESCRIPTION), column)
    return rows


def _is_blob(kind: pa.DataType) -> bool:
    """Whether a stored column holds blobs: plain bytes, or storage's own description of them.

    No property of any other type is stored as either.
    """
    if isinstance(kind, pa.ExtensionType):
        return True
    return bool(
        pa.types.is_large_binary(kind) or (pa.types.is_struct(kind) and kind != DESCRIPTION)
    )


def _description(values: pa.Array) -> pa.StructArray:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    described = pa.types.is_struct(values.type)
    sizes = values.field("size") if described else pc.binary_length(values)
    return pa.StructArray.from_arrays(
        [sizes.cast(pa.int64())], fields=list(DESCRIPTION), mask=values.is_null()
    )

"""Stored columns as Spark has them, without loss: what it lacks goes into the next wider type.

DateTime is a timestamp, U32 a bigint, U64 a decimal of 20 digits, a vector an array; a blob is
described, not carried. A load takes all of them back as they were.
"""

from __future__ import annotations

import pyarrow as pa

_U64 = pa.decimal128(20, 0)
_MOMENT = pa.timestamp("us", "UTC")


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table in types Spark has."""
    return pa.schema([pa.field(one.name, spark_type(one.type)) for one in schema])


def spark_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of a table in types Spark has."""
    columns = [_converted(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for a stored one."""
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type(kind.storage_type)
    if pa.types.is_date64(kind):
        return _MOMENT
    if pa.types.is_uint64(kind):
        return _U64
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", spark_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, spark_type(one.type)) for one in kind])
    return kind


def _converted(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        return _converted(values.storage)
    kind = values.type
    if pa.types.is_date64(kind):
        return values.view(pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(_MOMENT)
    if pa.types.is_fixed_size_list(kind):
        values = values.cast(pa.list_(kind.value_type))
        kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        nulls = values.is_null() if values.null_count else None
        offsets = values.offsets.cast(pa.int32())
        made = pa.ListArray.from_arrays(offsets, _converted(values.values), mask=nulls)
        return made.cast(spark_type(kind))
    if pa.types.is_struct(kind):
        parts = [_converted(values.field(at)) for at in range(kind.num_fields)]
        nulls = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(spark_type(kind)), mask=nulls)
    return values.cast(spark_type(kind))

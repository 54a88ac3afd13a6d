"""Arrow schemas of node and edge tables, and the pattern language of `@check`.

The only module of the compiler that loads Arrow. It says what the columns are; how a table
stores them (a Blob column, say) is the storage layer's decision, told by field metadata.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.catalog.model import (
    EDGE_SYSTEM_COLUMNS,
    NODE_SYSTEM_COLUMNS,
    EdgeType,
    NodeType,
)
from omnigraph.compiler.types import PropType, Scalar

BLOB_METADATA: Final = {b"omnigraph:type": b"Blob"}
"""Marks a column whose values may be stored out of line."""

_SCALARS: Final = {
    Scalar.STRING: pa.utf8(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
}


def arrow_type(found: PropType) -> pa.DataType:
    """Return the Arrow type of a property."""
    if found.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), found.dim)
    scalar = _SCALARS[found.scalar]
    return pa.list_(pa.field("item", scalar, nullable=True)) if found.is_list else scalar


def arrow_field(name: str, found: PropType) -> pa.Field:
    """Return the Arrow field of a property."""
    metadata = BLOB_METADATA if found.scalar is Scalar.BLOB else None
    return pa.field(name, arrow_type(found), nullable=found.nullable, metadata=metadata)


def arrow_schema(found: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of a type's table: its own ones first, then the properties.

    A node's `id: String @key` property is the `id` column itself and appears once.
    """
    system = EDGE_SYSTEM_COLUMNS if isinstance(found, EdgeType) else NODE_SYSTEM_COLUMNS
    fields = [pa.field(name, pa.utf8(), nullable=False) for name in system]
    fields += [
        arrow_field(name, prop.type)
        for name, prop in found.properties.items()
        if name not in system
    ]
    return pa.schema(fields)


def find_pattern_error(pattern: str) -> str | None:
    """Return why RE2 does not compile a pattern, or None when it does."""
    try:
        pc.match_substring_regex(pa.scalar("", pa.utf8()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None

"""Values of columns that rows do not have yet, or have as a narrower type."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_field, arrow_type
from omnigraph.compiler.catalog.model import Property
from omnigraph.compiler.catalog.schema_ir import Backfill
from omnigraph.compiler.schema.fills import NOW, fill_value
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.write.cells import column
from omnigraph.storage.tables.compute import Computed
from omnigraph.storage.tables.widen import widened


def default_scalar(prop: Property) -> pa.Scalar | None:
    """Return what a required property is where nobody gave it a value; a moment is nobody's."""
    if prop.default is None or prop.type.nullable:
        return None
    if prop.type.scalar is Scalar.DATETIME and prop.default == NOW:
        return None
    return _constant(prop.type, prop.default, 0)[0]


def filled(prop: Property, fill: Backfill, source: str | None, now_ms: int) -> Computed:
    """Return a new column of existing rows.

    Args:
        prop: the new property.
        fill: what its rows get.
        source: the column it is taken from, as that is called now; None for a literal.
        now_ms: the moment of the change.
    """
    field = arrow_field(prop.name, prop.type)
    if source is not None:
        return Computed(field, (source,), partial(_taken, source, field.type))
    return Computed(field, (), partial(_repeated, _constant(prop.type, fill.text, now_ms)))


def converted(prop: Property, stored: str) -> Computed:
    """Return a column that holds what another one holds, as a wider type."""
    field = arrow_field(prop.name, prop.type)
    return Computed(field, (stored,), partial(_taken, stored, field.type))


def _constant(kind: PropType, text: str, now_ms: int) -> pa.Array:
    value = fill_value(kind, text, now_ms)
    return column([value], kind).cast(arrow_type(kind))


def _taken(source: str, kind: pa.DataType, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    values = rows[source]
    return widened(one_array(values) if isinstance(values, pa.ChunkedArray) else values, kind)


def _repeated(value: pa.Array, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    return value.take(pa.array(np.zeros(len(rows), np.int64)))

"""Expressions over batches of rows in a task: by the very code that runs queries locally.

A batch is put before it as if it were the images of a graph: every variable has a table of its own,
with a row per row of the batch. So a comparison, a search or a value cannot mean anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import Budget
from omnigraph.compiler.ir.ops import Predicate
from omnigraph.compiler.query.typed import Direction, Scalarish
from omnigraph.engine.image.postings import Postings, build_postings
from omnigraph.engine.image.table import TableImage, fresh_image
from omnigraph.engine.image.vectors import Vectors, build_vectors
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import holds, values
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.topology.adjacency import Adjacency
from omnigraph.errors import InternalError
from omnigraph.pipeline.query.carried import carried, carried_type, restored


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value of a variable travels: the name of the column, and its type when stored."""

    var: str
    prop: str
    name: str
    kind: pa.DataType

    @property
    def field(self) -> pa.Field:
        """The column as it travels."""
        return pa.field(self.name, carried_type(self.kind))


class BatchImages:
    """The tables of the variables of one batch."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._images = {var: _image_of(rows) for var, rows in tables.items()}

    def node(self, type_name: str) -> TableImage:
        """Return the table of a variable, by which it is called here."""
        return self._images[type_name]

    def edge(self, edge: str) -> TableImage:
        """Return the table of a variable, as `node`."""
        return self._images[edge]

    def adjacency(self, edge: str, direction: Direction) -> Adjacency:
        """Refuse: steps are joins of Spark."""
        raise InternalError(f"a batch has no adjacency of {edge} ({direction})")

    def postings(self, type_name: str, prop: str) -> Postings:
        """Return the texts of the batch: enough to tell which of them match."""
        return build_postings(self._images[type_name].column(prop).full)

    def vectors(self, type_name: str, prop: str) -> Vectors:
        """Return the vectors of the batch."""
        return build_vectors(self._images[type_name].column(prop).full)


def _image_of(rows: pa.Table) -> TableImage:
    return fresh_image(rows.num_rows, lambda names: rows.select(list(names)))


def context_of(tables: Mapping[str, pa.Table], params: Mapping[str, Any]) -> ReadContext:
    """Return what expressions over some tables are evaluated in."""
    # A name of its own for every variable: two of one type are never the same row of one table.
    types = {var: (var, False) for var in tables}
    return ReadContext(BatchImages(tables), params, types, Budget())


def all_rows(tables: Mapping[str, pa.Table], size: int) -> Rows:
    """Return every row of a batch, each variable at its own place."""
    return Rows(size, {var: np.arange(size) for var in tables})


def tables_of(batch: pa.RecordBatch, slots: Sequence[Slot]) -> dict[str, pa.Table]:
    """Return the columns of a batch as tables of their variables."""
    found: dict[str, dict[str, pa.Array]] = {}
    for slot in slots:
        column = restored(batch.column(slot.name), slot.kind)
        found.setdefault(slot.var, {})[slot.prop] = column
    return {var: pa.table(columns) for var, columns in found.items()}


@dataclass(frozen=True, slots=True)
class FilterTask:
    """Keep the rows for which all predicates hold."""

    predicates: tuple[Predicate, ...]
    slots: tuple[Slot, ...]
    params: Mapping[str, Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left of batches."""
        for batch in batches:
            tables = tables_of(batch, self.slots)
            ctx, rows = context_of(tables, self.params), all_rows(tables, batch.num_rows)
            kept = np.ones(batch.num_rows, dtype=bool)
            for predicate in self.predicates:
                kept &= holds(predicate, rows, ctx)
            yield batch.filter(pa.array(kept))


def evaluated(
    exprs: Sequence[Scalarish],
    kinds: Sequence[pa.DataType],
    tables: Mapping[str, pa.Table],
    size: int,
    params: Mapping[str, Any],
) -> list[pa.Array]:
    """Return the values of expressions, a row per row of the batch."""
    ctx, rows = context_of(tables, params), all_rows(tables, size)
    return [values(expr, rows, ctx).cast(kind) for expr, kind in zip(exprs, kinds, strict=True)]


def batch_of(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return columns as they travel."""
    arrays = [carried(one) for one in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))

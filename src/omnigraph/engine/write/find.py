"""The rows a mutation's predicate means: committed ones, and those the mutation wrote itself.

Storage narrows the scan where it can tell the same as we would; what counts is our own
evaluation of the predicate on the rows that came back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import Budget
from omnigraph.compiler.ir.ops import ROW, operands
from omnigraph.compiler.query.typed import Predicate, Prop
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.table import TableImage, fresh_image
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import holds, value_of
from omnigraph.engine.read.pushdown import pushdown
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.write.change_set import ID, Draft, fillable
from omnigraph.errors import InternalError
from omnigraph.storage.manifest.snapshot import Snapshot


class RowFinder:
    """Finds rows of one snapshot as a draft has changed them."""

    def __init__(self, snapshot: Snapshot, draft: Draft, params: Mapping[str, Any]) -> None:
        self._snapshot = snapshot
        self._draft = draft
        self._params = params

    def matching(self, key: str, where: Sequence[Predicate]) -> pa.Table:
        """Return whole rows that satisfy every predicate, committed ones first."""
        return self._matching(key, where, None)

    def matching_ids(self, key: str, where: Sequence[Predicate]) -> pa.Array:
        """Return the ids of those rows; other columns are read only as far as predicates ask."""
        names = {expr.name for one in where for expr in operands(one) if isinstance(expr, Prop)}
        return one_array(self._matching(key, where, sorted({ID, *names}))[ID])

    def _matching(
        self, key: str, where: Sequence[Predicate], columns: Sequence[str] | None
    ) -> pa.Table:
        narrowed = pushdown(where, lambda expr: value_of(expr, self._params))
        committed = self._snapshot.open(key).scan_to_write(columns, narrowed)
        committed = self._unshadowed(key, committed)
        own = self._draft.rows(key)
        if own is not None:
            committed = pa.concat_tables([fillable(committed), own.select(committed.column_names)])
        return self._exactly(committed, where)

    def _unshadowed(self, key: str, rows: pa.Table) -> pa.Table:
        for gone in (self._draft.rows(key), self._draft.deleted(key)):
            if gone is not None:
                ids = one_array(gone[ID]) if isinstance(gone, pa.Table) else gone
                rows = rows.filter(pc.invert(pc.is_in(rows[ID], value_set=ids)))
        return rows

    def _exactly(self, rows: pa.Table, where: Sequence[Predicate]) -> pa.Table:
        if not len(rows):
            return rows
        image = fresh_image(len(rows), lambda names: rows.select(list(names)))
        ctx = ReadContext(_OneTable(image), self._params, {ROW: ("", False)}, Budget())
        found = Rows(len(rows), {ROW: np.arange(len(rows))})
        for predicate in where:
            found = found.keep(holds(predicate, found, ctx))
        return rows.take(pa.array(found.at[ROW]))


class _OneTable:
    """Images of a single transient table."""

    def __init__(self, image: TableImage) -> None:
        self._image = image

    def node(self, type_name: str) -> TableImage:  # noqa: ARG002 - there is only one
        return self._image

    def edge(self, edge: str) -> TableImage:  # noqa: ARG002 - there is only one
        return self._image

    def adjacency(self, *_: object) -> Any:  # noqa: ANN401 - never called
        raise InternalError("a mutation's predicate looks at one row of one table")

    postings = vectors = adjacency

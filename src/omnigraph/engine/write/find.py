"""The rows a mutation's predicate means: committed ones, and those the mutation wrote itself.

Storage narrows the scan where it can tell the same as we would; what counts is our own
evaluation of the predicate on the rows that came back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir.ops import ROW
from omnigraph.compiler.query.ast import CompareOp
from omnigraph.compiler.query.typed import Compare, IsNull, Predicate, Prop
from omnigraph.compiler.types import INTEGERS, Scalar
from omnigraph.engine.image.table import TableImage, fresh_image
from omnigraph.engine.read.context import Budget, ReadContext
from omnigraph.engine.read.evaluate import Constant, constant, holds
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.write.change_set import ID, Draft
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import predicate as stored

_EPOCH = dt.date(1970, 1, 1)
_COMPARABLE = frozenset({CompareOp.EQ, CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE})


class RowFinder:
    """Finds rows of one snapshot as a draft has changed them."""

    def __init__(self, snapshot: Snapshot, draft: Draft, params: Mapping[str, Any]) -> None:
        self._snapshot = snapshot
        self._draft = draft
        self._params = params

    def matching(self, key: str, where: Sequence[Predicate]) -> pa.Table:
        """Return whole rows that satisfy every predicate, committed ones first."""
        pushed = [part for one in where if (part := self._pushdown(one)) is not None]
        narrowed = stored.AllOf(tuple(pushed)) if pushed else None
        committed = self._snapshot.open(key).scan(where=narrowed)
        committed = self._unshadowed(key, committed)
        own = self._draft.rows(key)
        rows = (
            committed if own is None else pa.concat_tables([committed, own.cast(committed.schema)])
        )
        return self._exactly(rows, where)

    def _unshadowed(self, key: str, rows: pa.Table) -> pa.Table:
        for gone in (self._draft.rows(key), self._draft.deleted(key)):
            if gone is not None:
                ids = gone[ID].combine_chunks() if isinstance(gone, pa.Table) else gone
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

    def _pushdown(self, predicate: Predicate) -> stored.Predicate | None:
        """Return a storage filter that keeps at least the same rows, or None."""
        match predicate:
            case Compare(Prop() as prop, op, right) if isinstance(right, Constant):
                return _stored(prop, op, constant(right, self._context()))
            case IsNull(Prop() as prop, negated):
                test = stored.IsNull(prop.name)
                return stored.Not(test) if negated else test
            case _:
                return None

    def _context(self) -> ReadContext:
        return ReadContext(_NO_TABLES, self._params, {}, Budget())


def _stored(prop: Prop, op: CompareOp, value: Any) -> stored.Predicate | None:  # noqa: ANN401 - any literal
    if prop.type.is_list or value is None:
        return None
    if op is CompareOp.IN:
        fitted = [_literal(prop.type.scalar, one) for one in value]
        known = [one for one in fitted if one is not None]
        return stored.is_in(prop.name, known) if len(known) == len(fitted) else None
    fitted_one = _literal(prop.type.scalar, value)
    if op not in _COMPARABLE or fitted_one is None:
        return None
    return stored.Compare(prop.name, op.value, fitted_one)  # type: ignore[arg-type] # the spellings are the same


def _literal(scalar: Scalar, value: Any) -> stored.Value | None:  # noqa: ANN401 - any literal
    """Return a value storage compares exactly as we do, or None."""
    if scalar is Scalar.STRING and isinstance(value, str):
        return value
    if scalar is Scalar.BOOL and isinstance(value, bool):
        return value
    if scalar in INTEGERS and isinstance(value, int) and -(2**31) <= value < 2**31:
        return value
    if scalar is Scalar.DATE and isinstance(value, int) and abs(value) < 300_000:
        return _EPOCH + dt.timedelta(days=value)
    return None


class _OneTable:
    """Images of a single transient table."""

    def __init__(self, image: TableImage) -> None:
        self._image = image

    def node(self, type_name: str) -> TableImage:  # noqa: ARG002 - there is only one
        return self._image

    def edge(self, edge: str) -> TableImage:  # noqa: ARG002 - there is only one
        return self._image

    def adjacency(self, *_: object) -> Any:  # noqa: ANN401 - never called
        raise NotImplementedError("a mutation's predicate looks at one row")

    postings = vectors = adjacency


_NO_TABLES = _OneTable(fresh_image(0, lambda names: pa.table({name: [] for name in names})))

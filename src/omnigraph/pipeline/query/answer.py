"""From matched rows to a result: order, distinct rows, groups, and which of them are returned.

Whatever decides an order is a key of bytes made in a task, so that Spark sorts as a query does;
values beside them are only carried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import ID
from omnigraph.compiler.query.typed import Aggregate, Column, OrderKey, Prop, Scalarish
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.read.window import Window
from omnigraph.pipeline.query.batches import Slot, batch_of, evaluated, tables_of
from omnigraph.pipeline.query.carried import sort_key
from omnigraph.pipeline.query.groups import GroupPlan, grouped
from omnigraph.pipeline.query.match import Bound, struct_of

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_BYTES = pa.binary()


@dataclass(frozen=True, slots=True)
class Ranked:
    """By which score column rows come; those without are left out."""

    prop: Prop
    ascending: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is returned of the match, its scores being columns by now."""

    columns: tuple[Column, ...]
    order: tuple[OrderKey, ...]
    tie_breakers: tuple[str, ...]
    distinct: bool
    rank: Ranked | None
    window: Window

    @property
    def is_aggregate(self) -> bool:
        """Whether rows are grouped."""
        return any(isinstance(one.expr, Aggregate) for one in self.columns)


@dataclass(frozen=True, slots=True)
class ProjectTask:
    """Make values and keys of rows."""

    slots: tuple[Slot, ...]
    values: tuple[Slot, ...]
    exprs: tuple[Scalarish, ...]
    keys: tuple[tuple[str, Scalarish, pa.DataType], ...]
    ranked: Prop | None
    params: Mapping[str, Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the values and keys of batches."""
        for given in batches:
            batch = given
            if self.ranked is not None:
                name = next(s.name for s in self.slots if s.prop == self.ranked.name)
                batch = batch.filter(batch.column(name).is_valid())
            tables = tables_of(batch, self.slots)
            exprs = (*self.exprs, *(expr for _, expr, _ in self.keys))
            kinds = [slot.kind for slot in self.values] + [kind for _, _, kind in self.keys]
            found = evaluated(exprs, kinds, tables, batch.num_rows, self.params)
            values, keys = found[: len(self.exprs)], found[len(self.exprs) :]
            columns = {slot.name: one for slot, one in zip(self.values, values, strict=True)}
            columns |= {
                name: sort_key(one) for (name, _, _), one in zip(self.keys, keys, strict=True)
            }
            yield batch_of(columns)


def result_slots(columns: Iterable[Column]) -> tuple[Slot, ...]:
    """Return where the values of result columns travel."""
    return tuple(
        Slot("", column.name, f"v{at}", arrow_type(column.type))
        for at, column in enumerate(columns)
    )


def answered(rows: Bound, wanted: Wanted, params: Mapping[str, Any]) -> DataFrame:
    """Return the rows of a result as they travel, in order: see `result_slots`."""
    if wanted.is_aggregate:
        return _groups(rows, wanted, params)
    return _distinct(rows, wanted, params) if wanted.distinct else _plain(rows, wanted, params)


def _projected(
    rows: Bound,
    wanted: Wanted,
    keys: Sequence[tuple[str, Scalarish, pa.DataType]],
    params: Mapping[str, Any],
) -> DataFrame:
    values = result_slots(wanted.columns)
    exprs = tuple(
        column.expr for column in wanted.columns if not isinstance(column.expr, Aggregate)
    )
    ranked = None if wanted.rank is None else wanted.rank.prop
    task = ProjectTask(
        tuple(rows.slots.values()),
        values,
        exprs,
        tuple(keys),
        ranked,
        params,
    )
    schema = [*values, *(Slot("", "", name, _BYTES) for name, _, _ in keys)]
    return rows.frame.mapInArrow(task, struct_of(schema))


def _plain(rows: Bound, wanted: Wanted, params: Mapping[str, Any]) -> DataFrame:
    keys = [(name, expr, kind) for name, expr, kind, _ in _order_keys(wanted)]
    ids = [
        (f"i{at}", Prop(var, ID, _ID), pa.string()) for at, var in enumerate(wanted.tie_breakers)
    ]
    frame = _projected(rows, wanted, [*keys, *ids], params)
    order = [_sorted(frame, name, ascending=up) for name, _, _, up in _order_keys(wanted)]
    order += [frame[name] for name, _, _ in ids]
    return _windowed(frame, order, wanted)


def _distinct(rows: Bound, wanted: Wanted, params: Mapping[str, Any]) -> DataFrame:
    """Keep one of equal rows; they come by their keys, then by their columns."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    ordered = list(_order_keys(wanted))
    values = result_slots(wanted.columns)
    columns: list[tuple[str, Scalarish, pa.DataType]] = []
    for at, (column, slot) in enumerate(zip(wanted.columns, values, strict=True)):
        assert not isinstance(column.expr, Aggregate)
        columns.append((f"g{at}", column.expr, slot.kind))
    keys = [(name, expr, kind) for name, expr, kind, _ in ordered]
    frame = _projected(rows, wanted, [*keys, *columns], params)
    made = [F.first(slot.name).alias(slot.name) for slot in values]
    # Equal rows differ in their rank alone, of which the better one counts.
    made += [(F.min if up else F.max)(name).alias(name) for name, _, _, up in ordered]
    found = frame.groupBy(*[name for name, _, _ in columns]).agg(*made)
    order = [_sorted(found, name, ascending=up) for name, _, _, up in ordered]
    order += [found[name] for name, _, _ in columns]
    return _windowed(found, order, wanted)


def _groups(rows: Bound, wanted: Wanted, params: Mapping[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    plan = GroupPlan.of(wanted.columns, wanted.order)
    frame = grouped(rows, plan, params)
    values = result_slots(wanted.columns)
    order = [
        _sorted(frame, f"o{at}", ascending=not key.descending)
        for at, key in enumerate(wanted.order)
    ]
    if not wanted.distinct:
        order += [frame[f"k{at}"] for at in range(len(plan.keys))]
        return _windowed(frame, order, wanted)
    names = [f"g{at}" for at in range(len(values))]
    made = [F.first(slot.name).alias(slot.name) for slot in values]
    made += [
        (F.max if key.descending else F.min)(f"o{at}").alias(f"o{at}")
        for at, key in enumerate(wanted.order)
    ]
    found = frame.groupBy(*names).agg(*made)
    order = [
        _sorted(found, f"o{at}", ascending=not key.descending)
        for at, key in enumerate(wanted.order)
    ]
    return _windowed(found, [*order, *(found[name] for name in names)], wanted)


def _order_keys(wanted: Wanted) -> Iterator[tuple[str, Scalarish, pa.DataType, bool]]:
    """Yield what decides first: name, expression, type, and whether the smallest comes first."""
    if wanted.rank is not None:
        yield "r", wanted.rank.prop, pa.float64(), wanted.rank.ascending
    for at, key in enumerate(wanted.order):
        assert not isinstance(key.expr, Aggregate)
        yield f"o{at}", key.expr, arrow_type(key.expr.type), not key.descending


def _sorted(frame: DataFrame, name: str, *, ascending: bool) -> SparkColumn:
    return frame[name].asc() if ascending else frame[name].desc()


def _windowed(frame: DataFrame, order: Sequence[SparkColumn], wanted: Wanted) -> DataFrame:
    found = frame.orderBy(*order) if order else frame
    if wanted.window.offset:
        found = found.offset(wanted.window.offset)
    if wanted.window.limit is not None:
        found = found.limit(wanted.window.limit)
    return found.select(*[slot.name for slot in result_slots(wanted.columns)])


_ID = PropType(Scalar.STRING)

"""Groups on Spark: equal rows are counted first, then the engine's own code makes values of groups.

What a group is made of travels as distinct rows with a number each, so a count over many rows is
small however many there are. The groups of a task are computed as a local query computes them: sums
are rounded once, and nothing depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.operations import AggregateFn
from omnigraph.compiler.query.typed import Aggregate, Column, OrderKey, Prop, Scalarish
from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.read.aggregate import aggregate, group
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.rows import Rows
from omnigraph.pipeline.query.batches import (
    Slot,
    batch_of,
    context_of,
    evaluated,
    tables_of,
)
from omnigraph.pipeline.query.carried import sort_key
from omnigraph.pipeline.query.match import Bound, struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VAR, _TIMES, _PART = "~group", "n", "part"
_PARTS = 64
"""Into so many parts groups are dealt out; each is held by one task at a time."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What rows are grouped by, what is computed of each group, and how both are returned."""

    keys: tuple[Scalarish, ...]
    aggregates: tuple[Aggregate, ...]
    columns: tuple[Column, ...]
    order: tuple[OrderKey, ...]

    @classmethod
    def of(cls, columns: Sequence[Column], order: Sequence[OrderKey]) -> GroupPlan:
        """Return the plan of a grouped result."""
        keys = [one.expr for one in columns if not isinstance(one.expr, Aggregate)]
        exprs = [*(one.expr for one in columns), *(key.expr for key in order)]
        made = dict.fromkeys(one for one in exprs if isinstance(one, Aggregate))
        return cls(tuple(keys), tuple(made), tuple(columns), tuple(order))

    @property
    def inputs(self) -> tuple[Scalarish, ...]:
        """What travels of every row: its keys, and what is aggregated."""
        args = [one.arg for one in self.aggregates if one.arg is not None]
        return tuple(dict.fromkeys((*self.keys, *args)))

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Where that travels."""
        return tuple(
            Slot(_VAR, f"a{at}", f"a{at}", arrow_type(expr.type))
            for at, expr in enumerate(self.inputs)
        )

    def inside(self, expr: Scalarish) -> Prop:
        """Return an expression as a column of what has travelled."""
        # What stands for no row is null, whatever the values themselves may be.
        kind = replace(expr.type, nullable=True)
        return Prop(_VAR, f"a{self.inputs.index(expr)}", kind)

    @property
    def made(self) -> list[Slot]:
        """What comes of every group: values, and keys of bytes."""
        found = [
            Slot("", "", f"v{at}", arrow_type(one.type)) for at, one in enumerate(self.columns)
        ]
        names = [f"o{at}" for at in range(len(self.order))]
        names += [f"k{at}" for at in range(len(self.keys))]
        names += [f"g{at}" for at in range(len(self.columns))]
        return [*found, *(Slot("", "", name, pa.binary()) for name in names)]


@dataclass(frozen=True, slots=True)
class InputTask:
    """Make what travels of rows."""

    slots: tuple[Slot, ...]
    plan: GroupPlan
    params: Mapping[str, Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is grouped, beside the number of a row, which is one."""
        made = self.plan.slots
        kinds = [slot.kind for slot in made]
        for batch in batches:
            tables = tables_of(batch, self.slots)
            found = evaluated(self.plan.inputs, kinds, tables, batch.num_rows, self.params)
            columns = {slot.name: one for slot, one in zip(made, found, strict=True)}
            for at, key in enumerate(self.plan.keys):
                columns[f"k{at}"] = sort_key(found[self.plan.inputs.index(key)])
            columns[_TIMES] = pa.array(np.ones(batch.num_rows, np.int64))
            yield batch_of(columns)


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Compute the groups of one part."""

    plan: GroupPlan

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Return the groups of a part whose rows are all here."""
        return pa.Table.from_batches([self._computed(rows)])

    def over_all(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the one group of all rows, which is there even without any."""
        known = [slot.field for slot in self.plan.slots] + [pa.field(_TIMES, pa.int64())]
        schema = pa.schema(known)
        listed = [one.select(schema.names).cast(schema) for one in batches]
        yield self._computed(pa.Table.from_batches(listed, schema))

    def _computed(self, rows: pa.Table) -> pa.RecordBatch:
        plan = self.plan
        whole = rows.combine_chunks()
        batch = (whole.to_batches() or [pa.RecordBatch.from_pylist([], whole.schema)])[0]
        tables = tables_of(batch, plan.slots)
        if not tables:  # nothing but the number of rows travels
            tables = {_VAR: pa.table({"none": pa.nulls(batch.num_rows)})}
        ctx = context_of(tables, {})
        every = Rows(batch.num_rows, {_VAR: np.arange(batch.num_rows)})
        times = np.asarray(batch.column(_TIMES).to_numpy(zero_copy_only=False), np.int64)
        keys = [plan.inside(key) for key in plan.keys]
        if keys:
            groups, first = group(keys, every, ctx)
        else:
            groups, first = np.zeros(every.size, np.int64), np.zeros(1, np.int64)
        found = {
            one: self._value(one, groups, len(first), every, times, ctx) for one in plan.aggregates
        }
        heads = every.take(first) if keys else every.slice(0, 0)
        return self._told(found, heads, len(first), ctx)

    def _value(
        self, one: Aggregate, groups: Ints, count: int, rows: Rows, times: Ints, ctx: ReadContext
    ) -> pa.Array:
        inner = one if one.arg is None else replace(one, arg=self.plan.inside(one.arg))
        if one.fn is AggregateFn.COUNT and not one.distinct:
            weights = times
            if inner.arg is not None:
                there = values(inner.arg, rows, ctx).is_valid().to_numpy(zero_copy_only=False)
                weights = np.where(there, times, 0)
            found = np.zeros(count, np.int64)
            np.add.at(found, groups, weights)
            return pa.array(found)
        if one.fn in (AggregateFn.SUM, AggregateFn.AVG):
            again = np.repeat(np.arange(rows.size), times)
            return aggregate(inner, groups[again], count, rows.take(again), ctx)
        return aggregate(inner, groups, count, rows, ctx)

    def _told(
        self, found: Mapping[Aggregate, pa.Array], heads: Rows, count: int, ctx: ReadContext
    ) -> pa.RecordBatch:
        plan = self.plan

        def value(expr: object) -> pa.Array:
            if isinstance(expr, Aggregate):
                return found[expr]
            return values(plan.inside(expr), heads, ctx)  # type: ignore[arg-type]  # a scalar

        made = {
            f"v{at}": value(one.expr).cast(arrow_type(one.type))
            for at, one in enumerate(plan.columns)
        }
        told = {f"o{at}": sort_key(value(key.expr)) for at, key in enumerate(plan.order)}
        told |= {f"k{at}": sort_key(value(key)) for at, key in enumerate(plan.keys)}
        told |= {f"g{at}": sort_key(made[f"v{at}"]) for at in range(len(plan.columns))}
        assert all(len(one) == count for one in made.values())
        return batch_of({**made, **told})


def grouped(rows: Bound, plan: GroupPlan, params: Mapping[str, Any]) -> DataFrame:
    """Return a row per group: its values `v`, and bytes of its order `o`, keys `k`, values `g`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    keys = [f"k{at}" for at in range(len(plan.keys))]
    travels = [
        *plan.slots,
        *(Slot("", "", name, pa.binary()) for name in keys),
        Slot("", "", _TIMES, pa.int64()),
    ]
    task = InputTask(tuple(rows.slots.values()), plan, params)
    frame = rows.frame.mapInArrow(task, struct_of(travels))
    names = [slot.name for slot in travels[:-1]]
    counted = frame.groupBy(*names).agg(
        F.coalesce(F.sum(_TIMES), F.lit(0).cast("long")).alias(_TIMES)
    )
    compute, schema = GroupTask(plan), struct_of(plan.made)
    if not keys:
        # A row that stands for none: without any, Spark would run nothing at all.
        kinds = {field.name: field.dataType for field in counted.schema}
        empty = [F.lit(None).cast(kinds[name]).alias(name) for name in names]
        none = frame.sparkSession.range(1).select(*empty, F.lit(0).cast("long").alias(_TIMES))
        return counted.unionByName(none).repartition(1).mapInArrow(compute.over_all, schema)
    dealt = counted.withColumn(_PART, F.pmod(F.xxhash64(*keys), F.lit(_PARTS)))

    def one_part(part: pa.Table) -> pa.Table:
        return compute(part)

    return dealt.groupBy(_PART).applyInArrow(one_part, schema)

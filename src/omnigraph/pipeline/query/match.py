"""The operators that make rows, as joins of DataFrames: a row is the ids of its variables.

Beside the ids travel the values that are needed behind a scan, and nothing else; a node is joined
only if something of it but its id is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import DST, ID, SRC, Catalog
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Direction,
    Expand,
    Filter,
    Join,
    NodeScan,
    Predicate,
    Prop,
    operands,
)
from omnigraph.compiler.query.typed import Expr, TextMatch
from omnigraph.engine.read.prepare import Stage
from omnigraph.pipeline.query.batches import FilterTask, Slot
from omnigraph.pipeline.query.carried import carried_type
from omnigraph.pipeline.query.scan import Best, ScanTask, ScoreColumn
from omnigraph.pipeline.stages.fragments import table_pieces
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PIECES = 256
_NEAR, _FAR = "near", "far"
_TEXT = pa.string()


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows so far: a DataFrame, and which of its columns is what of which variable."""

    frame: DataFrame
    slots: Mapping[tuple[str, str], Slot]

    def named(self, var: str, prop: str = ID) -> str:
        """Return the column of a value."""
        return self.slots[var, prop].name

    def col(self, var: str, prop: str = ID) -> Column:
        """Return the column of a value."""
        return _col(self.named(var, prop))

    def knows(self, var: str) -> bool:
        """Whether a variable is bound."""
        return (var, ID) in self.slots

    def of(self, keep: Callable[[str], bool]) -> Bound:
        """Return the same rows with some of the variables."""
        slots = {key: slot for key, slot in self.slots.items() if keep(key[0])}
        return Bound(self.frame.select(*[slot.name for slot in slots.values()]), slots)

    def once(self) -> Bound:
        """Return each row once; ids tell rows apart, values follow from them."""
        ids = [slot.name for (_, prop), slot in self.slots.items() if prop == ID]
        return replace(self, frame=self.frame.dropDuplicates(ids))


@dataclass(slots=True)
class Matcher:
    """Makes DataFrames of the operators of one query, over one snapshot."""

    session: SparkSession
    snapshot: Snapshot
    catalog: Catalog
    params: Mapping[str, Any]
    needed: Mapping[str, frozenset[str]]
    """The properties of every variable that are looked at behind its scan."""
    scores: Mapping[tuple[str, str], tuple[ScoreColumn, ...]] = field(default_factory=dict)
    """By variable and type: two negations may use one name for different things."""
    best: Best | None = None
    _count: int = 0
    _types: dict[str, str] = field(default_factory=dict)
    """The type of every node variable; of one that two negations bind, that of the last."""
    _edge_pairs: dict[tuple[str, Direction], DataFrame] = field(default_factory=dict)

    def run(self, stages: Sequence[Stage], rows: Bound | None) -> Bound:
        """Return the rows that some operators make of others; of nothing, if there are none."""
        for stage in stages:
            rows = self._stage(stage, rows)
        assert rows is not None, "a match begins with a scan"
        return rows

    def _stage(self, stage: Stage, rows: Bound | None) -> Bound:
        op = stage.op
        if isinstance(op, NodeScan):
            found = self._beside(rows, self._nodes(op.var, op.type_name, op.filters))
        elif isinstance(op, Join):
            found = self._join(op, stage, rows)
        else:
            assert rows is not None, "a match begins with a scan"
            match op:
                case Expand():
                    found = self._expand(op, rows, stage.into)
                case Filter():
                    found = self.filtered(rows, (op.predicate,))
                case AntiJoin():
                    found = self._without(stage, rows)
                case _:
                    assert_never(op)
        return self._settled(stage, found)

    def _settled(self, stage: Stage, rows: Bound) -> Bound:
        """Drop the variables nobody needs any more, and rows that became equal by that."""
        bound = {var for var, _ in rows.slots}
        kept = {var for var in bound if var in stage.keep or var.startswith(_TAGS)}
        kept = kept or {min(bound)}  # without any column nobody would know how many rows there are
        if kept == bound:
            return rows
        rows = rows.of(lambda var: var in kept)
        return rows.once() if stage.once else rows

    def _beside(self, rows: Bound | None, others: Bound) -> Bound:
        if rows is None:
            return others
        frame = rows.frame.crossJoin(others.frame)
        return Bound(frame, {**rows.slots, **others.slots})

    # Tables

    def _nodes(self, var: str, type_name: str, filters: tuple[Predicate, ...]) -> Bound:
        key, self._types[var] = node_key(type_name), type_name
        kinds = dict(_kinds(arrow_schema(self.catalog.nodes[type_name])))
        scores = self.scores.get((var, type_name), ())
        best = self.best if self.best and any(s.name == self.best.column for s in scores) else None
        return self._table(key, var, kinds, filters, scores, best)

    def _edges(self, op: Expand) -> Bound:
        """Return edges with their ends, as far as an edge variable asks for them."""
        var = op.edge_var or "~edge"
        kinds = dict(_kinds(arrow_schema(self.catalog.edges[op.edge])))
        ends = {SRC, DST} if op.edge_var is None else {ID, SRC, DST}
        return self._table(edge_key(op.edge), var, kinds, op.edge_filters, also=ends, id_too=False)

    def _table(
        self,
        key: str,
        var: str,
        kinds: dict[str, pa.DataType],
        filters: tuple[Predicate, ...] = (),
        scores: tuple[ScoreColumn, ...] = (),
        best: Best | None = None,
        *,
        also: Iterable[str] = (),
        id_too: bool = True,
    ) -> Bound:
        scored = {one.name: pa.float64() for one in scores}
        wanted = self.needed.get(var, frozenset()) & (kinds.keys() | scored.keys())
        wanted |= {*also, *([ID] if id_too else [])}
        slots = {
            (var, name): self.slot(var, name, (kinds | scored)[name]) for name in sorted(wanted)
        }
        read = (wanted | _looked_at(filters)) & kinds.keys()
        read |= {one.score.target.name for one in scores}
        pieces = tuple(table_pieces(self.snapshot, key, _PIECES))
        task = ScanTask(
            pieces,
            var,
            filters,
            tuple(slots.values()),
            tuple(sorted(read)),
            scores,
            self.params,
            best,
        )
        numbers = self.session.range(0, len(pieces), 1, max(len(pieces), 1))
        return Bound(numbers.mapInArrow(task, struct_of(slots.values())), slots)

    def slot(self, var: str, prop: str, kind: pa.DataType) -> Slot:
        """Return a column nobody has yet."""
        self._count += 1
        return Slot(var, prop, f"c{self._count}", kind)

    # Steps

    def _expand(self, op: Expand, rows: Bound, into: str | None) -> Bound:
        if op.edge_var is not None:
            return self._over_edges(op, rows)
        pairs = self._pairs(op)
        if into is not None:
            ends = (rows.col(op.src) == _col(_NEAR)) & (rows.col(into) == _col(_FAR))
            return Bound(rows.frame.join(pairs, ends, "left_semi"), rows.slots)
        if op.max_hops > 1:
            pairs = self._walked(op, rows, pairs)
        else:  # most rows of most tables do not matter: they need not be told apart
            starts = rows.frame.selectExpr(f"{rows.named(op.src)} as start").distinct()
            pairs = pairs.join(starts, _col(_NEAR) == _col("start"), "left_semi").distinct()
        frame = rows.frame.join(pairs, rows.col(op.src) == _col(_NEAR))
        return self._arrived(op, Bound(frame, rows.slots))

    def _pairs(self, op: Expand) -> DataFrame:
        """Return which node leads to which, by every edge; one plan for all steps alike."""
        key = (op.edge, op.direction)
        if key not in self._edge_pairs:
            self._edge_pairs[key] = self._made_pairs(op)
        return self._edge_pairs[key]

    def _made_pairs(self, op: Expand) -> DataFrame:
        edges = self._edges(op)
        (var,) = {slot.var for slot in edges.slots.values()}
        src, dst = edges.named(var, SRC), edges.named(var, DST)
        out = edges.frame.selectExpr(f"{src} as {_NEAR}", f"{dst} as {_FAR}")
        back = edges.frame.selectExpr(f"{dst} as {_NEAR}", f"{src} as {_FAR}")
        match op.direction:
            case Direction.OUT:
                return out
            case Direction.IN:
                return back
            case Direction.BOTH:
                return out.union(back)

    def _walked(self, op: Expand, rows: Bound, pairs: DataFrame) -> DataFrame:
        """Return which start leads where: at the depth it is first reached, if within the bounds.

        The start is visited from the beginning; a stored self-loop leads back to it at depth 1.
        """
        if self._types[op.src] != op.dst_type:  # no second step exists
            return pairs.distinct() if op.min_hops == 1 else pairs.limit(0)
        starts = rows.frame.selectExpr(f"{rows.named(op.src)} as {_NEAR}").distinct()
        frontier = starts.selectExpr(f"{_NEAR}", f"{_NEAR} as {_FAR}")
        seen, kept = frontier, []
        steps = pairs.selectExpr(f"{_NEAR} as a", f"{_FAR} as b")
        for depth in range(1, op.max_hops + 1):
            reached = frontier.join(steps, _col(_FAR) == _col("a"))
            reached = reached.selectExpr(f"{_NEAR}", f"b as {_FAR}").distinct()
            fresh = reached.join(seen, [_NEAR, _FAR], "left_anti")
            if depth >= op.min_hops:
                kept.append(fresh)
            if depth == 1 and op.min_hops == 1:
                kept.append(reached.where(f"{_NEAR} = {_FAR}"))
            seen, frontier = seen.union(fresh), fresh
        return reduce(lambda one, other: one.union(other), kept)

    def _over_edges(self, op: Expand, rows: Bound) -> Bound:
        """Bind one row per stored edge; a self-loop walked both ways is still one edge."""
        assert op.edge_var is not None
        edges = self._edges(op)
        src, dst = edges.named(op.edge_var, SRC), edges.named(op.edge_var, DST)
        out = edges.frame.selectExpr("*", f"{src} as {_NEAR}", f"{dst} as {_FAR}")
        back = edges.frame.selectExpr("*", f"{dst} as {_NEAR}", f"{src} as {_FAR}")
        match op.direction:
            case Direction.OUT:
                steps = out
            case Direction.IN:
                steps = back
            case Direction.BOTH:
                steps = out.union(back.where(f"{src} != {dst}"))
        frame = rows.frame.join(steps, rows.col(op.src) == _col(_NEAR))
        return self._arrived(op, Bound(frame, {**rows.slots, **edges.slots}))

    def _arrived(self, op: Expand, rows: Bound) -> Bound:
        """Bind the far end; the node itself is joined if more of it is asked for than its id."""
        self._types[op.dst] = op.dst_type
        if not (self.needed.get(op.dst, frozenset()) - {ID}) and not op.dst_filters:
            slot = self.slot(op.dst, ID, _TEXT)
            frame = rows.frame.withColumnRenamed(_FAR, slot.name).drop(_NEAR)
            return Bound(frame, {**rows.slots, (op.dst, ID): slot})
        nodes = self._nodes(op.dst, op.dst_type, op.dst_filters)
        frame = rows.frame.join(nodes.frame, _col(_FAR) == nodes.col(op.dst))
        return Bound(frame.drop(_NEAR, _FAR), {**rows.slots, **nodes.slots})

    # Conditions

    def filtered(self, rows: Bound, predicates: tuple[Predicate, ...]) -> Bound:
        """Return the rows for which all predicates hold."""
        looked_at = {prop.var for one in predicates for prop in _props(one)}
        slots = tuple(slot for (var, _), slot in rows.slots.items() if var in looked_at)
        # A constant condition has no variable; then a row of any tells how many there are.
        task = FilterTask(predicates, slots or tuple(rows.slots.values()), self.params)
        frame = rows.frame.mapInArrow(task, rows.frame.schema)
        return replace(rows, frame=frame)

    def _join(self, op: Join, stage: Stage, rows: Bound | None) -> Bound:
        """Put every row beside those of the inner operators where all is equal."""
        inner = self.run(stage.inner, None)
        if rows is None:
            return inner
        conditions = [one for one in (_equal(on, rows, inner) for on in op.on) if one is not None]
        if conditions:
            together = reduce(lambda one, other: one & other, conditions)
            frame = rows.frame.join(inner.frame, together)
        else:
            frame = rows.frame.crossJoin(inner.frame)
        found = Bound(frame, {**rows.slots, **inner.slots})
        rest = tuple(one for one in op.on if not _is_exact(one, found))
        return self.filtered(found, rest) if rest else found

    def _without(self, stage: Stage, rows: Bound) -> Bound:
        """Keep the rows from which the inner operators reach nothing."""
        if not stage.inner:
            return replace(rows, frame=rows.frame.limit(0))
        uses = sorted(stage.uses)
        if not uses:
            hit = self.run(stage.inner, None).frame.limit(1)
            return replace(rows, frame=rows.frame.join(hit, _always(), "left_anti"))
        outer = rows.of(lambda var: var in stage.uses).once()
        tags, frame = dict(outer.slots), outer.frame
        for var in uses:
            slot = self.slot(_tag(stage, var), ID, _TEXT)
            frame = frame.withColumn(slot.name, outer.col(var))
            tags[slot.var, ID] = slot
        inner = self.run(stage.inner, Bound(frame, tags))
        names = [inner.named(_tag(stage, var)) for var in uses]
        hit = inner.frame.select(*names).distinct()
        same = [rows.col(var) == _col(name) for var, name in zip(uses, names, strict=True)]
        met = reduce(lambda one, other: one & other, same)
        return replace(rows, frame=rows.frame.join(hit, met, "left_anti"))


_TAGS = "~tag"


def _tag(stage: Stage, var: str) -> str:
    """Return the variable that holds, inside a negation, what one outside is bound to."""
    return f"{_TAGS}{stage.tag}:{var}"


def _col(name: str) -> Column:
    """Return a column by its name, of which there is one in a plan."""
    from pyspark.sql.functions import col

    return col(name)


def _always() -> Column:
    """Return a condition that is met by every pair of rows."""
    from pyspark.sql.functions import lit

    return lit(1) == lit(1)


def struct_of(slots: Iterable[Slot]) -> Any:  # noqa: ANN401 - a StructType, whose module is optional
    """Return the columns as Spark is told of them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([slot.field for slot in slots]))


def _kinds(schema: pa.Schema) -> Iterable[tuple[str, pa.DataType]]:
    return zip(schema.names, schema.types, strict=True)


def _looked_at(filters: Iterable[Predicate]) -> set[str]:
    return {prop.name for one in filters for prop in _props(one)}


def _props(predicate: Predicate) -> list[Prop]:
    return [prop for side in operands(predicate) for prop in props_of(side)]


def props_of(expr: Expr) -> list[Prop]:
    """Return the properties an expression of one row looks at."""
    match expr:
        case Prop():
            return [expr]
        case TextMatch():
            return [expr.target]
        case _:
            return []


def _equal(on: Compare, rows: Bound, inner: Bound) -> Column | None:
    """Return a condition that is met wherever two properties are equal, if Spark has one."""
    left, right = on.left, on.right
    assert isinstance(left, Prop)
    assert isinstance(right, Prop)
    one, other = (left, right) if rows.knows(left.var) else (right, left)
    kinds = [bound.slots[p.var, p.name].kind for bound, p in ((rows, one), (inner, other))]
    near, far = rows.col(one.var, one.name), inner.col(other.var, other.name)
    if kinds[0] == kinds[1]:
        return near == far
    if any(pa.types.is_uint64(kind) for kind in kinds):
        return None
    # Equal numbers of different types are equal as doubles; not the other way round.
    return near.cast("double") == far.cast("double")


def _is_exact(on: Compare, rows: Bound) -> bool:
    """Whether Spark means by an equality of two properties exactly what a query does."""
    assert isinstance(on.left, Prop)
    assert isinstance(on.right, Prop)
    kinds = [rows.slots[side.var, side.name].kind for side in (on.left, on.right)]
    is_plain = not (pa.types.is_floating(kinds[0]) or pa.types.is_nested(kinds[0]))
    return bool(kinds[0] == kinds[1] and is_plain and carried_type(kinds[0]) == kinds[0])

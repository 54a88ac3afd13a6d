"""Statements of a mutation to a change set, one after another, nothing written yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import Catalog, EdgeType, Embed, NodeType
from omnigraph.compiler.ir.key_id import key_id
from omnigraph.compiler.ir.mutation_mix import check_mutation_mix
from omnigraph.compiler.ir.ops import Delete, InsertEdge, InsertNode, MutationIr, Update
from omnigraph.compiler.query.typed import ID_TYPE, Assignment, Literal, Param
from omnigraph.compiler.schema.fills import fill_value
from omnigraph.compiler.types import PropType
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.read.compare import mask_of
from omnigraph.engine.write.cells import CellError, column, fit
from omnigraph.engine.write.change_set import ID, ChangeSet, Draft
from omnigraph.engine.write.find import RowFinder
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Violations
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import AnyOf, is_in

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Mutated:
    """What a mutation is going to change."""

    changes: ChangeSet
    affected_nodes: int
    affected_edges: int


def run_mutation(
    ir: MutationIr,
    snapshot: Snapshot,
    catalog: Catalog,
    params: Mapping[str, Any],
    new_id: NewId,
    now_ms: int = 0,
) -> Mutated:
    """Return what the statements change, each seeing what the ones before it did.

    Raises:
        MixedMutationError: deletes are mixed with inserts or updates.
        ConstraintError: a value does not fit its property.
    """
    check_mutation_mix(ir)
    run = _Run(snapshot, catalog, params, new_id, now_ms)
    for number, statement in enumerate(ir.statements, start=1):
        run.draft.statement = number
        match statement:
            case InsertNode():
                run.insert_node(statement)
            case InsertEdge():
                run.insert_edge(statement)
            case Update():
                run.update(statement)
            case Delete():
                run.delete(statement)
            case _:
                assert_never(statement)
    changes = run.draft.change_set(snapshot.commit_id)
    if run.violations.items:
        run.refuse_all(changes)
    return Mutated(changes, run.nodes, run.edges)


class _Run:
    """One mutation being carried out on a draft."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        params: Mapping[str, Any],
        new_id: NewId,
        now_ms: int,
    ) -> None:
        self._now_ms = now_ms
        self._snapshot = snapshot
        self._catalog = catalog
        self._params = params
        self._new_id = new_id
        self.draft = Draft()
        self._finder = RowFinder(snapshot, self.draft, params)
        self.violations = Violations()
        self.nodes = 0
        self.edges = 0

    def refuse_all(self, changes: ChangeSet) -> None:
        """Raise what was found, and what is wrong with the rows of the other statements.

        Only what a row breaks by itself: an end may be missing because its node was refused.
        """
        kinds: list[NodeType | EdgeType] = [
            *self._catalog.nodes.values(),
            *self._catalog.edges.values(),
        ]
        for kind in kinds:
            rows = changes.upserts(kind.table_key)
            for broken in () if rows is None else broken_values(kind, rows, filled=False):
                self.violations.report(broken, changes.place_of)
        self.violations.raise_if_any()

    def insert_node(self, statement: InsertNode) -> None:
        """Put one node; a keyed one replaces the node with its key."""
        kind = self._catalog.nodes[statement.type_name]
        values, misfits = self._fitted(kind, statement.assignments)
        values |= self._defaults(kind, statement.assignments)
        key = self._key(kind, values)
        if misfits or (kind.key and key is None):
            self.violations.extend(replace(one, row_id=key) for one in misfits)
            self._tell_others(kind, {**values, ID: key}, {*kind.key, *_props(misfits)})
            return
        row = {**values, ID: self._new_id() if key is None else key}
        self._put(kind, row, generated_ids=not kind.key)
        self.nodes += 1

    def _key(self, kind: NodeType, values: Mapping[str, Any]) -> str | None:
        """Return the id a key gives, or None where there is none, it does not fit or is null."""
        for name in kind.key:
            if name in values and values[name] is None:
                text = f"{kind.name}.{name}: null in a required property"
                self._refuse(kind.name, name, Rule.REQUIRED, text)
        if not kind.key or any(values.get(name) is None for name in kind.key):
            return None
        return key_id([(values[name], kind.properties[name].type) for name in kind.key])

    def insert_edge(self, statement: InsertEdge) -> None:
        """Put one edge under a fresh id."""
        kind = self._catalog.edges[statement.type_name]
        values, misfits = self._fitted(kind, statement.assignments)
        values |= self._defaults(kind, statement.assignments)
        self.violations.extend(misfits)
        ends = {"src": self._value(statement.src), "dst": self._value(statement.dst)}
        for end, value in ends.items():
            if value is None:
                self._refuse(kind.name, end, Rule.REQUIRED, f"{end} of {kind.name} is null")
        if misfits or None in ends.values():
            self._tell_others(kind, {**values, **ends}, _props(misfits))
            return
        row = {**values, **ends, ID: self._new_id()}
        self._put(kind, row, generated_ids=True)
        self.edges += 1

    def update(self, statement: Update) -> None:
        """Set the assigned columns of every row the predicates mean."""
        kind = self._kind(statement.type_name, statement.is_edge)
        rows = self._finder.matching(kind.table_key, statement.where)
        values, misfits = self._fitted(kind, statement.assignments)
        self.violations.extend(misfits)
        values |= self._moved_ends(kind, statement)
        if not values or not len(rows):
            return
        stale = _stale_vectors(kind, values)
        for embed in stale:
            rows = _without_vectors(rows, embed, values[embed.source])
        for name, value in values.items():
            at = rows.schema.get_field_index(name)
            prop = kind.properties.get(name)
            one = column([value], ID_TYPE if prop is None else prop.type)
            filled = one.take(np.zeros(len(rows), np.int64))
            rows = rows.set_column(at, rows.schema.field(at), filled)
        written = {*values, *(embed.target for embed in stale)}
        self.draft.update(kind.table_key, rows, written)
        if statement.is_edge:
            self.edges += len(rows)
        else:
            self.nodes += len(rows)

    def _moved_ends(self, kind: NodeType | EdgeType, statement: Update) -> dict[str, Any]:
        """Return the nodes that edges lead from and to instead."""
        moved = {item.prop: self._value(item.value) for item in statement.ends}
        for end, value in moved.items():
            if value is None:
                self._refuse(kind.name, end, Rule.REQUIRED, f"{end} of {kind.name} is null")
        return {end: value for end, value in moved.items() if value is not None}

    def delete(self, statement: Delete) -> None:
        """Delete every row the predicates mean; nodes take their edges along."""
        kind = self._kind(statement.type_name, statement.is_edge)
        ids = self._finder.matching_ids(kind.table_key, statement.where)
        gone = self.draft.delete(kind.table_key, ids)
        if isinstance(kind, EdgeType):
            self.edges += gone
            return
        self.nodes += gone
        if gone:
            self.edges += self._cascade(kind, ids)

    def _cascade(self, kind: NodeType, ids: pa.Array) -> int:
        """Delete the edges at either end of deleted nodes; return how many."""
        listed = ids.to_pylist()
        count = 0
        for edge in self._catalog.edges.values():
            ends = [
                end
                for end, name in (("src", edge.from_type), ("dst", edge.to_type))
                if name == kind.name
            ]
            if not ends:
                continue
            touching = AnyOf(tuple(is_in(end, listed) for end in ends))
            rows = self._snapshot.open(edge.table_key).scan_to_write([ID], touching)
            count += self.draft.delete(edge.table_key, one_array(rows[ID]))
        return count

    def _tell_others(
        self, kind: NodeType | EdgeType, row: Mapping[str, Any], told: Collection[str]
    ) -> None:
        """Report what else a refused row breaks by itself; of `told` it is known that they lack."""
        rows = _table(kind, row)
        for broken in broken_values(kind, rows, filled=False):
            if broken.rule is not Rule.REQUIRED or broken.columns[0] not in told:
                self.violations.report(broken, lambda *_: self.draft.place)

    def _kind(self, name: str, is_edge: bool) -> NodeType | EdgeType:
        return self._catalog.edges[name] if is_edge else self._catalog.nodes[name]

    def _fitted(
        self, kind: NodeType | EdgeType, assignments: Sequence[Assignment]
    ) -> tuple[dict[str, Any], list[Violation]]:
        """Return the assigned values as the properties store them, and what does not fit."""
        fitted: dict[str, Any] = {}
        misfits: list[Violation] = []
        for assignment in assignments:
            prop, value = assignment.prop, self._value(assignment.value)
            try:
                fitted[prop] = fit(value, assignment.type)
            except CellError as error:
                text, place = f"{kind.name}.{prop}: {error}", self.draft.place
                misfits.append(
                    Violation(Rule.TYPE, kind.name, text, prop, value=value, place=place)
                )
        return fitted, misfits

    def _defaults(
        self, kind: NodeType | EdgeType, assignments: Sequence[Assignment]
    ) -> dict[str, Any]:
        """Return what stands in for the properties that an insert leaves out."""
        given = {assignment.prop for assignment in assignments}
        return {
            name: fill_value(prop.type, prop.default, self._now_ms)
            for name, prop in kind.properties.items()
            if prop.default is not None and name not in given
        }

    def _refuse(self, type_name: str, prop: str, rule: Rule, text: str) -> None:
        self.violations.add(Violation(rule, type_name, text, prop, place=self.draft.place))

    def _value(self, expr: Literal | Param) -> Any:  # noqa: ANN401 - any literal value
        return expr.value if isinstance(expr, Literal) else self._params[expr.name]

    def _put(self, kind: NodeType | EdgeType, row: dict[str, Any], *, generated_ids: bool) -> None:
        self.draft.insert(kind.table_key, _table(kind, row), generated_ids=generated_ids)


def _table(kind: NodeType | EdgeType, row: Mapping[str, Any]) -> pa.Table:
    """Return one row of fitted values; what it does not name is null."""
    schema = arrow_schema(kind)
    types: dict[str, PropType] = {name: prop.type for name, prop in kind.properties.items()}
    arrays = [
        column([row.get(name)], types[name])
        if name in types
        else pa.array([row.get(name)], pa.string())
        for name in schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _props(found: Sequence[Violation]) -> set[str]:
    return {one.prop for one in found if one.prop is not None}


def _stale_vectors(kind: NodeType | EdgeType, assigned: Mapping[str, Any]) -> list[Embed]:
    """Return the vectors whose source text is assigned and which are not given themselves."""
    if isinstance(kind, EdgeType):
        return []
    return [
        embed
        for embed in kind.embeds.values()
        if embed.source in assigned and embed.target not in assigned
    ]


def _without_vectors(rows: pa.Table, embed: Embed, text: str | None) -> pa.Table:
    """Return the rows without the vectors of those whose text will be another: made again later."""
    before = one_array(rows[embed.source])
    same = pc.is_null(before) if text is None else pc.fill_null(pc.equal(before, text), False)
    own = pa.array(np.arange(len(rows)), mask=~mask_of(same))
    at = rows.schema.get_field_index(embed.target)
    field = rows.schema.field(at).with_nullable(True)
    return rows.set_column(at, field, one_array(rows[embed.target]).take(own))

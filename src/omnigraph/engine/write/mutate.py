"""Statements of a mutation to a change set, one after another, nothing written yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.ir.key_id import key_id
from omnigraph.compiler.ir.mutation_mix import check_mutation_mix
from omnigraph.compiler.ir.ops import Delete, InsertEdge, InsertNode, MutationIr, Update
from omnigraph.compiler.query.typed import Assignment, Literal, Param
from omnigraph.compiler.types import PropType
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.write.cells import CellError, column, fit
from omnigraph.engine.write.change_set import ID, ChangeSet, Draft
from omnigraph.engine.write.find import RowFinder
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Rule, Violation, Violations
from omnigraph.storage.snapshot import Snapshot
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
) -> Mutated:
    """Return what the statements change, each seeing what the ones before it did.

    Raises:
        MixedMutationError: deletes are mixed with inserts or updates.
        ConstraintError: a value does not fit its property.
    """
    check_mutation_mix(ir)
    run = _Run(snapshot, catalog, params, new_id)
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
        self, snapshot: Snapshot, catalog: Catalog, params: Mapping[str, Any], new_id: NewId
    ) -> None:
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
                self.violations.report(broken, partial(changes.place_of, kind.table_key))
        self.violations.raise_if_any()

    def insert_node(self, statement: InsertNode) -> None:
        """Put one node; a keyed one replaces the node with its key."""
        kind = self._catalog.nodes[statement.type_name]
        values = self._fitted(kind, statement.assignments)
        if values is None:
            return
        if kind.key:
            row_id = key_id([(values[name], kind.properties[name].type) for name in kind.key])
        else:
            row_id = self._new_id()
        row = {**dict.fromkeys(kind.properties), **values, ID: row_id}
        self._put(kind, row, generated_ids=not kind.key)
        self.nodes += 1

    def insert_edge(self, statement: InsertEdge) -> None:
        """Put one edge under a fresh id."""
        kind = self._catalog.edges[statement.type_name]
        values = self._fitted(kind, statement.assignments)
        ends = {"src": self._value(statement.src), "dst": self._value(statement.dst)}
        for end, value in ends.items():
            if value is None:
                self._refuse(kind.name, end, None, Rule.REQUIRED, f"{end} of {kind.name} is null")
        if values is None or None in ends.values():
            return
        row = {**dict.fromkeys(kind.properties), **values, **ends, ID: self._new_id()}
        self._put(kind, row, generated_ids=True)
        self.edges += 1

    def update(self, statement: Update) -> None:
        """Set the assigned columns of every row the predicates mean."""
        kind = self._kind(statement.type_name, statement.is_edge)
        rows = self._finder.matching(kind.table_key, statement.where)
        values = self._fitted(kind, statement.assignments)
        if values is None or not len(rows):
            return
        for name, value in values.items():
            at = rows.schema.get_field_index(name)
            filled = pa.concat_arrays([column([value], kind.properties[name].type)] * len(rows))
            rows = rows.set_column(at, rows.schema.field(at), filled)
        self.draft.put(
            kind.table_key,
            _without_stale_vectors(kind, rows, values),
            updates=True,
            generated_ids=False,
        )
        if statement.is_edge:
            self.edges += len(rows)
        else:
            self.nodes += len(rows)

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

    def _kind(self, name: str, is_edge: bool) -> NodeType | EdgeType:
        return self._catalog.edges[name] if is_edge else self._catalog.nodes[name]

    def _fitted(
        self, kind: NodeType | EdgeType, assignments: Sequence[Assignment]
    ) -> dict[str, Any] | None:
        """Return the assigned values as the properties store them, or None after a report."""
        fitted: dict[str, Any] = {}
        sound = True
        for assignment in assignments:
            value = self._value(assignment.value)
            try:
                fitted[assignment.prop] = fit(value, assignment.type)
            except CellError as error:
                sound = False
                rule = Rule.REQUIRED if value is None else Rule.TYPE
                text = f"{kind.name}.{assignment.prop}: {error}"
                self._refuse(kind.name, assignment.prop, value, rule, text)
        return fitted if sound else None

    def _refuse(self, type_name: str, prop: str, value: object, rule: Rule, text: str) -> None:
        self.violations.add(
            Violation(rule, type_name, text, prop=prop, value=value, place=self.draft.place)
        )

    def _value(self, expr: Literal | Param) -> Any:  # noqa: ANN401 - any literal value
        return expr.value if isinstance(expr, Literal) else self._params[expr.name]

    def _put(self, kind: NodeType | EdgeType, row: dict[str, Any], *, generated_ids: bool) -> None:
        schema = arrow_schema(kind)
        types: dict[str, PropType] = {name: prop.type for name, prop in kind.properties.items()}
        arrays = [
            column([row[name]], types[name])
            if name in types
            else pa.array([row[name]], pa.string())
            for name in schema.names
        ]
        rows = pa.Table.from_arrays(arrays, schema=schema)
        self.draft.put(kind.table_key, rows, updates=False, generated_ids=generated_ids)


def _without_stale_vectors(
    kind: NodeType | EdgeType, rows: pa.Table, assigned: Mapping[str, Any]
) -> pa.Table:
    """Return the rows without vectors whose source text was just changed; they are made again."""
    if isinstance(kind, EdgeType):
        return rows
    for embed in kind.embeds.values():
        if embed.source in assigned and embed.target not in assigned:
            at = rows.schema.get_field_index(embed.target)
            field = rows.schema.field(at)
            rows = rows.set_column(at, field, pa.nulls(len(rows), field.type))
    return rows

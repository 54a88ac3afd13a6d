"""What a change of schema does to tables, from two catalogs alone.

Types and properties are matched by their ids, so a rename is one, whatever a text said of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_field, arrow_schema, arrow_type
from omnigraph.compiler.catalog.model import (
    EDGE_SYSTEM_COLUMNS,
    NODE_SYSTEM_COLUMNS,
    Catalog,
    EdgeType,
    NodeType,
    Property,
)
from omnigraph.compiler.catalog.schema_ir import Backfill
from omnigraph.engine.schema.fill import converted, filled
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.tables.alter import Alter
from omnigraph.storage.tables.compute import Computed, Rewrite

GraphType: TypeAlias = NodeType | EdgeType
Kind = TypeVar("Kind", NodeType, EdgeType)


@dataclass(frozen=True, slots=True)
class TypeChange:
    """One type before and after; at least one of them is there."""

    before: GraphType | None
    after: GraphType | None


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What becomes of the tables of a graph."""

    created: tuple[TableSpec, ...] = ()
    dropped: tuple[TableKey, ...] = ()
    renamed: Mapping[TableKey, TableKey] = field(default_factory=dict)
    """New keys to old ones."""
    altered: Mapping[TableKey, Alter | Rewrite] = field(default_factory=dict)
    """By the keys that tables have afterwards."""

    def computed(self, key: str) -> Mapping[str, Computed]:
        """Return the columns of a table that are filled, by the names they will have."""
        change = self.altered.get(TableKey(key))
        made = change.columns if isinstance(change, Rewrite) else ()
        return {one.column.name: one for one in made}

    @property
    def touched(self) -> tuple[TableKey, ...]:
        """Return the tables that do not stay as they are, by the keys they have before."""
        altered = (self.renamed.get(key, key) for key in self.altered)
        return tuple(sorted({*self.dropped, *self.renamed.values(), *altered}))


def type_changes(before: Catalog, after: Catalog) -> Iterator[TypeChange]:
    """Yield every type of two catalogs with what it is in the other one: nodes first, by name."""
    yield from _paired(before.nodes.values(), after.nodes.values())
    yield from _paired(before.edges.values(), after.edges.values())


Fills: TypeAlias = Mapping[tuple[int, int], Backfill]
"""What rows get that are there already, by the ids of a type and of its new property."""


def table_changes(before: Catalog, after: Catalog, fills: Fills, now_ms: int) -> TableChanges:
    """Return what must be done to tables of one schema to make them tables of another."""
    created: list[TableSpec] = []
    dropped: list[TableKey] = []
    renamed: dict[TableKey, TableKey] = {}
    altered: dict[TableKey, Alter | Rewrite] = {}
    for change in type_changes(before, after):
        old, new = change.before, change.after
        if old is None and new is not None:
            created.append(TableSpec(TableKey(new.table_key), arrow_schema(new)))
        elif new is None and old is not None:
            dropped.append(TableKey(old.table_key))
        elif old is not None and new is not None:
            key = TableKey(new.table_key)
            if old.name != new.name:
                renamed[key] = TableKey(old.table_key)
            columns = _columns(old, new)
            made = _computed(old, new, fills, now_ms)
            if made:
                names = {one.column.name for one in made}
                left = tuple(one for one in columns.add if one.name not in names)
                altered[key] = Rewrite(made, replace(columns, add=left))
            elif not columns.is_empty:
                altered[key] = columns
    return TableChanges(tuple(created), tuple(dropped), renamed, altered)


def stored_properties(kind: GraphType) -> dict[int, Property]:
    """Return the properties that have a column of their own, by id, in column order."""
    system = EDGE_SYSTEM_COLUMNS if isinstance(kind, EdgeType) else NODE_SYSTEM_COLUMNS
    return {prop.prop_id: prop for prop in kind.properties.values() if prop.name not in system}


def _computed(
    before: GraphType, after: GraphType, fills: Fills, now_ms: int
) -> tuple[Computed, ...]:
    """Return the columns whose values are made of what rows have."""
    old, new = stored_properties(before), stored_properties(after)
    known = {prop.prop_id: prop.name for prop in before.properties.values()}
    found = []
    for prop_id, prop in new.items():
        fill = fills.get((after.type_id, prop_id))
        if prop_id in old:
            if arrow_type(old[prop_id].type) != arrow_type(prop.type):
                found.append(converted(prop, old[prop_id].name))
        elif fill is not None:
            source = known[after.properties[fill.text].prop_id] if fill.is_property else None
            found.append(filled(prop, fill, source, now_ms))
    return tuple(found)


def _columns(before: GraphType, after: GraphType) -> Alter:
    """Return what happens to columns in metadata; one of another type goes and comes anew."""
    old, new = stored_properties(before), stored_properties(after)
    retyped = {
        prop_id
        for prop_id in old.keys() & new.keys()
        if arrow_type(old[prop_id].type) != arrow_type(new[prop_id].type)
    }
    new = {prop_id: prop for prop_id, prop in new.items() if prop_id not in retyped}
    kept = [(old[prop_id], new[prop_id]) for prop_id in old if prop_id in new]
    return Alter(
        {was.name: now.name for was, now in kept if was.name != now.name},
        tuple(prop.name for prop_id, prop in old.items() if prop_id not in new),
        tuple(
            arrow_field(prop.name, prop.type) for prop_id, prop in new.items() if prop_id not in old
        ),
        tuple(was.name for was, now in kept if now.type.nullable and not was.type.nullable),
        tuple(arrow_schema(after).names),
    )


def _paired(before: Iterable[Kind], after: Iterable[Kind]) -> Iterator[TypeChange]:
    were = {one.type_id: one for one in before}
    for one in after:
        yield TypeChange(were.pop(one.type_id, None), one)
    for gone in were.values():
        yield TypeChange(gone, None)

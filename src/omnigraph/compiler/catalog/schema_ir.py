"""The schema IR: what a schema means, in one canonical order, with the ids of its parts.

The accepted IR is stored beside the graph's tables and is the authority on identity. Two texts
that mean the same have the same IR and the same hash: comments, layout, the order of
declarations and properties, and `@rename_from` (an instruction to the migration, not a part of
the meaning) leave no trace in it. The order of key columns stays: ids are built from it.

`ordinal` is a property's place among its table's columns. It is kept from the accepted IR, so
the columns of an existing table never move when the text is rearranged, and new ones come last;
it is stored but stays outside equality and hash.

Knows no text and no JSON spelling (`ir_json` has it).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.compiler.catalog.model import Annotation, Cardinality, Check, Range
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import PropType

IR_VERSION = 1

UNBOUNDED = Cardinality()
"""What an edge without `@card` allows."""


class TypeKind(StrEnum):
    """The three kinds of types, in the order every pass walks them."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Key:
    """The key columns; their order is the order of the parts of an id."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """A set of columns, sorted, that no two rows share."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """A set of columns, sorted, to build an index on."""

    columns: tuple[str, ...]


IrConstraint = Key | Unique | Index | Range | Check


@dataclass(frozen=True, slots=True)
class Backfill:
    """A value for rows that lack one: of another property, if `is_property`, else a literal."""

    text: str
    is_property: bool = False

    def __str__(self) -> str:
        return self.text if self.is_property else quote(self.text)


@dataclass(frozen=True, slots=True)
class IrProperty:
    """One column; `prop_id` is unique within its type and survives renames."""

    name: str
    prop_id: int
    type: PropType
    annotations: tuple[Annotation, ...] = ()
    ordinal: int = field(default=0, compare=False)
    renamed_from: str | None = field(default=None, compare=False)
    backfill: Backfill | None = field(default=None, compare=False)
    """What rows that are there already get; an instruction to one migration."""


@dataclass(frozen=True, slots=True)
class IrInterface:
    """An interface: metadata only, it has no table."""

    name: str
    type_id: int
    properties: tuple[IrProperty, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    constraints: tuple[IrConstraint, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class IrNode:
    """A node type with the properties its interfaces added."""

    name: str
    type_id: int
    properties: tuple[IrProperty, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    constraints: tuple[IrConstraint, ...] = ()
    implements: tuple[str, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class IrEdge:
    """An edge type; its endpoints are node types by name."""

    name: str
    type_id: int
    from_type: str
    to_type: str
    cardinality: Cardinality = UNBOUNDED
    properties: tuple[IrProperty, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    constraints: tuple[IrConstraint, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)


IrType = IrInterface | IrNode | IrEdge


@dataclass(frozen=True, slots=True)
class SchemaIr:
    """All types in canonical order; `retired_ids` are those of dropped parts, never reused."""

    interfaces: tuple[IrInterface, ...] = ()
    nodes: tuple[IrNode, ...] = ()
    edges: tuple[IrEdge, ...] = ()
    retired_ids: tuple[int, ...] = ()

    def of_kind(self, kind: TypeKind) -> tuple[IrType, ...]:
        """Return the types of one kind, sorted by name."""
        match kind:
            case TypeKind.INTERFACE:
                return self.interfaces
            case TypeKind.NODE:
                return self.nodes
            case TypeKind.EDGE:
                return self.edges


def kind_of(found: IrType) -> TypeKind:
    """Return which of the three kinds a type is."""
    match found:
        case IrInterface():
            return TypeKind.INTERFACE
        case IrNode():
            return TypeKind.NODE
        case IrEdge():
            return TypeKind.EDGE


def constraint_columns(constraint: IrConstraint) -> tuple[str, ...]:
    """Return the names a constraint mentions."""
    match constraint:
        case Range() | Check():
            return (constraint.prop,)
        case _:
            return constraint.columns


def spell_constraint(constraint: IrConstraint) -> str:
    """Return the constraint as a schema text writes it; equal spelling is equal meaning."""
    match constraint:
        case Key() | Unique() | Index():
            word = type(constraint).__name__.lower()
            return f"@{word}({', '.join(constraint.columns)})"
        case Range():
            low = "" if constraint.min is None else constraint.min
            high = "" if constraint.max is None else constraint.max
            return f"@range({constraint.prop}, {low}..{high})"
        case Check():
            return f"@check({constraint.prop}, {quote(constraint.pattern)})"


_RANK: dict[type[IrConstraint], int] = {Key: 0, Unique: 1, Index: 2, Range: 3, Check: 4}


def canonical_constraints(constraints: Iterable[IrConstraint]) -> tuple[IrConstraint, ...]:
    """Return the constraints in canonical order, without repetitions and indices a key implies."""
    spelled = {spell_constraint(found): found for found in constraints}
    keys = {tuple(sorted(found.columns)) for found in spelled.values() if isinstance(found, Key)}
    kept = {
        text: found
        for text, found in spelled.items()
        if not (isinstance(found, Index) and found.columns in keys)
    }
    return tuple(
        kept[text] for text in sorted(kept, key=lambda text: (_RANK[type(kept[text])], text))
    )


def canonical_annotations(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return the annotations sorted by name, then value."""
    return tuple(
        sorted(annotations, key=lambda found: (found.name, found.value or "", found.kwargs))
    )

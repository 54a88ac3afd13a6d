"""What a migration plan is made of: steps as values, as JSON, as one line for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from omnigraph.compiler.catalog.ir_json import (
    annotation_to_json,
    constraint_to_json,
    type_to_json,
)
from omnigraph.compiler.catalog.model import Annotation, Cardinality
from omnigraph.compiler.catalog.schema_ir import Backfill, IrConstraint, TypeKind, spell_constraint
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import PropType


@dataclass(frozen=True, slots=True)
class AddType:
    """A new type; nodes and edges get an empty table."""

    type_kind: TypeKind
    name: str


@dataclass(frozen=True, slots=True)
class RenameType:
    """The same type and the same rows under another name."""

    type_kind: TypeKind
    from_name: str
    to_name: str


@dataclass(frozen=True, slots=True)
class DropType:
    """The type and its rows go; only by explicit permission."""

    type_kind: TypeKind
    name: str


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A new column; existing rows hold null, or what `fill` says."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropType
    fill: Backfill | None = None


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """The same column and the same values under another name."""

    type_kind: TypeKind
    type_name: str
    from_name: str
    to_name: str


@dataclass(frozen=True, slots=True)
class DropProperty:
    """The column and its values go; only by explicit permission."""

    type_kind: TypeKind
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More values are allowed from now on; only by explicit permission, there is no way back."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangePropertyType:
    """The same values as a type that holds more."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    from_type: PropType
    to_type: PropType


@dataclass(frozen=True, slots=True)
class UpdateDefault:
    """Another value for what inserts and loads leave out; existing rows stay."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class RelaxProperty:
    """Rows may lack a value from now on."""

    type_kind: TypeKind
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class RequireProperty:
    """Every row must have a value; existing ones are looked at first."""

    type_kind: TypeKind
    type_name: str
    property_name: str


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """An index, or a rule that existing rows are held to first."""

    type_kind: TypeKind
    type_name: str
    constraint: IrConstraint


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """An index or a rule that is gone; no row can mind."""

    type_kind: TypeKind
    type_name: str
    constraint: IrConstraint


@dataclass(frozen=True, slots=True)
class UpdateCardinality:
    """Another number of edges per source; existing edges are counted first if it is narrower."""

    type_kind: TypeKind
    type_name: str
    cardinality: Cardinality


@dataclass(frozen=True, slots=True)
class UpdateImplements:
    """The full new list of a node's interfaces; its properties have steps of their own."""

    type_kind: TypeKind
    type_name: str
    implements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    """The full new list of descriptions and instructions of a type."""

    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    """The full new list of descriptions of a property."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A change no migration makes; `hint` says what to do instead."""

    entity: str
    reason: str
    hint: str


Step = (
    AddType
    | RenameType
    | DropType
    | AddProperty
    | RenameProperty
    | DropProperty
    | ExtendEnum
    | ChangePropertyType
    | UpdateDefault
    | RelaxProperty
    | RequireProperty
    | AddConstraint
    | DropConstraint
    | UpdateCardinality
    | UpdateImplements
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | UnsupportedChange
)


_WholeType = AddType | RenameType | DropType | UpdateTypeMetadata
_PropertyStep = (
    AddProperty
    | DropProperty
    | ExtendEnum
    | ChangePropertyType
    | UpdateDefault
    | RelaxProperty
    | RequireProperty
    | UpdatePropertyMetadata
)
_RuleStep = AddConstraint | DropConstraint | UpdateCardinality | UpdateImplements
_OwnedStep = _PropertyStep | _RuleStep | RenameProperty
_TypedStep = _OwnedStep | _WholeType


def step_to_json(step: Step) -> dict[str, Any]:
    """Return the step as a JSON-ready object, tagged by `kind`."""
    match step:
        case UnsupportedChange():
            facts = {"entity": step.entity, "reason": step.reason, "hint": step.hint}
            return {"kind": "unsupported_change", **facts}
        case AddType() | RenameType() | DropType() | UpdateTypeMetadata():
            return _type_json(step)
        case AddConstraint() | DropConstraint() | UpdateCardinality() | UpdateImplements():
            return _rule_json(step)
        case RenameProperty():
            ends = {"from": step.from_name, "to": step.to_name}
            return _tagged("rename_property", step, type_name=step.type_name, **ends)
        case _:
            return _property_json(step)


def _type_json(step: _WholeType) -> dict[str, Any]:
    match step:
        case AddType():
            return _tagged("add_type", step, name=step.name)
        case DropType():
            return _tagged("drop_type", step, name=step.name)
        case RenameType():
            return _tagged("rename_type", step, **{"from": step.from_name, "to": step.to_name})
        case UpdateTypeMetadata():
            listed = [annotation_to_json(found) for found in step.annotations]
            return _tagged("update_type_metadata", step, name=step.name, annotations=listed)
        case _:
            assert_never(step)


def _property_json(step: _PropertyStep) -> dict[str, Any]:
    match step:
        case AddProperty():
            found = type_to_json(step.property_type)
            fill = {} if step.fill is None else {"backfill": str(step.fill)}
            return _of_property("add_property", step, property_type=found, **fill)
        case ChangePropertyType():
            ends = {"from": type_to_json(step.from_type), "to": type_to_json(step.to_type)}
            return _of_property("change_property_type", step, **ends)
        case UpdateDefault():
            return _of_property("update_default", step, default=step.default)
        case DropProperty():
            return _of_property("drop_property", step)
        case ExtendEnum():
            return _of_property("extend_enum", step, added_values=list(step.added_values))
        case RelaxProperty():
            return _of_property("relax_property", step)
        case RequireProperty():
            return _of_property("require_property", step)
        case UpdatePropertyMetadata():
            listed = [annotation_to_json(found) for found in step.annotations]
            return _of_property("update_property_metadata", step, annotations=listed)
        case _:
            assert_never(step)


def _rule_json(step: _RuleStep) -> dict[str, Any]:
    facts: dict[str, Any]
    match step:
        case AddConstraint():
            kind, facts = "add_constraint", {"constraint": constraint_to_json(step.constraint)}
        case DropConstraint():
            kind, facts = "drop_constraint", {"constraint": constraint_to_json(step.constraint)}
        case UpdateCardinality():
            bounds = {"min": step.cardinality.min, "max": step.cardinality.max}
            kind, facts = "update_cardinality", {"cardinality": bounds}
        case UpdateImplements():
            kind, facts = "update_implements", {"implements": list(step.implements)}
        case _:
            assert_never(step)
    return _tagged(kind, step, type_name=step.type_name, **facts)


def describe(step: Step) -> str:
    """Return the step as one line for people."""
    match step:
        case UnsupportedChange():
            return f"unsupported change on {step.entity}: {step.reason}"
        case AddType() | RenameType() | DropType() | UpdateTypeMetadata():
            return _describe_type(step)
        case AddConstraint() | DropConstraint() | UpdateCardinality() | UpdateImplements():
            return f"{_describe_rule(step)} on {_owner(step)}"
        case RenameProperty():
            ends = f"'{step.type_name}.{step.from_name}' -> '{step.type_name}.{step.to_name}'"
            return f"rename property {ends} on {_owner(step)}"
        case UpdatePropertyMetadata():
            listed = _spell_annotations(step.annotations)
            return f"update metadata on property {_column(step)} of {_owner(step)} ({listed})"
        case _:
            return f"{_describe_property(step)} on {_owner(step)}"


def _describe_type(step: _WholeType) -> str:
    match step:
        case AddType():
            return f"add {step.type_kind} type '{step.name}'"
        case DropType():
            return f"drop {step.type_kind} type '{step.name}'"
        case RenameType():
            return f"rename {step.type_kind} type '{step.from_name}' -> '{step.to_name}'"
        case UpdateTypeMetadata():
            listed = _spell_annotations(step.annotations)
            return f"update metadata on {step.type_kind} '{step.name}' ({listed})"
        case _:
            assert_never(step)


def _describe_property(
    step: AddProperty
    | DropProperty
    | ExtendEnum
    | ChangePropertyType
    | UpdateDefault
    | RelaxProperty
    | RequireProperty,
) -> str:
    match step:
        case AddProperty():
            fill = "" if step.fill is None else f", filled with {step.fill}"
            return f"add property {_column(step)} ({_spell_type(step.property_type)}{fill})"
        case ChangePropertyType():
            ends = f"{_spell_type(step.from_type)} to {_spell_type(step.to_type)}"
            return f"widen property {_column(step)} from {ends}"
        case UpdateDefault():
            value = "nothing" if step.default is None else quote(step.default)
            return f"default property {_column(step)} to {value}"
        case DropProperty():
            return f"drop property {_column(step)}"
        case ExtendEnum():
            return f"extend enum {_column(step)} by {', '.join(step.added_values)}"
        case RelaxProperty():
            return f"allow null in property {_column(step)}"
        case RequireProperty():
            return f"require property {_column(step)}"
        case _:
            assert_never(step)


def _describe_rule(step: _RuleStep) -> str:
    match step:
        case AddConstraint():
            return f"add constraint {spell_constraint(step.constraint)}"
        case DropConstraint():
            return f"drop constraint {spell_constraint(step.constraint)}"
        case UpdateCardinality():
            high = "" if step.cardinality.max is None else step.cardinality.max
            return f"set @card({step.cardinality.min}..{high})"
        case UpdateImplements():
            return f"implement {', '.join(step.implements) or 'nothing'}"
        case _:
            assert_never(step)


def _tagged(kind: str, step: _TypedStep, **facts: object) -> dict[str, Any]:
    return {"kind": kind, "type_kind": str(step.type_kind), **facts}


def _of_property(kind: str, step: _PropertyStep, **facts: object) -> dict[str, Any]:
    names = {"type_name": step.type_name, "property_name": step.property_name}
    return _tagged(kind, step, **names, **facts)


def _column(step: _PropertyStep) -> str:
    return f"'{step.type_name}.{step.property_name}'"


def _owner(step: _OwnedStep) -> str:
    return f"{step.type_kind} '{step.type_name}'"


def _spell_type(found: PropType) -> str:
    if found.enum_values is None:
        return str(found)
    return f"Enum({'|'.join(found.enum_values)}){'?' if found.nullable else ''}"


def _spell_annotations(annotations: tuple[Annotation, ...]) -> str:
    spelled = (f"@{found.name}({quote(found.value or '')})" for found in annotations)
    return ", ".join(spelled) or "none left"

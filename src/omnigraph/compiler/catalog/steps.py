"""What a migration plan is made of: steps as values, as JSON, as one line for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from omnigraph.compiler.catalog.ir_json import (
    annotation_to_json,
    constraint_to_json,
    type_to_json,
)
from omnigraph.compiler.catalog.model import Annotation
from omnigraph.compiler.catalog.schema_ir import IrConstraint, TypeKind, spell_constraint
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
    """A new nullable column; existing rows hold null."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropType


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
class AddConstraint:
    """A constraint that existing rows cannot break: an index."""

    type_kind: TypeKind
    type_name: str
    constraint: IrConstraint


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
    | AddConstraint
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | UnsupportedChange
)


def step_to_json(step: Step) -> dict[str, Any]:
    """Return the step as a JSON-ready object, tagged by `kind`."""
    match step:
        case AddType():
            return _tagged("add_type", step, name=step.name)
        case DropType():
            return _tagged("drop_type", step, name=step.name)
        case RenameType():
            return _tagged("rename_type", step, **{"from": step.from_name, "to": step.to_name})
        case AddProperty():
            return _of_property(
                "add_property", step, property_type=type_to_json(step.property_type)
            )
        case RenameProperty():
            ends = {"from": step.from_name, "to": step.to_name}
            return _tagged("rename_property", step, type_name=step.type_name, **ends)
        case DropProperty():
            return _of_property("drop_property", step)
        case ExtendEnum():
            return _of_property("extend_enum", step, added_values=list(step.added_values))
        case AddConstraint():
            constraint = constraint_to_json(step.constraint)
            return _tagged("add_constraint", step, type_name=step.type_name, constraint=constraint)
        case UpdateTypeMetadata():
            listed = [annotation_to_json(found) for found in step.annotations]
            return _tagged("update_type_metadata", step, name=step.name, annotations=listed)
        case UpdatePropertyMetadata():
            listed = [annotation_to_json(found) for found in step.annotations]
            return _of_property("update_property_metadata", step, annotations=listed)
        case UnsupportedChange():
            facts = {"entity": step.entity, "reason": step.reason, "hint": step.hint}
            return {"kind": "unsupported_change", **facts}
        case _:
            assert_never(step)


def describe(step: Step) -> str:
    """Return the step as one line for people."""
    match step:
        case AddType():
            return f"add {step.type_kind} type '{step.name}'"
        case DropType():
            return f"drop {step.type_kind} type '{step.name}'"
        case RenameType():
            return f"rename {step.type_kind} type '{step.from_name}' -> '{step.to_name}'"
        case AddProperty():
            spelled = _spell_type(step.property_type)
            return f"add property {_column(step)} ({spelled}) on {_owner(step)}"
        case RenameProperty():
            ends = f"'{step.type_name}.{step.from_name}' -> '{step.type_name}.{step.to_name}'"
            return f"rename property {ends} on {_owner(step)}"
        case DropProperty():
            return f"drop property {_column(step)} on {_owner(step)}"
        case ExtendEnum():
            added = ", ".join(step.added_values)
            return f"extend enum {_column(step)} by {added} on {_owner(step)}"
        case AddConstraint():
            return f"add constraint {spell_constraint(step.constraint)} on {_owner(step)}"
        case UpdateTypeMetadata():
            listed = _spell_annotations(step.annotations)
            return f"update metadata on {step.type_kind} '{step.name}' ({listed})"
        case UpdatePropertyMetadata():
            listed = _spell_annotations(step.annotations)
            return f"update metadata on property {_column(step)} of {_owner(step)} ({listed})"
        case UnsupportedChange():
            return f"unsupported change on {step.entity}: {step.reason}"
        case _:
            assert_never(step)


_PropertyStep = AddProperty | DropProperty | ExtendEnum | UpdatePropertyMetadata
_OwnedStep = _PropertyStep | RenameProperty | AddConstraint
_TypedStep = _OwnedStep | AddType | RenameType | DropType | UpdateTypeMetadata


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

"""A schema IR as a schema text: for schemas that nobody wrote, because they came of a merge.

The text says everything the IR says but ids; compiled against the IR it gives the IR again.
Properties that a node has of its interfaces are spelled out: that means the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from omnigraph.compiler.catalog.model import Annotation, Range
from omnigraph.compiler.catalog.schema_ir import (
    UNBOUNDED,
    IrConstraint,
    IrEdge,
    IrInterface,
    IrNode,
    IrProperty,
    IrType,
    SchemaIr,
    TypeKind,
    spell_constraint,
)
from omnigraph.compiler.schema.fills import DEFAULT, NOW
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import Scalar


def spell_schema(ir: SchemaIr) -> str:
    """Return the text: interfaces, nodes, edges, by name; properties in column order."""
    types = [found for kind in TypeKind for found in ir.of_kind(kind)]
    return "\n\n".join(map(_spell_type, types)) + "\n"


def _spell_type(found: IrType) -> str:
    members = [*_properties(found), *map(_constraint, found.constraints)]
    header = " ".join([_header(found), *map(spell_annotation, found.annotations), *_shared(found)])
    body = "".join(f"  {member}\n" for member in members)
    return f"{header} {{\n{body}}}" if body else f"{header} {{}}"


def _header(found: IrType) -> str:
    match found:
        case IrInterface():
            return f"interface {found.name}"
        case IrNode():
            return f"node {found.name}"
        case IrEdge():
            header = f"edge {found.name}: {found.from_type} -> {found.to_type}"
            if found.cardinality == UNBOUNDED:
                return header
            high = "" if found.cardinality.max is None else found.cardinality.max
            return f"{header} @card({found.cardinality.min}..{high})"


def _shared(found: IrType) -> Iterator[str]:
    if isinstance(found, IrNode) and found.implements:
        yield f"implements {', '.join(found.implements)}"


def _constraint(found: IrConstraint) -> str:
    """Return a constraint; bounds without an exponent, which texts do not have."""
    if not isinstance(found, Range):
        return spell_constraint(found)
    low, high = ("" if one is None else f"{Decimal(repr(one)):f}" for one in (found.min, found.max))
    return f"@range({found.prop}, {low}..{high})"


def _properties(found: IrType) -> Iterator[str]:
    for prop in sorted(found.properties, key=_place):
        told = (_of_property(prop, one) for one in prop.annotations)
        yield " ".join([f"{prop.name}: {prop.type}", *told])


def _of_property(prop: IrProperty, found: Annotation) -> str:
    if found.name != DEFAULT or found.value is None:
        return spell_annotation(found)
    is_text = prop.type.scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME)
    is_moment = prop.type.scalar is Scalar.DATETIME and found.value == NOW
    return f"@{DEFAULT}({quote(found.value) if is_text and not is_moment else found.value})"


def _place(prop: IrProperty) -> int:
    return prop.ordinal


def spell_annotation(found: Annotation) -> str:
    """Return an annotation as a schema text writes it."""
    given = [] if found.value is None else [quote(found.value)]
    given += [f"{name}={quote(value)}" for name, value in found.kwargs]
    return f"@{found.name}({', '.join(given)})" if given else f"@{found.name}"

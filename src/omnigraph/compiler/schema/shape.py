"""The full members of a node: its own, then those its interfaces add.

Used by the checks (a constraint may name an inherited column) and by the catalog; reports
nothing itself, it returns what it could not settle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from omnigraph.compiler.schema.ast import (
    Check,
    Constraint,
    InterfaceDecl,
    Name,
    NodeDecl,
    Property,
    Range,
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two declarations of one property that do not agree.

    `first_owner` is None when the node itself declares the property. `same_type` tells a
    difference in annotations or constraints (True) from one in the type (False).
    """

    prop: Name
    kept: Property
    offered: Property
    interface: Name
    first_owner: str | None
    same_type: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """Properties in column order and every constraint, inherited ones included."""

    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]
    unknown: tuple[Name, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def node_shape(node: NodeDecl, interfaces: Mapping[str, InterfaceDecl]) -> Shape:
    """Return the node with the properties its interfaces add, in `implements` order.

    A property the node declares itself must have the interface's type; the node's annotations
    and constraints then stand alone. The first interface to offer a missing property adds it.
    """
    own = {prop.name.text: prop for prop in node.properties}
    added: dict[str, tuple[Property, InterfaceDecl]] = {}
    constraints = list(node.constraints)
    unknown: list[Name] = []
    conflicts: list[Conflict] = []
    for reference in dict.fromkeys(node.implements):
        interface = interfaces.get(reference.text)
        if interface is None:
            unknown.append(reference)
            continue
        for prop in interface.properties:
            name = prop.name.text
            if name in own:
                if own[name].type != prop.type:
                    kept = own[name]
                    conflicts.append(Conflict(kept.name, kept, prop, reference, None, False))
            elif name in added:
                conflicts += _disagreement(*added[name], prop, interface, reference)
            else:
                added[name] = (prop, interface)
                constraints += constraints_of(interface, name)
    properties = (*node.properties, *(prop for prop, _ in added.values()))
    return Shape(properties, tuple(constraints), tuple(unknown), tuple(conflicts))


def constraints_of(interface: InterfaceDecl, prop: str) -> Iterator[Constraint]:
    """Yield the suffix constraints of one interface property."""
    return (found for found in interface.constraints if prop in columns(found))


def columns(constraint: Constraint) -> tuple[str, ...]:
    """Return the names a constraint mentions, as written."""
    return tuple(name.text for name in column_names(constraint))


def column_names(constraint: Constraint) -> tuple[Name, ...]:
    """Return the names a constraint mentions, with their places."""
    match constraint:
        case Range() | Check():
            return (constraint.prop,)
        case _:
            return constraint.columns


def _disagreement(
    kept: Property,
    first: InterfaceDecl,
    offered: Property,
    second: InterfaceDecl,
    reference: Name,
) -> list[Conflict]:
    name = kept.name.text
    same_type = kept.type == offered.type
    agree = (
        same_type
        and sorted_annotations(kept) == sorted_annotations(offered)
        and set(constraints_of(first, name)) == set(constraints_of(second, name))
    )
    if agree:
        return []
    return [Conflict(reference, kept, offered, reference, first.name.text, same_type)]


def sorted_annotations(prop: Property) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Return the annotations as comparable values, whatever their order in the text."""
    return sorted((found.name, found.value or "", found.kwargs) for found in prop.annotations)

"""Two schemas that began as one, put together: part by part, matched by ids.

What one side changed is taken; what both changed alike is fine; what both changed otherwise is a
conflict, and so is a part that one side dropped and the other changed. Pure: schemas in, a schema
and the conflicts out. Whether *rows* stand in the way of a drop is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.compiler.catalog.model import Annotation, Check, Range
from omnigraph.compiler.catalog.schema_ir import (
    Index,
    IrConstraint,
    IrEdge,
    IrInterface,
    IrNode,
    IrProperty,
    IrType,
    Key,
    SchemaIr,
    TypeKind,
    Unique,
    canonical_annotations,
    canonical_constraints,
)
from omnigraph.compiler.types import PropType

_EMBED = "embed"


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """What two schemas say differently of one part."""

    entity: str
    """As in `node:Person` or `node:Person.age`, by a name that one side knows."""
    message: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Both schemas in one, as far as they go together."""

    ir: SchemaIr
    conflicts: tuple[SchemaConflict, ...]


def reconcile(bases: Sequence[SchemaIr], theirs: SchemaIr, ours: SchemaIr) -> Reconciled:
    """Return what becomes of two schemas that both came from others.

    Args:
        bases: what they began from; several where lines were merged in both directions.
        theirs: the side that is merged in.
        ours: the side it is merged into; columns keep their places there.
    """
    merge = _Merge(bases, theirs, ours)
    types: dict[TypeKind, list[IrType]] = {
        kind: sorted(merge.of_kind(kind), key=lambda one: one.name) for kind in TypeKind
    }
    merge.refuse_clashes(types)
    retired = {*theirs.retired_ids, *ours.retired_ids}
    ir = SchemaIr(
        tuple(one for one in types[TypeKind.INTERFACE] if isinstance(one, IrInterface)),
        tuple(one for one in types[TypeKind.NODE] if isinstance(one, IrNode)),
        tuple(one for one in types[TypeKind.EDGE] if isinstance(one, IrEdge)),
        tuple(sorted(retired)),
    )
    return Reconciled(merge.named(ir), tuple(merge.conflicts))


_Part = dict[Any, Any]
"""A type or property by its parts, each of which is one thing to agree on; names are ids in it."""


class _Merge:
    """One reconciliation; collects conflicts."""

    def __init__(self, bases: Sequence[SchemaIr], theirs: SchemaIr, ours: SchemaIr) -> None:
        self._bases, self._theirs, self._ours = bases, theirs, ours
        self.conflicts: list[SchemaConflict] = []
        self._ends: dict[int, tuple[int, int]] = {}

    def of_kind(self, kind: TypeKind) -> Iterator[IrType]:
        sides = [_by_id(side, kind) for side in (*self._bases, self._theirs, self._ours)]
        *were, mine, here = sides
        for type_id in sorted({*mine, *here}):
            began = [one.get(type_id) for one in were]
            found = self._type(kind, began, mine.get(type_id), here.get(type_id))
            if found is not None:
                yield found

    def _type(
        self,
        kind: TypeKind,
        began: Sequence[tuple[IrType, _Part] | None],
        mine: tuple[IrType, _Part] | None,
        here: tuple[IrType, _Part] | None,
    ) -> IrType | None:
        there = mine or here
        assert there is not None
        entity = f"{kind}:{there[0].name}"
        if mine is None or here is None:
            if all(one is None for one in began):
                return self._made(there[0], there[1])
            if any(one is None or one[1] != there[1] for one in began):
                self._refuse(entity, f"{entity} was dropped on one side and changed on the other")
            return None
        parts = self._parts(
            entity, [None if one is None else one[1] for one in began], mine[1], here[1]
        )
        columns = {key[1] for key in parts if _is(key, "property")} | {*_ENDS}
        for key in [one for one in parts if _is(one, "rule") and not {*one[2]} <= columns]:
            rule = parts.pop(key)  # goes with its column, unless somebody has just made it
            if any(one is None or one[1].get(key) != rule for one in began):
                what = _in_words(key, rule)
                self._refuse(entity, f"{what} of {entity} is about a property that was dropped")
        return self._made(here[0], parts)

    def _parts(self, entity: str, began: Sequence[_Part | None], mine: _Part, here: _Part) -> _Part:
        """Return every part of a type or property, agreed on one by one."""
        found: _Part = {}
        for name in dict.fromkeys([*here, *mine]):
            were = [None if one is None else one.get(name) for one in began]
            value = self._part(entity, name, were, mine.get(name), here.get(name))
            if value is not None:
                found[name] = value
        return found

    def _part(self, entity: str, name: Any, were: Sequence[Any], mine: Any, here: Any) -> Any:  # noqa: ANN401 - a part is any value
        if mine == here or all(one == mine for one in were):
            return here
        if all(one == here for one in were):
            return mine
        if isinstance(mine, dict) and isinstance(here, dict):
            inside = f"{entity}.{here['name']}" if "name" in here else entity
            return self._parts(inside, were, mine, here)
        if name == "enum" and _both_widened(were, mine, here):
            return tuple(sorted({*mine, *here}))
        what = _in_words(name, here if here is not None else mine)
        if mine is None or here is None:
            self._refuse(
                entity, f"{what} of {entity} was dropped on one side, changed on the other"
            )
        else:
            self._refuse(entity, f"both sides changed {what} of {entity}, each in its own way")
        return here

    def _made(self, like: IrType, parts: _Part) -> IrType:
        """Return the type that has these parts; its columns keep the places they have in `like`."""
        places = {prop.prop_id: prop.ordinal for prop in like.properties}
        last = max(places.values(), default=-1)
        owned = {key[1]: part for key, part in parts.items() if _is(key, "property")}
        properties = []
        for prop_id, part in owned.items():
            if prop_id not in places:
                last += 1
                places[prop_id] = last
            properties.append(_property(prop_id, part, places[prop_id]))
        names: dict[Any, str] = {one.prop_id: one.name for one in properties}
        named = tuple(_embeds_named(one, names) for one in properties)
        common = {
            "name": parts["name"],
            "properties": tuple(sorted(named, key=lambda one: one.name)),
            "annotations": _annotations(parts),
            "constraints": canonical_constraints(_constraints(parts, names)),
            "renamed_from": None,
        }
        match like:
            case IrEdge():
                self._ends[like.type_id] = (parts["from"], parts["to"])
                return replace(like, **common, cardinality=parts["cardinality"])
            case IrNode():
                return replace(like, **common, implements=parts["implements"])
            case IrInterface():
                return replace(like, **common)

    def named(self, ir: SchemaIr) -> SchemaIr:
        """Return the schema whose edges lead between types by the names these have now."""
        names = {node.type_id: node.name for node in ir.nodes}
        edges = []
        for edge in ir.edges:
            ends = self._ends[edge.type_id]
            if not names.keys() >= {*ends}:
                self._refuse(
                    f"edge:{edge.name}",
                    f"edge:{edge.name} leads from or to a node type that the other side dropped",
                )
                continue
            source, target = (names[end] for end in ends)
            edges.append(replace(edge, from_type=source, to_type=target))
        return replace(ir, edges=tuple(edges))

    def refuse_clashes(self, types: Mapping[TypeKind, Sequence[IrType]]) -> None:
        """Report two parts that would have one name."""
        for kind, found in types.items():
            for name in _repeated(one.name for one in found):
                self._refuse(f"{kind}:{name}", f"two {kind} types would be called {name}")
            for one in found:
                for name in _repeated(prop.name for prop in one.properties):
                    entity = f"{kind}:{one.name}.{name}"
                    self._refuse(entity, f"two properties would be called {entity}")

    def _refuse(self, entity: str, message: str) -> None:
        self.conflicts.append(SchemaConflict(entity, message))


_ENDS = ("src", "dst")


def _by_id(ir: SchemaIr, kind: TypeKind) -> dict[int, tuple[IrType, _Part]]:
    nodes = {node.name: node.type_id for node in ir.nodes}
    return {one.type_id: (one, _taken_apart(one, nodes)) for one in ir.of_kind(kind)}


def _taken_apart(found: IrType, nodes: Mapping[str, int]) -> _Part:
    """Return a type by its parts; what refers to others by name does so by id."""
    ids: dict[str, Any] = {prop.name: prop.prop_id for prop in found.properties}
    parts: _Part = {"name": found.name}
    match found:
        case IrEdge():
            parts |= {"from": nodes[found.from_type], "to": nodes[found.to_type]}
            parts["cardinality"] = found.cardinality
        case IrNode():
            parts["implements"] = found.implements
        case IrInterface():
            pass
    parts |= _annotation_parts(found.annotations)
    for prop in found.properties:
        parts["property", prop.prop_id] = _property_parts(prop, ids)
    return parts | _rule_parts(found.constraints, lambda name: ids.get(name, name))


def _property_parts(prop: IrProperty, ids: Mapping[str, Any]) -> _Part:
    kind = prop.type
    annotations = [
        replace(one, value=ids.get(one.value, one.value))
        if one.name == _EMBED and one.value is not None
        else one
        for one in prop.annotations
    ]
    core = (kind.scalar, kind.is_list, kind.dim, kind.enum_values is not None)
    parts = {"name": prop.name, "type": core, "nullable": (kind.nullable,)}
    enum = {} if kind.enum_values is None else {"enum": kind.enum_values}
    return parts | enum | _annotation_parts(annotations)


def _annotation_parts(annotations: Sequence[Annotation]) -> _Part:
    parts: _Part = {}
    for one in annotations:
        parts["annotation", one.name] = (*parts.get(("annotation", one.name), ()), one)
    return parts


def _rule_parts(constraints: Sequence[IrConstraint], id_of: Callable[[str], Any]) -> _Part:
    """Return constraints by what they are about; of a range or pattern that is the property."""
    parts: _Part = {}
    for one in constraints:
        match one:
            case Key():
                parts["rule", "key", ()] = tuple(map(id_of, one.columns))
            case Unique() | Index():
                columns = tuple(sorted(map(id_of, one.columns), key=str))
                parts["rule", type(one).__name__.lower(), columns] = True
            case Range():
                key = ("rule", "range", (id_of(one.prop),))
                parts[key] = (*parts.get(key, ()), (one.min, one.max))
            case Check():
                key = ("rule", "check", (id_of(one.prop),))
                parts[key] = (*parts.get(key, ()), one.pattern)
    return parts


def _property(prop_id: int, part: _Part, ordinal: int) -> IrProperty:
    scalar, is_list, dim, _ = part["type"]
    kind = PropType(scalar, part["nullable"][0], is_list, part.get("enum"), dim)
    return IrProperty(part["name"], prop_id, kind, _annotations(part), ordinal)


def _embeds_named(prop: IrProperty, names: Mapping[Any, str]) -> IrProperty:
    found = tuple(
        replace(one, value=names.get(one.value, one.value)) if one.name == _EMBED else one
        for one in prop.annotations
    )
    return replace(prop, annotations=canonical_annotations(found))


def _annotations(part: _Part) -> tuple[Annotation, ...]:
    found = [one for key, value in part.items() if _is(key, "annotation") for one in value]
    return tuple(sorted(found, key=lambda one: (one.name, str(one.value), one.kwargs)))


def _constraints(parts: _Part, names: Mapping[Any, str]) -> Iterator[IrConstraint]:
    for key, value in parts.items():
        if not _is(key, "rule"):
            continue
        _, word, columns = key
        named = tuple(names.get(one, one) for one in columns)
        match word:
            case "key":
                yield Key(tuple(names[one] for one in value))
            case "unique":
                yield Unique(tuple(sorted(named)))
            case "index":
                yield Index(tuple(sorted(named)))
            case "range":
                yield from (Range(named[0], low, high) for low, high in value)
            case _:
                yield from (Check(named[0], pattern) for pattern in value)


def _both_widened(were: Sequence[Any], mine: Any, here: Any) -> bool:  # noqa: ANN401 - values
    known = None not in (mine, here, *were)
    return known and all({*one} <= {*mine} & {*here} for one in were)


def _is(key: object, word: str) -> bool:
    return isinstance(key, tuple) and key[0] == word


def _repeated(names: Iterator[str]) -> list[str]:
    listed = list(names)
    return sorted({name for name in listed if listed.count(name) > 1})


def _in_words(name: object, value: object) -> str:
    """Return what messages call a part."""
    match name:
        case ("property", _):
            return f"property {value['name']}" if isinstance(value, dict) else "a property"
        case ("annotation", word):
            return f"@{word}"
        case ("rule", word, _):
            return f"@{word}"
        case _:
            return f"the {name}"

"""The JSON spelling of the schema IR, and the checked way back.

What is read was stored by another run, perhaps by another version: every field is checked, and
the error names the field. Also the spellings that migration plans share with the IR.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph.compiler.catalog.model import Annotation, Cardinality, Check, Range
from omnigraph.compiler.catalog.schema_ir import (
    IR_VERSION,
    Index,
    IrConstraint,
    IrEdge,
    IrInterface,
    IrNode,
    IrProperty,
    IrType,
    Key,
    SchemaIr,
    Unique,
    canonical_annotations,
    canonical_constraints,
    constraint_columns,
)
from omnigraph.compiler.types import MAX_VECTOR_DIM, PropType, Scalar
from omnigraph.errors import FormatError

Json = dict[str, Any]
T = TypeVar("T")

_MAX_ID = 2**32 - 1
_MAX_COUNT = 2**32 - 1
_SCALARS = {scalar.value: scalar for scalar in Scalar}
_SURROGATE = re.compile("[\ud800-\udfff]")


# Writing


def to_json(ir: SchemaIr) -> str:
    """Return the text to store: compact, canonical, with the places of columns."""
    return _compact(_document(ir, layout=True))


def canonical_json(ir: SchemaIr) -> str:
    """Return the text that is hashed: the same without the places of columns."""
    return _compact(_document(ir, layout=False))


def schema_hash(ir: SchemaIr) -> str:
    """Return `sha256:` and the hex digest of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(ir).encode()).hexdigest()


def type_to_json(found: PropType) -> Json:
    """Return the JSON of a property type."""
    vector = found.scalar is Scalar.VECTOR
    return {
        "scalar": {"Vector": found.dim} if vector else str(found.scalar),
        "nullable": found.nullable,
        "list": found.is_list,
        "enum_values": None if found.enum_values is None else list(found.enum_values),
    }


def annotation_to_json(found: Annotation) -> Json:
    """Return the JSON of an annotation; `kwargs` only when there are any."""
    out: Json = {"name": found.name, "value": found.value}
    return out | {"kwargs": dict(found.kwargs)} if found.kwargs else out


def constraint_to_json(found: IrConstraint) -> Json:
    """Return the JSON of a constraint: one key, which is its kind."""
    match found:
        case Key() | Unique() | Index():
            return {type(found).__name__: list(found.columns)}
        case Range():
            bounds = {"min": _bound(found.min), "max": _bound(found.max)}
            return {"Range": {"property": found.prop, **bounds}}
        case Check():
            return {"Check": {"property": found.prop, "pattern": found.pattern}}


def _bound(value: int | float | None) -> Json | None:
    if value is None:
        return None
    return {"Float" if isinstance(value, float) else "Integer": value}


def _document(ir: SchemaIr, *, layout: bool) -> Json:
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_type_to_json(found, layout) for found in ir.interfaces],
        "nodes": [_type_to_json(found, layout) for found in ir.nodes],
        "edges": [_type_to_json(found, layout) for found in ir.edges],
        "retired_ids": list(ir.retired_ids),
    }


def _type_to_json(found: IrType, layout: bool) -> Json:
    out: Json = {"name": found.name, "type_id": found.type_id}
    match found:
        case IrNode():
            out["implements"] = list(found.implements)
        case IrEdge():
            out |= {"from_type": found.from_type, "to_type": found.to_type}
            out["cardinality"] = {"min": found.cardinality.min, "max": found.cardinality.max}
        case IrInterface():
            pass
    out["annotations"] = [annotation_to_json(item) for item in found.annotations]
    out["properties"] = [_property_to_json(prop, layout) for prop in found.properties]
    out["constraints"] = [constraint_to_json(item) for item in found.constraints]
    return out


def _property_to_json(prop: IrProperty, layout: bool) -> Json:
    out: Json = {
        "name": prop.name,
        "prop_id": prop.prop_id,
        "prop_type": type_to_json(prop.type),
        "annotations": [annotation_to_json(found) for found in prop.annotations],
    }
    return out | {"ordinal": prop.ordinal} if layout else out


def _compact(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# Reading


def from_json(text: str | bytes) -> SchemaIr:
    """Return the stored IR.

    Raises:
        FormatError: the text is damaged or of another version; the message names the field.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the schema IR is not JSON: {error}") from None
    root = _Field("schema IR", value)
    # The version first: the fields of another version are not ours to judge.
    version = root.member("ir_version").integer(0, _MAX_ID)
    if version != IR_VERSION:
        raise FormatError(
            f"the schema IR has version {version}, this program reads version {IR_VERSION}",
            hint="use a program of the version that wrote the graph, or newer",
        )
    document = root.object("ir_version", "interfaces", "nodes", "edges", "retired_ids")
    ir = SchemaIr(
        tuple(sorted(document["interfaces"].each(_read_interface), key=_by_name)),
        tuple(sorted(document["nodes"].each(_read_node), key=_by_name)),
        tuple(sorted(document["edges"].each(_read_edge), key=_by_name)),
        tuple(sorted(document["retired_ids"].each(lambda item: item.integer(1, _MAX_ID)))),
    )
    _check_references(ir)
    return ir


@dataclass(frozen=True, slots=True)
class _Field:
    """A JSON value and the path that leads to it."""

    path: str
    value: Any

    def damaged(self, expected: str) -> FormatError:
        return FormatError(
            f"the schema IR is damaged: {self.path} is not {expected}",
            hint="restore `_schema.ir.json` from a copy of the graph",
        )

    def member(self, name: str) -> _Field:
        if not isinstance(self.value, dict):
            raise self.damaged("an object")
        found = _Field(f"{self.path}.{name}", self.value.get(name))
        if name not in self.value:
            raise found.damaged("present")
        return found

    def object(self, *names: str, optional: str = "") -> dict[str, _Field]:
        """Return the fields of an object that has all of `names` and no others."""
        found = {name: self.member(name) for name in names}
        if not isinstance(self.value, dict):
            raise self.damaged("an object")
        for name in self.value:
            if name == optional:
                found[name] = self.member(name)
            elif name not in found:
                raise _Field(f"{self.path}.{name}", None).damaged("a known field")
        return found

    def each(self, read: Callable[[_Field], T]) -> tuple[T, ...]:
        if not isinstance(self.value, list):
            raise self.damaged("a list")
        return tuple(read(_Field(f"{self.path}[{at}]", item)) for at, item in enumerate(self.value))

    def text(self) -> str:
        # JSON can spell half a surrogate pair, which no hash and no file can hold.
        if not isinstance(self.value, str) or _SURROGATE.search(self.value):
            raise self.damaged("a text")
        return self.value

    def text_or_null(self) -> str | None:
        return None if self.value is None else self.text()

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.damaged("true or false")
        return self.value

    def integer(self, low: int, high: int) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.damaged("a whole number")
        if not low <= self.value <= high:
            raise self.damaged(f"between {low} and {high}")
        return self.value

    def pick(self) -> tuple[str, _Field]:
        """Return the only entry of an object that is tagged by its key."""
        if not isinstance(self.value, dict) or len(self.value) != 1:
            raise self.damaged("an object with one entry")
        ((tag, item),) = self.value.items()
        return tag, _Field(f"{self.path}.{tag}", item)


_COMMON = ("name", "type_id", "annotations", "properties", "constraints")


def _read_interface(field: _Field) -> IrInterface:
    return IrInterface(**_read_common(field.object(*_COMMON)))


def _read_node(field: _Field) -> IrNode:
    parts = field.object(*_COMMON, "implements")
    implements = parts["implements"].each(_Field.text)
    return IrNode(**_read_common(parts), implements=tuple(sorted(set(implements))))


def _read_edge(field: _Field) -> IrEdge:
    parts = field.object(*_COMMON, "from_type", "to_type", "cardinality")
    bounds = parts["cardinality"].object("min", "max")
    high = bounds["max"]
    return IrEdge(
        **_read_common(parts),
        from_type=parts["from_type"].text(),
        to_type=parts["to_type"].text(),
        cardinality=Cardinality(
            bounds["min"].integer(0, _MAX_COUNT),
            None if high.value is None else high.integer(0, _MAX_COUNT),
        ),
    )


def _read_common(parts: dict[str, _Field]) -> Json:
    properties = parts["properties"].each(_read_property)
    return {
        "name": parts["name"].text(),
        "type_id": parts["type_id"].integer(1, _MAX_ID),
        "annotations": canonical_annotations(parts["annotations"].each(_read_annotation)),
        "properties": tuple(sorted(properties, key=_by_name)),
        "constraints": canonical_constraints(parts["constraints"].each(_read_constraint)),
    }


def _by_name(found: IrType | IrProperty) -> str:
    return found.name


def _read_property(field: _Field) -> IrProperty:
    parts = field.object("name", "prop_id", "prop_type", "annotations", "ordinal")
    return IrProperty(
        parts["name"].text(),
        parts["prop_id"].integer(1, _MAX_ID),
        _read_type(parts["prop_type"]),
        canonical_annotations(parts["annotations"].each(_read_annotation)),
        parts["ordinal"].integer(0, _MAX_ID),
    )


def _read_type(field: _Field) -> PropType:
    parts = field.object("scalar", "nullable", "list", "enum_values")
    dim = None
    if isinstance(parts["scalar"].value, dict):
        tag, width = parts["scalar"].pick()
        scalar = _SCALARS.get(tag)
        dim = width.integer(1, MAX_VECTOR_DIM)
    else:
        scalar = _SCALARS.get(parts["scalar"].text())
    if scalar is None or (scalar is Scalar.VECTOR) != (dim is not None):
        raise parts["scalar"].damaged("a scalar type")
    values = parts["enum_values"]
    enum = None if values.value is None else tuple(sorted(values.each(_Field.text)))
    return PropType(scalar, parts["nullable"].boolean(), parts["list"].boolean(), enum, dim)


def _read_annotation(field: _Field) -> Annotation:
    parts = field.object("name", "value", optional="kwargs")
    kwargs: tuple[tuple[str, str], ...] = ()
    if "kwargs" in parts:
        settings = parts["kwargs"].object(*parts["kwargs"].value)
        kwargs = tuple(sorted((key, item.text()) for key, item in settings.items()))
    return Annotation(parts["name"].text(), parts["value"].text_or_null(), kwargs)


def _read_constraint(field: _Field) -> IrConstraint:
    tag, item = field.pick()
    match tag:
        case "Key":
            return Key(_read_columns(item))
        case "Unique":
            return Unique(tuple(sorted(_read_columns(item))))
        case "Index":
            return Index(tuple(sorted(_read_columns(item))))
        case "Range":
            parts = item.object("property", "min", "max")
            return Range(
                parts["property"].text(), _read_bound(parts["min"]), _read_bound(parts["max"])
            )
        case "Check":
            parts = item.object("property", "pattern")
            return Check(parts["property"].text(), parts["pattern"].text())
        case _:
            raise field.damaged("a known constraint")


def _read_columns(field: _Field) -> tuple[str, ...]:
    columns = field.each(_Field.text)
    if not columns or len(set(columns)) != len(columns):
        raise field.damaged("a list of distinct columns")
    return columns


def _read_bound(field: _Field) -> int | float | None:
    if field.value is None:
        return None
    tag, item = field.pick()
    if tag == "Integer":
        return item.integer(-(2**63), 2**64 - 1)
    if tag == "Float" and isinstance(item.value, float) and math.isfinite(item.value):
        return item.value
    raise item.damaged("an Integer or Float bound")


def _check_references(ir: SchemaIr) -> None:
    """Refuse an IR whose parts do not fit together."""
    nodes = {node.name for node in ir.nodes}
    interfaces = {interface.name for interface in ir.interfaces}
    types: list[IrType] = [*ir.interfaces, *ir.nodes, *ir.edges]
    _check_distinct("type ids", [found.type_id for found in types])
    for group, kind in ((ir.interfaces, "interfaces"), (ir.nodes, "nodes"), (ir.edges, "edges")):
        _check_distinct(f"the names of {kind}", [found.name for found in group])
    for node in ir.nodes:
        _check_known(node.name, node.implements, interfaces)
    for edge in ir.edges:
        _check_known(edge.name, (edge.from_type, edge.to_type), nodes)
    for found in types:
        _check_members(found)


def _check_members(found: IrType) -> None:
    names = [prop.name for prop in found.properties]
    _check_distinct(f"the property names of {found.name}", names)
    _check_distinct(
        f"the property ids of {found.name}", [prop.prop_id for prop in found.properties]
    )
    _check_distinct(f"the ordinals of {found.name}", [prop.ordinal for prop in found.properties])
    columns = {*names, "src", "dst"} if isinstance(found, IrEdge) else set(names)
    if sum(isinstance(constraint, Key) for constraint in found.constraints) > 1:
        raise FormatError(f"the schema IR is damaged: {found.name} has more than one key")
    for constraint in found.constraints:
        _check_known(found.name, constraint_columns(constraint), columns)


def _check_distinct(what: str, values: Sequence[object]) -> None:
    if len(set(values)) != len(values):
        raise FormatError(f"the schema IR is damaged: {what} are not distinct")


def _check_known(owner: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise FormatError(f"the schema IR is damaged: {owner} refers to unknown '{name}'")

"""Schema text to schema IR to catalog: the one way, for new texts and for stored ones.

Three passes over the declarations: interfaces, nodes, edges. The catalog is always built from
the IR, so a catalog made from a text and one made from the stored IR are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from omnigraph.compiler.catalog.identity import assign_ids
from omnigraph.compiler.catalog.ir_json import schema_hash
from omnigraph.compiler.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.compiler.catalog.names import check_names
from omnigraph.compiler.catalog.patterns import check_patterns
from omnigraph.compiler.catalog.schema_ir import (
    Backfill,
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
)
from omnigraph.compiler.diagnostics import DiagnosticList
from omnigraph.compiler.schema import ast as syntax
from omnigraph.compiler.schema.fills import BACKFILL
from omnigraph.compiler.schema.parser import read_schema
from omnigraph.compiler.schema.shape import node_shape
from omnigraph.compiler.source import Source

RENAME_FROM = "rename_from"


@dataclass(frozen=True, slots=True)
class LoadedSchema:
    """A compiled schema: its meaning with ids, and the catalog made from it."""

    ir: SchemaIr
    catalog: Catalog


def load_schema(source: Source, accepted: SchemaIr | None = None) -> LoadedSchema:
    """Compile a schema text.

    Args:
        source: the text.
        accepted: the graph's accepted IR, from which ids and column places are kept; None for
            a graph that does not exist yet.

    Raises:
        DiagnosticsError: everything that is wrong with the text.
    """
    findings = DiagnosticList(source)
    reading = read_schema(source, findings)
    check_names(reading.ast, findings, reading.unread)
    check_patterns(reading.ast, findings)
    findings.raise_if_errors()
    ir = assign_ids(_draft(reading.ast), accepted)
    return LoadedSchema(ir, catalog_of(ir))


def build_catalog(ast: syntax.SchemaAst, source: Source) -> Catalog:
    """Return the catalog of a parsed schema without history; `source` is what it came from.

    Raises:
        DiagnosticsError: names clash or point nowhere, or a pattern is invalid.
    """
    findings = DiagnosticList(source)
    check_names(ast, findings, syntax.Unread())
    check_patterns(ast, findings)
    findings.raise_if_errors()
    return catalog_of(assign_ids(_draft(ast), None))


# Syntax tree to IR


def _draft(ast: syntax.SchemaAst) -> SchemaIr:
    """Return the IR of checked declarations; ids are still 0, ordinals count declarations."""
    interfaces = {found.name.text: found for found in ast.interfaces()}
    return SchemaIr(
        tuple(sorted(map(_interface, ast.interfaces()), key=_by_name)),
        tuple(sorted((_node(found, interfaces) for found in ast.nodes()), key=_by_name)),
        tuple(sorted(map(_edge, ast.edges()), key=_by_name)),
    )


def _interface(found: syntax.InterfaceDecl) -> IrInterface:
    annotations, _ = _annotations(found.annotations)
    return IrInterface(found.name.text, 0, _properties(found.properties), annotations)


def _node(found: syntax.NodeDecl, interfaces: Mapping[str, syntax.InterfaceDecl]) -> IrNode:
    shape = node_shape(found, interfaces)
    annotations, renamed_from = _annotations(found.annotations)
    return IrNode(
        found.name.text,
        0,
        _properties(shape.properties),
        annotations,
        canonical_constraints(map(_constraint, shape.constraints)),
        tuple(sorted({name.text for name in found.implements})),
        renamed_from,
    )


def _edge(found: syntax.EdgeDecl) -> IrEdge:
    annotations, renamed_from = _annotations(found.annotations)
    return IrEdge(
        found.name.text,
        0,
        found.from_type.text,
        found.to_type.text,
        Cardinality(found.cardinality.min, found.cardinality.max),
        _properties(found.properties),
        annotations,
        canonical_constraints(map(_constraint, found.constraints)),
        renamed_from,
    )


def _properties(properties: Iterable[syntax.Property]) -> tuple[IrProperty, ...]:
    found: list[IrProperty] = []
    for ordinal, prop in enumerate(properties):
        annotations, renamed_from = _annotations(prop.annotations)
        fill = next((one for one in prop.annotations if one.name == BACKFILL), None)
        backfill = None if fill is None else Backfill(fill.value or "", fill.form == "word")
        found.append(
            IrProperty(prop.name.text, 0, prop.type, annotations, ordinal, renamed_from, backfill)
        )
    return tuple(sorted(found, key=_by_name))


def _annotations(
    annotations: Iterable[syntax.Annotation],
) -> tuple[tuple[Annotation, ...], str | None]:
    """Return the annotations that are part of the meaning, and the rename hint apart."""
    kept: list[Annotation] = []
    renamed_from: str | None = None
    for found in annotations:
        if found.name == RENAME_FROM:
            renamed_from = found.value
        elif found.name != BACKFILL:
            kept.append(Annotation(found.name, found.value, found.kwargs))
    return canonical_annotations(kept), renamed_from


def _constraint(found: syntax.Constraint) -> IrConstraint:
    match found:
        case syntax.Key():
            return Key(tuple(name.text for name in found.columns))
        case syntax.Unique():
            return Unique(tuple(sorted(name.text for name in found.columns)))
        case syntax.Index():
            return Index(tuple(sorted(name.text for name in found.columns)))
        case syntax.Range():
            return Range(found.prop.text, found.min, found.max)
        case syntax.Check():
            return Check(found.prop.text, found.pattern)
        case _:
            assert_never(found)


def _by_name(found: IrType | IrProperty) -> str:
    return found.name


# IR to catalog


def catalog_of(ir: SchemaIr) -> Catalog:
    """Return the catalog an IR describes: types by name, properties in column order."""
    return Catalog(
        {found.name: _interface_type(found) for found in ir.interfaces},
        {found.name: _node_type(found) for found in ir.nodes},
        {found.name: _edge_type(found) for found in ir.edges},
        schema_hash(ir),
    )


def _interface_type(found: IrInterface) -> InterfaceType:
    return InterfaceType(found.name, found.type_id, _columns(found), found.annotations)


def _node_type(found: IrNode) -> NodeType:
    constraints = found.constraints
    key = next((item.columns for item in constraints if isinstance(item, Key)), ())
    indices = tuple(item.columns for item in constraints if isinstance(item, Index))
    return NodeType(
        found.name,
        found.type_id,
        _columns(found),
        found.implements,
        key,
        tuple(item.columns for item in constraints if isinstance(item, Unique)),
        (key, *indices) if key else indices,
        tuple(item for item in constraints if isinstance(item, Range)),
        tuple(item for item in constraints if isinstance(item, Check)),
        {embed.target: embed for embed in _embeds(found)},
        found.annotations,
    )


def _edge_type(found: IrEdge) -> EdgeType:
    return EdgeType(
        found.name,
        found.type_id,
        found.from_type,
        found.to_type,
        _columns(found),
        found.cardinality,
        tuple(item.columns for item in found.constraints if isinstance(item, Unique)),
        tuple(item.columns for item in found.constraints if isinstance(item, Index)),
        found.annotations,
    )


def _columns(found: IrType) -> dict[str, Property]:
    ordered = sorted(found.properties, key=lambda prop: prop.ordinal)
    return {
        prop.name: Property(prop.name, prop.type, prop.prop_id, prop.annotations)
        for prop in ordered
    }


def _embeds(found: IrNode) -> Iterable[Embed]:
    for prop in sorted(found.properties, key=lambda prop: prop.ordinal):
        for annotation in prop.annotations:
            if annotation.name == "embed" and annotation.value is not None:
                model = dict(annotation.kwargs).get("model")
                yield Embed(prop.name, annotation.value, model)

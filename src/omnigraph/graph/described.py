"""A schema and a text as somebody is shown them who asks what there is and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from omnigraph.compiler.catalog.model import Annotation, Catalog, EdgeType, NodeType, Property
from omnigraph.compiler.compile import compile_query, parse_once
from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticsError, Severity, to_json
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.bare import framed
from omnigraph.compiler.query.lint import SchemaSource, lint_queries
from omnigraph.compiler.source import Source
from omnigraph.engine.read.picture import label_of

_TOLD: Final = ("description", "instruction")


def described(catalog: Catalog, rows: Mapping[str, int]) -> dict[str, Any]:
    """Return every type of a schema, ready for JSON.

    Args:
        catalog: what the schema means.
        rows: how many rows each table has, by its key.
    """
    return {
        "schema_hash": catalog.schema_hash,
        "nodes": [_node(one, rows.get(one.table_key, 0)) for one in catalog.nodes.values()],
        "edges": [_edge(one, rows.get(one.table_key, 0)) for one in catalog.edges.values()],
        "interfaces": [
            {"name": one.name, "properties": [_property(prop) for prop in one.properties.values()]}
            for one in catalog.interfaces.values()
        ],
    }


def _node(kind: NodeType, rows: int) -> dict[str, Any]:
    return {
        "name": kind.name,
        "table_key": kind.table_key,
        "row_count": rows,
        "label": label_of(kind),
        "key": list(kind.key),
        "implements": list(kind.implements),
        "unique": [list(one) for one in kind.unique],
        "indexes": [list(one) for one in kind.indices],
        "properties": [_property(one) for one in kind.properties.values()],
        **_words(kind.annotations),
    }


def _edge(kind: EdgeType, rows: int) -> dict[str, Any]:
    return {
        "name": kind.name,
        "word": kind.name[:1].lower() + kind.name[1:],
        "table_key": kind.table_key,
        "row_count": rows,
        "from": kind.from_type,
        "to": kind.to_type,
        "cardinality": [kind.cardinality.min, kind.cardinality.max],
        "unique": [list(one) for one in kind.unique],
        "indexes": [list(one) for one in kind.indices],
        "properties": [_property(one) for one in kind.properties.values()],
        **_words(kind.annotations),
    }


def _property(prop: Property) -> dict[str, Any]:
    kind = prop.type
    return {
        "name": prop.name,
        "type": str(kind),
        "scalar": str(kind.scalar),
        "nullable": kind.nullable,
        "is_list": kind.is_list,
        "values": list(kind.enum_values or ()),
        **_words(prop.annotations),
    }


def _words(annotations: Iterable[Annotation]) -> dict[str, str]:
    return {one.name: one.value for one in annotations if one.name in _TOLD and one.value}


def linted(catalog: Catalog, given: Source) -> dict[str, Any]:
    """Return what is wrong with a text, and its queries with their parameters; never raises.

    Args:
        catalog: what the text is held against.
        given: declarations, or a body alone.
    """
    source = framed(given, {})
    result = lint_queries(catalog, source, given.name, SchemaSource.repo(""))
    found = result.diagnostics
    if source.written is not None and result.queries_processed:
        # What does not even parse is placed in what was written already.
        found = tuple(replace(one, span=source.to_written(one.span)) for one in found)
    return {
        "status": result.status,
        "diagnostics": [to_json(given, one) for one in _in_order(found)],
        "queries": list(_queries(catalog, source)) if result.queries_processed else [],
    }


def _in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return sorted(found, key=lambda one: (one.severity is not Severity.ERROR, _place(one)))


def _place(found: Diagnostic) -> int:
    return found.span.start if found.span else -1


def _queries(catalog: Catalog, source: Source) -> Iterator[dict[str, Any]]:
    for query in parse_once(source).queries:
        words = dict(_compared(catalog, source, query))
        span = source.to_written(query.span) if source.written is not None else query.span
        text = source.written or source
        place = {"start": 0, "end": 0}
        if span is not None:
            place = {"start": text.byte_offset(span.start), "end": text.byte_offset(span.end)}
        yield {
            "name": query.name,
            "kind": "mutation" if query.is_mutation else "read",
            "description": query.description,
            "instruction": query.instruction,
            "params": [_param(one, words.get(one.name, ())) for one in query.params],
            "span": place,
        }


def _compared(
    catalog: Catalog, source: Source, query: ast.Query
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the words that parameters of a sound query can have, as far as it says."""
    try:
        compiled = compile_query(catalog, source, query.name)
    except DiagnosticsError:  # the findings have it
        return
    for param in compiled.params:
        known = [set(one.enum_values or ()) for one in param.enums]
        if known:
            yield param.name, tuple(sorted(set.intersection(*known)))


def _param(param: ast.Param, compared: tuple[str, ...]) -> dict[str, Any]:
    kind = param.type
    core = f"{kind.name}({kind.dim})" if kind.dim is not None else kind.name
    if kind.words:
        core = f"enum({', '.join(kind.words)})"
    if kind.is_list:
        core = f"[{core}]"
    return {
        "name": param.name,
        "type": f"{core}?" if kind.nullable else core,
        "scalar": "String" if kind.words else kind.name,
        "nullable": kind.nullable,
        "is_list": kind.is_list,
        "values": list(kind.words or compared),
    }

r"""What `\d` shows: the types of a schema, or one of them with its properties."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.compiler.catalog.model import Catalog, EdgeType


def described(catalog: Catalog, name: str) -> Iterator[str]:
    """Yield the lines that describe a type, or list all of them.

    Raises:
        NotFoundError: there is no such type; an edge may be in any case.
    """
    if not name:
        for node in catalog.nodes.values():
            yield f"node {node.name}"
        for edge in catalog.edges.values():
            yield f"edge {edge.name}: {edge.from_type} -> {edge.to_type}"
        return
    kind = catalog.nodes.get(name) or catalog.find_edge(name) or catalog.type_named(name)
    if isinstance(kind, EdgeType):
        yield f"edge {kind.name}: {kind.from_type} -> {kind.to_type}"
        keys: tuple[str, ...] = ()
        around = [kind]
    else:
        yield f"node {kind.name}"
        keys = kind.key
        around = [
            edge for edge in catalog.edges.values() if kind.name in (edge.from_type, edge.to_type)
        ]
    for prop in kind.properties.values():
        yield f"  {prop.name}: {prop.type}" + (" @key" if prop.name in keys else "")
    if not isinstance(kind, EdgeType):
        for edge in around:
            yield f"  edge {edge.name}: {edge.from_type} -> {edge.to_type}"

"""A schema in as few words as say it: one line a type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.errors import BadRequestError

LEGEND = "* is the key, ^ is searched by words, ~ by meaning; `?` may be null"


def edge_word(name: str) -> str:
    """Return an edge type as it is usually written between two variables."""
    return name[:1].lower() + name[1:]


def compact_schema(catalog: Catalog, types: Sequence[str] = ()) -> str:
    """Return the types, or those that are named with every edge that touches them.

    Raises:
        BadRequestError: a name is none of a type.
    """
    wanted = {one.name for word in types for one in _named(catalog, word)}
    return "\n".join([LEGEND, *_lines(catalog, wanted)])


def _named(catalog: Catalog, word: str) -> tuple[NodeType | EdgeType, ...]:
    found = catalog.types_named(word)
    if not found:
        known = ", ".join([*catalog.nodes, *catalog.edges])
        raise BadRequestError(f"there is no type '{word}'", hint=f"the types are {known}")
    return found


def _lines(catalog: Catalog, wanted: set[str]) -> Iterator[str]:
    for node in catalog.nodes.values():
        if not wanted or node.name in wanted:
            yield _noted(f"node {node.name}({', '.join(_properties(node))})", node)
    for edge in catalog.edges.values():
        if not wanted or wanted & {edge.name, edge.from_type, edge.to_type}:
            own = ", ".join(f"{one.name}:{one.type}" for one in edge.properties.values())
            ends = f"{edge.from_type} -> {edge.to_type}"
            yield _noted(
                f"edge {edge_word(edge.name)}: {ends}" + (f" ({own})" if own else ""), edge
            )


def _properties(node: NodeType) -> Iterator[str]:
    searched = set(searched_properties(node))
    for one in node.properties.values():
        key = "*" if one.name in node.key else ""
        words = "^" if one.name in searched else ""
        meaning = "~" if one.name in {embed.source for embed in node.embeds.values()} else ""
        yield f"{one.name}{key}{words}{meaning}:{one.type}"


def searched_properties(node: NodeType) -> tuple[str, ...]:
    """Return the properties that are searched by words: those with an index, else every text."""
    texts = [one.name for one in node.properties.values() if _is_text(one)]
    indexed = [name for name in texts if (name,) in node.indices]
    return tuple(indexed or texts)


def _is_text(prop: Property) -> bool:
    return prop.type.is_plain_string and prop.type.enum_values is None


def _noted(line: str, kind: NodeType | EdgeType) -> str:
    """Return a line with what the schema says a type is for."""
    said = [one.value for one in kind.annotations if one.name in ("description", "instruction")]
    words = " ".join(". ".join(one for one in said if one).split())
    return f"{line}  # {words}" if words else line


def label_of(node: NodeType) -> str | None:
    """Return the property people call a node by, if it has one beside its key."""
    return next((one for one in ("name", "title", "subject") if one in node.properties), None)

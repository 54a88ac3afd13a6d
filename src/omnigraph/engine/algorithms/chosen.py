"""Which nodes and edges an algorithm runs over, chosen by the names of their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from omnigraph.base.arguments import names_argument
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequestError

Along = Literal["out", "in", "both"]
ALONG: tuple[Along, ...] = get_args(Along)
"""Which way edges are followed: as they point, against it, or either way."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The types of a graph that an algorithm looks at, by their names."""

    nodes: tuple[NodeType, ...]
    edges: tuple[EdgeType, ...]

    def place_of(self, type_name: str) -> int:
        """Return which of the node types a name is."""
        return next(at for at, one in enumerate(self.nodes) if one.name == type_name)

    @property
    def ends(self) -> list[tuple[EdgeType, int, int]]:
        """Every edge type with the places of the node types it leaves and reaches."""
        return [
            (one, self.place_of(one.from_type), self.place_of(one.to_type)) for one in self.edges
        ]


def choose(
    catalog: Catalog, nodes: Sequence[str] | None = None, edges: Sequence[str] | None = None
) -> Chosen:
    """Return the types that two lists of names mean.

    Without `nodes` they are those the edges lead between; without `edges`, all that lead between
    the nodes; without both, everything.

    Raises:
        NotFoundError: there is no such type.
        BadRequestError: an edge type leads out of the chosen nodes, or nothing is chosen.
    """
    wanted = None if nodes is None else _nodes(catalog, names_argument(nodes, "nodes"))
    if edges is None:
        inside = {one.name for one in (catalog.nodes.values() if wanted is None else wanted)}
        kept = [one for one in catalog.edges.values() if {one.from_type, one.to_type} <= inside]
    else:
        kept = _edges(catalog, names_argument(edges, "edges"))
        touched = {end for one in kept for end in (one.from_type, one.to_type)}
        inside = touched if wanted is None else {one.name for one in wanted}
        _check_inside(kept, inside)
    found = tuple(one for one in catalog.nodes.values() if one.name in inside)
    if not found:
        raise BadRequestError("no node type is chosen", hint="name some, or leave `nodes` out")
    return Chosen(found, tuple(one for one in catalog.edges.values() if one in kept))


def _nodes(catalog: Catalog, names: Sequence[str]) -> list[NodeType]:
    found = []
    for name in names:
        kind = catalog.nodes.get(name) or catalog.type_named(name)
        if not isinstance(kind, NodeType):
            raise BadRequestError(f"'{name}' is an edge type", hint="name it in `edges`")
        found.append(kind)
    return found


def _edges(catalog: Catalog, names: Sequence[str]) -> list[EdgeType]:
    found = []
    for name in names:
        kind = catalog.find_edge(name) or catalog.type_named(name)
        if not isinstance(kind, EdgeType):
            raise BadRequestError(f"'{name}' is a node type", hint="name it in `nodes`")
        found.append(kind)
    return found


def _check_inside(edges: Sequence[EdgeType], inside: set[str]) -> None:
    for one in edges:
        for end in (one.from_type, one.to_type):
            if end not in inside:
                raise BadRequestError(
                    f"{one.name} leads from {one.from_type} to {one.to_type}, "
                    f"and {end} is not among the nodes",
                    hint=f"add {end} to `nodes`, or leave `nodes` out",
                )

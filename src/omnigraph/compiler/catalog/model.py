"""The catalog: what the accepted schema means, as immutable values every room may read.

Built by `build` from a schema IR, fresh or stored; knows no text and no tables. Types come by
name, properties in column order; nothing here depends on hash order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.errors import BadRequestError, NotFoundError

ID, SRC, DST = "id", "src", "dst"
NODE_SYSTEM_COLUMNS = (ID,)
EDGE_SYSTEM_COLUMNS = (ID, SRC, DST)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A kept `@name(value, key = value…)`; non-string literals are kept as their text."""

    name: str
    value: str | None = None
    kwargs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Property:
    """One declared column of a type. `prop_id` survives renames."""

    name: str
    type: PropType
    prop_id: int
    annotations: tuple[Annotation, ...] = ()

    @property
    def default(self) -> str | None:
        """What stands in for a value that is left out, as text; see `schema.fills`."""
        return default_in(self.annotations)


def default_in(annotations: Iterable[Annotation]) -> str | None:
    """Return what `@default` says among the annotations of a property."""
    return next((one.value for one in annotations if one.name == "default"), None)


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive numeric bounds of a property; None is open."""

    prop: str
    min: int | float | None
    max: int | float | None


@dataclass(frozen=True, slots=True)
class Check:
    """A regular expression that must be found somewhere in the property's text."""

    prop: str
    pattern: str


GIVEN = "given"
"""The model of an `@embed` whose vectors writers give themselves."""


@dataclass(frozen=True, slots=True)
class Embed:
    """`target` (a vector) is filled from the text of `source`; `model` pins the embedder."""

    target: str
    source: str
    model: str | None = None

    @property
    def by_hand(self) -> bool:
        """Whether no model ever fills the vectors: writers give them."""
        return self.model == GIVEN


@dataclass(frozen=True, slots=True)
class Cardinality:
    """Allowed number of edges per source node; `max` None is unbounded."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True)
class InterfaceType:
    """A named set of properties that node types share; not queryable."""

    name: str
    type_id: int
    properties: Mapping[str, Property]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True)
class NodeType:
    """A node type with everything the engine enforces or derives from it."""

    name: str
    type_id: int
    properties: Mapping[str, Property]
    implements: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    indices: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    embeds: Mapping[str, Embed] = field(default_factory=dict)
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> str:
        """The name of this type's table in the manifest."""
        return node_key(self.name)

    @cached_property
    def blobs(self) -> frozenset[str]:
        """Names of Blob properties."""
        return _blobs(self.properties)


@dataclass(frozen=True)
class EdgeType:
    """An edge type; `from_type` and `to_type` name node types."""

    name: str
    type_id: int
    from_type: str
    to_type: str
    properties: Mapping[str, Property]
    cardinality: Cardinality = Cardinality()
    unique: tuple[tuple[str, ...], ...] = ()
    indices: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> str:
        """The name of this type's table in the manifest."""
        return edge_key(self.name)

    @cached_property
    def blobs(self) -> frozenset[str]:
        """Names of Blob properties."""
        return _blobs(self.properties)


@dataclass(frozen=True)
class Catalog:
    """All types of one accepted schema. `schema_hash` identifies its meaning, not its text."""

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    schema_hash: str = ""

    @cached_property
    def _edges_folded(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    def find_edge(self, word: str) -> EdgeType | None:
        """Return the edge a traversal word means: the exact name first, then ignoring case."""
        return self.edges.get(word) or self._edges_folded.get(word.lower())

    def types_named(self, word: str) -> tuple[NodeType | EdgeType, ...]:
        """Return the types a word means: a name, or `node:` or `edge:` and a name.

        A node and an edge type may share a name: then it means both of them. Edges are found
        whatever their case, but only where no name is exactly the word.
        """
        group, name = _split(word)
        if group:
            alone = self.nodes.get(name) if group == "node" else self.find_edge(name)
            return () if alone is None else (alone,)
        exact = (self.nodes.get(word), self.edges.get(word))
        found = tuple(one for one in exact if one is not None)
        loose = self.find_edge(word)
        return found or (() if loose is None else (loose,))

    def type_named(self, word: str) -> NodeType | EdgeType:
        """Return the one type a word means; see `types_named`.

        Raises:
            NotFoundError: there is no such type.
            BadRequestError: a node and an edge type have this name.
        """
        match self.types_named(word):
            case (one,):
                return one
            case ():
                group, name = _split(word)
                known = [*(() if group == "edge" else self.nodes)]
                known += () if group == "node" else self.edges
                what = f"{group} type" if group else "type"
                raise NotFoundError(
                    f"the schema has no {what} '{name}'", hint=f"it has {', '.join(known)}"
                )
            case _:
                raise BadRequestError(
                    f"a node and an edge type are named '{word}'",
                    hint=f"say which one: 'node:{word}' or 'edge:{word}'",
                )

    def short_name(self, kind: NodeType | EdgeType) -> str:
        """Return the shortest word that means this type alone."""
        return kind.name if len(self.types_named(kind.name)) == 1 else kind.table_key


def _split(word: str) -> tuple[str, str]:
    """Return `node` or `edge` and the name behind it; a bare name has neither."""
    group, colon, name = word.partition(":")
    return (group, name) if colon and group in ("node", "edge") else ("", word)


def _blobs(properties: Mapping[str, Property]) -> frozenset[str]:
    return frozenset(name for name, prop in properties.items() if prop.type.scalar is Scalar.BLOB)

"""What rewrites may know beside the IR: the schema's keys and the data's sizes, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.base.table_keys import is_node_key, type_of
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.types import PropType

KeyColumns = tuple[tuple[str, PropType], ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of the data at one snapshot; a type that is missing has an unknown size."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    edges: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many different values a column has, by table key and property; ids need no entry."""

    def size_of(self, table: str) -> int | None:
        """Return the number of rows of a table, by its key."""
        return (self.nodes if is_node_key(table) else self.edges).get(type_of(table))

    def values_of(self, table: str, prop: str) -> int | None:
        """Return how many different values a column has, if that is known."""
        return self.size_of(table) if prop == "id" else self.values.get((table, prop))


@dataclass(frozen=True, slots=True)
class Facts:
    """Key columns per node type, in the order that forms the id; sizes when they are known."""

    keys: Mapping[str, KeyColumns] = field(default_factory=dict)
    statistics: Statistics | None = None


def facts_of(catalog: Catalog, statistics: Statistics | None = None) -> Facts:
    """Return the facts of a schema."""
    keys = {
        node.name: tuple((name, node.properties[name].type) for name in node.key)
        for node in catalog.nodes.values()
        if node.key
    }
    return Facts(keys, statistics)

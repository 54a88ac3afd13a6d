"""The keys of tables, made and read in one place: `node:<Type>` and `edge:<Type>`."""

from __future__ import annotations

from omnigraph.base.ids import TableKey

NODE, EDGE = "node:", "edge:"


def node_key(type_name: str) -> TableKey:
    """Return the key of the table that holds the nodes of a type."""
    return TableKey(NODE + type_name)


def edge_key(type_name: str) -> TableKey:
    """Return the key of the table that holds the edges of a type."""
    return TableKey(EDGE + type_name)


def is_node_key(key: str) -> bool:
    """Whether a table holds nodes."""
    return key.startswith(NODE)


def is_edge_key(key: str) -> bool:
    """Whether a table holds edges."""
    return key.startswith(EDGE)


def type_of(key: str) -> str:
    """Return the type whose rows a table holds."""
    return key.partition(":")[2]

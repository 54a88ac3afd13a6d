"""What is near a node: a few neighbours by every type of edge and way, and how many there are.

Bounded before anything is read: a node with a million neighbours costs what is shown of them, and a
count. It asks queries, so whoever sees some rows only is told of those alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from omnigraph.api.query import QueryResult
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.source import Source
from omnigraph.engine.read.picture import label_of
from omnigraph.errors import NotFoundError

NEIGHBOURS: Final = 12
"""How many of each kind are shown if nobody says."""
_NAME: Final = "<neighbours>"
Way = Literal["out", "in"]


class Ask(Protocol):
    """Runs a read query of one state."""

    def __call__(self, source: Source, name: None, params: dict[str, Any], /) -> QueryResult:
        """Return its rows."""
        ...


@dataclass(frozen=True, slots=True)
class _Group:
    """Edges of one type that lead one way, and the type they lead to."""

    edge: EdgeType
    way: Way
    other: NodeType

    @property
    def hop(self) -> str:
        """The step of a match from `$a` to `$b`."""
        edge = f"$e:{self.edge.name}"
        return f"$a {edge} $b" if self.way == "out" else f"$b {edge} $a"


def around(
    ask: Ask,
    catalog: Catalog,
    node: NodeType,
    wanted: str,
    *,
    most: int = NEIGHBOURS,
    edges: Sequence[str] | None = None,
    ways: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return a node's neighbours, ready for JSON.

    Args:
        ask: runs a query.
        catalog: the schema of the state that is asked.
        node: the type of the node.
        wanted: its id.
        most: how many neighbours of each group are shown.
        edges: only edges of these types.
        ways: only those that lead `out` of the node, or `in`.

    Raises:
        NotFoundError: there is no such node.
    """
    known = _run(ask, f"$a: {node.name}  $a.id = $i", f"$a.{label_of(node)} as label", wanted)
    if not len(known):
        raise NotFoundError(f"there is no {node.table_key} '{wanted}'")
    groups = []
    for group in _groups(catalog, node):
        named = edges is None or group.edge.name in edges
        if not named or (ways is not None and group.way not in ways):
            continue
        found = _group(ask, node, group, wanted, most)
        if found is not None:
            groups.append(found)
    label = known.to_json_rows()[0]["label"] or wanted
    shown = {"type": node.name, "table_key": node.table_key, "id": wanted, "label": label}
    return {**shown, "groups": groups}


def _groups(catalog: Catalog, node: NodeType) -> Iterator[_Group]:
    for edge in catalog.edges.values():
        if edge.from_type == node.name:
            yield _Group(edge, "out", catalog.nodes[edge.to_type])
        if edge.to_type == node.name:
            yield _Group(edge, "in", catalog.nodes[edge.from_type])


def _group(
    ask: Ask, node: NodeType, group: _Group, wanted: str, most: int
) -> dict[str, Any] | None:
    """Return some neighbours of one group, or None if there are none."""
    match = f"$a: {node.name}  $b: {group.other.name}  $a.id = $i  {group.hop}"
    told = f"$e.id as edge, $b.id as id, $b.{label_of(group.other)} as label"
    rows = _run(ask, match, told, wanted, f" limit {most + 1}").to_json_rows()
    if not rows:
        return None
    total = len(rows)
    if total > most:
        total = _run(ask, match, "count($e) as n", wanted).to_json_rows()[0]["n"]
    return {
        "edge": group.edge.name,
        "way": group.way,
        "type": group.other.name,
        "total": total,
        "neighbours": [
            {"edge_id": one["edge"], "id": one["id"], "label": one["label"] or one["id"]}
            for one in rows[:most]
        ],
    }


def _run(ask: Ask, match: str, told: str, wanted: str, end: str = "") -> QueryResult:
    text = f"query near($i: String) {{ match {{ {match} }} return {{ {told} }}{end} }}"
    return ask(Source(text, _NAME), None, {"i": wanted})

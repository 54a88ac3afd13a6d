"""The nodes and edges behind the rows of a query: what a picture of a result shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from omnigraph.api.drawing import Arrow, Dot, drawn
from omnigraph.api.notebook import count_note
from omnigraph.api.wire import Shape, Wire
from omnigraph.base.arguments import shown
from omnigraph.base.extras import load_extra
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    import networkx as nx

PICTURE_NODES = 300
"""How many nodes a picture has if nobody says: more of them tell a reader little."""
MOST_PICTURE_NODES = 2_000


@dataclass(frozen=True, slots=True)
class PictureNode(Shape):
    """A node; `label` is what people call it: its name, title, subject or key."""

    type: str
    id: str
    label: str


@dataclass(frozen=True, slots=True)
class PictureEdge(Shape):
    """An edge between two nodes of a picture.

    Without an id it stands for a way of several edges, of which only the number is known.
    """

    type: str
    id: str | None
    source_type: Annotated[str, Wire("from_type")]
    source: Annotated[str, Wire("from")]
    target_type: Annotated[str, Wire("to_type")]
    target: Annotated[str, Wire("to")]
    min_hops: int = 1
    max_hops: int = 1


@dataclass(frozen=True, slots=True)
class Picture(Shape):
    """What a query matched, as nodes and edges; a notebook draws it."""

    query_name: str
    branch: str | None
    commit_id: str | None
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    row_count: int
    """The rows of the match the picture shows; a distinct or grouped row is made of several."""
    truncated: bool = False
    """Whether rows were left out because there are too many nodes."""

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return a networkx graph; needs networkx.

        A node is known by `(type, id)` and has its `type`, `id` and `label`; the key of an edge is
        its id, and it has its `type`.
        """
        networkx = load_extra("networkx", "notebook", "to_networkx")
        graph: nx.MultiDiGraph = networkx.MultiDiGraph()
        for node in self.nodes:
            graph.add_node((node.type, node.id), type=node.type, id=node.id, label=node.label)
        for edge in self.edges:
            ends = (edge.source_type, edge.source), (edge.target_type, edge.target)
            hops = {"min_hops": edge.min_hops, "max_hops": edge.max_hops}
            graph.add_edge(*ends, key=(edge.type, edge.id), type=edge.type, id=edge.id, **hops)
        return graph

    def to_svg(self) -> str:
        """Return a drawing that needs nothing else: no script, no style sheet, no network."""
        number = {(node.type, node.id): at for at, node in enumerate(self.nodes)}
        dots = [Dot(node.label, node.type, node.id) for node in self.nodes]
        arrows = [
            Arrow(
                number[edge.source_type, edge.source],
                number[edge.target_type, edge.target],
                edge.type,
                is_way=edge.id is None,
            )
            for edge in self.edges
        ]
        return drawn(dots, arrows)

    def _repr_html_(self) -> str:
        """Return the drawing with a line below it."""
        note = f"{count_note(len(self.nodes), len(self.nodes), 'nodes')}, {len(self.edges)} edges"
        more = "; there are more" if self.truncated else ""
        return f"{self.to_svg()}<p>{note}{more}</p>"


def picture_nodes_argument(given: object) -> int:
    """Return how many nodes a picture may have.

    Raises:
        BadRequestError: it is no number from 1 to 2000.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= MOST_PICTURE_NODES:
        raise BadRequestError(
            f"a picture cannot have {shown(given)} nodes",
            hint=f"it has from 1 to {MOST_PICTURE_NODES}; a table shows more",
        )
    return given


def limit_argument(given: object) -> int:
    """Return how many edges of a type an overview shows.

    Raises:
        BadRequestError: it is no number of 1 or more.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise BadRequestError(f"a picture cannot show {shown(given)} edges of a type")
    return given


def put_together(pictures: Iterable[Picture]) -> Picture:
    """Return several pictures of one state as one."""
    nodes: dict[PictureNode, None] = {}
    edges: dict[PictureEdge, None] = {}
    rows, truncated = 0, False
    branch = commit = None
    for one in pictures:
        nodes |= dict.fromkeys(one.nodes)
        edges |= dict.fromkeys(one.edges)
        rows, truncated = rows + one.row_count, truncated or one.truncated
        branch, commit = one.branch, one.commit_id
    return Picture("", branch, commit, tuple(nodes), tuple(edges), rows, truncated)


def overview_queries(
    nodes: Iterable[str], edges: Iterable[tuple[str, str, str]], limit: int
) -> list[str]:
    """Return queries that show a little of every type.

    Args:
        nodes: the names of the node types.
        edges: name, start and end type of every edge type.
        limit: rows of each.
    """
    lone = list(nodes)
    found = []
    for name, start, end in edges:
        ends = f"$a: {start} $b: {end}"
        found.append(f"match {{ {ends} $a $e:{name} $b }} return {{ $e.id }} limit {limit}")
        lone = [one for one in lone if one not in (start, end)]
    found += [f"match {{ $n: {one} }} return {{ $n.id }} limit {limit}" for one in lone]
    return found

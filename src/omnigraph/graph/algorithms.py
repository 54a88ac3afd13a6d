"""Algorithms over one state of a graph: `graph.algorithms`, and that of any view of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from omnigraph.api.query import QueryResult
from omnigraph.base.arguments import shown, text_argument, word_argument
from omnigraph.base.budget import Limits
from omnigraph.engine.algorithms.chosen import ALONG, Along, Chosen, choose
from omnigraph.engine.algorithms.components import connected_components
from omnigraph.engine.algorithms.degrees import degrees
from omnigraph.engine.algorithms.network import network_of
from omnigraph.engine.algorithms.pagerank import check_pagerank, pagerank
from omnigraph.engine.algorithms.paths import distances, shortest_path
from omnigraph.engine.algorithms.results import by_node, path_rows, reached
from omnigraph.engine.algorithms.steps import Steps
from omnigraph.engine.algorithms.weights import check_weight
from omnigraph.engine.algorithms.write_back import check_property, write_back
from omnigraph.engine.read.context import Images
from omnigraph.errors import BadRequestError
from omnigraph.graph.turns import TURNS

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.graph.view import GraphView

NodeName = tuple[str, str] | str
"""A node: its type and its id; the id alone where there is one node type."""


class AlgorithmKeywords(TypedDict, total=False):
    """Which part of a graph an algorithm runs over, its limits, and what becomes of its result."""

    nodes: Sequence[str] | None
    edges: Sequence[str] | None
    limits: Limits | None
    cancel: threading.Event | None
    write: str | None
    actor: str | None
    message: str | None


class Algorithms:
    """What can be computed over all nodes and edges of one state, or over some types of them.

    Every method takes `nodes` and `edges`, lists of type names: without `nodes` they are those the
    edges lead between, without `edges` all that lead between the nodes, without both everything.
    It returns `type`, `id` and one value, a row per node, by type and id. `limits` and `cancel`
    are as of a query. With `write`, on a branch, the value becomes that property of every node, in
    one commit by `actor`; `commit_id` of the result is then the commit that has it.
    """

    __slots__ = ("_view",)

    def __init__(self, view: GraphView) -> None:
        self._view = view

    def __repr__(self) -> str:
        return f"Algorithms({self._view!r})"

    def degrees(self, *, along: Along = "both", **how: Unpack[AlgorithmKeywords]) -> QueryResult:
        """Return how many edges every node has: `degree`.

        Parallel edges count one by one; a self-loop both leaves and reaches its node.

        Args:
            along: edges that leave it (`out`), that reach it (`in`), or both together.
            **how: see `Algorithms`.
        """
        way = word_argument(along, ALONG, "along")

        def run(images: Images, chosen: Chosen) -> pa.Table:
            network = network_of(images, chosen)
            return by_node(images, chosen, network.positions, "degree", degrees(network, way))

        return self._run("degrees", run, whole=True, how=how)

    def connected_components(self, **how: Unpack[AlgorithmKeywords]) -> QueryResult:
        """Return which nodes are connected, whichever way edges point: `component`.

        Components are numbered from 0 by their first nodes.
        """

        def run(images: Images, chosen: Chosen) -> pa.Table:
            network = network_of(images, chosen)
            found = connected_components(network)
            return by_node(images, chosen, network.positions, "component", found)

        return self._run("connected_components", run, whole=True, how=how)

    def pagerank(
        self,
        *,
        damping: float = 0.85,
        max_iterations: int = 200,
        tolerance: float = 1e-9,
        along: Along = "out",
        weight: str | None = None,
        **how: Unpack[AlgorithmKeywords],
    ) -> QueryResult:
        """Return how much a walker who follows edges at random is at every node: `rank`.

        Ranks add up to 1. Parallel edges each carry their part.

        Args:
            damping: how often an edge is followed rather than a start made anywhere.
            max_iterations: how many rounds there may be.
            tolerance: it is done when the ranks of all nodes together move by less in a round.
            along: which way edges are followed; `both` takes the graph as undirected.
            weight: a number of the edges, from 0 on, by which they are followed more or less.
            **how: see `Algorithms`.

        Raises:
            NotConvergedError: it was not done after all rounds.
            WeightError: an edge has a weight that is null, negative or not finite.
        """
        way = word_argument(along, ALONG, "along")
        check_pagerank(damping, max_iterations, tolerance)

        def run(images: Images, chosen: Chosen) -> pa.Table:
            check_weight(chosen, weight)
            network = network_of(images, chosen, weight)
            found = pagerank(network.along(way), damping, max_iterations, tolerance)
            return by_node(images, chosen, network.positions, "rank", found)

        return self._run("pagerank", run, whole=False, how=how)

    def shortest_path(
        self,
        source: NodeName,
        target: NodeName | None = None,
        *,
        along: Along = "out",
        weight: str | None = None,
        **how: Unpack[AlgorithmKeywords],
    ) -> QueryResult:
        """Return the shortest path between two nodes, or how far all others are from one.

        With `target`: a row per node of the path, with the edge that leads to it (`step`, `type`,
        `id`, `edge_type`, `edge_id`, `distance`). Of several paths it is the one of fewest edges,
        then the one whose nodes come first by type and id, seen from its end.
        Without: the `distance` of every node that is reached.

        Args:
            source: where it begins: type and id, or an id if there is one node type.
            target: where it ends; a distance to everything if None.
            along: which way edges are followed.
            weight: a number of the edges, from 0 on, to be as little as possible in sum, instead of
                how many edges there are.
            **how: see `Algorithms`; nodes that are not reached are given null by `write`.

        Raises:
            NotFoundError: there is no such node.
            NoPathError: nothing leads to the target.
            WeightError: an edge has a weight that is null, negative or not finite.
        """
        way = word_argument(along, ALONG, "along")
        if target is not None and how.get("write") is not None:
            raise BadRequestError(
                "a path is no value per node", hint="leave out the target to write distances"
            )
        weighted = weight is not None

        def run(images: Images, chosen: Chosen) -> pa.Table:
            check_weight(chosen, weight)
            steps = Steps(images, chosen, weight)
            start = steps.number_of(*_named(source, chosen))
            if target is not None:
                end = steps.number_of(*_named(target, chosen))
                path = shortest_path(steps, start, end, way, weighted=weighted)
                return path_rows(path, weighted=weighted)
            known = distances(steps, start, way, weighted=weighted)
            return reached(images, chosen, steps, known, weighted=weighted)

        return self._run("shortest_path", run, whole=not weighted, how=how)

    def _run(
        self,
        name: str,
        run: Callable[[Images, Chosen], pa.Table],
        *,
        whole: bool,
        how: AlgorithmKeywords,
    ) -> QueryResult:
        if how.get("write") is not None:
            return self._written(name, run, whole=whole, how=how)
        _refuse_labels(how)
        view = self._view
        TURNS.give_way()
        with view._state.query_budget(how.get("limits"), how.get("cancel")):
            snapshot = view._take()
            chosen = choose(view._state.catalog(snapshot), how.get("nodes"), how.get("edges"))
            found = view._reader.over_images(snapshot, lambda images: run(images, chosen))
        return QueryResult(found, name, snapshot.branch, snapshot.commit_id)

    def _written(
        self,
        name: str,
        run: Callable[[Images, Chosen], pa.Table],
        *,
        whole: bool,
        how: AlgorithmKeywords,
    ) -> QueryResult:
        prop, state = how["write"], self._view._state
        assert prop is not None
        begin = self._view._begin_write
        with TURNS.writing(), state.job_budget(how.get("limits"), how.get("cancel")):
            session = begin(how.get("actor"), how.get("message"))
            catalog = state.catalog(session.base)
            chosen = choose(catalog, how.get("nodes"), how.get("edges"))
            check_property(chosen, prop, whole=whole)
            found = state.reader.over_images(session.base, lambda images: run(images, chosen))
            commit = write_back(session, catalog, chosen, found, prop)
        return QueryResult(found, name, session.branch, commit)


def _refuse_labels(how: AlgorithmKeywords) -> None:
    for label in ("actor", "message"):
        if how.get(label) is not None:
            raise BadRequestError(
                f"{label} is of a commit, and nothing is written", hint="name a property: write=…"
            )


def _named(node: object, chosen: Chosen) -> tuple[str, str]:
    """Return type and id of a node that a caller names."""
    match node:
        case str(one) if len(chosen.nodes) == 1:
            return chosen.nodes[0].name, text_argument(one, "an id")
        case str():
            names = ", ".join(kind.name for kind in chosen.nodes)
            raise BadRequestError(
                f"of which type is {shown(node)}? there are {names}", hint='("Type", "id")'
            )
        case (str(name), str(one)):
            if name not in {kind.name for kind in chosen.nodes}:
                raise BadRequestError(
                    f"{shown(name)} is not among the node types of this call",
                    hint=f"they are {', '.join(kind.name for kind in chosen.nodes)}",
                )
            return name, text_argument(one, "an id")
        case _:
            raise BadRequestError(
                f"a node is a type and an id, not {shown(node)}", hint='("Type", "id")'
            )

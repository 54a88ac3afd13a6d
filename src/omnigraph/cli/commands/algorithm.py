"""`omnigraph algorithm …`: what is computed over all nodes and edges of a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.base.budget import Limits
from omnigraph.cli.formats import TableStyle, lines
from omnigraph.cli.given import AskedGraph, AskedState, OfState, OnGraph, ReadLimits
from omnigraph.cli.options import ActorOption, FormatOption, JsonOption, MessageOption
from omnigraph.cli.output import UsageError
from omnigraph.cli.shared import Shared, sharing
from omnigraph.config.environment import wants_color
from omnigraph.config.settings import OutputFormat

if TYPE_CHECKING:
    from omnigraph.api.query import QueryResult
    from omnigraph.graph.algorithms import Algorithms

app = typer.Typer(
    help="Compute over whole graphs: degrees, components, ranks, paths.", no_args_is_help=True
)

AlongOption = Annotated[
    str, typer.Option("--along", help="Which way edges are followed: out, in or both.")
]
WeightOption = Annotated[
    str | None,
    typer.Option("--weight", help="A number of the edges that they weigh.", metavar="PROPERTY"),
]


@dataclass(frozen=True, slots=True)
class AskedAlgorithm:
    """Over which part of which graph something is computed, and what becomes of the result."""

    graph: AskedGraph
    state: AskedState
    part: dict[str, Any]
    write: str | None
    actor: str | None
    message: str | None
    wanted: OutputFormat | None

    def run(
        self, operation: str, call: Callable[[Algorithms, dict[str, Any]], QueryResult]
    ) -> None:
        """Compute it and print the rows."""
        place = self.graph.place()
        on_branch = place.branch(self.state.branch)
        with self._opened(operation, on_branch) as algorithms:
            result = call(algorithms, self._keywords())
        cli = place.settings.cli
        style = TableStyle(
            cli.table_max_column_width, cli.table_cell_layout, wants_color(sys.stdout)
        )
        output = result.output(branch=on_branch, snapshot=self.state.snapshot)
        wanted = self.wanted or cli.output_format
        sys.stdout.writelines(f"{line}\n" for line in lines(output, wanted, style))

    @contextmanager
    def _opened(self, operation: str, branch: str) -> Iterator[Algorithms]:
        place, at = self.graph.place(), self.state.snapshot
        with place.open(operation, local=True, read_only=self.write is None) as opened:
            graph = opened if self.write is None else place.as_writer(opened, self.actor)
            view = graph.branch(branch) if at is None else graph.at(at)
            yield view.algorithms

    def _keywords(self) -> dict[str, Any]:
        if self.write is None and (self.actor is not None or self.message is not None):
            raise UsageError(
                "--as and --message are of a commit", hint="write with --write PROPERTY"
            )
        return {**self.part, "write": self.write, "message": self.message}


def asked_algorithm(
    asked: OnGraph,
    state: OfState,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", help="Only nodes of this type; repeatable.", metavar="TYPE"),
    ] = None,
    edge: Annotated[
        list[str] | None,
        typer.Option("--edge", help="Only edges of this type; repeatable.", metavar="TYPE"),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option("--write", help="Make it this property, in one commit.", metavar="PROPERTY"),
    ] = None,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    format: FormatOption = None,
    limits: ReadLimits = None,
    json: JsonOption = False,
) -> AskedAlgorithm:
    """Return what every algorithm is asked with."""
    if json and format is not None:
        raise UsageError("--json and --format exclude each other")
    part = _part(node, edge, limits)
    return AskedAlgorithm(asked, state, part, write, as_actor, message, "json" if json else format)


def _part(
    nodes: Sequence[str] | None, edges: Sequence[str] | None, limits: Limits | None
) -> dict[str, Any]:
    return {"nodes": nodes or None, "edges": edges or None, "limits": limits}


OfAlgorithm = Annotated[AskedAlgorithm, Shared(asked_algorithm)]


@app.command()
@sharing
def degrees(*, asked: OfAlgorithm, along: AlongOption = "both") -> None:
    """Count the edges of every node.

    Example: `omnigraph algorithm degrees ./people.omni --edge Knows --along in`
    """
    asked.run("algorithm degrees", lambda on, how: on.degrees(along=_way(along), **how))


@app.command("connected-components")
@sharing
def connected_components(*, asked: OfAlgorithm) -> None:
    """Number the parts of the graph that no edge connects, and say which one every node is in.

    Example: `omnigraph algorithm connected-components ./people.omni --write group`
    """
    asked.run("algorithm connected-components", lambda on, how: on.connected_components(**how))


@app.command()
@sharing
def pagerank(
    *,
    asked: OfAlgorithm,
    damping: Annotated[
        float, typer.Option("--damping", help="How often an edge is followed.")
    ] = 0.85,
    max_iterations: Annotated[
        int, typer.Option("--max-iterations", help="Most rounds.", metavar="ROUNDS")
    ] = 200,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Done when a round moves less than this.")
    ] = 1e-9,
    along: AlongOption = "out",
    weight: WeightOption = None,
) -> None:
    """Rank nodes by how often somebody comes by who follows edges at random.

    Example: `omnigraph algorithm pagerank ./people.omni --edge Knows --write rank --as nightly`
    """
    asked.run(
        "algorithm pagerank",
        lambda on, how: on.pagerank(
            damping=damping,
            max_iterations=max_iterations,
            tolerance=tolerance,
            along=_way(along),
            weight=weight,
            **how,
        ),
    )


@app.command("shortest-path")
@sharing
def shortest_path(
    *,
    asked: OfAlgorithm,
    source: Annotated[
        tuple[str, str],
        typer.Option("--from", help="Type and id of the node it begins at.", metavar="TYPE ID"),
    ],
    to: Annotated[
        tuple[str, str] | None,
        typer.Option("--to", help="Those of its end; all distances without.", metavar="TYPE ID"),
    ] = None,
    along: AlongOption = "out",
    weight: WeightOption = None,
) -> None:
    """Find the shortest path between two nodes, or how far all others are from one.

    Example: `omnigraph algorithm shortest-path ./people.omni --from Person Ann --to Person Cid`
    """
    asked.run(
        "algorithm shortest-path",
        lambda on, how: on.shortest_path(source, to, along=_way(along), weight=weight, **how),
    )


def _way(text: str) -> Any:  # noqa: ANN401 - one of three words, which the algorithm checks
    return text

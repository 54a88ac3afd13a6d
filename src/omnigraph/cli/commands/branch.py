"""`omnigraph branch …`: create, list and delete branches."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.options import (
    ConfigOption,
    GraphArgument,
    JsonOption,
    TargetOption,
    UriOption,
)
from omnigraph.cli.output import say, say_json
from omnigraph.cli.target import Flags, locate, locate_named

app = typer.Typer(help="Create, list and delete branches.", no_args_is_help=True)

NameArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|URI", help="The branch, and the graph it is of.", show_default=False
    ),
]


@app.command()
def create(
    ctx: typer.Context,
    words: NameArgument,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Branch to start from; default: cli.branch, else main.", metavar="BRANCH"
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Start from this commit of that branch.", metavar="COMMIT"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create a branch from what another one is now, or was at a commit.

    Example: `omnigraph branch create --from main review/2026-04-25 ./people.omni`
    """
    place, name = locate_named(ctx, words, "a branch name", Flags(uri, target, config))
    origin = place.branch(source)
    with place.open("branch create", read_only=False) as graph:
        graph.branches.create(name, source=origin, at=at)
    if json:
        say_json({"uri": place.uri, "from": origin, "name": name, "actor_id": None})
    else:
        say(f"created branch {name} from {origin}")


@app.command("list")
def list_branches(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the branches of a graph, sorted.

    Example: `omnigraph branch list ./people.omni`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    with place.open("branch list") as opened:
        names = opened.branches.list()
    if json:
        say_json({"branches": names})
    else:
        say("\n".join(names))


@app.command()
def delete(
    ctx: typer.Context,
    words: NameArgument,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a branch; commits that other branches know stay.

    Example: `omnigraph branch delete review/2026-04-25 ./people.omni`
    """
    place, name = locate_named(ctx, words, "a branch name", Flags(uri, target, config))
    with place.open("branch delete", read_only=False) as graph:
        graph.branches.delete(name)
    if json:
        say_json({"uri": place.uri, "name": name, "actor_id": None})
    else:
        say(f"deleted branch {name}")

"""`omnigraph commit …`: the history of a graph."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

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
from omnigraph.config.settings import DEFAULT_BRANCH

if TYPE_CHECKING:
    from omnigraph.graph import GraphCommit

app = typer.Typer(help="Look at the history.", no_args_is_help=True)


@app.command("list")
def list_commits(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    branch: Annotated[
        str, typer.Option("--branch", "-b", help="Branch.", metavar="BRANCH")
    ] = DEFAULT_BRANCH,
    json: JsonOption = False,
) -> None:
    """List the commits of a branch, oldest first.

    Example: `omnigraph commit list ./people.omni --branch main`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    with place.open("commit list") as opened:
        commits = opened.commits.list(branch)
    if json:
        say_json({"commits": [_facts(commit) for commit in commits]})
        return
    for commit in commits:
        who = f" actor={commit.actor_id}" if commit.actor_id else ""
        where = commit.manifest_branch or DEFAULT_BRANCH
        say(f"{commit.graph_commit_id} branch={where} version={commit.manifest_version}{who}")


@app.command()
def show(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMIT|URI", help="The commit, and the graph it is of.", show_default=False
        ),
    ],
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show one commit of any branch.

    Example: `omnigraph commit show 01K0Z5C4QJ1M2N3P4R5S6T7V8W ./people.omni`
    """
    place, commit_id = locate_named(ctx, words, "a commit id", Flags(uri, target, config))
    with place.open("commit show") as graph:
        commit = graph.commits.get(commit_id)
    facts = _facts(commit)
    if json:
        say_json(facts)
        return
    facts["manifest_branch"] = commit.manifest_branch or DEFAULT_BRANCH
    for name, value in facts.items():
        if value is not None:
            say(f"{name}: {value}")


def _facts(commit: GraphCommit) -> dict[str, Any]:
    return dataclasses.asdict(commit)

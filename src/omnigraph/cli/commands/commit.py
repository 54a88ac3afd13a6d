"""`omnigraph commit …`: the history of a graph."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from omnigraph.api.history import CommitList, GraphCommit
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.cli.commit_graph import drawn
from omnigraph.cli.formats import CONTROLS
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import JsonOption, OneBranchOption
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.shared import sharing

app = Commands(help="Look at the history.")


@app.command("list")
@sharing
def list_commits(
    asked: OnGraph,
    branch: OneBranchOption = DEFAULT_BRANCH,
    limit: Annotated[
        int | None, typer.Option("--limit", "-l", help="No more than so many.", metavar="N", min=1)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="After a commit or tag, or from a date or time on.", metavar="WHEN"
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Only of this actor.", metavar="ACTOR")
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Also commits that only moved bytes, marked.")
    ] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="Oldest first.")] = False,
    draw: Annotated[
        bool, typer.Option("--graph", help="Draw the lines that merges brought together.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List the commits of a branch, newest first.

    Example: `omnigraph commit list ./people.omni --branch main --limit 20`
    """
    if draw and (reverse or json):
        raise UsageError("--graph draws newest first, for people: without --reverse and --json")
    place = asked.place()
    with place.open("commit list") as opened:
        commits = opened.commits.list(
            branch, limit=limit, since=since, actor=actor, all=all, reverse=reverse
        )
        lines = list(drawn(commits, opened.commits.get, commit_line)) if draw else ()
    if json:
        say_json(CommitList(tuple(commits)))
        return
    for line in lines or map(commit_line, commits):
        say(line)


def commit_line(commit: GraphCommit) -> str:
    """Return a commit as one line for people."""
    who = f" actor={commit.actor_id}" if commit.actor_id else ""
    where = commit.manifest_branch or DEFAULT_BRANCH
    made = datetime.fromtimestamp(commit.created_at / 1e6, UTC).isoformat(timespec="seconds")
    kind = " maintenance" if commit.maintenance else ""
    kind += " merge" if commit.merged_parent_commit_id else ""
    why = f" {commit.message}" if commit.message else ""
    version = commit.manifest_version
    line = f"{commit.graph_commit_id} branch={where} version={version}{who} at={made}{kind}{why}"
    return line.translate(CONTROLS)


@app.command()
@sharing
def show(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMIT|URI", help="The commit, and the graph it is of.", show_default=False
        ),
    ],
    asked: ByFlags,
    json: JsonOption = False,
) -> None:
    """Show one commit of any branch.

    Example: `omnigraph commit show 01K0Z5C4QJ1M2N3P4R5S6T7V8W ./people.omni`
    """
    place, commit_id = asked.named(words, "a commit id")
    with place.open("commit show") as graph:
        commit = graph.commits.get(commit_id)
    if json:
        say_json(commit)
        return
    facts = commit.to_json_value() | {"manifest_branch": commit.manifest_branch or DEFAULT_BRANCH}
    for name, value in facts.items():
        if value is not None:
            say(f"{name}: {value}".translate(CONTROLS))

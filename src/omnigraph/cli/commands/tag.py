"""`omnigraph tag …`: names for commits, which stay readable."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from omnigraph.api.merges import TagList
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.cli.formats import CONTROLS
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import ActorOption, BranchOption, JsonOption, MessageOption
from omnigraph.cli.output import say, say_json
from omnigraph.cli.shared import sharing

app = Commands(help="Name commits, list and delete the names.")

NameArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME|URI", help="The tag, and the graph it is of.", show_default=False),
]


@app.command()
@sharing
def create(
    *,
    words: NameArgument,
    asked: ByFlags,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Name this commit; default: the newest.", metavar="COMMIT"),
    ] = None,
    branch: BranchOption = None,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    json: JsonOption = False,
) -> None:
    """Name a commit; it stays readable, whatever becomes of its branch.

    Example: `omnigraph tag create v1.0 ./people.omni -m "as shipped"`
    """
    place, name = asked.named(words, "the name of a tag")
    on_branch = place.branch(branch)
    with place.open("tag create", read_only=False) as graph:
        made = graph.tags.create(
            name, at=at, branch=on_branch, actor=place.actor(as_actor), message=message
        )
    if json:
        say_json(made)
    else:
        say(f"tagged {made.graph_commit_id} as {name}")


@app.command("list")
@sharing
def list_tags(asked: OnGraph, json: JsonOption = False) -> None:
    """List the tags of a graph, sorted.

    Example: `omnigraph tag list ./people.omni`
    """
    with asked.place().open("tag list") as graph:
        found = graph.tags.list()
    if json:
        say_json(TagList(tuple(found)))
        return
    for tag in found:
        made = datetime.fromtimestamp(tag.created_at / 1e6, UTC).isoformat(timespec="seconds")
        who = f" actor={tag.actor_id}" if tag.actor_id else ""
        why = f" {tag.message}" if tag.message else ""
        branch = tag.branch or DEFAULT_BRANCH
        line = f"{tag.name} {tag.graph_commit_id} branch={branch} at={made}{who}{why}"
        say(line.translate(CONTROLS))


@app.command()
@sharing
def delete(*, words: NameArgument, asked: ByFlags, json: JsonOption = False) -> None:
    """Let go of a tag; what it alone kept goes with the next cleanup.

    Example: `omnigraph tag delete v1.0 ./people.omni`
    """
    place, name = asked.named(words, "the name of a tag")
    with place.open("tag delete", read_only=False) as graph:
        gone = [tag for tag in graph.tags.list() if tag.name == name]
        graph.tags.delete(name)
    if json:
        say_json(TagList(tuple(gone)))
    else:
        say(f"deleted tag {name}")

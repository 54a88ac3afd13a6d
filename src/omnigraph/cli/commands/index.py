"""`omnigraph index …`: how far the indexes cover the rows, and building them."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from omnigraph.api.upkeep import IndexList, IndexReport
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import ActorOption, BranchOption, JsonOption
from omnigraph.cli.output import say, say_json
from omnigraph.cli.shared import sharing

app = typer.Typer(help="Show and build the indexes a schema asks for.", no_args_is_help=True)


@app.command("list")
@sharing
def list_indexes(
    asked: OnGraph,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Show every index the schema asks for, and how many rows are looked for without it.

    Example: `omnigraph index list ./people.omni`
    """
    place = asked.place()
    with place.open("index list") as opened:
        found = opened.indices(place.branch(branch))
    _show(place.uri, found, json=json)


@app.command()
@sharing
def build(
    asked: OnGraph,
    branch: BranchOption = None,
    as_actor: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Build the indexes that are missing, and what others do not cover.

    Answers are the same before and after. What cannot be built yet is pending and says why.

    Example: `omnigraph index build ./people.omni`
    """
    place = asked.place()
    with place.open("index build", read_only=False) as opened:
        graph = place.as_writer(opened, as_actor)
        done = graph.ensure_indices(place.branch(branch))
    _show(place.uri, done, json=json)


def _show(uri: str, found: Sequence[IndexReport], *, json: bool) -> None:
    if json:
        say_json(IndexList(uri, tuple(found)))
        return
    for one in found:
        covered = f"{one.rows - one.unindexed_rows} of {one.rows} rows"
        why = "" if one.reason is None else f": {one.reason}"
        say(f"{one.table_key}.{one.column} {one.kind} {one.status.value}, {covered}{why}")
    if not found:
        say("the schema asks for no index")

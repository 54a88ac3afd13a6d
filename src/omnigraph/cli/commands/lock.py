"""`omnigraph lock …`: who is writing, and freeing what a dead writer holds."""

from __future__ import annotations

from datetime import UTC, datetime
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

if TYPE_CHECKING:
    from omnigraph.storage.holders import Holder

app = typer.Typer(help="Show and break locks.", no_args_is_help=True)


@app.command()
def show(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show every lock that is held now, and by whom.

    Example: `omnigraph lock show ./people.omni`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    with place.open("lock show") as opened:
        holders = opened.store.locks()
    if json:
        say_json({"locks": [_facts(holder) for holder in holders]})
        return
    for holder in holders:
        say(f"{holder.name} held by {holder} since {_moment(holder.since_us)}")
    if not holders:
        say("no locks are held")


@app.command("break")
def break_lock(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="LOCK|URI",
            help="The lock as `lock show` names it, and its graph.",
            show_default=False,
        ),
    ],
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Take a lock away from a writer that is gone.

    On disk a lock dies with its process and a living holder is left alone; on an object store
    the holder finds out and stops, so be sure that it is gone.

    Example: `omnigraph lock break branch:main ./people.omni`
    """
    place, name = locate_named(ctx, words, "a lock name", Flags(uri, target, config))
    with place.open("lock break") as graph:
        holder = graph.store.break_lock(name)
    if json:
        held = None if holder is None else _facts(holder)
        say_json({"name": name, "broken": holder is not None, "holder": held})
    elif holder is None:
        say(f"lock {name} is not held")
    else:
        say(f"broke lock {name}, held by {holder} since {_moment(holder.since_us)}")


def _facts(holder: Holder) -> dict[str, Any]:
    return {
        "name": holder.name,
        "operation": holder.operation,
        "pid": holder.pid,
        "host": holder.host,
        "since": holder.since_us,
    }


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

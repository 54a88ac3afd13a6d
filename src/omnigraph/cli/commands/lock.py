"""`omnigraph lock …`: who is writing, and freeing what a dead writer holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from omnigraph.api.upkeep import LockBroken, LockList
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import JsonOption
from omnigraph.cli.output import say, say_json
from omnigraph.cli.shared import sharing

app = Commands(help="Show and break locks.")


@app.command()
@sharing
def show(
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """Show every lock that is held now, and by whom.

    Example: `omnigraph lock show ./people.omni`
    """
    place = asked.place()
    with place.open("lock show", local=True) as opened:
        holders = opened.locks()
    if json:
        say_json(LockList(tuple(holders)))
        return
    for holder in holders:
        say(f"{holder.name} held by {holder} since {_moment(holder.since)}")
    if not holders:
        say("no locks are held")


@app.command("break")
@sharing
def break_lock(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="LOCK|URI",
            help="The lock as `lock show` names it, and its graph.",
            show_default=False,
        ),
    ],
    asked: ByFlags,
    json: JsonOption = False,
) -> None:
    """Take a lock away from a writer that is gone.

    On disk a lock dies with its process and a living holder is left alone; on an object store
    the holder finds out and stops, so be sure that it is gone.

    Example: `omnigraph lock break branch:main ./people.omni`
    """
    place, name = asked.named(words, "a lock name")
    with place.open("lock break", local=True) as graph:
        holder = graph.break_lock(name)
    if json:
        say_json(LockBroken(name, holder))
    elif holder is None:
        say(f"lock {name} is not held")
    else:
        say(f"broke lock {name}, held by {holder} since {_moment(holder.since)}")


def _moment(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

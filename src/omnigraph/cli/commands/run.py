"""`omnigraph run …`: runs that programs began, looked at and ended from outside."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from omnigraph.api.runs import Run, RunList
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import ActorOption, JsonOption, MessageOption
from omnigraph.cli.output import say, say_json
from omnigraph.cli.shared import sharing

app = Commands(help="List runs, publish or abort them.")

RunArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN|URI", help="The run, and the graph it is of.", show_default=False),
]
_WHAT = "the id of a run"


@app.command("list")
@sharing
def list_runs(asked: OnGraph, json: JsonOption = False) -> None:
    """List the runs of a graph, oldest first.

    Example: `omnigraph run list ./people.omni`
    """
    with asked.place().open("run list") as graph:
        found = graph.runs.list()
    if json:
        say_json(RunList(tuple(found)))
        return
    for run in found:
        say(_line(run))


@app.command()
@sharing
def show(*, words: RunArgument, asked: ByFlags, json: JsonOption = False) -> None:
    """Show one run.

    Example: `omnigraph run show 01KP2Y8Z3V9Q6W4T7R5N1M0XBC ./people.omni`
    """
    place, run_id = asked.named(words, _WHAT)
    with place.open("run show") as graph:
        _tell(graph.runs.get(run_id), json=json)


@app.command()
@sharing
def publish(
    *,
    words: RunArgument,
    asked: ByFlags,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    json: JsonOption = False,
) -> None:
    """Merge what a run wrote into its target.

    Example: `omnigraph run publish 01KP2Y8Z3V9Q6W4T7R5N1M0XBC ./people.omni`
    """
    place, run_id = asked.named(words, _WHAT)
    with place.open("run publish", read_only=False) as graph:
        by = place.actor(as_actor)
        _tell(graph.runs.publish(run_id, actor=by, message=message), json=json)


@app.command()
@sharing
def abort(*, words: RunArgument, asked: ByFlags, json: JsonOption = False) -> None:
    """Give up what a run wrote.

    Example: `omnigraph run abort 01KP2Y8Z3V9Q6W4T7R5N1M0XBC ./people.omni`
    """
    place, run_id = asked.named(words, _WHAT)
    with place.open("run abort", read_only=False) as graph:
        _tell(graph.runs.abort(run_id), json=json)


def _tell(run: Run, *, json: bool) -> None:
    if json:
        say_json(run)
    else:
        say(_line(run))


def _line(run: Run) -> str:
    begun = datetime.fromtimestamp(run.created_at / 1e6, UTC).isoformat(timespec="seconds")
    more = {
        "base": run.base_snapshot_id,
        "published": run.published_snapshot_id,
        "hash": run.operation_hash,
        "actor": run.actor_id,
    }
    facts = "".join(f" {name}={value}" for name, value in more.items() if value is not None)
    return f"{run.run_id} {run.status} target={run.target_branch} at={begun}{facts}"

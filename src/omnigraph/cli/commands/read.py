"""`omnigraph read` and `omnigraph change`: run one query of a file, a text or an alias."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.api.writes import MutationResult
from omnigraph.cli.formats import TableStyle, lines
from omnigraph.cli.given import OfQuery, OfState, ReadLimits
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    FormatOption,
    IdempotencyOption,
    JsonOption,
    MaxMemoryOption,
    MaxSecondsOption,
    MessageOption,
    PreviewOption,
    limits_of,
)
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.request import Request
from omnigraph.cli.shared import sharing
from omnigraph.config.environment import wants_color
from omnigraph.config.settings import OutputFormat


@sharing
def read(
    *,
    asked: OfQuery,
    state: OfState,
    format: FormatOption = None,
    limits: ReadLimits,
    json: JsonOption = False,
) -> None:
    """Run a read query and print its rows.

    Example: `omnigraph read ./people.omni -q people.gq -n adults -p min=30 --format csv`
    """
    if json and format is not None:
        raise UsageError("--json and --format exclude each other")
    request = asked.request("read")
    wanted = "json" if json else chosen_format(request, format)
    on_branch = request.branch(state.branch)
    with request.place.open("read") as graph:
        result = graph.query(
            request.source,
            request.name,
            request.params,
            branch=on_branch,
            at=state.snapshot,
            limits=limits,
        )
    output = result.output(branch=on_branch, snapshot=state.snapshot)
    style = table_style(request)
    sys.stdout.writelines(f"{line}\n" for line in lines(output, wanted, style))


def chosen_format(request: Request, given: OutputFormat | None) -> OutputFormat:
    """Return the layout: flag, alias, configuration."""
    of_alias = request.alias.format if request.alias else None
    return given or of_alias or request.place.settings.cli.output_format


def table_style(request: Request) -> TableStyle:
    """Return how tables look here."""
    cli = request.place.settings.cli
    return TableStyle(cli.table_max_column_width, cli.table_cell_layout, wants_color(sys.stdout))


@sharing
def change(
    *,
    asked: OfQuery,
    branch: BranchOption = None,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    if_commit: Annotated[
        str | None,
        typer.Option(
            "--if-commit",
            help="Write only if the branch is still at this commit.",
            metavar="COMMIT",
        ),
    ] = None,
    idempotency_key: IdempotencyOption = None,
    preview: PreviewOption = False,
    max_seconds: MaxSecondsOption = None,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Run a mutation: all of its statements as one commit, or none.

    Example: `omnigraph change ./people.omni -q people.gq -n add_person -p name=Ann -p age=41`
    """
    limits = limits_of(max_seconds, max_memory)
    request = asked.request("change")
    on_branch = request.branch(branch)
    who = request.place.actor(as_actor)
    with request.place.open("change", read_only=False) as graph:
        done = graph.mutate(
            request.source,
            request.name,
            request.params,
            branch=on_branch,
            actor=who,
            message=message,
            if_head=if_commit,
            idempotency_key=idempotency_key,
            preview=preview,
            limits=limits,
        )
    if json:
        say_json(done)
        return
    say_changed(done, preview=preview)


def say_changed(done: MutationResult, *, preview: bool) -> None:
    """Tell what a mutation did, or would do."""
    counts = f"{done.affected_nodes} nodes, {done.affected_edges} edges"
    verb = "would change" if preview else "changed"
    say(f"{verb} {done.branch} via {done.query_name}: {counts}")
    if done.actor_id is not None:
        say(f"actor_id: {done.actor_id}")

"""`omnigraph shell`: type queries, see rows."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.formats import TableStyle
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import ActorOption, BranchOption, FormatOption, JsonOption
from omnigraph.cli.output import UsageError, say, warn
from omnigraph.cli.shared import sharing
from omnigraph.config.environment import history_file, wants_color


@sharing
def shell(
    asked: OnGraph,
    branch: BranchOption = None,
    format: FormatOption = None,
    as_actor: ActorOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse mutations.")] = False,
    json: JsonOption = False,
) -> None:
    r"""Type queries against a graph, with completion from its schema; `\help` lists commands.

    From a pipe, statements run one after another and the first mistake ends the run.

    Example: `omnigraph shell ./people.omni --branch main`
    """
    if json and format is not None:
        raise UsageError("--json and --format exclude each other")
    place = asked.place()
    settings = place.settings
    with place.open("shell", read_only=read_only) as opened:
        from omnigraph.cli.shell.loop import is_terminal, run_interactive, run_piped
        from omnigraph.cli.shell.session import Session

        cli = settings.cli
        on_branch = place.branch(branch)
        opened.snapshot(on_branch)  # a branch that does not exist is told before the first query
        session = Session(
            opened,
            on_branch,
            say,
            warn,
            "json" if json else format or cli.output_format,
            TableStyle(cli.table_max_column_width, cli.table_cell_layout, wants_color(sys.stdout)),
            place.actor(as_actor),
        )
        if is_terminal():
            name = place.uri.rstrip("/").rpartition("/")[2].removesuffix(".omni")
            run_interactive(session, name, history_file(settings.environment))
        else:
            run_piped(session, sys.stdin)

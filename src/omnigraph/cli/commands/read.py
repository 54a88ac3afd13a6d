"""`omnigraph read` and `omnigraph change`: run one query of a file, a text or an alias."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from omnigraph.cli.formats import ReadOutput, TableStyle, lines
from omnigraph.cli.options import (
    ActorOption,
    AliasOption,
    BranchOption,
    ConfigOption,
    JsonOption,
    MaybeQueryOption,
    NameOption,
    ParamOption,
    ParamsFileOption,
    ParamsOption,
    QueryStringOption,
    TargetOption,
    UriOption,
)
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.request import QueryFlags, Request, build_request
from omnigraph.cli.target import Flags
from omnigraph.config.environment import actor, wants_color
from omnigraph.config.settings import OutputFormat

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URI|ARG",
        help="The graph, then the alias's arguments.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    OutputFormat | None,
    typer.Option("--format", "-f", help="Layout; default: the alias's, cli.output_format, table."),
]
SnapshotOption = Annotated[
    str | None,
    typer.Option("--snapshot", help="Read the past: a commit id.", metavar="COMMIT"),
]


def read(
    ctx: typer.Context,
    words: Words = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    query: MaybeQueryOption = None,
    query_string: QueryStringOption = None,
    alias: AliasOption = None,
    name: NameOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    param: ParamOption = None,
    branch: BranchOption = None,
    snapshot: SnapshotOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Run a read query and print its rows.

    Example: `omnigraph read ./people.omni -q people.gq -n adults -p min=30 --format csv`
    """
    if branch is not None and snapshot is not None:
        raise UsageError("--branch and --snapshot exclude each other")
    if json and format is not None:
        raise UsageError("--json and --format exclude each other")
    asked = QueryFlags(query, query_string, alias, name, params, params_file, param or ())
    request = build_request(ctx, "read", words or (), Flags(uri, target, config), asked)
    wanted = "json" if json else chosen_format(request, format)
    on_branch = request.branch(branch)
    with request.place.open("read") as graph:
        result = graph.query(
            request.source, request.name, request.params, branch=on_branch, at=snapshot
        )
    output = ReadOutput(
        result.query_name,
        on_branch if snapshot is None else None,
        snapshot,
        result.columns,
        result.to_json_rows(),
    )
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


def change(
    ctx: typer.Context,
    words: Words = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    query: MaybeQueryOption = None,
    query_string: QueryStringOption = None,
    alias: AliasOption = None,
    name: NameOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    param: ParamOption = None,
    branch: BranchOption = None,
    as_actor: ActorOption = None,
    if_commit: Annotated[
        str | None,
        typer.Option(
            "--if-commit",
            help="Write only if the branch is still at this commit.",
            metavar="COMMIT",
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            help="Repeating the request under its key writes once.",
            metavar="KEY",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a mutation: all of its statements as one commit, or none.

    Example: `omnigraph change ./people.omni -q people.gq -n add_person -p name=Ann -p age=41`
    """
    asked = QueryFlags(query, query_string, alias, name, params, params_file, param or ())
    request = build_request(ctx, "change", words or (), Flags(uri, target, config), asked)
    on_branch = request.branch(branch)
    who = as_actor or actor(request.place.settings.environment)
    with request.place.open("change", read_only=False) as graph:
        done = graph.mutate(
            request.source,
            request.name,
            request.params,
            branch=on_branch,
            actor=who,
            if_head=if_commit,
            idempotency_key=idempotency_key,
        )
    facts: dict[str, Any] = {
        "branch": on_branch,
        "query_name": request.name,
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "actor_id": who,
        "commit_id": done.commit_id,
        "replayed": done.replayed,
    }
    if json:
        say_json(facts)
        return
    counts = f"{done.affected_nodes} nodes, {done.affected_edges} edges"
    say(f"changed {on_branch} via {request.name}: {counts}")
    if who is not None:
        say(f"actor_id: {who}")

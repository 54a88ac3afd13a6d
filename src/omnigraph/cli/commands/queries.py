"""`omnigraph queries …`: queries that are called by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.api.stored import StoredQuery, StoredQueryList
from omnigraph.api.writes import MutationResult
from omnigraph.cli.commands.read import say_changed
from omnigraph.cli.formats import CONTROLS, TableStyle, lines
from omnigraph.cli.given import ByFlags, OfState, OnGraph, ReadLimits
from omnigraph.cli.names import Commands
from omnigraph.cli.options import (
    ActorOption,
    FormatOption,
    IdempotencyOption,
    JsonOption,
    MessageOption,
    ParamOption,
    ParamsFileOption,
    ParamsOption,
    PreviewOption,
)
from omnigraph.cli.output import EXIT_FAILURE, UsageError, say, say_json, warn
from omnigraph.cli.request import given_params, json_or_text
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.config.environment import wants_color

if TYPE_CHECKING:
    from omnigraph.api.query import QueryResult
    from omnigraph.graph import Graph

app = Commands(help="Queries that are called by name: list, show and run them.")

_TEXTS = ("string", "date", "datetime", "blob")

NameArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|URI", help="The stored query, and the graph it is of.", show_default=False
    ),
]


@app.command("list")
@sharing
def list_queries(asked: OnGraph, json: JsonOption = False) -> None:
    """List the stored queries of a graph: those that `queries.files` names.

    Example: `omnigraph queries list ./people.omni`
    """
    with asked.place().open("queries list") as graph:
        found = graph.queries.list()
    if json:
        say_json(StoredQueryList(tuple(found)))
        return
    for one in found:
        kind = "write" if one.mutation else "read"
        told = f"  {one.description}" if one.description else ""
        say(f"{kind:5} {one.signature}{told}".translate(CONTROLS))


@app.command()
@sharing
def check(asked: OnGraph, json: JsonOption = False) -> None:
    """Check the stored queries of a graph against the schema of main, as a server does.

    Exits with 1 if one of them is wrong.

    Example: `omnigraph queries check ./company.omni`
    """
    with asked.place().open("queries check", local=True) as graph:
        found = graph.check_queries()
    if json:
        say_json(found)
    else:
        for one in found.broken:
            warn(f"error: {one.error}")
        say(f"{found.queries} stored queries, {len(found.broken)} of them wrong")
    if found.broken:
        raise typer.Exit(EXIT_FAILURE)


@app.command()
@sharing
def show(*, words: NameArgument, asked: ByFlags, json: JsonOption = False) -> None:
    """Show what a stored query takes and does.

    Example: `omnigraph queries show colleagues ./company.omni`
    """
    place, name = asked.named(words, "the name of a stored query")
    with place.open("queries show") as graph:
        found = graph.queries.get(name)
    if json:
        say_json(found)
        return
    say(f"{'write' if found.mutation else 'read'} {found.signature}")
    for label, text in (("description", found.description), ("instruction", found.instruction)):
        if text:
            say(f"{label}: {text}".translate(CONTROLS))
    say(f"tool: {found.tool_name if found.exposed else 'none'}")


@app.command()
@sharing
def run(
    *,
    words: NameArgument,
    asked: ByFlags,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    param: ParamOption = None,
    state: OfState,
    format: FormatOption = None,
    limits: ReadLimits,
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
    json: JsonOption = False,
) -> None:
    """Run a stored query: print the rows of a read, or do a write.

    Example: `omnigraph queries run colleagues ./company.omni -p handle=mira`
    """
    if json and format is not None:
        raise UsageError("--json and --format exclude each other")
    place, name = asked.named(words, "the name of a stored query")
    branch = place.branch(state.branch)
    with place.open("queries run") as graph:
        stored = graph.queries.get(name)
        values = _values(stored, params, params_file, param or ())
        how: dict[str, Any] = {
            "message": message,
            "if_head": if_commit,
            "idempotency_key": idempotency_key,
            "preview": preview,
            "limits": limits,
        }
        if not stored.mutation:
            found = graph.queries.run(name, values, branch=branch, at=state.snapshot, **how)
            wanted = "json" if json else format or place.settings.cli.output_format
            _say_rows(place, found, branch, state.snapshot, wanted)
            return
    if state.snapshot is not None:
        raise UsageError(f"{name} writes, which is of a branch", hint="leave --snapshot out")
    how["actor"] = place.actor(as_actor)
    with place.open("queries run", read_only=False) as graph:
        done = _written(graph, name, values, branch, how)
    if json:
        say_json(done)
    else:
        say_changed(done, preview=preview)


def _written(
    graph: Graph, name: str, values: Mapping[str, Any], branch: str, how: Mapping[str, Any]
) -> MutationResult:
    done = graph.queries.run(name, values, branch=branch, **how)
    assert isinstance(done, MutationResult), "it was a write a moment ago"
    return done


def _say_rows(
    place: Place,
    found: QueryResult | MutationResult,
    branch: str,
    snapshot: str | None,
    wanted: Any,  # noqa: ANN401 - one of the layouts
) -> None:
    assert not isinstance(found, MutationResult), "it was a read a moment ago"
    output = found.output(branch=branch, snapshot=snapshot)
    cli = place.settings.cli
    style = TableStyle(cli.table_max_column_width, cli.table_cell_layout, wants_color(sys.stdout))
    sys.stdout.writelines(f"{line}\n" for line in lines(output, wanted, style))


def _values(
    stored: StoredQuery, text: str | None, file: Path | None, single: Sequence[str]
) -> dict[str, Any]:
    """Return the parameters; what a text parameter is given stays text."""
    if text is not None and file is not None:
        raise UsageError("--params and --params-file exclude each other")
    texts = {one.name for one in stored.params if one.kind in _TEXTS}
    found = dict(given_params(text, file))
    for one in single:
        name, equals, word = one.removeprefix("$").partition("=")
        if not equals or not name:
            raise UsageError(f"--param {one} is not NAME=VALUE")
        value = json_or_text(word)
        keeps = name in texts and value is not None and not isinstance(value, str)
        found[name] = word if keeps else value
    return found

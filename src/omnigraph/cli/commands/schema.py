"""`omnigraph schema …`: check and draft schema files, show a graph's schema, plan its change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.api.texts import SchemaCheck, SchemaDraft, SchemaText
from omnigraph.cli.files import read_source
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import JsonOption, SchemaOption
from omnigraph.cli.output import EXIT_FAILURE, complain, say, say_json, warn
from omnigraph.cli.shared import sharing
from omnigraph.errors import BadRequestError, StorageError

app = typer.Typer(help="Check, draft, show and plan schemas.", no_args_is_help=True)


@app.command()
def check(schema: SchemaOption, json: JsonOption = False) -> None:
    """Parse and check a schema file; every error is shown with its place.

    Exits with 1 when the schema has errors.

    Example: `omnigraph schema check --schema company.pg`
    """
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.compiler.diagnostics import DiagnosticsError

    try:
        loaded = load_schema(read_source(schema, "schema"))
    except DiagnosticsError as error:
        if json:
            say_json(SchemaCheck("error", str(schema), findings=tuple(error.to_json())))
        else:
            complain(error)
        raise typer.Exit(EXIT_FAILURE) from None
    catalog = loaded.catalog
    interfaces, nodes, edges = len(catalog.interfaces), len(catalog.nodes), len(catalog.edges)
    if json:
        say_json(SchemaCheck("ok", str(schema), interfaces, nodes, edges, catalog.schema_hash))
    else:
        say(f"OK    {schema}: {interfaces} interfaces, {nodes} nodes, {edges} edges")


@app.command("get")
@app.command("show")
@sharing
def show(
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """Print the accepted schema of a graph.

    Example: `omnigraph schema get ./people.omni`
    """
    place = asked.place()
    with place.open("schema show") as opened:
        text = opened.schema
    if json:
        say_json(SchemaText(text))
    else:
        say(text.removesuffix("\n"))


@app.command()
def infer(
    files: Annotated[
        list[Path], typer.Argument(help="CSV, Parquet, Arrow or JSON lines.", metavar="FILE…")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the schema here; must not exist."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", help="Rows of each file to look at.", min=1)
    ] = 100_000,
    json: JsonOption = False,
) -> None:
    """Draft a schema that the rows of some files fit.

    A table has rows of one type, named like the file; its columns `from` and `to` make it an edge.
    What the draft cannot say is said on stderr and as comments.

    Example: `omnigraph schema infer people.csv knows.parquet --output company.pg`
    """
    from omnigraph.pipeline.infer.draft import infer_schema

    draft = infer_schema(files, sample)
    if output is not None:
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(draft.text)
        except FileExistsError:
            raise BadRequestError(f"'{output}' exists", hint="choose another name") from None
        except OSError as error:
            raise StorageError(f"cannot write '{output}': {error.strerror}") from error
    if json:
        written = None if output is None else str(output)
        say_json(
            SchemaDraft(draft.text, written, draft.rows, draft.nodes, draft.edges, draft.notes)
        )
        return
    if output is None:
        say(draft.text.rstrip("\n"))
    else:
        say(f"drafted {output}: {len(draft.nodes)} nodes, {len(draft.edges)} edges")
    for note in draft.notes:
        warn(f"note: {note}")


@app.command()
@sharing
def plan(
    *,
    schema: SchemaOption,
    asked: OnGraph,
    allow_data_loss: Annotated[
        bool,
        typer.Option(
            "--allow-data-loss", help="Plan drops and wider enums instead of refusing them."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the steps from a graph's schema to a new one; nothing is changed.

    Exits with 0 even when a step is not supported: that is an answer, too.

    Example: `omnigraph schema plan --schema next.pg ./people.omni`
    """
    place = asked.place()
    source = read_source(schema, "schema")
    with place.open("schema plan", local=True) as opened:
        found = opened.plan_schema(source, allow_data_loss=allow_data_loss)
    if json:
        say_json(place.named(found))
        return
    say(f"schema plan for {place.uri}\nsupported: {'yes' if found.supported else 'no'}")
    for step in found.steps:
        say(f"- {step.text}")
        if step.hint is not None:
            say(f"  hint: {step.hint}")
    if not found.steps:
        say("no schema changes")

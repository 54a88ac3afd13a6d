"""`omnigraph query …`: lint query files against a schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.commands.schema import JsonOption, SchemaOption
from omnigraph.cli.files import read_source
from omnigraph.cli.output import EXIT_FAILURE, say, say_json, warn
from omnigraph.config.environment import wants_color

app = typer.Typer(help="Check queries.", no_args_is_help=True)

QueryOption = Annotated[
    Path, typer.Option("--query", "-q", help="Query file (.gq); `-` is stdin.", show_default=False)
]


@app.command("lint")
@app.command("check")
def lint(query: QueryOption, schema: SchemaOption, json: JsonOption = False) -> None:
    """Parse, type-check and lint every query of a file against a schema.

    Exits with 1 only when there are errors; warnings are shown and pass.

    Example: `omnigraph query lint --query people.gq --schema company.pg`
    """
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.compiler.diagnostics import render
    from omnigraph.compiler.query.lint import SchemaSource, lint_queries

    catalog = load_schema(read_source(schema, "schema")).catalog
    source = read_source(query, "query")
    result = lint_queries(catalog, source, str(query), SchemaSource.file(str(schema)))
    if json:
        say_json(result.to_json())
    else:
        color = wants_color(sys.stderr)
        for found in result.diagnostics:
            warn(render(source, found, color=color) + "\n")
        say("\n".join(result.lines()))
    if result.status == "error":
        raise typer.Exit(EXIT_FAILURE)

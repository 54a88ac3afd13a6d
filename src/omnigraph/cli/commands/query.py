"""`omnigraph query …`: lint query files against a schema file or a graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from omnigraph.cli.files import STDIN, read_source
from omnigraph.cli.given import OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import JsonOption, MaybeSchemaOption, QueryOption
from omnigraph.cli.output import EXIT_FAILURE, say, say_json, warn
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.config.environment import wants_color
from omnigraph.config.settings import Settings
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.compiler.catalog.model import Catalog
    from omnigraph.compiler.query.lint import SchemaSource

app = Commands(help="Check queries.")


@app.command("lint")
@app.command("check")
@sharing
def lint(
    *,
    query: QueryOption,
    asked: OnGraph,
    schema: MaybeSchemaOption = None,
    json: JsonOption = False,
) -> None:
    """Parse, type-check and lint every query of a file against a schema file or a graph.

    Exits with 1 only when there are errors; warnings are shown and pass.

    Example: `omnigraph query lint --query people.gq --schema company.pg`
    """
    from omnigraph.compiler.diagnostics import render
    from omnigraph.compiler.query.lint import lint_queries

    settings = asked.settings()
    address = asked.find_uri(settings)
    catalog, origin = _catalog_of(settings, schema, address)
    path = STDIN if Path(query) == STDIN else settings.find_query_file(query)
    source = read_source(path, "query")
    shown = path if path == STDIN else Path(path).absolute()
    result = lint_queries(catalog, source, str(shown), origin)
    if json:
        say_json(result)
    else:
        color = wants_color(sys.stderr)
        for found in result.diagnostics:
            warn(render(source, found, color=color) + "\n")
        say("\n".join(result.lines()))
    if result.status == "error":
        raise typer.Exit(EXIT_FAILURE)


def _catalog_of(
    settings: Settings, schema: Path | None, uri: str | None
) -> tuple[Catalog, SchemaSource]:
    """Return the meaning of a schema file or, without one, of a graph's schema."""
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.compiler.query.lint import SchemaSource

    if schema is not None:
        loaded = load_schema(read_source(schema, "schema"))
        return loaded.catalog, SchemaSource.file(str(schema.absolute()))
    address = require_uri(uri, "query lint")
    with Place(settings, address).open("query lint", local=True) as graph:
        return graph.catalog, SchemaSource.repo(address)


def require_uri(uri: str | None, operation: str) -> str:
    """Return the graph whose schema stands in for a schema file.

    Raises:
        BadRequestError: neither is given.
    """
    if uri is None:
        raise BadRequestError(
            f"{operation} requires --schema <schema.pg> or a resolvable repo target",
            hint="pass a schema file, or a graph",
        )
    return uri

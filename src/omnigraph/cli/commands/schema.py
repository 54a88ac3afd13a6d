"""`omnigraph schema …`: check schema files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_source
from omnigraph.cli.output import EXIT_FAILURE, complain, say, say_json

app = typer.Typer(help="Check schemas.", no_args_is_help=True)

SchemaOption = Annotated[
    Path,
    typer.Option("--schema", "-s", help="Schema file (.pg); `-` is stdin.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]


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
            say_json(_report(schema, "error", {}, error.to_json()))
        else:
            complain(error)
        raise typer.Exit(EXIT_FAILURE) from None
    catalog = loaded.catalog
    counts = {
        "interfaces": len(catalog.interfaces),
        "nodes": len(catalog.nodes),
        "edges": len(catalog.edges),
    }
    if json:
        say_json(_report(schema, "ok", counts | {"schema_hash": catalog.schema_hash}, []))
    else:
        numbers = ", ".join(f"{number} {what}" for what, number in counts.items())
        say(f"OK    {schema}: {numbers}")


def _report(
    path: Path, status: str, facts: dict[str, Any], findings: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"status": status, "schema_path": str(path), **facts, "findings": findings}

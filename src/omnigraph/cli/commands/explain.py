"""`omnigraph explain`: show what queries compile to."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.commands.query import QueryOption
from omnigraph.cli.commands.schema import JsonOption, SchemaOption
from omnigraph.cli.files import read_source
from omnigraph.cli.output import say, say_json


def explain(
    query: QueryOption,
    schema: SchemaOption,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Only this query; default: all of the file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the operators that the queries of a file compile to.

    Example: `omnigraph explain --query people.gq --schema company.pg --name colleagues`
    """
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.compiler.compile import compile_file, compile_query
    from omnigraph.compiler.ir.explain import explain_query

    catalog = load_schema(read_source(schema, "schema")).catalog
    source = read_source(query, "query")
    if name is None:
        compiled = compile_file(catalog, source)
    else:
        compiled = (compile_query(catalog, source, name),)
    plans = {one.name: explain_query(one.ir) for one in compiled}
    if json:
        say_json({"queries": [{"name": name, "plan": plan} for name, plan in plans.items()]})
    else:
        say("\n\n".join(plan.rstrip("\n") for plan in plans.values()))

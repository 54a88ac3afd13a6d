"""`omnigraph explain` and `omnigraph profile`: what queries compile to, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.api.texts import QueryPlan, QueryPlans
from omnigraph.cli.commands.query import require_uri
from omnigraph.cli.files import read_source
from omnigraph.cli.given import OfQuery, OfState, OnGraph, ReadLimits
from omnigraph.cli.options import (
    BranchOption,
    JsonOption,
    MaybeQueryOption,
    MaybeSchemaOption,
    NameOption,
    QueryStringOption,
)
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.request import query_source
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.compiler.query.bare import framed

if TYPE_CHECKING:
    from omnigraph.compiler.source import Source
    from omnigraph.graph import Profile


@sharing
def explain(
    asked: OnGraph,
    query: MaybeQueryOption = None,
    query_string: QueryStringOption = None,
    schema: MaybeSchemaOption = None,
    name: NameOption = None,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Show the operators that the queries of a file compile to; without --name, all of them.

    Example: `omnigraph explain --query people.gq --schema company.pg --name colleagues`
    """
    if (query is None) == (query_string is None):
        raise UsageError("exactly one of --query or --query-string must be provided")
    settings = asked.settings()
    address = asked.find_uri(settings)
    source = framed(query_source(settings, query, query_string))
    if schema is not None:
        plans = _plans_by_file(source, schema, name)
    else:
        place = Place(settings, require_uri(address, "explain"))
        plans = _plans_by_graph(place, source, name, place.branch(branch))
    if json:
        say_json(QueryPlans(tuple(QueryPlan(name, plan) for name, plan in plans.items())))
    else:
        say("\n\n".join(plan.rstrip("\n") for plan in plans.values()))


def _plans_by_file(source: Source, schema: Path, name: str | None) -> dict[str, str]:
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.compiler.compile import compile_file, compile_query, plan_by_schema
    from omnigraph.compiler.ir.explain import explain_query

    catalog = load_schema(read_source(schema, "schema")).catalog
    compiled = (
        compile_file(catalog, source) if name is None else (compile_query(catalog, source, name),)
    )
    return {one.name: explain_query(plan_by_schema(catalog, one)) for one in compiled}


def _plans_by_graph(place: Place, source: Source, name: str | None, branch: str) -> dict[str, str]:
    """Return the plans as the graph would run them now; they depend on the sizes of its tables."""
    from omnigraph.compiler.compile import parse_once

    with place.open("explain") as graph:
        names = [query.name for query in parse_once(source).queries] if name is None else [name]
        return {one: graph.explain(source, one, branch=branch) for one in names}


@sharing
def profile(
    *,
    asked: OfQuery,
    state: OfState,
    limits: ReadLimits,
    json: JsonOption = False,
) -> None:
    """Run a read query and show rows and milliseconds of every operator instead of its rows.

    A command starts cold: the first operator that touches a table also pays for loading it.

    Example: `omnigraph profile ./people.omni -q people.gq -n adults -p min=30`
    """
    request = asked.request("read")
    on_branch = request.branch(state.branch)
    with request.place.open("profile") as opened:
        found = opened.profile(
            request.source,
            request.name,
            request.params,
            branch=on_branch,
            at=state.snapshot,
            limits=limits,
        )
    if json:
        say_json(found)
    else:
        say(profile_text(found))


def profile_text(found: Profile) -> str:
    """Return a profile as a table: rows and milliseconds in front, operators indented behind."""
    expected = ["" if step.expected is None else f"{step.expected:.0f}" for step in found.steps]
    rows = max([len(str(step.rows)) for step in found.steps] + [len("rows")])
    about = max([len(one) for one in expected] + [len("expected")])
    lines = [f"{'rows':>{rows}}  {'expected':>{about}}  {'ms':>9}  operator"]
    lines += [
        f"{step.rows:>{rows}}  {guess:>{about}}  {step.ms:>9.3f}  "
        f"{'  ' * step.depth}{step.operator}{'' if step.access is None else f'  | {step.access}'}"
        for step, guess in zip(found.steps, expected, strict=True)
    ]
    lines.append(
        f"{found.row_count} rows in {found.total_ms:.3f} ms"
        f" (of them {found.compile_ms:.3f} ms to open and compile)"
    )
    return "\n".join(lines)

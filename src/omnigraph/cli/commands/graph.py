"""`omnigraph init`, `snapshot`, `verify`: a graph as a whole."""

from __future__ import annotations

import os.path
from pathlib import Path

import typer

from omnigraph.base.uri import parse_uri
from omnigraph.cli.files import read_source
from omnigraph.cli.options import (
    BranchOption,
    ConfigOption,
    GraphArgument,
    JsonOption,
    SchemaOption,
    TargetOption,
    UriOption,
)
from omnigraph.cli.output import EXIT_FAILURE, say, say_json
from omnigraph.cli.target import Flags, locate, require_folder, require_local
from omnigraph.config.scaffold import write_config
from omnigraph.config.settings import DEFAULT_BRANCH
from omnigraph.errors import StorageError


def init(
    ctx: typer.Context,
    schema: SchemaOption,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Create a graph from a schema, and an omnigraph.yaml beside it if there is none.

    A place that already holds a graph is left untouched.

    Example: `omnigraph init --schema people.pg ./people.omni`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    require_local(place.uri, "init")
    require_folder(place.uri)
    source = read_source(schema, "schema")
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.graph import init as create

    load_schema(source)  # a wrong schema leaves nothing behind, not even a folder
    _make_folder(place.uri)
    with create(place.uri, source, options=place.options()) as created:
        commit = created.snapshot().commit_id
    written = write_config(place.uri)
    if json:
        shown = None if written is None else os.path.normpath(written)
        say_json({"uri": place.uri, "graph_commit_id": commit, "config_path": shown})
    else:
        say(f"initialized {place.uri}")


def _make_folder(uri: str) -> None:
    place = parse_uri(uri)
    if not place.is_local:
        return
    try:
        Path(place.path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create '{uri}': {error.strerror}") from error


def snapshot(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Show every table of a branch: its version, where it is kept, and its rows.

    Example: `omnigraph snapshot ./people.omni --branch main`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    on_branch = place.branch(branch)
    with place.open("snapshot") as opened:
        taken = opened.snapshot(on_branch)
    tables = [taken.tables[key] for key in sorted(taken.tables)]
    if json:
        listed = [
            {
                "table_key": table.key,
                "table_path": table.location,
                "table_version": table.version,
                "table_branch": table.branch,
                "row_count": table.row_count,
            }
            for table in tables
        ]
        version = taken.manifest_version
        say_json({"branch": on_branch, "manifest_version": version, "tables": listed})
        return
    say(f"branch: {on_branch}\nmanifest_version: {taken.manifest_version}")
    for table in tables:
        where = table.branch or DEFAULT_BRANCH
        say(f"{table.key} v{table.version} branch={where} rows={table.row_count}")


def verify(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check a graph against its own rules, without changing anything.

    Exits with 1 when something is broken; what heals by itself is shown and passes.

    Example: `omnigraph verify ./people.omni`
    """
    place = locate(ctx, graph, Flags(uri, target, config))
    with place.open("verify") as opened:
        findings = opened.verify()
    broken = [found for found in findings if not found.harmless]
    if json:
        listed = [
            {
                "kind": found.kind,
                "subject": found.subject,
                "detail": found.detail,
                "harmless": found.harmless,
            }
            for found in findings
        ]
        say_json({"uri": place.uri, "status": "error" if broken else "ok", "findings": listed})
    else:
        for found in findings:
            label = "INFO " if found.harmless else "ERROR"
            say(f"{label} {found.kind} {found.subject}: {found.detail}")
        harmless = len(findings) - len(broken)
        say(f"verified {place.uri}: {len(broken)} broken, {harmless} harmless")
    if broken:
        raise typer.Exit(EXIT_FAILURE)

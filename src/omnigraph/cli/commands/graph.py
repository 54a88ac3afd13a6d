"""`omnigraph init`, `snapshot`, `verify`, `repair`: a graph as a whole."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.api.texts import Initialized
from omnigraph.api.upkeep import Repaired, Verified
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.base.uri import parse_uri
from omnigraph.cli.files import read_source
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    JsonOption,
    MaybeSchemaOption,
    QuietOption,
)
from omnigraph.cli.output import EXIT_FAILURE, UsageError, say, say_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place, require_folder, require_local
from omnigraph.cli.templates.copy import Template, copy_template
from omnigraph.config.scaffold import write_config
from omnigraph.errors import NotFoundError, StorageError


@sharing
def init(
    *,
    schema: MaybeSchemaOption = None,
    template: Annotated[
        Template | None,
        typer.Option(
            "--template", help="Start with a small graph to play with; its files are written here."
        ),
    ] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing where a graph is already.")
    ] = False,
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """Create a graph from a schema, and an omnigraph.yaml beside it if there is none.

    A place that already holds a graph is left untouched. With --template the schema, queries and
    rows of a small graph are written into this folder, and the rows are loaded.

    Example: `omnigraph init --schema people.pg ./people.omni`
    """
    if (schema is None) == (template is None):
        raise UsageError("say either --schema or --template", hint="--template company")
    place = asked.place()
    require_local(place.uri, "init")
    require_folder(place.uri)
    if if_missing and (commit := _present(place)) is not None:
        if json:
            say_json(Initialized(place.uri, commit, None))
        else:
            say(f"{place.uri} is a graph already")
        return
    rows: Path | None = None
    if template is not None:
        schema, queries, rows = copy_template(template, Path())
    assert schema is not None
    source = read_source(schema, "schema")
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.graph import init as create

    load_schema(source)  # a wrong schema leaves nothing behind, not even a folder
    _make_folder(place.uri)
    with create(place.uri, source, options=place.options()) as created:
        if rows is not None:
            created.load(rows, "append")
        commit = created.snapshot().commit_id
    written = write_config(place.uri)
    if json:
        shown = None if written is None else os.path.normpath(written)
        say_json(Initialized(place.uri, commit, shown))
    else:
        say(f"initialized {place.uri}")
        if template is not None:
            say(f"try: omnigraph read {place.uri} --query {queries} --name people")


def _present(place: Place) -> str | None:
    """Return the newest commit of the graph that is there; None if none is."""
    try:
        with place.open("init") as graph:
            return graph.snapshot().commit_id
    except NotFoundError:
        return None


def _make_folder(uri: str) -> None:
    place = parse_uri(uri)
    if not place.is_local:
        return
    try:
        Path(place.path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create '{uri}': {error.strerror}") from error


@sharing
def snapshot(
    asked: OnGraph,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Show every table of a branch: its version, where it is kept, and its rows.

    Example: `omnigraph snapshot ./people.omni --branch main`
    """
    place = asked.place()
    on_branch = place.branch(branch)
    with place.open("snapshot") as opened:
        taken = opened.snapshot(on_branch)
    if json:
        say_json(taken)
        return
    say(f"branch: {on_branch}\nmanifest_version: {taken.manifest_version}")
    for table in taken.tables:
        where = table.table_branch or DEFAULT_BRANCH
        say(f"{table.table_key} v{table.table_version} branch={where} rows={table.row_count}")


@sharing
def verify(
    asked: OnGraph,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare the bytes of every file with its digest.")
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            help="Remember here which files were found sound, and go on from there.",
            metavar="FILE",
        ),
    ] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Check a graph against its own rules, without changing anything.

    Exits with 1 when something is broken; what heals by itself is shown and passes.

    Example: `omnigraph verify ./people.omni --deep --journal ./verified.jsonl`
    """
    if journal is not None and not deep:
        raise UsageError("--journal is of --deep", hint="give both")
    place = asked.place()
    with (
        place.open("verify", local=True) as opened,
        shown_progress(quiet=quiet) as progress,
    ):
        listed = opened.verify(deep=deep, journal=journal, progress=progress)
        found = Verified(place.uri, tuple(listed))
    if json:
        say_json(found)
    else:
        for one in found.findings:
            label = "INFO " if one.harmless else "ERROR"
            say(f"{label} {one.kind} {one.subject}: {one.detail}")
        broken = len(found.broken)
        say(f"verified {place.uri}: {broken} broken, {len(found.findings) - broken} harmless")
    if found.broken:
        raise typer.Exit(EXIT_FAILURE)


@sharing
def repair(
    asked: OnGraph,
    branch: BranchOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Act; otherwise only show what would be done.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Take changed rows as they are; no rule is checked. Delete rows without a key.",
        ),
    ] = False,
    as_actor: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Show what other tools did to the tables of a graph; with --confirm settle it.

    Compactions and indexes of other tools are taken over, indexes that cannot be read are taken
    out, and with --force rows whose key is not UTF-8. Exits with 1 when something was refused.

    Example: `omnigraph repair ./people.omni --confirm`
    """
    place = asked.place()
    with place.open("repair", read_only=not confirm, local=True) as opened:
        graph = place.as_writer(opened, as_actor)
        tables = graph.repair(branch, confirm=confirm, force=force)
    if json:
        say_json(Repaired(place.uri, tuple(tables)))
    else:
        for table in tables:
            if table.action != "no_op":
                found = [table.classification.value, *table.operations]
                found += [f"lost index {name}" for name in table.lost_indexes]
                if table.unreadable_keys:
                    found.append(f"{table.unreadable_keys} rows whose key is not UTF-8")
                say(f"{table.action} {table.table_key} on {table.branch}: {', '.join(found)}")
        changed = sum(table.action != "no_op" for table in tables)
        say(f"looked at {len(tables)} tables of {place.uri}: {changed} to repair or repaired")
    if any(table.action == "refused" for table in tables):
        raise typer.Exit(EXIT_FAILURE)

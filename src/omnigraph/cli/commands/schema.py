"""`omnigraph schema …`: check and draft schema files; show, plan, change, compare a graph's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.api.schemas import SchemaDiff
from omnigraph.api.texts import SchemaCheck, SchemaDraft, SchemaStep, SchemaText
from omnigraph.cli.commands.load import DelimiterOption, EncodingOption, require_written
from omnigraph.cli.complete import complete_moment
from omnigraph.cli.files import read_source
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    JsonOption,
    MessageOption,
    PreviewOption,
    SchemaOption,
)
from omnigraph.cli.output import EXIT_FAILURE, complain, say, say_json, warn
from omnigraph.cli.shared import sharing
from omnigraph.errors import BadRequestError, StorageError

if TYPE_CHECKING:
    from omnigraph.compiler.catalog.model import Catalog

AllowDataLoss = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss", help="Permit drops and wider enums instead of refusing them."
    ),
]

app = Commands(help="Check, draft, show, plan, apply and compare schemas.")


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
    for note in _too_wide(catalog):
        warn(note)


@app.command("get")
@app.command("show")
@sharing
def show(
    asked: OnGraph,
    branch: BranchOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="As it was: a commit id, a tag, or a version.",
            metavar="MOMENT",
            autocompletion=complete_moment,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the schema of a graph: of main, of a branch, or of a moment of the past.

    Example: `omnigraph schema get ./people.omni --branch review`
    """
    place = asked.place()
    with place.open("schema show") as opened:
        name = place.branch(branch)
        moment = int(at) if at is not None and at.isdecimal() else at
        text = (
            opened.branch(name).schema if moment is None else opened.at(moment, branch=name).schema
        )
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
    map: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="Write here what columns are called in it, for `load --map`; must not exist.",
            metavar="FILE",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", help="Rows of each file to look at.", min=1)
    ] = 100_000,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    json: JsonOption = False,
) -> None:
    """Draft a schema that the rows of some files fit.

    A table has rows of one type, named like the file; its columns `from` and `to` make it an edge.
    Columns get names a property can have; what they are called goes into the mapping of --map,
    under which `omnigraph load --map FILE` takes exactly these files. What the draft cannot say is
    said on stderr and as comments.

    Example: `omnigraph schema infer people.csv knows.parquet --output people.pg --map people.yaml`
    """
    from omnigraph.pipeline.infer.draft import infer_schema
    from omnigraph.pipeline.inputs.mapping import mapping_text

    require_written(delimiter, encoding)
    beside = None if map is None else map.parent
    draft = infer_schema(files, sample, delimiter=delimiter, encoding=encoding, beside=beside)
    for path in (output, map):
        if path is not None and path.exists():  # of two files none is written alone
            raise BadRequestError(f"'{path}' exists", hint="choose another name")
    for path, text in ((output, draft.text), (map, mapping_text(draft.mapping))):
        if path is not None:
            _write_new(path, text)
    if json:
        names = [None if path is None else str(path) for path in (output, map)]
        facts = (draft.rows, draft.nodes, draft.edges, draft.notes)
        say_json(SchemaDraft(draft.text, names[0], *facts, mapping=names[1]))
        return
    if output is None:
        say(draft.text.rstrip("\n"))
    else:
        say(f"drafted {output}: {len(draft.nodes)} nodes, {len(draft.edges)} edges")
    for note in draft.notes:
        warn(f"note: {note}")
    if draft.needs_mapping and map is None:
        warn("note: some columns or types have other names here; --map FILE says how to load them")


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadRequestError(f"'{path}' exists", hint="choose another name") from None
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {error.strerror}") from error


@app.command()
@sharing
def plan(
    *,
    schema: SchemaOption,
    asked: OnGraph,
    allow_data_loss: AllowDataLoss = False,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Show the steps from a graph's schema to a new one; nothing is changed.

    Exits with 0 even when a step is not supported: that is an answer, too.

    Example: `omnigraph schema plan --schema next.pg ./people.omni`
    """
    place = asked.place()
    source = read_source(schema, "schema")
    with place.open("schema plan", local=True) as opened:
        found = opened.plan_schema(
            source, allow_data_loss=allow_data_loss, branch=place.branch(branch)
        )
    if json:
        say_json(place.named(found))
        return
    say(f"schema plan for {place.uri}\nsupported: {'yes' if found.supported else 'no'}")
    _say_steps(found.steps)


@app.command()
@sharing
def apply(
    *,
    schema: SchemaOption,
    asked: OnGraph,
    allow_data_loss: AllowDataLoss = False,
    branch: BranchOption = None,
    preview: PreviewOption = False,
    only_main: Annotated[
        bool, typer.Option("--only-main", help="Refuse while the graph has other branches.")
    ] = False,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    json: JsonOption = False,
) -> None:
    """Make a file the schema of a graph, or of one of its branches: all of it, or nothing.

    Other branches keep their schema, and the past is read under its own.

    Example: `omnigraph schema apply --schema next.pg ./people.omni --preview`
    """
    from omnigraph.api.schemas import SchemaUnsupportedError, require_only_main

    place = asked.place()
    source = read_source(schema, "schema")
    with place.open("schema apply", read_only=preview) as opened:
        if only_main:
            require_only_main(opened.branches.list())
        try:
            done = opened.apply_schema(
                source,
                allow_data_loss=allow_data_loss,
                branch=place.branch(branch),
                preview=preview,
                actor=place.actor(as_actor),
                message=message,
            )
        except SchemaUnsupportedError as error:
            if not json:
                for step in error.steps:
                    warn(f"- {step.text}" + (f"\n  hint: {step.hint}" if step.hint else ""))
            raise
    if json:
        say_json(place.named(done))
        return
    say(f"schema apply for {place.uri}\nsupported: yes")
    say(f"applied: {'yes' if done.applied else 'no'}\nmanifest_version: {done.manifest_version}")
    _say_steps(done.steps)
    for broken in done.broken_queries:
        warn(f"warning: {broken.error}")


@app.command()
@sharing
def diff(
    asked: ByFlags,
    before: Annotated[
        str, typer.Argument(help="A branch, commit, version or .pg file.", metavar="A")
    ],
    after: Annotated[str, typer.Argument(help="The same; what A is to become.", metavar="B")],
    json: JsonOption = False,
) -> None:
    """Show the steps from one schema to another: of branches, commits, versions or files.

    Example: `omnigraph schema diff main review --uri ./people.omni`
    """
    files = [word.endswith(".pg") for word in (before, after)]
    if all(files):
        found = _files_compared(Path(before), Path(after))
    else:
        with asked.place().open("schema diff") as opened:
            found = opened.diff_schema(before, after)
    if json:
        say_json(found)
        return
    say(f"schema diff {before} -> {after}")
    _say_steps(found.steps)


@app.command()
@sharing
def history(asked: OnGraph, branch: BranchOption = None, json: JsonOption = False) -> None:
    """List the commits of a branch that changed its schema, newest first.

    Example: `omnigraph schema history ./people.omni`
    """
    place = asked.place()
    with place.open("schema history") as opened:
        found = opened.schema_history(place.branch(branch))
    if json:
        say_json(found)
        return
    for version in found.versions:
        by = f" by {version.actor_id}" if version.actor_id else ""
        why = f": {version.message}" if version.message else ""
        say(f"{version.graph_commit_id} (version {version.manifest_version}){by}{why}")
        for step in version.steps:
            say(f"  - {step.text}")


def _files_compared(before: Path, after: Path) -> SchemaDiff:
    """Return the steps from one file to another; no graph is needed."""
    from omnigraph.compiler.catalog.build import load_schema
    from omnigraph.engine.contract import steps_from

    first = load_schema(read_source(before, "schema")).ir
    second = load_schema(read_source(after, "schema"), first).ir
    return SchemaDiff(str(before), str(after), steps_from(first, second))


def _too_wide(catalog: Catalog) -> Iterator[str]:
    """Yield which columns nothing offline can fill, and what to set so that a service does."""
    from omnigraph.config.embedding import OFFLINE_WIDTH

    for node in catalog.nodes.values():
        for embed in node.embeds.values():
            dim = node.properties[embed.target].type.dim or 0
            if dim > OFFLINE_WIDTH and embed.model is None:
                yield (
                    f"note: {node.name}.{embed.target}: nothing offline makes {dim} dimensions, "
                    f"only up to {OFFLINE_WIDTH}\n"
                    "  hint: set embedding.provider in omnigraph.yaml, or OMNIGRAPH_EMBEDDER, to "
                    "openai (with OPENAI_API_KEY) or gemini (with GEMINI_API_KEY), or declare "
                    f"Vector({OFFLINE_WIDTH})"
                )


def _say_steps(steps: Sequence[SchemaStep]) -> None:
    for step in steps:
        say(f"- {step.text}")
        if step.hint is not None:
            say(f"  hint: {step.hint}")
    if not steps:
        say("no schema changes")

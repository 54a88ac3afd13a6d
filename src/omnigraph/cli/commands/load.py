"""`omnigraph load`, `ingest` and `export`: whole files in and out of a graph."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    ConfigOption,
    GraphArgument,
    JsonOption,
    TargetOption,
    UriOption,
)
from omnigraph.cli.output import UsageError, say, say_json, warn
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.target import Flags, Place, locate
from omnigraph.config.environment import actor
from omnigraph.errors import StorageError

if TYPE_CHECKING:
    from omnigraph.engine.write.violations import Violation
    from omnigraph.pipeline.model import LoadResult

Mode = Literal["overwrite", "append", "merge"]
Engine = Literal["auto", "spark", "inline"]
Format = Literal["jsonl", "parquet"]

DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        "-d",
        help="File, glob or folder of JSON lines; `-` is stdin; repeatable.",
        metavar="PATH",
    ),
]
TypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="Parquet, Arrow or CSV file with nodes of one type; repeatable.",
        metavar="NAME=PATH",
    ),
]
EdgeOption = Annotated[
    list[str] | None,
    typer.Option("--edge", help="The same for edges; repeatable.", metavar="NAME=PATH"),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option("--engine", help="Who does the work; default: pipeline.engine, else auto (size)."),
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--memory", help="Memory of a Spark started here, as 2g.", metavar="SIZE"),
]
MaxErrorsOption = Annotated[
    int | None,
    typer.Option(
        "--max-errors",
        min=1,
        help="How many faults to tell one by one; default: pipeline.max_errors, else 100.",
        metavar="N",
    ),
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-bad-rows", help="Leave bad rows out instead of refusing everything."),
]
ErrorsOption = Annotated[
    Path | None,
    typer.Option("--errors", help="Also write these faults as JSON lines.", metavar="FILE"),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def load(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    type: TypeOption = None,
    edge: EdgeOption = None,
    branch: BranchOption = None,
    mode: Annotated[
        Mode, typer.Option("--mode", help="What happens to rows that are there.")
    ] = "overwrite",
    engine: EngineOption = None,
    memory: MemoryOption = None,
    skip_bad_rows: SkipOption = False,
    errors: ErrorsOption = None,
    max_errors: MaxErrorsOption = None,
    as_actor: ActorOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Load files into a branch as one commit, or not at all.

    Example: `omnigraph load ./people.omni --data people.jsonl --mode merge`
    """
    inputs = _inputs(data, type, edge)
    place = _with_memory(locate(ctx, graph, Flags(uri, target, config)), memory)
    on_branch = place.branch(branch)
    with (
        place.open("load", read_only=False) as opened,
        _reported(errors),
        shown_progress(quiet=quiet) as progress,
    ):
        done = opened.load(
            inputs,
            mode,
            branch=on_branch,
            engine=engine,
            actor=as_actor or actor(place.settings.environment),
            on_error="skip" if skip_bad_rows else "fail",
            max_errors=max_errors,
            progress=progress,
        )
    _tell_skipped(done, errors)
    nodes, edges = done.nodes_loaded, done.edges_loaded
    if json:
        say_json(
            {
                "uri": place.uri,
                **done.summary(),
                "nodes_loaded": sum(nodes.values()),
                "edges_loaded": sum(edges.values()),
                "node_types_loaded": len(nodes),
                "edge_types_loaded": len(edges),
            }
        )
    else:
        say(
            f"loaded {place.uri} on branch {on_branch} with {mode}: "
            f"{sum(nodes.values())} nodes across {len(nodes)} node types, "
            f"{sum(edges.values())} edges across {len(edges)} edge types"
        )


def ingest(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    type: TypeOption = None,
    edge: EdgeOption = None,
    branch: BranchOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Branch to start a new one from; default: cli.branch, else main.",
            metavar="BRANCH",
        ),
    ] = None,
    mode: Annotated[
        Mode, typer.Option("--mode", help="What happens to rows that are there.")
    ] = "merge",
    engine: EngineOption = None,
    memory: MemoryOption = None,
    skip_bad_rows: SkipOption = False,
    errors: ErrorsOption = None,
    max_errors: MaxErrorsOption = None,
    as_actor: ActorOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Load files into a branch, creating the branch first if it does not exist.

    Example: `omnigraph ingest ./people.omni --branch review/may --data batch.jsonl`
    """
    inputs = _inputs(data, type, edge)
    place = _with_memory(locate(ctx, graph, Flags(uri, target, config)), memory)
    on_branch, origin = place.branch(branch), place.branch(source)
    who = as_actor or actor(place.settings.environment)
    with (
        place.open("ingest", read_only=False) as opened,
        _reported(errors),
        shown_progress(quiet=quiet) as progress,
    ):
        done = opened.ingest(
            inputs,
            branch=on_branch,
            source=origin,
            mode=mode,
            engine=engine,
            actor=who,
            on_error="skip" if skip_bad_rows else "fail",
            max_errors=max_errors,
            progress=progress,
        )
    _tell_skipped(done, errors)
    if json:
        say_json(
            {
                "uri": place.uri,
                **done.summary(),
                "base_branch": origin,
                "branch_created": done.branch_created,
                "actor_id": who,
            }
        )
        return
    state = "branch created" if done.branch_created else "branch exists"
    say(f"ingested {place.uri} into branch {on_branch} from {origin} with {mode} ({state})")
    for table in done.tables:
        say(f"{table.table_key} rows_loaded={table.rows_loaded}")
    if who is not None:
        say(f"actor_id: {who}")


def export(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    branch: BranchOption = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", help="Write out the past: a commit id.", metavar="COMMIT"),
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only this node or edge type; repeatable.", metavar="NAME"),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; repeatable.", metavar="KEY"),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="What to write.")] = "jsonl",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File, or folder for Parquet; `-` is stdout.", metavar="PATH"
        ),
    ] = "-",
    jsonl: Annotated[bool, typer.Option("--jsonl", hidden=True)] = False,
) -> None:
    """Write a graph out as JSON lines that load back, or as one Parquet file per type.

    Example: `omnigraph export ./people.omni --type Person -o people.jsonl.gz`
    """
    if jsonl:
        warn("warning: --jsonl is no longer needed; JSON lines are the default")
    if branch is not None and snapshot is not None:
        raise UsageError("--branch and --snapshot exclude each other")
    if format == "parquet" and output == "-":
        raise UsageError("Parquet needs a folder", hint="name one with --output")
    place = locate(ctx, graph, Flags(uri, target, config))
    with place.open("export") as opened:
        opened.export(
            output,
            format=format,
            types=type or (),
            tables=table or (),
            branch=place.branch(branch),
            at=snapshot,
        )


def _with_memory(place: Place, memory: str | None) -> Place:
    """Return the place with another size for a Spark that is started here."""
    if memory is None:
        return place
    if not re.fullmatch(r"\d+[kmgKMG]", memory):
        raise UsageError(f"'{memory}' is not a size", hint="for example 512m or 2g")
    pipeline = place.settings.pipeline
    changed = replace(pipeline, spark=replace(pipeline.spark, memory=memory))
    return replace(place, settings=replace(place.settings, pipeline=changed))


def _inputs(
    data: Sequence[str] | None, nodes: Sequence[str] | None, edges: Sequence[str] | None
) -> list[Any]:
    """Return everything to read, in the order files, nodes, edges."""
    found: list[Any] = list(data or ())
    for group, pairs in (("node", nodes or ()), ("edge", edges or ())):
        for pair in pairs:
            name, equals, path = pair.partition("=")
            if not equals or not name or not path:
                raise UsageError(f"'{pair}' is not NAME=PATH", hint="--type Person=people.parquet")
            found.append({f"{group}:{name}": path})
    if not found:
        raise UsageError("nothing to load", hint="name files with --data, --type or --edge")
    return found


@contextlib.contextmanager
def _reported(errors: Path | None) -> Iterator[None]:
    """Write what a load was refused for into a file, then let the error go on."""
    from omnigraph.engine.write.violations import ConstraintError  # comes with the graph

    _write_errors((), errors)  # a file that cannot be written is told before the load, not after
    try:
        yield
    except ConstraintError as error:
        _write_errors(error.violations, errors)
        raise


def _tell_skipped(done: LoadResult, errors: Path | None) -> None:
    if done.skipped:
        warn(f"warning: {done.skipped} rows were left out")
        for violation in done.skipped_rows[:20]:
            warn(f"  - {violation}")
    _write_errors(done.skipped_rows, errors)


def _write_errors(violations: Sequence[Violation], path: Path | None) -> None:
    if path is None:
        return
    import orjson

    lines = [
        orjson.dumps(
            {
                "place": one.place,
                "rule": str(one.rule),
                "type": one.type_name or None,
                "property": one.prop,
                "id": one.row_id,
                "message": one.message,
            }
        )
        for one in violations
    ]
    try:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {error.strerror}") from error

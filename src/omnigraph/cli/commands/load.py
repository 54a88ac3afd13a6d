"""`omnigraph load`, `ingest` and `export`: whole files in and out of a graph."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.api.keywords import LoadKeywords
from omnigraph.api.words import Engine, ExportFormat, Mode
from omnigraph.base.uri import is_on_server
from omnigraph.cli.complete import complete_branch
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    IdempotencyOption,
    JsonOption,
    MaxMemoryOption,
    MessageOption,
    QuietOption,
    TypesOption,
    limits_of,
)
from omnigraph.cli.output import UsageError, say, say_json, warn
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.shared import Shared, sharing
from omnigraph.cli.target import Place
from omnigraph.errors import BadRequestError, StorageError

if TYPE_CHECKING:
    from omnigraph.api.violations import Violation
    from omnigraph.api.writes import LoadResult
    from omnigraph.graph import Graph

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
        help="Parquet, Arrow, CSV or JSON file with nodes of one type; repeatable.",
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


MapOption = Annotated[
    Path | None,
    typer.Option(
        "--map", help="What columns are called here, as `schema infer` writes it.", metavar="FILE"
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column", help="A column and the property it is; repeatable.", metavar="COLUMN=PROPERTY"
    ),
]
FromColumnOption = Annotated[
    str | None,
    typer.Option("--from-column", help="The column that says where edges begin.", metavar="COLUMN"),
]
ToColumnOption = Annotated[
    str | None,
    typer.Option("--to-column", help="The column that says where edges end.", metavar="COLUMN"),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="The column with the key, or the id, of nodes.", metavar="COLUMN"),
]


DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        help="What stands between the cells of CSV files; seen from their headers unless said.",
        metavar="CHARACTER",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="What CSV files are written in, as windows-1252; UTF-8 unless their first bytes say.",
        metavar="NAME",
    ),
]


def asked_columns(
    map: MapOption = None,
    column: ColumnOption = None,
    from_column: FromColumnOption = None,
    to_column: ToColumnOption = None,
    key: KeyOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
) -> LoadKeywords:
    """Return what columns are called here, and how their files are written."""
    named = {"from": from_column, "to": to_column, "id": key}
    found = {given: name for name, given in named.items() if given is not None}
    for one in column or ():
        name, equals, prop = one.rpartition("=")
        if not (name and equals and prop):
            raise UsageError(f"--column {one} is not COLUMN=PROPERTY")
        found[name] = prop
    require_written(delimiter, encoding)
    return LoadKeywords(columns=found or None, mapping=map, delimiter=delimiter, encoding=encoding)


def require_written(delimiter: str | None, encoding: str | None) -> None:
    """Refuse words that say nothing about how a CSV file is written.

    Raises:
        UsageError: they are none.
    """
    if delimiter is None and encoding is None:
        return
    from omnigraph.pipeline.inputs.dialect import delimiter_named, encoding_named

    try:
        delimiter_named(delimiter or ",")
        encoding_named(encoding or "utf-8")
    except BadRequestError as error:
        raise UsageError(error.message, hint=error.hint) from None


OfColumns = Annotated[LoadKeywords, Shared(asked_columns)]


@dataclass(frozen=True, slots=True)
class AskedLoad:
    """What is to be loaded, where to and how, as the command line says it."""

    place: Place
    inputs: list[Any]
    branch: str
    errors: Path | None
    quiet: bool
    how: LoadKeywords

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[tuple[Graph, LoadKeywords]]:
        """Give the graph and how to load; faults are written down whatever happens."""
        with (
            self.place.open(command, read_only=False) as opened,
            _reported(self.errors),
            shown_progress(quiet=self.quiet) as progress,
        ):
            yield opened, {**self.how, "progress": progress}
            if not is_on_server(self.place.uri):  # this process is all that would build them
                opened.store.wait_for_upkeep()


def asked_load(
    asked: OnGraph,
    data: DataOption = None,
    type: TypeOption = None,
    edge: EdgeOption = None,
    *,
    called: OfColumns,
    branch: BranchOption = None,
    engine: EngineOption = None,
    memory: MemoryOption = None,
    skip_bad_rows: SkipOption = False,
    errors: ErrorsOption = None,
    max_errors: MaxErrorsOption = None,
    max_memory: MaxMemoryOption = None,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    idempotency_key: IdempotencyOption = None,
    quiet: QuietOption = False,
) -> AskedLoad:
    """Return what is to be loaded."""
    inputs, limits = _inputs(data, type, edge, called), limits_of(memory=max_memory)
    place = _with_memory(asked.place(), memory)
    how = LoadKeywords(
        engine=engine,
        actor=place.actor(as_actor),
        message=message,
        on_error="skip" if skip_bad_rows else "fail",
        max_errors=max_errors,
        idempotency_key=idempotency_key,
        limits=limits,
        **{name: one for name, one in called.items() if one is not None},  # type: ignore[typeddict-item] # some of its own keys
    )
    return AskedLoad(place, inputs, place.branch(branch), errors, quiet, how)


OfLoad = Annotated[AskedLoad, Shared(asked_load)]


SourceOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Branch to start a new one from; default: cli.branch, else main.",
        metavar="BRANCH",
        autocompletion=complete_branch,
    ),
]


@sharing
def load(
    *,
    asked: OfLoad,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Create --branch from this one first, as ingest does; then the mode is merge.",
            metavar="BRANCH",
            autocompletion=complete_branch,
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help="What happens to rows that are there; default: overwrite."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Load files into a branch as one commit, or not at all.

    Example: `omnigraph load ./people.omni --data people.jsonl --mode merge`
    """
    if source is not None:
        _ingested(asked, source, mode or Mode.MERGE, json=json)
        return
    with asked.running("load") as (graph, how):
        done = graph.load(asked.inputs, mode or Mode.OVERWRITE, branch=asked.branch, **how)
        if mode is None:
            _tell_replaced(graph, done)
    _tell_skipped(done, asked.errors)
    if json:
        say_json(asked.place.named(done))
        return
    nodes, edges = done.nodes_loaded, done.edges_loaded
    say(
        f"loaded {asked.place.uri} on branch {done.branch} with {done.mode}: "
        f"{sum(nodes.values())} nodes across {len(nodes)} node types, "
        f"{sum(edges.values())} edges across {len(edges)} edge types{_when(done)}"
    )


@sharing
def ingest(
    *,
    asked: OfLoad,
    source: SourceOption = None,
    mode: Annotated[
        Mode, typer.Option("--mode", help="What happens to rows that are there.")
    ] = Mode.MERGE,
    json: JsonOption = False,
) -> None:
    """Load files into a branch, creating the branch first if it does not exist.

    Example: `omnigraph ingest ./people.omni --branch review/may --data batch.jsonl`
    """
    _ingested(asked, asked.place.branch(source), mode, json=json)


def _ingested(asked: AskedLoad, source: str, mode: Mode, *, json: bool) -> None:
    with asked.running("ingest") as (graph, how):
        done = graph.ingest(asked.inputs, branch=asked.branch, source=source, mode=mode, **how)
    _tell_skipped(done, asked.errors)
    if json:
        say_json(asked.place.named(done))
        return
    state = "branch created" if done.branch_created else "branch exists"
    into = f"ingested {asked.place.uri} into branch {done.branch} from {done.base_branch}"
    say(f"{into} with {done.mode} ({state}){_when(done)}")
    for table in done.tables:
        say(f"{table.table_key} rows_loaded={table.rows_loaded}")
    if done.actor_id is not None:
        say(f"actor_id: {done.actor_id}")


def _tell_replaced(graph: Graph, done: LoadResult) -> None:
    """Say which rows a load took away that nobody asked to overwrite, and where they still are."""
    if done.commit_id is None or done.replayed:
        return
    before = graph.commits.get(done.commit_id).parent_commit_id
    if before is None:
        return
    rows = {one.table_key: one.row_count for one in graph.snapshot(at=before).tables}
    gone = {one.table_key: rows.get(one.table_key, 0) for one in done.tables}
    replaced = ", ".join(f"{count} rows of {key}" for key, count in gone.items() if count)
    if replaced:
        warn(
            f"warning: replaced {replaced}: without --mode a load overwrites\n"
            f"  they are in commit {before}: read them with --snapshot {before}, or go back with\n"
            f"  omnigraph branch reset {done.branch} --to {before}"
        )


def _when(done: LoadResult) -> str:
    return f", made before by commit {done.commit_id}" if done.replayed else ""


@sharing
def export(
    *,
    asked: OnGraph,
    branch: BranchOption = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", help="Write out the past: a commit id.", metavar="COMMIT"),
    ] = None,
    type: TypesOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; repeatable.", metavar="KEY"),
    ] = None,
    format: Annotated[
        ExportFormat, typer.Option("--format", "-f", help="What to write.")
    ] = "jsonl",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="File, or folder for Parquet; `-` is stdout.", metavar="PATH"
        ),
    ] = "-",
    max_memory: MaxMemoryOption = None,
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
    place = asked.place()
    with place.open("export") as opened:
        opened.export(
            output,
            format=format,
            types=type or (),
            tables=table or (),
            branch=place.branch(branch),
            at=snapshot,
            limits=limits_of(memory=max_memory),
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
    data: Sequence[str] | None,
    nodes: Sequence[str] | None,
    edges: Sequence[str] | None,
    called: LoadKeywords,
) -> list[Any]:
    """Return everything to read, in the order files, nodes, edges; else what the mapping names."""
    found: list[Any] = list(data or ())
    for group, pairs in (("node", nodes or ()), ("edge", edges or ())):
        for pair in pairs:
            name, equals, path = pair.partition("=")
            if not equals or not name or not path:
                raise UsageError(f"'{pair}' is not NAME=PATH", hint="--type Person=people.parquet")
            found.append({f"{group}:{name}": path})
    mapping = called.get("mapping")
    if not found and mapping is not None:
        from omnigraph.pipeline.inputs.mapping import mapped_files  # comes with the graph

        found = list(mapped_files(mapping))
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

    lines = [orjson.dumps(one.to_json_value()) for one in violations]
    try:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    except OSError as error:
        raise StorageError(f"cannot write '{path}': {error.strerror}") from error

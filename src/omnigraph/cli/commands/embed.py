"""`omnigraph embed`: vectors for JSON lines, or for the `@embed` columns of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.target import Flags, locate, read_settings
from omnigraph.config.environment import actor

if TYPE_CHECKING:
    from omnigraph.engine.search.embedder import Embedder
    from omnigraph.pipeline.embed_spec import EmbedFiles


def embed(
    ctx: typer.Context,
    graph: GraphArgument = None,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", help="Manifest that names input, output and fields.", metavar="YAML"
        ),
    ] = None,
    input: Annotated[
        str | None, typer.Option("--input", help="JSON lines to read.", metavar="JSONL")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", help="JSON lines to write.", metavar="JSONL")
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option("--spec", help="Which fields make up the text of a type.", metavar="JSON"),
    ] = None,
    in_graph: Annotated[
        bool, typer.Option("--graph", help="Fill the @embed columns of a graph, as one commit.")
    ] = False,
    branch: BranchOption = None,
    type: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only rows of this node type; repeatable.", metavar="NAME"),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            help="Embed rows with this value again; repeatable.",
            metavar="[TYPE:]FIELD=VALUE",
        ),
    ] = None,
    reembed_all: Annotated[
        bool, typer.Option("--reembed-all", help="Make every vector again.")
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Remove vectors instead.")] = False,
    as_actor: ActorOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    json: JsonOption = False,
) -> None:
    """Make vectors from text: from JSON lines to JSON lines, or in a graph.

    Without more words only missing vectors are made. The embedder is the offline one unless
    `embedding.provider` or `OMNIGRAPH_EMBEDDER` says otherwise.

    Example: `omnigraph embed --input docs.jsonl --output docs.embedded.jsonl --spec embed.json`

    Example: `omnigraph embed --graph ./docs.omni --reembed-all`
    """
    if in_graph or graph is not None or uri is not None or target is not None:
        _refuse_file_words(seed, input, output, spec, select, clean=clean)
        _embed_graph(
            ctx,
            graph,
            Flags(uri, target, config),
            branch,
            type or [],
            as_actor,
            all_rows=reembed_all,
            quiet=quiet,
            json=json,
        )
        return
    from omnigraph.pipeline.embed_file import choice_of, embed_files
    from omnigraph.pipeline.embed_spec import parse_selectors

    files = _files(seed, input, output, spec)
    selectors = parse_selectors(select or [])
    choice = choice_of(type or [], selectors, clean=clean, all_rows=reembed_all)
    embedder = None if choice.mode == "clean" else _embedder(ctx, config, files.spec.model)
    with shown_progress(quiet=quiet) as progress:
        done = embed_files(files, choice, embedder, progress)
    model = files.spec.model if embedder is None else embedder.space
    if json:
        say_json(
            {
                "input": str(files.source),
                "output": str(files.output),
                "rows": done.rows,
                "selected_rows": done.selected_rows,
                "embedded_rows": done.embedded_rows,
                "cleaned_rows": done.cleaned_rows,
                "mode": done.mode,
                "dimension": files.spec.dimension,
                "model": model,
            }
        )
    else:
        say(
            f"embedded {done.embedded_rows} rows (selected {done.selected_rows}, cleaned "
            f"{done.cleaned_rows}) from {files.source} -> {files.output} "
            f"[{done.mode} {files.spec.dimension}d]"
        )


def _files(
    seed: str | None, source: str | None, output: str | None, spec: str | None
) -> EmbedFiles:
    from omnigraph.pipeline.embed_spec import read_files, read_manifest

    if seed is not None:
        if source or output or spec:
            raise UsageError(
                "--seed excludes --input, --output and --spec", hint="use one or three"
            )
        return read_manifest(seed)
    if source is None or output is None or spec is None:
        raise UsageError(
            "say what to embed: --seed, or --input with --output and --spec, or --graph",
            hint="for example: omnigraph embed --graph ./docs.omni",
        )
    return read_files(source, output, spec)


def _refuse_file_words(
    seed: str | None,
    source: str | None,
    output: str | None,
    spec: str | None,
    select: list[str] | None,
    *,
    clean: bool,
) -> None:
    words = {
        "--seed": seed,
        "--input": source,
        "--output": output,
        "--spec": spec,
        "--select": select,
        "--clean": clean,
    }
    given = [word for word, value in words.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for files, not for a graph", hint="drop it, or the graph")


def _embedder(ctx: typer.Context, config: str | None, model: str | None) -> Embedder:
    from omnigraph.config.embedding import embedder_options
    from omnigraph.embedders.choose import embedder_of

    settings = read_settings(ctx, config)
    return embedder_of(embedder_options(settings.embedding, settings.environment, model))


def _embed_graph(
    ctx: typer.Context,
    graph: str | None,
    flags: Flags,
    branch: str | None,
    types: list[str],
    as_actor: str | None,
    *,
    all_rows: bool,
    quiet: bool,
    json: bool,
) -> None:
    place = locate(ctx, graph, flags)
    on_branch = place.branch(branch)
    with (
        place.open("embed", read_only=False) as opened,
        shown_progress(quiet=quiet) as progress,
    ):
        done = opened.embed(
            types,
            "reembed_all" if all_rows else "fill_missing",
            branch=on_branch,
            actor=as_actor or actor(place.settings.environment),
            progress=progress,
        )
    if json:
        say_json({"uri": place.uri, **done.to_json()})
    else:
        per_column = ", ".join(f"{name} {count}" for name, count in done.embedded.items())
        say(
            f"embedded {sum(done.embedded.values())} rows of {place.uri} on branch {on_branch} "
            f"with {done.model} [{done.mode}]" + (f": {per_column}" if per_column else "")
        )

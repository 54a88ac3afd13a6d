"""`omnigraph embed`: vectors for JSON lines, or for the `@embed` columns of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.base.budget import Limits
from omnigraph.cli.complete import complete_type
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    JsonOption,
    MaxMemoryOption,
    MessageOption,
    QuietOption,
    limits_of,
)
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.config.settings import Settings

if TYPE_CHECKING:
    from omnigraph.engine.search.embedder import Embedder
    from omnigraph.pipeline.embed.spec import EmbedFiles


@sharing
def embed(
    asked: OnGraph,
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
        typer.Option(
            "--type",
            help="Only rows of this node type; repeatable.",
            metavar="NAME",
            autocompletion=complete_type,
        ),
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
    message: MessageOption = None,
    max_memory: MaxMemoryOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Make vectors from text: from JSON lines to JSON lines, or in a graph.

    Without more words only missing vectors are made. The embedder is the offline one unless
    `embedding.provider` or `OMNIGRAPH_EMBEDDER` says otherwise.

    Example: `omnigraph embed --input docs.jsonl --output docs.embedded.jsonl --spec embed.json`

    Example: `omnigraph embed --graph ./docs.omni --reembed-all`
    """
    if in_graph or asked.is_said:
        _refuse_file_words(seed, input, output, spec, select, clean=clean)
        limits = limits_of(memory=max_memory)
        _embed_graph(
            asked.place(),
            branch,
            type or [],
            as_actor,
            message,
            limits,
            all_rows=reembed_all,
            quiet=quiet,
            json=json,
        )
        return
    from omnigraph.pipeline.embed.file import choice_of, embed_files
    from omnigraph.pipeline.embed.spec import parse_selectors

    files = _files(seed, input, output, spec)
    selectors = parse_selectors(select or [])
    choice = choice_of(type or [], selectors, clean=clean, all_rows=reembed_all)
    embedder = None if choice.mode == "clean" else _embedder(asked.settings(), files.spec.model)
    with shown_progress(quiet=quiet) as progress:
        done = embed_files(files, choice, embedder, progress)
    if json:
        say_json(done)
    else:
        say(
            f"embedded {done.embedded_rows} rows (selected {done.selected_rows}, cleaned "
            f"{done.cleaned_rows}) from {done.input} -> {done.output} "
            f"[{done.mode} {done.dimension}d]"
        )


def _files(
    seed: str | None, source: str | None, output: str | None, spec: str | None
) -> EmbedFiles:
    from omnigraph.pipeline.embed.spec import read_files, read_manifest

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


def _embedder(settings: Settings, model: str | None) -> Embedder:
    from omnigraph.config.embedding import embedder_options
    from omnigraph.embedders.choose import embedder_of

    return embedder_of(embedder_options(settings.embedding, settings.environment, model))


def _embed_graph(
    place: Place,
    branch: str | None,
    types: list[str],
    as_actor: str | None,
    message: str | None,
    limits: Limits | None,
    *,
    all_rows: bool,
    quiet: bool,
    json: bool,
) -> None:
    on_branch = place.branch(branch)
    with (
        place.open("embed", read_only=False, local=True) as opened,
        shown_progress(quiet=quiet) as progress,
    ):
        done = opened.embed(
            types,
            "reembed_all" if all_rows else "fill_missing",
            branch=on_branch,
            actor=place.actor(as_actor),
            message=message,
            progress=progress,
            limits=limits,
        )
    if json:
        say_json(place.named(done))
    else:
        per_column = ", ".join(f"{name} {count}" for name, count in done.embedded.items())
        say(
            f"embedded {done.embedded_rows} rows of {place.uri} on branch {on_branch} "
            f"with {done.model} [{done.mode}]" + (f": {per_column}" if per_column else "")
        )

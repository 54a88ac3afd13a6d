"""`omnigraph clone` and `relocate`: copies of whole graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.options import JsonOption, QuietOption
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import require_folder, require_local


@sharing
def clone(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SOURCE] TARGET",
            help="The graph, unless flags or settings name it, and an empty place.",
            show_default=False,
        ),
    ],
    asked: ByFlags,
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Copy only what this branch holds now, as main of a new graph without its past.",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="With every branch, commit and tag, which is the default without --branch.",
        ),
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Copy a graph with every branch, commit and tag to an empty place, and check the copy.

    From disks to object stores and back. Writers need not stop: the copy is one state of the
    graph in which every write is whole.

    Example: `omnigraph clone ./people.omni s3://backup/people`
    """
    if len(words) > 2:
        raise UsageError(f"expected a source and a target, got {len(words)} words")
    place = replace(asked, word=words[0] if len(words) == 2 else None).place()
    target = words[-1]
    for uri in (place.uri, target):
        require_local(uri, "clone")
        require_folder(uri)
    from omnigraph.graph.copies import clone as copy  # everything heavy hangs below this import

    with shown_progress(quiet=quiet) as progress:
        done = copy(
            place.uri,
            target,
            branch=branch,
            history=history or None,
            options=place.options(target),
            progress=progress,
        )
    if json:
        say_json(done)
    else:
        say(f"cloned {done.uri} to {done.target}: {done.objects} objects, {done.bytes} bytes")


@sharing
def relocate(asked: OnGraph, json: JsonOption = False) -> None:
    """Make a graph that was moved or copied file by file a graph of its own, where it is now.

    Only graphs with branches need it, and only once. Nobody may write to it meanwhile.

    Example: `omnigraph relocate ./copy-of-people.omni`
    """
    place = asked.place()
    require_local(place.uri, "relocate")
    require_folder(place.uri)
    from omnigraph.graph.copies import relocate as move

    done = move(place.uri, options=place.options())
    if json:
        say_json(done)
    elif done.files:
        say(f"relocated {done.uri}: {done.files} files now say that it is here")
    else:
        say(f"{done.uri} is where it says it is")

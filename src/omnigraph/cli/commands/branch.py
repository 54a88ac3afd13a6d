"""`omnigraph branch …`: create, list, merge, set back and delete branches."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.api.history import BranchList
from omnigraph.api.merges import MergeConflictError, MergeResult
from omnigraph.cli.commands.replay import say_applied
from omnigraph.cli.complete import complete_branch, complete_moment
from omnigraph.cli.conflict_files import read_resolutions, write_conflicts
from omnigraph.cli.given import ByFlags, OnGraph
from omnigraph.cli.names import Commands
from omnigraph.cli.options import (
    ActorOption,
    ConflictsOption,
    JsonOption,
    MessageOption,
    PreviewOption,
    ResolveOption,
    StrategyOption,
)
from omnigraph.cli.output import EXIT_FAILURE, say, say_json
from omnigraph.cli.shared import sharing

app = Commands(help="Create, list, merge, reset and delete branches.")

NameArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|URI",
        help="The branch, and the graph it is of.",
        show_default=False,
        autocompletion=complete_branch,
    ),
]


@app.command()
@sharing
def create(
    *,
    words: NameArgument,
    asked: ByFlags,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Branch to start from; default: cli.branch, else main.",
            metavar="BRANCH",
            autocompletion=complete_branch,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Start from this commit of that branch.", metavar="COMMIT"),
    ] = None,
    as_actor: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Create a branch from what another one is now, or was at a commit.

    Example: `omnigraph branch create --from main review/2026-04-25 ./people.omni`
    """
    place, name = asked.named(words, "a branch name")
    origin = place.branch(source)
    with place.open("branch create", read_only=False) as graph:
        created = place.as_writer(graph, as_actor).branches.create(name, source=origin, at=at)
    if json:
        say_json(place.named(created))
    else:
        say(f"created branch {name} from {origin}")


@app.command("list")
@sharing
def list_branches(
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """List the branches of a graph, sorted.

    Example: `omnigraph branch list ./people.omni`
    """
    place = asked.place()
    with place.open("branch list") as opened:
        names = sorted(opened.branches.list())
    if json:
        say_json(BranchList(tuple(names)))
    else:
        say("\n".join(names))


@app.command()
@sharing
def merge(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE|URI",
            help="The branch to merge, and the graph it is of.",
            show_default=False,
            autocompletion=complete_branch,
        ),
    ],
    asked: ByFlags,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            help="Branch that gets it; default: cli.branch, else main.",
            metavar="BRANCH",
            autocompletion=complete_branch,
        ),
    ] = None,
    preview: PreviewOption = False,
    strategy: StrategyOption = "fail",
    columns: Annotated[
        bool,
        typer.Option("--columns", help="Put changes of different columns of a row together."),
    ] = False,
    resolve: ResolveOption = None,
    conflicts: ConflictsOption = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="Commit that counts as where both began.", metavar="COMMIT"),
    ] = None,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source once it is merged.")
    ] = False,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    json: JsonOption = False,
) -> None:
    """Merge a branch into another: as one commit, or not at all.

    With conflicts nothing is written and the exit code is 1. To settle them row by row write them
    to a file with `--conflicts`, give each line a `resolution` (`"ours"`, `"theirs"`,
    `{"columns": {"age": "theirs"}}` or `{"values": {"age": 37}}`) and merge with `--resolve`.

    Example: `omnigraph branch merge review/2026-04-25 ./people.omni --into main`
    """
    place, source = asked.named(words, "a branch name")
    target = place.branch(into)
    with place.open("branch merge", read_only=preview) as graph:
        try:
            done = graph.branches.merge(
                source,
                target,
                actor=place.actor(as_actor),
                strategy=strategy,
                resolve=None if resolve is None else read_resolutions(resolve),
                columns=columns,
                base=base,
                delete_source=delete_branch,
                message=message,
                preview=preview,
            )
        except MergeConflictError as error:
            if conflicts is not None:
                write_conflicts(conflicts, error.every)
            raise
    if conflicts is not None:
        write_conflicts(conflicts, done.conflicts)
    if json:
        say_json(done)
    else:
        _say_merged(done)
    if done.total_conflicts:
        raise typer.Exit(EXIT_FAILURE)


def _say_merged(done: MergeResult) -> None:
    would = "would merge" if done.preview else "merged"
    say(f"{would} {done.source} into {done.target}: {done.outcome}")
    for table in done.tables:
        say(f"{table.table_key} +{table.inserted} ~{table.updated} -{table.deleted}")
    for conflict in done.conflicts:
        say(f"conflict {conflict}: {conflict.message}")
    if done.total_conflicts > len(done.conflicts):
        say(f"and {done.total_conflicts - len(done.conflicts)} more")
    if done.actor_id is not None:
        say(f"actor_id: {done.actor_id}")
    if done.branch_deleted is not None:
        gone = "deleted" if done.branch_deleted else f"not deleted: {done.branch_delete_error}"
        say(f"branch {done.source} {gone}")


@app.command()
@sharing
def reset(
    *,
    words: NameArgument,
    asked: ByFlags,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="The commit or tag to go back to.",
            metavar="COMMIT",
            show_default=False,
            autocompletion=complete_moment,
        ),
    ],
    preview: PreviewOption = False,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    json: JsonOption = False,
) -> None:
    """Make a branch what it was at a commit, as a new commit; what came since stays history.

    Example: `omnigraph branch reset main ./people.omni --to v1.0`
    """
    place, name = asked.named(words, "a branch name")
    with place.open("branch reset", read_only=preview) as graph:
        done = graph.branches.reset(
            name, to=to, actor=place.actor(as_actor), message=message, preview=preview
        )
    if json:
        say_json(done)
    else:
        say_applied(done)


@app.command()
@sharing
def delete(
    *,
    words: NameArgument,
    asked: ByFlags,
    as_actor: ActorOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a branch; commits that other branches know stay.

    Example: `omnigraph branch delete review/2026-04-25 ./people.omni`
    """
    place, name = asked.named(words, "a branch name")
    with place.open("branch delete", read_only=False) as graph:
        deleted = place.as_writer(graph, as_actor).branches.delete(name)
    if json:
        say_json(place.named(deleted))
    else:
        say(f"deleted branch {name}")

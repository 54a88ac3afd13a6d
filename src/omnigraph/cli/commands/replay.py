"""`omnigraph revert` and `cherry-pick`: single commits undone, or repeated elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from omnigraph.api.merges import ChangeApplied, MergeConflictError, Strategy
from omnigraph.cli.conflict_files import read_resolutions, write_conflicts
from omnigraph.cli.given import ByFlags
from omnigraph.cli.options import (
    ActorOption,
    BranchOption,
    ConflictsOption,
    JsonOption,
    MessageOption,
    PreviewOption,
    ResolveOption,
    StrategyOption,
)
from omnigraph.cli.output import say, say_json
from omnigraph.cli.shared import Shared, sharing

CommitArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMIT|URI", help="The commit or tag, and the graph it is of.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class AskedReplay:
    """How a commit is undone or repeated."""

    branch: str | None
    parent: int | None
    strategy: Strategy
    resolve: Path | None
    conflicts: Path | None
    actor: str | None
    message: str | None
    preview: bool
    json: bool


def asked_replay(
    branch: BranchOption = None,
    parent: Annotated[
        int | None,
        typer.Option("--parent", help="Of a merge: against which parent, 1 or 2.", metavar="N"),
    ] = None,
    strategy: StrategyOption = "fail",
    resolve: ResolveOption = None,
    conflicts: ConflictsOption = None,
    as_actor: ActorOption = None,
    message: MessageOption = None,
    preview: PreviewOption = False,
    json: JsonOption = False,
) -> AskedReplay:
    """Return how a commit is to be undone or repeated."""
    return AskedReplay(
        branch, parent, strategy, resolve, conflicts, as_actor, message, preview, json
    )


Asked = Annotated[AskedReplay, Shared(asked_replay)]


@sharing
def revert(*, words: CommitArgument, asked: ByFlags, how: Asked) -> None:
    """Undo what a commit changed, as a new commit.

    Example: `omnigraph revert 01K0Z5C4QJ1M2N3P4R5S6T7V8W ./people.omni -m "not yet"`
    """
    _apply("revert", words, asked, how)


@sharing
def cherry_pick(*, words: CommitArgument, asked: ByFlags, how: Asked) -> None:
    """Repeat on a branch what a commit changed elsewhere.

    Example: `omnigraph cherry-pick 01K0Z5C4QJ1M2N3P4R5S6T7V8W ./people.omni --branch main`
    """
    _apply("cherry_pick", words, asked, how)


def _apply(
    operation: Literal["revert", "cherry_pick"],
    words: list[str],
    asked: ByFlags,
    how: AskedReplay,
) -> None:
    place, commit = asked.named(words, "a commit id")
    with place.open(operation.replace("_", "-"), read_only=how.preview) as graph:
        act = graph.revert if operation == "revert" else graph.cherry_pick
        try:
            done = act(
                commit,
                branch=place.branch(how.branch),
                parent=how.parent,
                strategy=how.strategy,
                resolve=None if how.resolve is None else read_resolutions(how.resolve),
                actor=place.actor(how.actor),
                message=how.message,
                preview=how.preview,
            )
        except MergeConflictError as error:
            if how.conflicts is not None:
                write_conflicts(how.conflicts, error.every)
            raise
    if how.json:
        say_json(done)
    else:
        say_applied(done)


def say_applied(done: ChangeApplied) -> None:
    """Say what became of a commit undone, repeated or gone back to."""
    word = {"revert": "reverted", "cherry_pick": "picked", "reset": "reset to"}[done.operation]
    if done.preview:
        word = f"would have {word}" if done.operation != "reset" else "would reset to"
    if done.commit_id is None and not done.preview:
        say(f"{done.branch} is as {done.of} would leave it: nothing to do")
        return
    made = "" if done.commit_id is None else f": {done.commit_id}"
    say(f"{word} {done.of} on {done.branch}{made}")
    for table in done.tables:
        say(f"{table.table_key} +{table.inserted} ~{table.updated} -{table.deleted}")
    if done.total_conflicts:
        say(f"{done.total_conflicts} conflicts")

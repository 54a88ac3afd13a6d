"""What changed: `omnigraph diff`, `changes`, `history` and `blame`."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

import typer

from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.cli.change_lines import blame_lines, change_line, csv_lines, stat_lines, version_line
from omnigraph.cli.complete import complete_moment
from omnigraph.cli.given import AskedGraph, ByFlags, OnGraph
from omnigraph.cli.options import JsonOption, OneBranchOption, TypesOption
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.shared import Shared, sharing
from omnigraph.cli.target import Place, locate, looks_like_uri
from omnigraph.config.environment import wants_color

if TYPE_CHECKING:
    from omnigraph.api.changes import Diff
    from omnigraph.api.words import ChangeOp, EntityKind

_SINCE_BASE = "..."
Names = TypeVar("Names")
Images = Literal["none", "after", "both"]
Layout = Literal["table", "json", "jsonl", "csv"]


class Filters:
    """Which changes are asked for."""

    def __init__(
        self,
        types: list[str] | None,
        kinds: list[str] | None,
        ops: list[str] | None,
        columns: list[str] | None,
    ) -> None:
        self.types = types or None
        self.kinds = cast("list[EntityKind] | None", kinds or None)  # the graph looks at the words
        self.ops = cast("list[ChangeOp] | None", ops or None)
        self.columns = columns or None


def asked_filters(
    types: TypesOption = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Only node, or only edge.", metavar="KIND")
    ] = None,
    ops: Annotated[
        list[str] | None,
        typer.Option("--op", help="Only insert, update or delete; repeatable.", metavar="OP"),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", help="Compare and show this property only; repeatable.", metavar="NAME"
        ),
    ] = None,
) -> Filters:
    """Return which changes are asked for."""
    return Filters(types, kinds, ops, columns)


Filtered = Annotated[Filters, Shared(asked_filters)]


@sharing
def diff(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="A B|A...B [URI]",
            autocompletion=complete_moment,
            help="Two branches, commits or versions, or A...B from their merge base; the graph.",
            show_default=False,
        ),
    ],
    asked: ByFlags,
    filters: Filtered,
    stat: Annotated[bool, typer.Option("--stat", help="Only how much changed, by type.")] = False,
    images: Annotated[
        Images | None,
        typer.Option("--images", help="Values: none, after, both; the table always has both."),
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option("--format", "-f", help="How it looks; default: table.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what differs between two states, by table and id.

    Example: `omnigraph diff main...review ./people.omni`
    """
    if json and layout not in (None, "json"):
        raise UsageError(f"--json and --format {layout} exclude each other")
    shown = "json" if json else layout or "table"
    place, (a, b) = _named(asked, words, _states)
    with place.open("diff") as graph:
        found = graph.diff(
            a,
            b,
            types=filters.types,
            kinds=filters.kinds,
            ops=filters.ops,
            columns=filters.columns,
            images="both" if shown == "table" and not stat else images or "none",
        )
        _show(found, shown, stat=stat)


def _show(found: Diff, layout: Layout, *, stat: bool) -> None:
    if stat:
        summary = found.summary()
        if layout == "table":
            _say_all(stat_lines(summary))
        else:
            say_json(summary)
        return
    match layout:
        case "json":
            say_json(found.change_set())
        case "jsonl":
            for change in found:
                say(_one_line(change.to_json_value()))
        case "csv":
            _say_all(csv_lines(found))
        case "table":
            color = wants_color(sys.stdout)
            total = 0
            for change in found:
                say(change_line(change, color=color))
                total += 1
            say("nothing differs" if not total else f"{total} change{'' if total == 1 else 's'}")


@sharing
def changes(
    asked: OnGraph,
    filters: Filtered,
    branch: OneBranchOption = DEFAULT_BRANCH,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="The cursor to go on after; default: the beginning.", metavar="CURSOR"
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for further commits, until interrupted.")
    ] = False,
    images: Annotated[
        Images, typer.Option("--images", help="Values: none, after, both.")
    ] = "after",
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", help="Changes in one line at most.", min=1)
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", help="Bytes of changes in one line.", min=1)
    ] = None,
) -> None:
    """Print what every commit did to a branch, one JSON object per line.

    Example: `omnigraph changes ./people.omni --follow`
    """
    place = asked.place()
    with place.open("changes") as graph:
        for group in graph.changes(
            branch,
            since=since,
            types=filters.types,
            kinds=filters.kinds,
            ops=filters.ops,
            columns=filters.columns,
            images=images,
            max_rows=max_rows,
            max_bytes=max_bytes,
            follow=follow,
        ):
            say(_one_line(group.to_json_value()))
            sys.stdout.flush()  # who follows waits for it


EntityWords = Annotated[
    list[str],
    typer.Argument(
        metavar="TYPE ID [URI]",
        help="The type (node:Person), the id of the node or edge, and the graph.",
        show_default=False,
    ),
]


@sharing
def history(
    *,
    words: EntityWords,
    asked: ByFlags,
    branch: OneBranchOption = DEFAULT_BRANCH,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="How many at most.", min=1)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the commits that changed one node or edge, newest first.

    Example: `omnigraph history node:Person ada ./people.omni`
    """
    place, (kind, name) = _named(asked, words, _entity)
    with place.open("history") as graph:
        found = graph.entity_history(kind, name, branch=branch, limit=limit)
    if json:
        say_json(found)
        return
    color = wants_color(sys.stdout)
    for one in found.versions:
        say(version_line(one, color=color))
    if not found.versions:
        say(f"there never was a {kind} '{name}'")


@sharing
def blame(
    *,
    words: EntityWords,
    asked: ByFlags,
    branch: OneBranchOption = DEFAULT_BRANCH,
    json: JsonOption = False,
) -> None:
    """Show which commit gave every property of a node or edge its value.

    Example: `omnigraph blame node:Person ada ./people.omni`
    """
    place, (kind, name) = _named(asked, words, _entity)
    with place.open("blame") as graph:
        found = graph.blame(kind, name, branch=branch)
    if json:
        say_json(found)
    else:
        _say_all(blame_lines(found))


def _named(
    asked: AskedGraph,
    words: Sequence[str],
    names: Callable[[Sequence[str]], Names | None],
) -> tuple[Place, Names]:
    """Return the graph and the names on it; a word too many is the address of the graph.

    Of the words the one that looks like an address is it; if none or several do, the last one.
    """
    found, uri = names(words), None
    if found is None:
        likely = [at for at, word in enumerate(words) if looks_like_uri(word)]
        at = likely[0] if len(likely) == 1 else len(words) - 1
        uri, left = words[at], [*words[:at], *words[at + 1 :]]
        found = names(left)
    if found is None:
        raise UsageError(f"expected two names and at most one URI, got {len(words)} words")
    return locate(asked.ctx, uri, asked.flags), found


def _states(words: Sequence[str]) -> tuple[str, str | None] | None:
    match list(words):
        case [one] if _SINCE_BASE in one:
            return one, None
        case [a, b] if _SINCE_BASE not in f"{a} {b}":
            return a, b
        case _:
            return None


def _entity(words: Sequence[str]) -> tuple[str, str] | None:
    match list(words):
        case [kind, name]:
            return kind, name
        case _:
            return None


def _one_line(value: object) -> str:
    return json_text.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)

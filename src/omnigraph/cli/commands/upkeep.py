"""`omnigraph optimize`, `cleanup`, `du`: fewer pieces, less past, and what takes the space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from omnigraph.api.upkeep import Cleaned, CleanupStats, CompactionStats, DiskUsage, Optimized
from omnigraph.base.durations import parse_duration
from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import ActorOption, BranchOption, JsonOption, PreviewOption, QuietOption
from omnigraph.cli.output import EXIT_FAILURE, UsageError, say, say_json, warn
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.shared import sharing
from omnigraph.config.limits import parse_seconds
from omnigraph.errors import BadRequestError

_KEY_WIDTH = 40


@sharing
def optimize(
    asked: OnGraph,
    branch: BranchOption = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; repeatable.", metavar="KEY"),
    ] = None,
    preview: PreviewOption = False,
    max_seconds: Annotated[
        str | None,
        typer.Option("--max-seconds", help="Begin no table later than this.", metavar="SECONDS"),
    ] = None,
    as_actor: ActorOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Merge the small files of every table; the rows and all history stay.

    Exits with 1 when a table was changed by another tool and needs `repair` first.

    Example: `omnigraph optimize ./people.omni --table node:Person`
    """
    limit = None if max_seconds is None else _seconds(max_seconds)
    place = asked.place()
    on_branch = place.branch(branch)
    with (
        place.open("optimize", read_only=preview) as opened,
        shown_progress(quiet=quiet) as progress,
    ):
        tables = place.as_writer(opened, as_actor).optimize(
            on_branch,
            tables=table or (),
            preview=preview,
            max_seconds=limit,
            progress=progress,
        )
    if json:
        say_json(Optimized(place.uri, tuple(tables), preview))
    else:
        say(f"optimize {place.uri} — {len(tables)} tables")
        for one in tables:
            say(_told(one))
    if any(one.skipped == "drift_needs_repair" for one in tables):
        raise typer.Exit(EXIT_FAILURE)


def _seconds(text: str) -> float | None:
    try:
        return parse_seconds(text, "--max-seconds")
    except BadRequestError as error:
        raise UsageError(error.message, hint=error.hint) from None


def _told(one: CompactionStats) -> str:
    """Return a line about one table."""
    if one.skipped is not None:
        what = f"skipped: {one.skipped} ({one.detail})"
    elif one.fragments_removed:
        end = "✓" if one.committed else "(preview)"
        what = f"frags {one.fragments_removed} → {one.fragments_added} {end}"
    else:
        what = "no-op"
    behind = f", indexes behind: {', '.join(one.pending_indexes)}" if one.pending_indexes else ""
    return f"  {one.table_key:<{_KEY_WIDTH}} {what}{behind}"


@sharing
def cleanup(
    asked: OnGraph,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", help="So many newest versions of every table stay.", min=0, metavar="N"
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            help="Only what was superseded longer ago may go: 30s, 15m, 12h, 7d, 2w.",
            metavar="DURATION",
        ),
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Remove it.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would go and remove nothing.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Remove old versions of tables, forks of deleted branches and files of dead writes.

    With --keep and --older-than both must hold. What branches, tags, coming merges, loads and
    long reads rest on stays, and so does what is younger than a few minutes.

    Example: `omnigraph cleanup ./people.omni --keep 10 --older-than 7d --preview`
    """
    if confirm and preview:
        raise UsageError("--confirm and --preview exclude each other", hint="drop one")
    if keep is None and older_than is None:
        raise BadRequestError(
            "cleanup requires at least one of --keep or --older-than",
            hint="for example: omnigraph cleanup --keep 10 --older-than 7d --preview",
        )
    age = None if older_than is None else parse_duration(older_than)
    place = asked.place()
    policy = _policy(keep, age)
    if not confirm:
        warn(f"cleanup is destructive — rerun with --confirm. Policy for {place.uri}: {policy}")
        if not (preview or json):
            return
    with (
        place.open("cleanup", read_only=False) as opened,
        shown_progress(quiet=quiet) as progress,
    ):
        done = opened.cleanup(keep=keep, older_than=age, preview=not confirm, progress=progress)
    if json:
        say_json(Cleaned(place.uri, keep, age, tuple(done), not confirm))
    else:
        _say_cleaned(f"{place.uri} ({policy})", done, confirm=confirm)
    if any(one.error is not None for one in done):
        raise typer.Exit(EXIT_FAILURE)


def _policy(keep: int | None, age: int | None) -> str:
    parts = [] if keep is None else [f"keep {keep} versions"]
    if age is not None:
        parts.append(f"remove anything older than {age}s")
    return ", ".join(parts)


def _say_cleaned(what: str, done: Sequence[CleanupStats], *, confirm: bool) -> None:
    gone = [one for one in done if one.error is None]
    versions = sum(one.versions_removed for one in gone)
    size = sum(one.bytes_removed for one in gone)
    tables = len({one.location for one in gone})
    verb = "removed" if confirm else "would remove"
    say(f"cleanup {what} — {verb} {versions} versions ({size} bytes) across {tables} tables")
    for one in done:
        on = "" if one.branch is None else f" on {one.branch}"
        name = f"{one.table_key or one.location}{on}"
        if one.error is not None:
            warn(f"error: {name} was left as it is: {one.error}")
        elif not confirm:
            counted = f"{one.versions_removed} versions" if one.versions_removed else one.what
            say(f"  {name:<{_KEY_WIDTH}} {counted}, {one.bytes_removed} bytes")


@sharing
def du(
    asked: OnGraph,
    json: JsonOption = False,
) -> None:
    """Show what every table takes, in bytes: rows, versions, indexes, and the rest.

    Example: `omnigraph du ./people.omni`
    """
    place = asked.place()
    with place.open("du") as opened:
        found = opened.disk_usage()
    if json:
        say_json(DiskUsage(place.uri, tuple(found)))
        return
    for one in sorted(found, key=lambda one: -one.total):
        on = "" if one.branch is None else f" on {one.branch}"
        parts = [("data", one.data), ("versions", one.versions), ("indexes", one.indexes)]
        shown = ", ".join(f"{name} {size}" for name, size in (*parts, ("other", one.other)) if size)
        made_of = f" ({shown})" if shown else ""
        say(f"{one.total:>14} {one.table_key or one.location}{on}{made_of}")
    say(f"{sum(one.total for one in found):>14} {place.uri}")

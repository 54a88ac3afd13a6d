"""`omnigraph cache …`: the derived files on this machine's disk."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.given import OnGraph
from omnigraph.cli.options import BranchOption, JsonOption
from omnigraph.cli.output import UsageError, say, say_json
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place, require_local

app = typer.Typer(
    help="Show, build and take away what is kept on this machine's disk.", no_args_is_help=True
)


@app.command("list")
@sharing
def list_files(
    asked: OnGraph,
    check: Annotated[
        bool,
        typer.Option("--check", help="Read every file; what is damaged is removed."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show which tables can be mapped instead of read, of one graph or of all.

    Example: `omnigraph cache list`
    """
    from omnigraph.graph.derived import cache_contents, cache_contents_of

    settings = asked.settings()
    uri = asked.find_uri(settings)
    require_local(uri or "", "cache list")
    options = Place(settings, uri or "").options()
    found = cache_contents(options, check=check)
    if uri is not None:
        found = cache_contents_of(found, uri)
    if json:
        say_json(found)
        return
    say(f"cache {found.folder or 'off'} — {found.bytes >> 20} MiB")
    for one in found.tables:
        where = one.location if one.branch is None else f"{one.location} on '{one.branch}'"
        say(f"{one.uri}  {where}  version {one.version}, {one.rows} rows, {one.bytes >> 20} MiB")
        for fault in one.faults:
            say(f"  damaged, removed: {fault}")


@app.command()
@sharing
def build(
    asked: OnGraph,
    branch: BranchOption = None,
    json: JsonOption = False,
) -> None:
    """Make what lookups and walks in large tables need, as after a large load.

    Nothing of the graph changes; processes on this machine then map it instead of building it.

    Example: `omnigraph cache build ./people.omni`
    """
    from omnigraph.graph.derived import cache_contents, cache_contents_of

    place = asked.place()
    with place.open("cache build", local=True) as opened:
        opened.build_cache(place.branch(branch))
    found = cache_contents_of(cache_contents(place.options()), place.uri)
    if json:
        say_json(found)
    else:
        say(f"cache {found.folder or 'off'} — {len(found.tables)} tables, {found.bytes >> 20} MiB")


@app.command("purge")
@sharing
def purge_files(
    asked: OnGraph,
    everything: Annotated[bool, typer.Option("--all", help="Of every graph.")] = False,
    json: JsonOption = False,
) -> None:
    """Take away what is kept of one graph, or with `--all` of every one.

    It is made anew where it is needed; processes that use it go on.

    Example: `omnigraph cache purge ./people.omni`
    """
    from omnigraph.graph.derived import purge_cache

    settings = asked.settings()
    uri = None if everything and not asked.is_said else asked.find_uri(settings)
    if uri is None and not everything:
        raise UsageError("which graph is meant?", hint="name it, or say --all")
    if everything and asked.is_said:
        raise UsageError("a graph and --all are given", hint="drop one")
    require_local(uri or "", "cache purge")
    done = purge_cache(uri, Place(settings, uri or "").options())
    if json:
        say_json(done)
    else:
        say(f"purged {done.bytes >> 20} MiB")

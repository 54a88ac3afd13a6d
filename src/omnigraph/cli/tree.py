"""The command tree: every command under its name."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph import __version__
from omnigraph.api.texts import ProgramVersion
from omnigraph.cli import output
from omnigraph.cli.commands import (
    algorithm,
    branch,
    cache,
    changes,
    commit,
    copies,
    doctor,
    embed,
    explain,
    fmt,
    graph,
    index,
    load,
    local,
    lock,
    mcp,
    policy,
    queries,
    query,
    read,
    replay,
    run,
    schema,
    serve,
    tag,
    upkeep,
)
from omnigraph.cli.commands import shell as shell_command
from omnigraph.cli.names import OTHER_NAMES, Commands, NamedCommands
from omnigraph.cli.options import ConfigOption, JsonOption, TargetOption, UriOption
from omnigraph.cli.target import Flags
from omnigraph.config.logs import parse_level
from omnigraph.errors import BadRequestError


def _dashed(word: str) -> str:
    """Return a flag as it is spelled here: starter files write `--reembed_all`."""
    return word.replace("_", "-")


app = Commands(
    name="omnigraph",
    cls=NamedCommands,
    epilog=OTHER_NAMES,
    help="A typed property-graph database: schemas, queries, branches, commits.",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(graph.init)
app.command("load")(load.load)
app.command("ingest")(load.ingest)
app.command("export")(load.export)
app.command("embed", context_settings={"token_normalize_func": _dashed})(embed.embed)
app.command("read")(read.read)
app.command("change")(read.change)
app.command("shell")(shell_command.shell)
app.command("snapshot")(graph.snapshot)
app.command("diff")(changes.diff)
app.command("changes")(changes.changes)
app.command("history")(changes.history)
app.command("blame")(changes.blame)
app.add_typer(branch.app, name="branch")
app.add_typer(commit.app, name="commit")
app.add_typer(tag.app, name="tag")
app.add_typer(run.app, name="run")
app.command("revert")(replay.revert)
app.command("cherry-pick")(replay.cherry_pick)
app.add_typer(schema.app, name="schema")
app.add_typer(query.app, name="query")
app.add_typer(queries.app, name="queries")
app.add_typer(algorithm.app, name="algorithm")
app.command("explain")(explain.explain)
app.command("profile")(explain.profile)
app.command("fmt")(fmt.fmt)
app.command("doctor")(doctor.doctor)
app.command("verify")(graph.verify)
app.command("repair")(graph.repair)
app.command("optimize")(upkeep.optimize)
app.command("cleanup")(upkeep.cleanup)
app.command("du")(upkeep.du)
app.command("clone")(copies.clone)
app.command("relocate")(copies.relocate)
app.add_typer(index.app, name="index")
app.add_typer(cache.app, name="cache")
app.add_typer(lock.app, name="lock")
app.add_typer(policy.app, name="policy")
app.command("serve")(serve.serve)
app.command("mcp")(mcp.mcp)
app.add_typer(local.app, name="local")


def _show_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option(
            "--version", "-v", help="Print the version.", callback=_show_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[  # noqa: ARG001 - `run` looks for it anywhere
        bool, typer.Option("--debug", help="Show a traceback when a command fails.")
    ] = False,
    uri: UriOption = None,
    target: TargetOption = None,
    config: ConfigOption = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level",
            help="Note what the program does on stderr: debug, info, warning, error.",
        ),
    ] = None,
) -> None:
    """Declare the options that may stand in front of a command."""
    try:
        level = None if log_level is None else parse_level(log_level, "--log-level")
    except BadRequestError as error:
        raise output.UsageError(error.message, hint=error.hint) from None
    ctx.obj = Flags(uri, target, config, level)


@app.command()
def version(json: JsonOption = False) -> None:
    """Print the version.

    Example: `omnigraph version`
    """
    if json:
        output.say_json(ProgramVersion("omnigraph", __version__))
    else:
        output.say(f"omnigraph {__version__}")

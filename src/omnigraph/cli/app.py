"""The entry point: builds the command tree, turns errors into exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph import __version__
from omnigraph.cli import output
from omnigraph.cli.commands import explain, fmt, query, schema
from omnigraph.errors import OmniGraphError

DEBUG = "--debug"

app = typer.Typer(
    name="omnigraph",
    help="A typed property-graph database: schemas, queries, branches, commits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(schema.app, name="schema")
app.add_typer(query.app, name="query")
app.command("explain")(explain.explain)
app.command("fmt")(fmt.fmt)


def _show_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-v", help="Print the version.", callback=_show_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show a traceback when a command fails.")
    ] = False,
) -> None:
    """Declare the options that every command shares."""


@app.command()
def version() -> None:
    """Print the version.

    Example: `omnigraph version`
    """
    output.say(f"omnigraph {__version__}")


def main() -> None:
    """Run the command line; the exit code is 0, 1 (failed), 2 (usage) or 130 (interrupted)."""
    try:
        app()
    except OmniGraphError as error:
        if DEBUG in sys.argv[1:]:
            raise
        output.complain(error)
        sys.exit(output.EXIT_FAILURE)
    except KeyboardInterrupt:
        output.warn("interrupted")
        sys.exit(output.EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) went away: nothing is wrong, and nothing can be told.
        sys.stderr.close()
        sys.exit(output.EXIT_OK)

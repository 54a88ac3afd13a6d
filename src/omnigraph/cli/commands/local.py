"""`omnigraph local start|status|stop`: an object store and a server on this machine."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.names import Commands
from omnigraph.cli.options import JsonOption, QuietOption
from omnigraph.cli.output import say, say_json, warn
from omnigraph.cli.templates.copy import copy_template
from omnigraph.config.environment import process_environment
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.local.stack import LocalStack

app = Commands(help="Run an object store and a server on this machine, without containers.")

FolderOption = Annotated[
    Path,
    typer.Option("--dir", help="Where data, logs and secrets are kept.", metavar="FOLDER"),
]
_FOLDER = Path(".omnigraph-local")


@app.command()
def start(
    *,
    folder: FolderOption = _FOLDER,
    bind: Annotated[
        str, typer.Option("--bind", help="Where the server listens.", metavar="HOST:PORT")
    ] = "127.0.0.1:8080",
    bucket: Annotated[
        str, typer.Option("--bucket", help="The bucket; it is made.", metavar="NAME")
    ] = "omnigraph-local",
    prefix: Annotated[
        str, typer.Option("--prefix", help="Where the graph is in the bucket.", metavar="PATH")
    ] = "repos/context",
    s3_port: Annotated[
        int | None,
        typer.Option(
            "--store-port",
            help="Where the object store listens; default: a free port, kept for next time.",
            metavar="PORT",
            min=1,
            max=55_000,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", "-s", help="Schema of a new graph; default: a small company."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="JSON lines that a new graph begins with.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Remove what is at the place of the graph first.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Start an object store, make a graph in it, serve it with a token, and say what to try.

    What runs or exists already is kept, so starting twice is starting once.

    Example: `omnigraph local start`
    """
    from omnigraph.local.stack import Wanted, start_stack  # needs the engine

    _check_bind(bind)
    rest = {"bucket": bucket, "prefix": prefix, "bind": bind}
    with tempfile.TemporaryDirectory(prefix="omnigraph-") as place:
        rows = data
        if schema is None:
            schema, _, example = copy_template("company", Path(place))
            rows = data or example
        wanted = Wanted(schema, rows, s3_port=s3_port, reset=reset, **rest)
        tell = (lambda _: None) if quiet else warn
        found = start_stack(folder, wanted, process_environment().process, tell)
    if json:
        say_json(found)
    else:
        _say_started(found)


def _check_bind(bind: str) -> None:
    """Refuse what the server would not listen at; the next start has to find the port again."""
    from omnigraph.server.options import parse_bind  # as light as it is, others need no server

    if parse_bind(bind)[1] == 0:
        raise BadRequestError("the server of a local stack needs a port", hint="127.0.0.1:8080")


def _say_started(found: LocalStack) -> None:
    port = found.url.rpartition(":")[2]
    say(f"serving {found.uri} at {found.url}")
    say("")
    say("try:")
    say(f"  set -a; . {found.folder}/omnigraph.env; set +a")
    say(f"  omnigraph snapshot {found.url}")
    say(f"  omnigraph branch create my-branch {found.url}")
    say(f"  omnigraph read {found.uri} -e 'match {{ $p: Person }} return {{ $p.name }}'")
    say(f'  curl -H "Authorization: Bearer $OMNIGRAPH_BEARER_TOKEN" {found.url}/snapshot')
    where = "" if found.folder == str(_FOLDER) else f" --dir {found.folder}"
    say(f"logs: {found.folder}/server.log, {found.folder}/store.log (port {port})")
    say(f"stop: omnigraph local stop{where}")


@app.command()
def status(folder: FolderOption = _FOLDER, json: JsonOption = False) -> None:
    """Show what runs, and where.

    Example: `omnigraph local status`
    """
    from omnigraph.local.stack import stack_status

    found = stack_status(folder)
    if json:
        say_json(found)
        return
    for what, runs, where in (
        ("object store", found.store_running, found.endpoint),
        ("server", found.server_running, found.url),
    ):
        say(f"{what:<13} {'runs' if runs else 'stopped':<8} {where}")


@app.command()
def stop(
    folder: FolderOption = _FOLDER,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the folder with all its data, too.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Stop the server and the object store; the data stay for the next start.

    Example: `omnigraph local stop`
    """
    from omnigraph.local.stack import stop_stack

    found = stop_stack(folder, (lambda _: None) if quiet else warn)
    if remove:
        shutil.rmtree(folder)
    if json:
        say_json(found)
    else:
        say("removed" if remove else "stopped")

"""`omnigraph serve`, which is also `omnigraph-server`: one graph over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from omnigraph import __version__
from omnigraph.cli.given import OnGraph
from omnigraph.cli.output import say
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import require_folder, require_local
from omnigraph.errors import BadRequestError


@sharing
def serve(
    *,
    asked: OnGraph,
    bind: Annotated[
        str | None,
        typer.Option(
            "--bind",
            help="Where to listen; default: server.bind, else 127.0.0.1:8080. Port 0: a free one.",
            metavar="HOST:PORT",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option("--workers", help="Processes, each with images of its own.", min=1),
    ] = 1,
    runtime: Annotated[
        Literal["granian", "uvicorn"], typer.Option("--runtime", help="What listens.")
    ] = "granian",
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--cors-origin", help="A page that may ask from a browser; repeatable.", metavar="URL"
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            help="A name the server goes by, beside its address; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Being open to everybody is what is wanted.")
    ] = False,
    require_policy: Annotated[
        bool, typer.Option("--require-policy", help="Refuse to start without a policy.")
    ] = False,
    tools: Annotated[
        str,
        typer.Option(
            "--tools",
            help="Tools of agents under /mcp: core, all, some by name, or none.",
            metavar="NAMES",
        ),
    ] = "core",
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Leave out the page for people at /ui/.")
    ] = False,
    opens: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser once the server answers.")
    ] = False,
    grace: Annotated[
        int,
        typer.Option(
            "--grace", help="Seconds that running requests have once it is to stop.", min=1
        ),
    ] = 30,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Serve a graph over HTTP until told to stop.

    Tokens come from OMNIGRAPH_SERVER_BEARER_TOKEN and its sisters; without any the server is open.
    SIGHUP reads them again.

    People look at `/ui/`: queries, pictures, branches, merges.

    Example: `omnigraph serve ./people.omni --open`
    """
    if version:
        say(f"omnigraph-server {__version__}")
        return
    if opens and no_page:
        raise BadRequestError("without the page there is nothing to open", hint="leave --open out")
    settings = asked.settings()
    flags = asked.merged()
    name = flags.target or (None if flags.uri or asked.word else settings.server.graph)
    uri = asked.served_uri(settings)
    require_local(uri, "serve")
    require_folder(uri)
    try:
        from omnigraph.server.main import serve as run
        from omnigraph.server.options import ServeOptions, parse_bind
    except ModuleNotFoundError as error:
        raise BadRequestError(
            f"the server needs {error.name}", hint="pip install 'omnigraph[server]'"
        ) from None
    if tools != "none":
        from omnigraph.mcp.toolbox import Choice

        Choice.of(tools)
    unauthenticated = unauthenticated or bool(
        settings.environment.flag("OMNIGRAPH_UNAUTHENTICATED")
    )
    host, port = parse_bind(bind or settings.server.bind)
    options = ServeOptions(
        uri=uri,
        graph_id=name or "default",
        config=None if settings.path is None else str(settings.path),
        host=host,
        port=port,
        workers=workers,
        runtime=runtime,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
        tools=tools,
        grace_s=grace,
        page=not no_page,
        opens=opens,
    )
    run(options, unauthenticated=unauthenticated, require_policy=require_policy)

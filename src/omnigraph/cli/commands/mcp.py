"""`omnigraph mcp`: tools for agents, over standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.extras import load_extra
from omnigraph.base.ids import ULIDS
from omnigraph.cli.given import OnGraph
from omnigraph.cli.shared import sharing
from omnigraph.cli.target import Place
from omnigraph.config.environment import actor as actor_of
from omnigraph.config.limits import limits_in_force
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.api.access import AccessPolicy
    from omnigraph.mcp.desk import Desk


@sharing
def mcp(
    *,
    asked: OnGraph,
    actor: Annotated[
        str | None,
        typer.Option(
            "--actor",
            "--as",
            help="Whose the agent's branches and commits are; default: OMNIGRAPH_ACTOR.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that writes, and refuse writes.")
    ] = False,
    tools: Annotated[
        str,
        typer.Option("--tools", help="core, all, or some by name.", metavar="NAMES"),
    ] = "core",
) -> None:
    """Serve tools for agents (Model Context Protocol) over standard input and output.

    An agent reads what it may, and writes to branches below agents/ACTOR/ only.

    Example: `omnigraph mcp ./company.omni --actor act-agent`
    """
    load_extra("mcp", "mcp", "omnigraph mcp")
    from omnigraph.mcp.stdio import serve_stdio
    from omnigraph.mcp.toolbox import Choice

    choice = Choice.of(tools)
    place = asked.place()
    who = actor or actor_of(place.settings.environment)
    if who is None:
        raise BadRequestError(
            "no actor is given", hint="--actor NAME: its branches are called agents/NAME/…"
        )
    with place.open("mcp", read_only=read_only) as graph:
        serve_stdio(_desk(place, graph, who, read_only=read_only), choice)


def _desk(place: Place, graph: object, who: str, *, read_only: bool) -> Desk:
    from omnigraph.api.protocols import AnyGraph
    from omnigraph.mcp.desk import Desk
    from omnigraph.mcp.rules import OwnBranches, home_of
    from omnigraph.policy.guard import GuardedGraph

    own = OwnBranches(home_of(who), _policy(place), read_only, place.is_remote)
    # A server knows by the token who writes, whatever the agent is called here.
    guarded = GuardedGraph(cast("AnyGraph", graph), own, who, named=not place.is_remote)
    session = ULIDS.next(SYSTEM_CLOCK.now_us())
    if place.is_remote:  # whose limits hold there
        return Desk(guarded, own, who, session)
    limits = limits_in_force(place.settings.environment, place.settings.limits)
    return Desk(guarded, own, who, session, read_limits=limits.query, write_limits=limits.job)


def _policy(place: Place) -> AccessPolicy | None:
    """Return the policy that the settings name; a server has its own."""
    file = place.settings.policy.file
    if file is None or place.is_remote:
        return None
    from omnigraph.policy.load import load_policy

    return load_policy(file, place.settings.project or "default")

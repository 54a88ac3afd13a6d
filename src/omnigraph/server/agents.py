"""The tools for agents behind this server: made with the first request for them, kept per worker.

Knows who asked last and what they read; what a tool may do is settled by `omnigraph.mcp`, under
the same tokens and policy as every route.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from omnigraph.base.budget import Limits
from omnigraph.base.extras import load_extra
from omnigraph.graph.graph import Graph
from omnigraph.server.rules import Rules

if TYPE_CHECKING:
    from omnigraph.mcp.desk import Desk, Kept
    from omnigraph.mcp.mounted import Mounted

_KEPT_ACTORS, _KEPT_BYTES = 16, 16 << 20
"""Of how many agents the last results are kept, and how much of each."""
NOBODY = "anonymous"
"""What agents of a server without tokens are called; their commits have no actor."""


class Serving(Protocol):
    """What the tools need of what a worker serves."""

    graph: Graph
    rules: Rules
    read_limits: Limits
    write_limits: Limits
    secrets: tuple[str, ...]


@dataclass(slots=True)
class AgentTools:
    """The tools of one worker."""

    choice: str = "core"
    _mounted: Mounted | None = None
    _kept: dict[str, tuple[Rules, Kept]] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def mounted(self) -> Mounted:
        """Return what answers.

        Raises:
            MissingExtraError: the library of the `mcp` extra is not installed.
        """
        async with self._making:
            if self._mounted is None:
                await asyncio.to_thread(_load)
                from omnigraph.mcp.mounted import Mounted
                from omnigraph.mcp.toolbox import Choice

                self._mounted = Mounted(Choice.of(self.choice))
            return self._mounted

    def desk(self, served: Serving, actor: str | None, session: str) -> Desk:
        """Return where an agent works; what it read last is forgotten with the rules it read by."""
        from omnigraph.mcp.desk import Desk, Kept
        from omnigraph.mcp.rules import OwnBranches, home_of
        from omnigraph.policy.guard import GuardedGraph

        name, rules = actor or NOBODY, served.rules
        known = self._kept.get(name)
        kept = known[1] if known is not None and known[0] is rules else Kept(4, _KEPT_BYTES)
        self._kept.pop(name, None)
        self._kept[name] = (rules, kept)
        while len(self._kept) > _KEPT_ACTORS:
            self._kept.pop(next(iter(self._kept)), None)
        own = OwnBranches(home_of(name), rules.policy)
        return Desk(
            GuardedGraph(served.graph, own, name, named=actor is not None),
            own,
            name,
            session,
            read_limits=served.read_limits,
            write_limits=served.write_limits,
            kept=kept,
            remembers=False,
            secrets=served.secrets,
        )

    async def close(self) -> None:
        """End what is under way."""
        mounted, self._mounted = self._mounted, None
        if mounted is not None:
            await mounted.close()


def _load() -> None:
    """Load the library off the event loop, which it would hold up for half a second."""
    load_extra("mcp", "mcp", "/mcp")
    load_extra("omnigraph.mcp.mounted", "mcp", "/mcp")

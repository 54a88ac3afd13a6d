"""The tools for agents behind this server: made with the first request for them, kept per worker.

Knows who asked last and what they read; what a tool may do is settled by `omnigraph.mcp`, under
the same tokens and policy as every route.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.base.extras import load_extra
from omnigraph.server.rules import Rules

if TYPE_CHECKING:
    from omnigraph.api.protocols import AnyGraph
    from omnigraph.mcp.desk import Desk, Kept
    from omnigraph.mcp.mounted import Mounted

NOBODY = "anonymous"
"""What agents of a server without tokens are called; their commits have no actor."""


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

    def desk(
        self,
        graph: AnyGraph,
        rules: Rules,
        actor: str | None,
        session: str,
        secrets: tuple[str, ...],
    ) -> Desk:
        """Return where an agent works; what it read last is forgotten with the rules it read by."""
        from omnigraph.mcp.desk import Desk, Kept
        from omnigraph.mcp.rules import OwnBranches, home_of
        from omnigraph.policy.guard import GuardedGraph

        name = actor or NOBODY
        known = self._kept.get(name)
        kept = known[1] if known is not None and known[0] is rules else Kept()
        self._kept[name] = (rules, kept)
        own = OwnBranches(home_of(name), rules.policy)
        guarded = GuardedGraph(graph, own, name, named=actor is not None)
        return Desk(guarded, own, name, session, kept=kept, remembers=False, secrets=secrets)

    async def close(self) -> None:
        """End what is under way."""
        mounted, self._mounted = self._mounted, None
        if mounted is not None:
            await mounted.close()


def _load() -> None:
    """Load the library off the event loop, which it would hold up for half a second."""
    load_extra("mcp", "mcp", "/mcp")
    load_extra("omnigraph.mcp.mounted", "mcp", "/mcp")

"""Which tools an agent is given: what it may use, of what whoever started this chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.api.access import Action
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.errors import BadRequestError, DeniedError
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.reading import READING
from omnigraph.mcp.stored import stored_tools
from omnigraph.mcp.tools import Tool
from omnigraph.mcp.writing import writing

CORE, ALL = "core", "all"


@dataclass(frozen=True, slots=True)
class Choice:
    """What `--tools` says: the core with stored queries, all, or some by name."""

    names: frozenset[str] | None = None
    has_more: bool = False

    @classmethod
    def of(cls, text: str) -> Choice:
        """Return what a word or a list of names means.

        Raises:
            BadRequestError: a name is none of a tool.
        """
        word = text.strip()
        if word in (CORE, ALL):
            return cls(None, word == ALL)
        names = frozenset(filter(None, (one.strip() for one in word.split(","))))
        known = [one.name for one in (*READING, *writing(may_merge=True))]
        for name in sorted(names):
            if name not in known and not name.startswith(("q_", "find_stored", "run_stored")):
                hint = did_you_mean(name, known) or f"core, all, or some of {', '.join(known)}"
                raise BadRequestError(f"there is no tool '{name}'", hint=hint)
        if not names:
            raise BadRequestError("no tool is named", hint="core, all, or names")
        return cls(names, True)

    def takes(self, tool: Tool) -> bool:
        """Whether a tool is chosen."""
        if self.names is not None:
            return tool.name in self.names
        return self.has_more or tool.group != "more"


def tools_for(desk: Desk, choice: Choice) -> dict[str, Tool]:
    """Return the tools of an agent by name: what a policy never allows it is not offered."""
    found = (*_own(desk), *_stored(desk))
    return {one.name: one for one in found if choice.takes(one)}


def find_tool(desk: Desk, choice: Choice, name: str) -> Tool | None:
    """Return a tool by its name; stored queries are looked at only for one of theirs."""
    for make in (_own, _stored):
        for tool in make(desk):
            if tool.name == name and choice.takes(tool):
                return tool
    return None


def _own(desk: Desk) -> Iterator[Tool]:
    rules, actor = desk.rules, desk.actor
    reads = rules.grants_any(actor, Action.READ)
    yield from READING if reads else ()
    if rules.read_only:
        return
    may_write = rules.grants_any(actor, Action.CHANGE)
    may_merge = rules.may_merge and rules.grants_any(actor, Action.BRANCH_MERGE)
    for tool in writing(may_merge=may_merge):
        if reads if tool.name == "propose" else may_write:
            yield tool


def _stored(desk: Desk) -> tuple[Tool, ...]:
    try:
        queries = desk.graph.queries.list()
    except DeniedError:
        return ()  # a server shows its catalogue to others; the other tools work
    may_write = desk.rules.grants_any(desk.actor, Action.CHANGE)
    return stored_tools(queries, read_only=not may_write)

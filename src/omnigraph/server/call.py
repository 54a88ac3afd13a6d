"""One call of a route: who asks for what, judged before anything is looked up.

The names of branches are made canonical here, once, and before the policy sees them: what is judged
is what is done. Every route asks `allow` with its action and its resolved branches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from omnigraph.api.access import AccessDecision, AccessRequest, Action
from omnigraph.api.visibility import RowRules
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.base.budget import DEFAULT, Limits
from omnigraph.base.ids import BranchName
from omnigraph.errors import DeniedError
from omnigraph.graph.graph import Graph
from omnigraph.policy.rows import require_same_rows, rows_for
from omnigraph.server.agents import AgentTools
from omnigraph.server.bodies import CallLimits
from omnigraph.server.execution import Execution
from omnigraph.server.http import Exchange
from omnigraph.server.problems import bad_request
from omnigraph.server.rules import Rules
from omnigraph.storage.files.layout import parse_branch

log = logging.getLogger("omnigraph.policy")
T = TypeVar("T")
DocumentName = Literal["contract", "full"]
Layout = Literal["json", "ndjson", "arrow"]
_LONGEST_KEY = 255
_MAIN = BranchName(DEFAULT_BRANCH)
_TRUE, _FALSE = ("1", "true", "yes"), ("0", "false", "no", "")


@dataclass(slots=True)
class Served:
    """What one worker serves; `rules` is replaced when they are read again."""

    graph: Graph
    graph_id: str
    uri: str
    """What answers call the graph: its address without credentials."""
    execution: Execution
    rules: Rules
    read_limits: Limits
    write_limits: Limits
    load_bytes: int
    """How large the body of a streamed load may be."""
    secrets: tuple[str, ...] = ()
    """Texts that no answer may hold."""
    document: Callable[[DocumentName, bool], bytes] = lambda _, __: b"{}"
    """The OpenAPI documents, which are made from the routes above this; with tokens or without."""
    agents: AgentTools | None = None
    """The tools for agents, if they are to be had here."""
    is_local: bool = True
    """Whether a look at the head of the graph is a call of this machine, not of a network."""
    has_page: bool = True
    """Whether the page for people is served."""
    _handles: dict[str, Graph] = field(default_factory=dict)

    def graph_of(self, actor: str | None) -> Graph:
        """Return the graph in somebody's name; there are only as many as have tokens."""
        if actor is None:
            return self.graph
        found = self._handles.get(actor)
        if found is None:
            found = self._handles[actor] = self.graph.as_actor(actor)
        return found


@dataclass(slots=True)
class Call:
    """One request at its route; not for long."""

    served: Served
    exchange: Exchange
    operation: str
    """The path of the route, for messages."""
    words: Mapping[str, str]
    """The named words of the path."""
    actor: str | None
    body: Any = None
    """The decoded body, where the route takes one."""
    size: int = 0
    branch: BranchName | None = None
    """What the request is about, for the log."""
    hidden: list[str] = field(default_factory=list)
    """Texts of this machine that an answer must not hold."""
    rows: RowRules | None = None
    """Which rows are there for who asks, as far as that was judged; None is all of them."""

    @property
    def graph(self) -> Graph:
        """The graph in the name of who asks, with what they may see of it.

        Whoever takes it after `allow` has no way around what was judged.
        """
        found = self.served.graph_of(self.actor)
        # It has what a graph has, and refuses what needs every row.
        return found if self.rows is None else cast("Graph", found.under(self.rows))

    @property
    def execution(self) -> Execution:
        """Where the work is done."""
        return self.served.execution

    def canonical(self, name: str | None) -> BranchName:
        """Return the branch that is meant, main if none is named."""
        if name is None or name == DEFAULT_BRANCH:  # as most requests have it
            self.branch = _MAIN
        else:
            self.branch = parse_branch(name, operation=self.operation)
        return self.branch

    def allow(
        self,
        action: Action,
        *,
        branch: BranchName | None = None,
        target: BranchName | None = None,
    ) -> None:
        """Return only if who asks may do this.

        Raises:
            DeniedError: they may not.
        """
        found = authorize(self.served.rules, self.actor, action, branch, target)
        if not found.allowed:
            raise DeniedError(found.message)
        policy = self.served.rules.policy
        if policy is not None and policy.hides_rows:
            for one in (branch, target):
                shown = rows_for(policy, self.actor or "", action, one)
                if shown is not None:
                    self.rows = shown.within(self.rows)

    def allow_source(self, branch: BranchName, target: BranchName) -> None:
        """Return only if what a branch has may be taken to another one.

        Where the policy asks for that, who takes it has to be allowed to read it; and nobody takes
        rows they do not see to where they would.
        """
        policy = self.served.rules.policy
        if policy is None:
            return
        if policy.check_source:
            self.allow(Action.READ, branch=branch)
        require_same_rows(policy, self.actor or "", branch, target)

    async def look(self, work: Callable[[], T]) -> T:
        """Look something up that takes little."""
        return await self.execution.look(work)

    async def write(self, work: Callable[[], T]) -> T:
        """Run a small write."""
        return await self.execution.write(self.actor, self.size, work)

    async def job(self, work: Callable[[], T], size: int | None = None) -> T:
        """Run a long write."""
        return await self.execution.job(self.actor, self.size if size is None else size, work)

    # What a request says beside its body.

    def one(self, name: str) -> str | None:
        """Return a value of the query string; empty is none.

        Raises:
            ProblemError: it is there twice.
        """
        found = self.exchange.query.get(name, [])
        if len(found) > 1:
            raise bad_request(f"?{name}= is given {len(found)} times")
        return found[0] or None if found else None

    def required(self, name: str) -> str:
        """Return a value of the query string that must be there."""
        found = self.one(name)
        if found is None:
            raise bad_request(f"?{name}= is missing")
        return found

    def several(self, name: str) -> list[str] | None:
        """Return all values of the query string under a name, if there are any."""
        found = [one for one in self.exchange.query.get(name, []) if one]
        return found or None

    def flag(self, name: str) -> bool:
        """Return a yes or no of the query string; no is assumed."""
        text = (self.one(name) or "").lower()
        if text not in (*_TRUE, *_FALSE):
            raise bad_request(f"?{name}= is 1 or 0, not '{text}'")
        return text in _TRUE

    def number(self, name: str, minimum: int = 1) -> int | None:
        """Return a whole number of the query string."""
        text = self.one(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal()) or int(text[:20]) < minimum:
            raise bad_request(f"?{name}= is a whole number from {minimum} on, not '{text}'")
        return int(text[:20])

    def idempotency_key(self) -> str | None:
        """Return the key that a repeated write has in common with the first; each actor has theirs.

        Raises:
            ProblemError: it is no key.
        """
        key = self.exchange.header(b"idempotency-key")
        if key is None:
            return None
        if not key.strip() or len(key) > _LONGEST_KEY or not (key.isascii() and key.isprintable()):
            raise bad_request(
                f"the Idempotency-Key has 1 to {_LONGEST_KEY} printable ASCII characters"
            )
        if self.actor is None:
            return key
        # Names may have colons: `a:b` with the key `c` is not `a` with `b:c`.
        return f"{self.actor.replace('%', '%25').replace(':', '%3A')}:{key}"

    @property
    def layout(self) -> Layout:
        """How rows are to be written: as JSON unless something else is wanted more."""
        return preferred(self.exchange.header(b"accept"))

    def without_hidden(self, body: bytes) -> bytes:
        """Return an answer that calls uploaded files as their sender does."""
        for text in self.hidden:
            body = body.replace(text.encode(), b"")
        return body

    def limits(self, asked: CallLimits | None, *, writes: bool = False) -> Limits:
        """Return the limits of this call: those of the server, or tighter ones."""
        within = self.served.write_limits if writes else self.served.read_limits
        return within if asked is None else tightened(within, asked)


def tightened(within: Limits, asked: CallLimits) -> Limits:
    """Return limits as tight as both say."""
    wanted = Limits(asked.seconds, asked.rows, asked.bytes)  # refuses what is no limit
    return Limits(
        _least(within.seconds, wanted.seconds),
        _least(within.rows, wanted.rows),
        _least(within.bytes, wanted.bytes),
    )


def _least(one: Any, other: Any) -> Any:  # noqa: ANN401 - numbers, None and DEFAULT alike
    said = [value for value in (one, other) if value is not None and value is not DEFAULT]
    return min(said) if said else None


def authorize(
    rules: Rules,
    actor: str | None,
    action: Action,
    branch: BranchName | None,
    target: BranchName | None,
) -> AccessDecision:
    """Judge one thing somebody wants to do; without a policy everything is allowed."""
    if rules.policy is None:
        return AccessDecision(True, "no policy configured")
    found = rules.policy.decide(AccessRequest(actor or "", action, branch, target))
    told = (actor, action.value, branch, target, found.allowed, found.matched_rule)
    log.info(
        "actor_id=%s action=%s branch=%s target_branch=%s allowed=%s matched_rule_id=%s", *told
    )
    return found


_LAYOUTS: Mapping[str, Layout] = {
    "application/json": "json",
    "application/*": "json",
    "*/*": "json",
    "application/x-ndjson": "ndjson",
    "application/vnd.apache.arrow.stream": "arrow",
}


def preferred(accept: str | None) -> Layout:
    """Return the layout that an Accept header puts first; JSON if it names none we have.

    >>> preferred("application/json, application/x-ndjson"), preferred("application/x-ndjson")
    ('json', 'ndjson')
    """
    best: tuple[float, Layout] = (0.0, "json")
    for word in (accept or "").split(","):
        name, *parameters = (part.strip().lower() for part in word.split(";"))
        layout = _LAYOUTS.get(name)
        quality = 1.0
        for one in parameters:
            if one.startswith("q="):
                quality = float(one[2:]) if one[2:].replace(".", "", 1).isdecimal() else 0.0
        if layout is not None and quality > best[0]:
            best = (quality, layout)
    return best[1]

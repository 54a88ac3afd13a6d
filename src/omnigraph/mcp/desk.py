"""Where one agent works: the graph as far as it may use it, its branches, what it read last."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from omnigraph.api.access import AccessRequest, Action
from omnigraph.api.query import QueryResult
from omnigraph.api.words import DEFAULT_BRANCH
from omnigraph.base.budget import Limits
from omnigraph.base.recent import Recent
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, DeniedError
from omnigraph.mcp.answers import Budget, rows_text
from omnigraph.mcp.cursors import Cursor, request_of
from omnigraph.mcp.rules import OwnBranches
from omnigraph.policy.guard import GuardedGraph
from omnigraph.storage.files.layout import parse_branch

_CATALOGS: Final[Recent[str, Catalog]] = Recent(16)

Key = tuple[str, str]


class Kept:
    """The last results, so that a next page need not be computed. Thread-safe."""

    def __init__(self, results: int = 8, most_bytes: int = 64 << 20) -> None:
        self._results, self._most = results, most_bytes
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, QueryResult] = OrderedDict()

    def find(self, key: Key) -> QueryResult | None:
        """Return a result that is still kept."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def keep(self, key: Key, found: QueryResult) -> None:
        """Keep a result instead of the one that was not asked for longest."""
        if found.table.nbytes > self._most:
            return
        with self._lock:
            self._found[key] = found
            while len(self._found) > self._results or self._bytes() > self._most:
                self._found.popitem(last=False)

    def _bytes(self) -> int:
        return sum(one.table.nbytes for one in self._found.values())


@dataclass(slots=True)
class Desk:
    """What the tools of one agent have in common."""

    graph: GuardedGraph
    rules: OwnBranches
    actor: str
    session: str
    """Stands in the message of every commit."""
    budget: Budget = field(default_factory=Budget)
    read_limits: Limits = field(default_factory=Limits)
    """What whoever opened the graph allows a read to take; a call takes no more, and maybe less."""
    write_limits: Limits = field(default_factory=Limits)
    kept: Kept = field(default_factory=Kept)
    current: str | None = None
    """The branch that work was started on, where the same desk serves all calls."""
    remembers: bool = True
    """Whether it does: over HTTP every call may meet another process."""
    secrets: tuple[str, ...] = ()
    """Texts that no answer may hold; if there are any, the agent is not the one who keeps the
    graph, and is not told what its files have to do with an error."""

    @property
    def catalog(self) -> Catalog:
        """What the schema of main means."""
        text = self.graph.schema
        known = _CATALOGS.find(text)
        return known or _CATALOGS.keep(text, load_schema(Source(text, "<schema>")).catalog)

    def own_branch(self, named: str | None) -> str:
        """Return the branch to write to: the one that is named, else the one work began on.

        Raises:
            BadRequestError: there is none.
            DeniedError: it is none of the agent's, whether it is there or not.
        """
        found = named or self.current
        if found is None:
            raise BadRequestError(
                "no branch is named", hint="call start_work and pass the branch it returns"
            )
        asked = AccessRequest(self.actor, Action.CHANGE, parse_branch(found))
        judged = self.rules.decide(asked)  # and again by the guard, when it is written
        if not judged.allowed:
            raise DeniedError(judged.message)
        return found

    def message(self, said: str | None) -> str:
        """Return what stands on a commit: what the agent says, and in which session."""
        return f"{said or 'agent'} [session {self.session}]"

    def key(self, given: str | None, *asked: object) -> str:
        """Return the key under which a repeated write is done once: the agent's, or derived."""
        made = given or request_of(self.session if self.remembers else "", *asked)
        return f"mcp:{self.actor}:{made}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a tool."""

    desk: Desk
    given: Mapping[str, Any]
    cancel: threading.Event
    started: float = field(default_factory=time.monotonic)

    def text(self, name: str) -> str | None:
        """Return an argument; empty is none."""
        found = self.given.get(name)
        return found or None

    @property
    def query(self) -> Source:
        """The query that was sent: a text, even where it looks like the path of a file."""
        return Source(self.given["query"], "<query>")

    @property
    def branch(self) -> str:
        """The branch to read: the one that is named, else main."""
        return self.text("branch") or DEFAULT_BRANCH

    @property
    def how(self) -> dict[str, Any]:
        """How queries of this call run."""
        return self._how(self.desk.read_limits)

    @property
    def how_to_write(self) -> dict[str, Any]:
        """How mutations of this call run."""
        return self._how(self.desk.write_limits)

    def _how(self, limits: Limits) -> dict[str, Any]:
        """Return limits of one of the queries of this call, which share its time."""
        allowed, own = limits.seconds, self.desk.budget.seconds
        seconds = min(allowed, own) if isinstance(allowed, int | float) else own
        left = max(0.0, seconds - (time.monotonic() - self.started))
        return {"limits": replace(limits, seconds=left), "cancel": self.cancel}

    @property
    def budget(self) -> Budget:
        """What the answer may be."""
        return self.desk.budget.tightened(self.given.get("max_rows"))

    def page(
        self,
        asked: tuple[object, ...],
        run: Callable[[str | None], QueryResult],
        cursor: str | None,
    ) -> str:
        """Return one page of rows, all pages of which are of one commit.

        Args:
            asked: what makes this request another one than others.
            run: runs it, on a commit or on what the branch is now.
            cursor: where the page before ended.
        """
        desk = self.desk
        request = request_of(desk.actor, self.branch, *asked)
        begun = None if cursor is None else Cursor.read(cursor, request)
        found = None if begun is None else self._kept_at(begun)
        if found is None:
            found = run(None if begun is None else begun.commit)
        commit = found.commit_id or ""
        # What is hidden may be more by the next page, so nothing is kept that hides rows.
        if not desk.rules.hides_rows and len(found) > desk.budget.rows // 2:
            desk.kept.keep((commit, request), found)

        def onwards(offset: int) -> str:
            return Cursor(commit, offset, request).text()

        return rows_text(found, begun.offset if begun else 0, self.budget, commit, onwards)

    def _kept_at(self, cursor: Cursor) -> QueryResult | None:
        """Return what the page before was of, if it is kept and may still be read."""
        found = self.desk.kept.find((cursor.commit, cursor.request))
        if found is not None:
            self.desk.graph.at(cursor.commit, branch=self.branch)  # asks the policy
        return found

"""The stored queries of a graph for one actor: what they may not call is not there for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from omnigraph.api.access import Action
from omnigraph.api.keywords import StoredKeywords
from omnigraph.api.query import QueryResult
from omnigraph.api.stored import StoredQuery, StoredQueryNotFoundError
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.api.writes import MutationResult
from omnigraph.errors import DeniedError
from omnigraph.policy.access import Gate


@dataclass(frozen=True, slots=True)
class GuardedQueries:
    """The stored queries that an actor may call."""

    _gate: Gate

    def list(self) -> list[StoredQuery]:
        """Return every stored query that the actor may call on some branch, by name."""
        if not self._grants(Action.INVOKE_QUERY):
            return []
        may_write = self._grants(Action.CHANGE)
        return [one for one in self._gate.graph.queries.list() if may_write or not one.mutation]

    def get(self, name: str) -> StoredQuery:
        """Return a stored query that the actor may call.

        Raises:
            StoredQueryNotFoundError: there is none of that name, or not for them.
        """
        for one in self.list():
            if one.name == name:
                return one
        raise StoredQueryNotFoundError(name)

    def run(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        **how: Unpack[StoredKeywords],
    ) -> QueryResult | MutationResult:
        """Run a stored query, if the actor may call it there."""
        gate, moment = self._gate, branch if at is None else at
        actions = [Action.INVOKE_QUERY]
        if self.get(name).mutation:
            actions.append(Action.CHANGE)
        try:
            for action in actions:
                if at is None:
                    gate.pass_(action, branch=branch)
                else:
                    gate.pass_moment(at, action, branch=branch)
        except DeniedError:
            raise StoredQueryNotFoundError(name) from None
        seen = gate.seen_by(actions, moment, branch=branch)
        return seen.queries.run(name, params, branch=branch, at=at, **how)

    def _grants(self, action: Action) -> bool:
        return self._gate.policy.grants_any(self._gate.actor, action)

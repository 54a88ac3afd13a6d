"""The questions a guard asks, with every name made canonical before it is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from omnigraph.api.access import AccessPolicy, AccessRequest, Action
from omnigraph.api.protocols import AnyGraph
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.base.ids import BranchName
from omnigraph.errors import DeniedError, NotFoundError
from omnigraph.policy.rows import require_same_rows, rows_for
from omnigraph.storage.files.layout import parse_branch

_SINCE_FORK = "..."
_VERSION = "@"


@dataclass(frozen=True, slots=True)
class Gate:
    """One actor before one graph. Every method returns only if the actor may."""

    graph: AnyGraph
    policy: AccessPolicy
    actor: str

    def pass_(
        self, action: Action, *, branch: str | None = None, target: str | None = None
    ) -> None:
        """Judge an action on a branch, or ending up on one.

        Raises:
            DeniedError: no rule allows it.
            BadRequestError: what is named cannot be a branch.
        """
        on = None if branch is None else parse_branch(branch)
        to = None if target is None else parse_branch(target)
        found = self.policy.decide(AccessRequest(self.actor, action, on, to))
        if not found.allowed:
            raise DeniedError(found.message)

    def seen(self, action: Action, *moments: Moment, branch: str = DEFAULT_BRANCH) -> AnyGraph:
        """Return the graph with the rows the actor sees of some states for what they do there."""
        return self.seen_by((action,), *moments, branch=branch)

    def seen_by(
        self, actions: Sequence[Action], *moments: Moment, branch: str = DEFAULT_BRANCH
    ) -> AnyGraph:
        """Return the graph with the rows that are seen for every one of some actions.

        Raises:
            RowRulesError: some rows are hidden, and the graph cannot leave rows out.
        """
        if not self.policy.hides_rows:
            return self.graph
        shown: RowRules | None = None
        for moment in moments:
            for one in self._branches_of(moment, branch):
                for action in actions:
                    found = rows_for(self.policy, self.actor, action, one)
                    shown = shown if found is None else found.within(shown)
        if shown is None:
            return self.graph
        if not hasattr(self.graph, "under"):
            raise RowRulesError("a graph that is not opened here")
        under = self.graph.under(shown)
        return cast("AnyGraph", under)  # it refuses what it lacks

    def pass_source(self, moment: Moment, target: str, branch: str = DEFAULT_BRANCH) -> None:
        """Judge that rows are taken from a state to a branch."""
        if self.policy.check_source:
            self.pass_moment(moment, branch=branch)
        for one in self._branches_of(moment, branch) if self.policy.hides_rows else ():
            require_same_rows(self.policy, self.actor, one, parse_branch(target))

    def pass_moment(
        self, moment: Moment, action: Action = Action.READ, *, branch: str = DEFAULT_BRANCH
    ) -> None:
        """Judge that a state is read: a branch, a commit, a tag, a version, or two of a kind.

        A commit is judged by the branch it was made on, whatever branch it is asked for by.
        """
        if not self.policy.grants_any(self.actor, action):  # before anything is looked up
            self.pass_(action)
        if isinstance(moment, int):
            self.pass_(action, branch=branch)
            return
        for part in moment.split(_SINCE_FORK):
            self.pass_(action, branch=self._branch_of(part))

    def _branches_of(self, moment: Moment, branch: str) -> Iterator[BranchName]:
        """Yield the branches by which a state is judged."""
        if isinstance(moment, int):
            yield parse_branch(branch)
            return
        for part in moment.split(_SINCE_FORK):
            # What has no such name now may have it in a moment: nobody sees more by that.
            yield self._branch_of(part) or BranchName(DEFAULT_BRANCH)

    def _branch_of(self, part: str) -> BranchName | None:
        """Return the branch a part of the past belongs to; None if nothing has that name."""
        name = part.strip()
        if name in self.graph.branches.list():
            return parse_branch(name)
        before, at, version = name.rpartition(_VERSION)
        if at and version.isdecimal():
            return parse_branch(before)
        try:
            commit = self.graph.commits.get(name)
        except NotFoundError:
            return None
        return BranchName(commit.manifest_branch or DEFAULT_BRANCH)

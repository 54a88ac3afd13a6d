"""The questions a guard asks, with every name made canonical before it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.api.access import AccessPolicy, AccessRequest, Action
from omnigraph.api.protocols import AnyGraph
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.base.ids import BranchName
from omnigraph.errors import DeniedError, NotFoundError
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

    def pass_source(self, moment: Moment, branch: str = DEFAULT_BRANCH) -> None:
        """Judge that rows are taken from a state, where the policy asks for that."""
        if self.policy.check_source:
            self.pass_moment(moment, branch=branch)

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

"""The branches, commits and tags of a graph for one actor: every call is judged first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from omnigraph.api.access import Action
from omnigraph.api.history import BranchCreated, BranchDeleted, GraphCommit
from omnigraph.api.keywords import CommitListKeywords, MergeKeywords, ResetKeywords
from omnigraph.api.merges import ChangeApplied, MergeResult, Tag
from omnigraph.api.words import Moment
from omnigraph.policy.access import Gate


@dataclass(frozen=True, slots=True)
class GuardedBranches:
    """The branches of a graph."""

    _gate: Gate

    def list(self) -> list[str]:
        """Return the names of all branches, main first, then sorted."""
        self._gate.pass_(Action.READ)
        return self._gate.graph.branches.list()

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> BranchCreated:
        """Create a branch from what `source` is now, or was at a commit."""
        self._gate.pass_(Action.BRANCH_CREATE, branch=source, target=name)
        self._gate.pass_source(source if at is None else at, name)
        return self._gate.graph.branches.create(name, source=source, at=at)

    def delete(self, name: str) -> BranchDeleted:
        """Delete a branch and what only it knows."""
        self._gate.pass_(Action.BRANCH_DELETE, target=name)
        return self._gate.graph.branches.delete(name)

    def merge(self, source: str, into: str = "main", **how: Unpack[MergeKeywords]) -> MergeResult:
        """Merge a branch into another: as one commit, or not at all.

        A preview shows rows of both and writes nothing: who may read both may look at it.
        """
        if how.get("preview"):
            self._gate.pass_(Action.READ, branch=source)
            self._gate.pass_(Action.READ, branch=into)
        else:
            self._gate.pass_(Action.BRANCH_MERGE, branch=source, target=into)
            self._gate.pass_source(source, into)
        if (base := how.get("base")) is not None:  # conflicts show its rows
            self._gate.pass_moment(base)
        if how.get("delete_source"):
            self._gate.pass_(Action.BRANCH_DELETE, target=source)
        states = (source, into) if base is None else (source, into, base)
        seen = self._gate.seen(Action.BRANCH_MERGE, *states)
        return seen.branches.merge(source, into, **how)

    def reset(self, name: str, *, to: str, **how: Unpack[ResetKeywords]) -> ChangeApplied:
        """Make a branch what it was at a commit, as a new commit."""
        self._gate.pass_(Action.CHANGE, branch=name)
        self._gate.pass_moment(to)
        seen = self._gate.seen(Action.CHANGE, name, to)
        return seen.branches.reset(name, to=to, **how)


@dataclass(frozen=True, slots=True)
class GuardedCommits:
    """The history of a graph."""

    _gate: Gate

    def list(self, branch: str = "main", **which: Unpack[CommitListKeywords]) -> list[GraphCommit]:
        """Return the commits of a branch, newest first."""
        self._gate.pass_(Action.READ, branch=branch)
        return self._gate.graph.commits.list(branch, **which)

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch."""
        self._gate.pass_moment(commit_id)
        return self._gate.graph.commits.get(commit_id)


@dataclass(frozen=True, slots=True)
class GuardedTags:
    """Commits by names for people."""

    _gate: Gate

    def list(self) -> list[Tag]:
        """Return all tags by their names."""
        self._gate.pass_(Action.READ)
        return self._gate.graph.tags.list()

    def create(
        self,
        name: str,
        *,
        at: Moment | None = None,
        branch: str = "main",
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a commit, which stays readable."""
        self._gate.pass_(Action.BRANCH_CREATE, branch=branch, target=name)
        self._gate.pass_moment(branch if at is None else at, branch=branch)
        return self._gate.graph.tags.create(
            name, at=at, branch=branch, actor=actor, message=message
        )

    def delete(self, name: str) -> None:
        """Let go of a tag."""
        self._gate.pass_(Action.BRANCH_DELETE, target=name)
        self._gate.graph.tags.delete(name)

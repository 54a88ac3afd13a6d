"""The branches and commits of a graph, as every surface shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from omnigraph.api.history import (
    BranchCreated,
    BranchDeleted,
    GraphCommit,
    GraphSnapshot,
    TableSnapshot,
)
from omnigraph.api.merges import ChangeApplied, MergeResult, Strategy
from omnigraph.engine.merge.replay import Replay
from omnigraph.engine.merge.resolve import resolutions
from omnigraph.engine.merge.run import Request
from omnigraph.graph.merging import apply_change, merge_branch
from omnigraph.graph.requests import check_labels, check_limit, who_writes
from omnigraph.graph.state import GraphState
from omnigraph.storage.files.layout import MAIN
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.snapshot import Snapshot

_MORE = 4


class Branches:
    """The branches of a graph."""

    def __init__(self, state: GraphState, actor: str | None = None) -> None:
        self._state = state
        self._actor = actor

    def __repr__(self) -> str:
        return f"Branches({self._state.described()})"

    def list(self) -> list[str]:
        """Return the names of all branches, main first, then sorted."""
        return [info.name for info in self._state.store.branches.list()]

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> BranchCreated:
        """Create a branch from what `source` is now, or was at a commit."""
        self._state.store.branches.create(name, source, commit_id=at)
        return BranchCreated(self._state.uri, source, name, self._actor)

    def merge(
        self,
        source: str,
        into: str = "main",
        *,
        actor: str | None = None,
        strategy: Strategy = "fail",
        resolve: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        columns: bool = False,
        base: str | None = None,
        delete_source: bool = False,
        message: str | None = None,
        preview: bool = False,
        spark: object = None,
    ) -> MergeResult:
        """Merge a branch, as it is now, into another: as one commit, or not at all.

        Args:
            source: the branch whose changes are brought.
            into: the branch that gets them.
            actor: who does it.
            strategy: what becomes of rows both sides changed: `fail`, or whose row counts, `ours`
                (of `into`) or `theirs` (of `source`).
            resolve: how single conflicts are settled: a mapping of tables to a strategy, or to a
                mapping of ids to `ours`, `theirs`, `{"columns": {name: side}}` or
                `{"values": {name: value}}`; or conflicts as they were told, each with its
                `resolution`.
            columns: put changes of different columns of one row together.
            base: a commit that counts as what both sides began from, instead of what history says.
            delete_source: delete the source once it is merged; if that cannot be, the merge stands.
            message: why.
            preview: compute everything and write nothing; conflicts are returned, not raised.
            spark: a SparkSession, or `SparkSettings` to start one, that goes through tables of
                which more changed than fits into memory; without one this process does.

        Raises:
            MergeConflictError: both sides changed what does not go together.
            MergeBaseExpiredError: the rows both began from were cleaned up.
            NotFoundError: there is no such branch.
            ConflictError: the branches have nothing in common, or the target was changed faster
                than this could be computed.
        """
        by = who_writes(self._actor, actor)
        said = resolutions(strategy, resolve, columns=columns)
        request = Request(source, into, said, base, by, message, preview)
        return merge_branch(self._state, request, delete_source=delete_source, spark=spark)

    def reset(
        self,
        name: str,
        *,
        to: str,
        actor: str | None = None,
        message: str | None = None,
        preview: bool = False,
    ) -> ChangeApplied:
        """Make a branch what it was at a commit, as a new commit; what came since stays history.

        Args:
            name: the branch.
            to: a commit id or a tag.
            actor: who does it.
            message: why.
            preview: compute everything and write nothing.

        Raises:
            NotFoundError: there is no such branch or commit.
            SnapshotExpiredError: its rows were cleaned up.
        """
        by = who_writes(self._actor, actor)
        wanted = Replay("reset", to, name, actor=by, message=message, preview=preview)
        return apply_change(self._state, wanted)

    def delete(self, name: str) -> BranchDeleted:
        """Delete a branch and what only it knows."""
        self._state.store.branches.delete(name)
        self._state.let_go(name)
        return BranchDeleted(self._state.uri, name, self._actor)


class Commits:
    """The history of a graph."""

    def __init__(self, state: GraphState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"Commits({self._state.described()})"

    def list(
        self,
        branch: str = "main",
        *,
        limit: int | None = None,
        since: str | datetime | None = None,
        actor: str | None = None,
        all: bool = False,
        reverse: bool = False,
    ) -> list[GraphCommit]:
        """Return the commits of a branch, newest first.

        Args:
            branch: the branch.
            limit: no more than so many, the newest ones.
            since: only those after a commit or tag, or from a moment on (a date, a time).
            actor: only those somebody made.
            all: also those that only moved bytes: compactions, indexes, recoveries.
            reverse: oldest first.

        Raises:
            NotFoundError: there is no such branch, or no such commit to begin after.
            BadRequestError: the limit is no number of commits.
        """
        check_limit(limit)
        check_labels(actor=actor)
        later = None if since is None else self._later_than(since)

        def wanted(commit: Commit) -> bool:
            return (
                (all or commit.kind == "logical")
                and actor in (None, commit.actor)
                and (later is None or later(commit))
            )

        found = [commit for commit in self._newest(branch, limit, wanted) if wanted(commit)]
        newest = found[::-1][:limit]
        return [graph_commit(commit) for commit in (newest[::-1] if reverse else newest)]

    def _newest(
        self, branch: str, limit: int | None, wanted: Callable[[Commit], bool]
    ) -> Sequence[Commit]:
        """Return commits that hold the wanted ones; a short list reads only a part of the line."""
        store, asked = self._state.store, limit
        while asked is not None:
            asked *= _MORE
            found = store.commits(branch, newest=asked)
            if len(found) < asked or sum(map(wanted, found)) >= (limit or 0):
                return found
        return store.commits(branch)

    def _later_than(self, since: str | datetime) -> Callable[[Commit], bool]:
        """Return what tells whether a commit came after something."""
        at = since if isinstance(since, datetime) else moment_of(since)
        if at is not None:
            at_us = int(at.timestamp() * 1_000_000)
            return lambda commit: commit.created_at_us >= at_us
        before = self._state.store.commit(since)  # type: ignore[arg-type]  # a moment was seen above
        return lambda commit: commit.sequence > before.sequence

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch.

        Raises:
            NotFoundError: no branch knows it.
        """
        return graph_commit(self._state.store.commit(commit_id))


def moment_of(text: str) -> datetime | None:
    """Return the moment a text names, in UTC unless it says otherwise; None if it names none."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def graph_commit(commit: Commit) -> GraphCommit:
    """Return a commit as every surface shows it."""
    return GraphCommit(
        graph_commit_id=commit.id,
        manifest_branch=None if commit.branch == MAIN else commit.branch,
        manifest_version=commit.manifest_version,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
        created_at=commit.created_at_us,
        message=commit.message,
        maintenance=True if commit.kind == "maintenance" else None,
    )


def graph_snapshot(snapshot: Snapshot) -> GraphSnapshot:
    """Return a snapshot as every surface shows it: without the way to its rows."""
    tables = (
        TableSnapshot(table.key, table.location, table.version, table.branch, table.row_count)
        for table in sorted(snapshot.tables.values())
    )
    return GraphSnapshot(
        snapshot.branch,
        snapshot.commit_id,
        snapshot.logical_commit_id,
        snapshot.manifest_version,
        tuple(tables),
    )

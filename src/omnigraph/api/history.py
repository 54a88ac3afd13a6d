"""Where a graph has been: commits, branches, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from omnigraph.api.wire import Shape, Wire
from omnigraph.errors import NotFoundError


class TableNotFoundError(NotFoundError):
    """The snapshot has no table of that key."""


@dataclass(frozen=True, slots=True)
class GraphCommit(Shape):
    """One point in the history of a branch; a `manifest_branch` of None is main."""

    graph_commit_id: str
    manifest_branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """Microseconds since the epoch."""
    message: Annotated[str | None, Wire(omit_empty=True)] = None
    """Why, in the words of who did it."""
    maintenance: Annotated[bool | None, Wire(omit_empty=True)] = None
    """Whether it only moved bytes: compaction, an index, recovery."""


@dataclass(frozen=True, slots=True)
class CommitList(Shape):
    """The commits of a branch."""

    commits: tuple[GraphCommit, ...]


@dataclass(frozen=True, slots=True)
class TableSnapshot(Shape):
    """One table of a snapshot: where its rows are, and how many."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    """The branch whose files hold the rows; None is main."""
    row_count: int


@dataclass(frozen=True, slots=True)
class GraphSnapshot(Shape):
    """The state of a branch at one commit: every table at its version."""

    branch: str
    commit_id: Annotated[str, Wire("graph_commit_id")]
    logical_commit_id: str
    """The newest commit up to here that changed what the graph means; upkeep does not."""
    manifest_version: int
    tables: tuple[TableSnapshot, ...]
    """By their keys."""

    def table(self, key: str) -> TableSnapshot:
        """Return one table.

        Raises:
            NotFoundError: there is none of that key.
        """
        for table in self.tables:
            if table.table_key == key:
                return table
        known = ", ".join(table.table_key for table in self.tables) or "none"
        raise TableNotFoundError(
            f"there is no table '{key}' at commit {self.commit_id}",
            hint=f"the tables are {known}",
        )


@dataclass(frozen=True, slots=True)
class BranchList(Shape):
    """The names of all branches."""

    branches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchCreated(Shape):
    """A branch that was made from what another one is, or was."""

    uri: str
    source: Annotated[str, Wire("from")]
    name: str
    actor_id: str | None = None


@dataclass(frozen=True, slots=True)
class BranchDeleted(Shape):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None = None

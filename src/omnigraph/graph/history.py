"""The past of a graph: branches, commits, and the graph as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.read.context import Limits
from omnigraph.errors import BadRequestError
from omnigraph.graph.texts import Text
from omnigraph.result import QueryResult
from omnigraph.storage.layout import MAIN
from omnigraph.storage.records import Commit
from omnigraph.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.opened import OpenGraph


@dataclass(frozen=True, slots=True)
class GraphCommit:
    """One point in the history of a branch; a `manifest_branch` of None is main."""

    graph_commit_id: str
    manifest_branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """Microseconds since the epoch."""


class GraphAt:
    """The graph as one commit left it; only for reading."""

    def __init__(self, graph: Graph, snapshot: Snapshot) -> None:
        self._graph = graph
        self.snapshot = snapshot

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._graph.uri

    @property
    def catalog(self) -> Catalog:
        """What the schema of that commit means."""
        return self._graph._catalog(self.snapshot)

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
    ) -> QueryResult:
        """Run a read query; see `Graph.query`."""
        snapshot = self.snapshot
        return self._graph.query(
            source, name, params, branch=snapshot.branch, at=snapshot.commit_id, limits=limits
        )

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it was not there."""
        if not isinstance(entity_id, str):
            raise BadRequestError(f"an id is text, not {type(entity_id).__name__}")
        found = QueryResult(self.snapshot.open(table_key).by_ids([entity_id])).to_dicts()
        return found[0] if found else None


class Branches:
    """The branches of a graph."""

    def __init__(self, graph: OpenGraph) -> None:
        self._graph = graph

    def list(self) -> list[str]:
        """Return the names of all branches, sorted."""
        return sorted(info.name for info in self._graph.store.branches.list())

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> Snapshot:
        """Create a branch from what `source` is now, or was at a commit."""
        return self._graph.store.branches.create(name, source, commit_id=at)

    def delete(self, name: str) -> None:
        """Delete a branch and what only it knows."""
        self._graph.store.branches.delete(name)


class Commits:
    """The history of a graph."""

    def __init__(self, graph: OpenGraph) -> None:
        self._graph = graph

    def list(self, branch: str = "main") -> list[GraphCommit]:
        """Return the commits of a branch, oldest first."""
        return [_graph_commit(commit) for commit in self._graph.store.commits(branch)]

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch.

        Raises:
            NotFoundError: no branch knows it.
        """
        return _graph_commit(self._graph.store.commit(commit_id))


def _graph_commit(commit: Commit) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=commit.id,
        manifest_branch=None if commit.branch == MAIN else commit.branch,
        manifest_version=commit.manifest_version,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
        created_at=commit.created_at_us,
    )

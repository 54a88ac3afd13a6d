"""An open graph: its store, its schema, its branches; opening and closing. No reads, no writes."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.errors import BadRequestError
from omnigraph.graph.contract import SCHEMA_FILE, Catalogs
from omnigraph.graph.history import Branches, Commits
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.reader import GraphReader
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


class ClosedError(BadRequestError):
    """The graph was closed."""


class OpenGraph:
    """What every part of a graph's porcelain stands on."""

    def __init__(self, store: GraphStore, options: GraphOptions) -> None:
        self._store: GraphStore | None = store
        self._options = options
        self._reader = GraphReader(options)
        self._catalogs = Catalogs()
        self.branches = Branches(self)
        self.commits = Commits(self)

    @property
    def store(self) -> GraphStore:
        """The storage below; for tools, not for everyday use."""
        if self._store is None:
            raise ClosedError("this graph is closed", hint="connect again")
        return self._store

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return str(self.store.kernel.root)

    @property
    def schema(self) -> str:
        """The accepted schema text."""
        return self.store.read_file(SCHEMA_FILE).decode()

    @property
    def catalog(self) -> Catalog:
        """What the accepted schema means."""
        return self._catalog(self.store.snapshot())

    def snapshot(self, branch: str = "main") -> Snapshot:
        """Return the current state of a branch, as one immutable value."""
        return self.store.snapshot(branch)

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        store, self._store = self._store, None
        if store is not None:
            store.close()
        self._reader.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _snapshot_at(self, branch: str, at: str | int | None) -> Snapshot:
        match at:
            case None:
                return self.store.snapshot(branch)
            case int() if not isinstance(at, bool):
                return self.store.snapshot_at(version=at, branch=branch)
            case str():
                return self.store.snapshot_at(commit_id=at, branch=branch)
            case _:
                what = type(at).__name__
                raise BadRequestError(f"a moment is a commit id or a version, not a {what}")

    def _catalog(self, snapshot: Snapshot) -> Catalog:
        return self._catalogs.of(self.store, snapshot)

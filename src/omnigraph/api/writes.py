"""What writes and bulk jobs did: mutations, loads, exports, embedding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from omnigraph.api.violations import Violation
from omnigraph.api.wire import Shape, Wire
from omnigraph.api.words import EmbedMode, Mode, RefillMode
from omnigraph.base.table_keys import EDGE, NODE


@dataclass(frozen=True, slots=True)
class MutationResult(Shape):
    """What a mutation did. Without any effect there is no commit and `commit_id` is None."""

    affected_nodes: int
    affected_edges: int
    commit_id: str | None
    replayed: bool = False
    """Whether an earlier request with the same idempotency key had done it already."""
    branch: str = ""
    query_name: str = ""
    actor_id: str | None = None

    def to_json(self) -> dict[str, int]:
        """Return the counts alone, in the names programs in JavaScript know them by."""
        return {"affectedNodes": self.affected_nodes, "affectedEdges": self.affected_edges}


@dataclass(frozen=True, slots=True)
class TableLoaded(Shape):
    """How many rows of one table a load wrote."""

    table_key: str
    rows_loaded: int


@dataclass(frozen=True, slots=True)
class LoadResult(Shape):
    """What a load did. Without any effect there is no commit and `commit_id` is None."""

    uri: str
    branch: str
    mode: Mode
    tables: tuple[TableLoaded, ...]
    """By their keys."""
    commit_id: str | None
    engine: str
    engine_reason: str
    files: int
    skipped: int
    skipped_rows: tuple[Violation, ...] = ()
    """Why rows were left out, the first of them; empty unless that was asked for."""
    embedded: int = 0
    seconds: Annotated[Mapping[str, float], Wire(digits=3)] = field(default_factory=dict)
    base_branch: str | None = None
    branch_created: bool = False
    actor_id: str | None = None
    replayed: bool = False
    """Whether the load was made before under its idempotency key; nothing was written now."""

    @property
    def nodes_loaded(self) -> dict[str, int]:
        """Rows per node type."""
        return self._rows(NODE)

    @property
    def edges_loaded(self) -> dict[str, int]:
        """Rows per edge type."""
        return self._rows(EDGE)

    def _rows(self, kind: str) -> dict[str, int]:
        return {
            table.table_key.removeprefix(kind): table.rows_loaded
            for table in self.tables
            if table.table_key.startswith(kind)
        }

    def _derived(self) -> dict[str, Any]:
        nodes, edges = self.nodes_loaded, self.edges_loaded
        return {
            "nodes_loaded": sum(nodes.values()),
            "edges_loaded": sum(edges.values()),
            "node_types_loaded": len(nodes),
            "edge_types_loaded": len(edges),
        }


@dataclass(frozen=True, slots=True)
class TableWritten(Shape):
    """How many rows of one table an export wrote."""

    table_key: str
    rows: int


@dataclass(frozen=True, slots=True)
class ExportResult(Shape):
    """What an export wrote: the rows of some tables at one commit."""

    branch: str
    commit_id: str
    tables: tuple[TableWritten, ...]


@dataclass(frozen=True, slots=True)
class EmbedResult(Shape):
    """What was filled. Without any effect there is no commit and `commit_id` is None."""

    uri: str
    branch: str
    mode: RefillMode
    model: str
    embedded: Mapping[str, int]
    """Vectors made, by `Type.property`."""
    commit_id: str | None
    actor_id: str | None = None

    @property
    def embedded_rows(self) -> int:
        """All vectors that were made."""
        return sum(self.embedded.values())

    def _derived(self) -> dict[str, Any]:
        return {"embedded_rows": self.embedded_rows}


@dataclass(frozen=True, slots=True)
class FileEmbedResult(Shape):
    """What was made from a file of JSON lines."""

    input: str
    output: str
    rows: int
    selected_rows: int
    embedded_rows: int
    cleaned_rows: int
    mode: EmbedMode
    dimension: int
    model: str | None

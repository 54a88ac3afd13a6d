"""One branch, or one state of the past, for one actor: every call is judged first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack

from omnigraph.api.access import Action
from omnigraph.api.history import GraphSnapshot
from omnigraph.api.keywords import (
    AnyLoadKeywords,
    EmbedKeywords,
    ExportKeywords,
    MutateKeywords,
    OptimizeKeywords,
    QueryKeywords,
)
from omnigraph.api.pictures import PICTURE_NODES, Picture
from omnigraph.api.protocols import BranchView, Reads, Text
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.upkeep import (
    CompactionStats,
    IndexReport,
)
from omnigraph.api.words import ExportFormat
from omnigraph.api.writes import EmbedResult, ExportResult, LoadResult, MutationResult
from omnigraph.policy.access import Gate

if TYPE_CHECKING:
    import pyarrow as pa


class GuardedReads:
    """One state of a graph; `judge` is asked before every call what of it there is for the call."""

    def __init__(self, judge: Callable[[Action], Reads]) -> None:
        self.__judge = judge

    def _for(self, action: Action) -> Reads:
        return self.__judge(action)

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[QueryKeywords],
    ) -> QueryResult:
        """Run a read query."""
        return self._for(Action.READ).query(source, name, params, **how)

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        batch_rows: int = 65_536,
        **how: Unpack[QueryKeywords],
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query and return its rows in batches."""
        reads = self._for(Action.READ)
        return reads.stream(source, name, params, batch_rows=batch_rows, **how)

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[QueryKeywords],
    ) -> Profile:
        """Run a read query and return what every operator did."""
        return self._for(Action.READ).profile(source, name, params, **how)

    def picture(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_nodes: int = PICTURE_NODES,
        **how: Unpack[QueryKeywords],
    ) -> Picture:
        """Run a read query and return the nodes and edges behind its rows."""
        reads = self._for(Action.READ)
        return reads.picture(source, name, params, max_nodes=max_nodes, **how)

    def show(self, limit: int = 25) -> Picture:
        """Return a picture of a few edges of every type."""
        return self._for(Action.READ).show(limit)

    def explain(self, source: Text, name: str | None = None) -> str:
        """Return the operators a query runs as."""
        return self._for(Action.READ).explain(source, name)

    def read_blob(self, type_name: str, id: str, prop: str) -> bytes | None:
        """Return the bytes of one Blob."""
        return self._for(Action.READ).read_blob(type_name, id, prop)

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there."""
        return self._for(Action.READ).entity(table_key, entity_id)

    def snapshot(self) -> GraphSnapshot:
        """Return every table at its version."""
        return self._for(Action.READ).snapshot()

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        **what: Unpack[ExportKeywords],
    ) -> ExportResult:
        """Write everything out."""
        return self._for(Action.EXPORT).export(target, format=format, **what)

    def iter_export(self, **what: Unpack[ExportKeywords]) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        return self._for(Action.EXPORT).iter_export(**what)


class GuardedBranch(GuardedReads):
    """A branch: as it is whenever something is asked, and to be written to."""

    def __init__(self, gate: Gate, name: str, view: BranchView) -> None:
        super().__init__(self.__judged)
        self.__own, self.__whole, self.__name = gate, view, name

    def __judged(self, action: Action) -> BranchView:
        """Return the branch as far as an action on it may see rows."""
        gate, name = self._gate, self.__name
        gate.pass_(action, branch=name)
        seen = gate.seen(action, name)
        return self.__whole if seen is gate.graph else seen.branch(name)

    @property
    def _gate(self) -> Gate:
        return self.__own

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[MutateKeywords],
    ) -> MutationResult:
        """Run a mutation: all of its statements as one commit, or none."""
        return self.__judged(Action.CHANGE).mutate(source, name, params, **how)

    def load(
        self,
        data: Any,  # noqa: ANN401 - files, tables or bytes; who loads says which
        mode: str = "overwrite",
        **how: Unpack[AnyLoadKeywords],
    ) -> LoadResult:
        """Load files or tables."""
        return self.__judged(Action.CHANGE).load(data, mode, **how)

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        **how: Unpack[EmbedKeywords],
    ) -> EmbedResult:
        """Fill the `@embed` columns."""
        return self.__judged(Action.CHANGE).embed(types, mode, **how)

    def optimize(self, **how: Unpack[OptimizeKeywords]) -> list[CompactionStats]:
        """Compact every table, or those that are named."""
        self._gate.pass_(Action.ADMIN)
        return self.__whole.optimize(**how)

    def indices(self) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows."""
        self._gate.pass_(Action.ADMIN)
        return self.__whole.indices()

    def ensure_indices(self) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date."""
        self._gate.pass_(Action.ADMIN)
        return self.__whole.ensure_indices()

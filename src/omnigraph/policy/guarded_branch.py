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
    """One state of a graph; `judge` is asked before every call, with what the call does."""

    def __init__(self, reads: Reads, judge: Callable[[Action], None]) -> None:
        self.__reads = reads
        self.__judge = judge

    def _for(self, action: Action) -> Reads:
        self.__judge(action)
        return self.__reads

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
        def judge(action: Action) -> None:
            gate.pass_(action, branch=name)

        super().__init__(view, judge)
        self.__own, self.__view, self.__name = gate, view, name

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
        self._gate.pass_(Action.CHANGE, branch=self.__name)
        return self.__view.mutate(source, name, params, **how)

    def load(
        self,
        data: Any,  # noqa: ANN401 - files, tables or bytes; who loads says which
        mode: str = "overwrite",
        **how: Unpack[AnyLoadKeywords],
    ) -> LoadResult:
        """Load files or tables."""
        self._gate.pass_(Action.CHANGE, branch=self.__name)
        return self.__view.load(data, mode, **how)

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        **how: Unpack[EmbedKeywords],
    ) -> EmbedResult:
        """Fill the `@embed` columns."""
        self._gate.pass_(Action.CHANGE, branch=self.__name)
        return self.__view.embed(types, mode, **how)

    def optimize(self, **how: Unpack[OptimizeKeywords]) -> list[CompactionStats]:
        """Compact every table, or those that are named."""
        self._gate.pass_(Action.ADMIN)
        return self.__view.optimize(**how)

    def indices(self) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows."""
        self._gate.pass_(Action.ADMIN)
        return self.__view.indices()

    def ensure_indices(self) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date."""
        self._gate.pass_(Action.ADMIN)
        return self.__view.ensure_indices()

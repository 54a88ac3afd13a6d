"""Running reads: plans, images and limits of one open graph."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import BoundQuery, CompiledQuery
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.ops import ReadIr, iter_ops
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.read.access import expectations
from omnigraph.engine.read.context import Budget, Images, Limits
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.narrow import narrow_images, tables_of
from omnigraph.engine.read.plan import Plans
from omnigraph.engine.read.run import run_read, stream_read
from omnigraph.engine.read.trace import Step, Trace
from omnigraph.engine.search.queries import text_operands, with_vectors
from omnigraph.engine.write.change_set import ChangeSet
from omnigraph.errors import BadRequestError
from omnigraph.graph.options import GraphOptions
from omnigraph.result import QueryResult
from omnigraph.storage.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Profile:
    """What a query did, operator by operator, beside its result."""

    result: QueryResult
    steps: tuple[Step, ...]
    compile_ms: float
    total_ms: float


_READY = 1_024


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled query with its plan and images at one commit."""

    compiled: CompiledQuery
    commit: str
    ir: ReadIr
    images: Images
    has_text: bool


class GraphReader:
    """Runs compiled reads on snapshots; keeps plans and images between them. Thread-safe."""

    def __init__(self, options: GraphOptions) -> None:
        self._options = options
        self.cache = ImageCache(options.image_bytes)
        self.plans = Plans()
        self._images: tuple[str, SnapshotImages] | None = None
        self._ready: dict[int, _Ready] = {}
        self._lock = threading.Lock()

    def run(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
        limits: Limits | None,
        cancel: threading.Event | None = None,
        trace: Trace | None = None,
    ) -> QueryResult:
        """Return the rows of a compiled read on a snapshot.

        Raises:
            BadRequestError: a parameter is wrong, or the query is a mutation.
            BudgetExceededError: a limit was reached.
        """
        ir, images, bound = self._start(snapshot, catalog, compiled, params)
        budget = self._budget(limits, cancel)
        if trace is not None:
            trace.expected = self._expected(snapshot, catalog, ir, images)
        found = run_read(ir, images, bound, budget, trace)
        if self.cache.shrink():
            self.forget()  # it would keep alive what was just forgotten
        return QueryResult.of_columns(
            found.names, found.arrays, compiled.name, snapshot.branch, snapshot.commit_id
        )

    def _budget(self, limits: object, cancel: threading.Event | None) -> Budget:
        chosen = self._options.limits if limits is None else limits
        if not isinstance(chosen, Limits):
            what = type(chosen).__name__
            raise BadRequestError(f"limits are Limits, not {what}", hint="Limits(seconds=5)")
        return Budget(chosen, self._options.clock, cancel)

    def stream(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
        limits: Limits | None,
        cancel: threading.Event | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a compiled read in batches; see `run`."""
        if batch_rows < 1:
            raise BadRequestError("a batch has at least one row", hint="65536 is the usual size")
        ir, images, bound = self._start(snapshot, catalog, compiled, params)
        budget = self._budget(limits, cancel)
        pieces = stream_read(ir, images, bound, budget, batch_rows)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for piece in pieces:
                    budget.check("return", piece.rows)
                    yield pa.RecordBatch.from_arrays(list(piece.arrays), names=list(piece.names))
            finally:
                if self.cache.shrink():
                    self.forget()

        return batches()

    def _start(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
    ) -> tuple[ReadIr, Images, BoundQuery]:
        """Bind and plan a query, and find what it runs on."""
        bound = compiled.bind(params, now_ms=self._options.clock.now_us() // 1_000)
        ready = self._ready.get(id(compiled))
        if ready is None or ready.compiled is not compiled or ready.commit != snapshot.commit_id:
            ready = self._make_ready(snapshot, catalog, compiled, bound)
        if not ready.has_text:
            return ready.ir, ready.images, bound
        ir, bound = with_vectors(ready.ir, bound, self._options.embedder, catalog, snapshot)
        return ir, ready.images, bound

    def explain(self, snapshot: Snapshot, catalog: Catalog, ir: ReadIr) -> str:
        """Return the operators a query would run as now, how they get at rows and how many."""
        resident = None
        if self.cache.would_reside(tables_of(ir, snapshot)):
            resident = SnapshotImages(snapshot, catalog, self.cache)
        planned = self.plans.plan(ir, snapshot, catalog, resident)
        statistics, _ = self.plans.statistics(ir, snapshot, catalog, resident)
        expected = expectations(planned, snapshot, statistics, resident=resident is not None)
        return explain_query(planned, [str(one) for one in expected])

    def _expected(
        self, snapshot: Snapshot, catalog: Catalog, ir: ReadIr, images: Images
    ) -> dict[int, tuple[str, float]]:
        """Return access path and expected rows of every operator, by its identity."""
        resident = images if isinstance(images, SnapshotImages) else None
        statistics, _ = self.plans.statistics(ir, snapshot, catalog, resident)
        found = expectations(ir, snapshot, statistics, resident=resident is not None)
        pairs = zip(iter_ops(ir.ops), found, strict=True)
        return {id(op): (one.access, one.rows) for op, one in pairs}

    def forget(self) -> None:
        """Let go of what was kept."""
        self._images = None
        self._ready = {}

    def take_over(self, before: Snapshot, after: Snapshot, changes: ChangeSet) -> None:
        """Hand what was just committed to the images, so that reading it back costs nothing."""
        for key, change in changes.tables.items():
            deleted = [] if change.deletes is None else change.deletes.to_pylist()
            if key in before.tables and key in after.tables:
                self.cache.advance(
                    before.table(key),
                    after.table(key),
                    change.upserts,
                    deleted,
                    in_place=key.startswith("node:"),
                )

    def _make_ready(
        self, snapshot: Snapshot, catalog: Catalog, compiled: CompiledQuery, bound: BoundQuery
    ) -> _Ready:
        """Plan a query for a snapshot; kept for its next run while its tables are resident."""
        asked = _read_ir(compiled)
        ir = self.plans.plan(asked, snapshot, catalog)
        images = self._images_for(ir, bound, snapshot, catalog)
        if isinstance(images, SnapshotImages):
            ir = self.plans.plan(asked, snapshot, catalog, images)
        # By identity of the compiled query, which is kept with it: hashing it costs more than
        # a lookup.
        ready = _Ready(compiled, snapshot.commit_id, ir, images, bool(text_operands(ir)))
        if isinstance(images, SnapshotImages):
            if len(self._ready) >= _READY:
                self._ready = {}
            self._ready[id(compiled)] = ready
        return ready

    def _images_for(
        self, ir: ReadIr, bound: BoundQuery, snapshot: Snapshot, catalog: Catalog
    ) -> Images:
        """Return what a query runs on: resident tables, or just its rows of cold ones."""
        if not self.cache.wants_residence(tables_of(ir, snapshot)):
            found = narrow_images(ir, snapshot, catalog, bound.params)
            if found is not None:
                return found
        return self._images_of(snapshot, catalog)

    def _images_of(self, snapshot: Snapshot, catalog: Catalog) -> SnapshotImages:
        """Return the images of a snapshot; those of the last one are kept at hand."""
        with self._lock:
            kept = self._images
            if kept is not None and kept[0] == snapshot.commit_id:
                return kept[1]
        fresh = SnapshotImages(snapshot, catalog, self.cache)
        with self._lock:
            self._images = (snapshot.commit_id, fresh)
            self._ready = {}
        return fresh


def _read_ir(compiled: CompiledQuery) -> ReadIr:
    if not isinstance(compiled.ir, ReadIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a mutation", hint="run it as a mutation, not as a read"
        )
    return compiled.ir

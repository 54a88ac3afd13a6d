"""Running reads: from a query text and a snapshot to rows.

Keeps plans and images of one open graph between queries. Knows no branches: which snapshot is read
is settled by the caller.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.api.pictures import Picture
from omnigraph.api.query import Profile, ProfileStep, QueryResult
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.base.arguments import shown
from omnigraph.base.background import BACKGROUND
from omnigraph.base.budget import Budget, Limits, Signal, checkpoint, current
from omnigraph.base.calls import Watch
from omnigraph.base.metrics import METRICS
from omnigraph.base.recent import Recent
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import BoundQuery, CompiledQuery, compile_query, known_query
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.ops import ReadIr, iter_ops
from omnigraph.compiler.ir.reads import Reads
from omnigraph.compiler.source import Source
from omnigraph.engine.contract import Catalogs
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.read.access import expectations
from omnigraph.engine.read.answer import Answer
from omnigraph.engine.read.context import Images, ReadContext
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.picture import edges_of, first_rows, nodes_of, with_labels
from omnigraph.engine.read.plan import Planned, Plans
from omnigraph.engine.read.prepare import Prepared, keeping_all, walked
from omnigraph.engine.read.run import rows_behind, run_read, stream_read
from omnigraph.engine.read.selective import selective_images
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.read.visible import (
    CompiledRules,
    VisibleImages,
    compile_rules,
    without_sizes,
)
from omnigraph.engine.read.window import Window
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.search.queries import with_vectors
from omnigraph.errors import BadRequestError
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.failures import SnapshotExpiredError, UnreadableTextError

T = TypeVar("T")


_READY = 1_024
_SCHEMAS = 16
_VIEWS = 32
"""Rules that are in use at the same time; what is more is made anew when it is needed."""
HeadsOf = Callable[[Snapshot], Sequence[Snapshot]]

ASIDE_FROM = 500_000
"""So many values are read, or sorted, before a query could run on them: it is answered from fewer
rows meanwhile, if it can be."""

_FEW_ROWS = 2_000
"""A query whose operators are all expected to have at most so many takes next to no time."""


class _Either:
    """Set once one of two events is."""

    def __init__(self, *events: Signal | None) -> None:
        self._events = [event for event in events if event is not None]

    def is_set(self) -> bool:
        """Whether one is."""
        return any(event.is_set() for event in self._events)


@dataclass(slots=True)
class _Ready:
    """A compiled query with its plan and images at one commit."""

    commit: str
    plan: Planned
    images: Images
    is_small: bool | None = None
    """Whether it takes next to no time; looked up when somebody asks."""


class GraphReader:
    """Runs compiled reads on snapshots; keeps plans and images between them. Thread-safe."""

    def __init__(
        self,
        catalogs: Catalogs,
        cache: ImageCache,
        embedder: Embedder | None,
        watch: Watch,
        rules: RowRules | None = None,
        heads: HeadsOf | None = None,
    ) -> None:
        """Make a reader.

        Args:
            catalogs: what schemas mean.
            cache: images of tables, which other readers may share.
            embedder: makes vectors of texts that queries name.
            watch: hears of every call.
            rules: which rows there are, for whoever reads; all of them if None.
            heads: tells the newest states behind a state of the past, for its rules.
        """
        self._catalogs = catalogs
        self._embedder = embedder
        self._watch, self._clock = watch, watch.clock
        self._rules, self._heads = rules, heads
        self.cache = cache
        self.plans = Plans()
        self._images: tuple[str, SnapshotImages | VisibleImages] | None = None
        self._compiled: Recent[str, CompiledRules] = Recent(_SCHEMAS)
        self._ready: Recent[CompiledQuery, _Ready] = Recent(_READY)
        self._views: Recent[tuple[RowRules, bool], GraphReader] = Recent(_VIEWS)
        self._built: Recent[tuple[Any, ...], bool] = Recent(_READY)
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop what is built for it, and let go of everything."""
        self._closed.set()
        self.forget()

    def under(self, rules: RowRules, heads: HeadsOf | None) -> GraphReader:
        """Return a reader for which there are only the rows that rules show.

        It has plans and images of its own: what is known of all rows must not show in them.

        Args:
            rules: which rows there are.
            heads: needed for states of the past; what rules hide there now was never there.
        """
        key = (rules, heads is None)
        found = self._views.find(key)
        if found is None:
            made = GraphReader(
                self._catalogs, self.cache, self._embedder, self._watch, rules, heads
            )
            found = self._views.keep(key, made)
        return found

    def visible(self, snapshot: Snapshot) -> VisibleImages:
        """Return what the rules of this reader show of a snapshot."""

        def read() -> VisibleImages:
            found = self._images_of(snapshot, self._catalogs.of(snapshot))
            assert isinstance(found, VisibleImages), "a reader of every row has no rules"
            return found

        return self._even_after_cleanup(snapshot, read)

    def query(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
    ) -> QueryResult:
        """Return the rows of a read query on a snapshot; `budget` is the current one.

        Raises:
            CompileError: the text is wrong.
            BadRequestError: a parameter is wrong, or the query is a mutation.
            BudgetExceededError: a limit was reached.
        """
        if self._watch.slow_ms is None and not METRICS.active:  # nobody wants to know
            return self._query(snapshot, source, name, params, budget)
        with self._watch.call("query", name, snapshot.branch) as seen:
            found = self._query(snapshot, source, name, params, budget)
            seen.name, seen.rows = found.query_name, len(found)
        return found

    def over_images(self, snapshot: Snapshot, work: Callable[[Images], T]) -> T:
        """Return what some work over whole tables of a snapshot comes to, as far as rows are seen.

        What it reads is shared with queries, and let go of like theirs.
        """
        catalog = self._catalogs.of(snapshot)
        found = self._even_after_cleanup(snapshot, lambda: work(self._images_of(snapshot, catalog)))
        if self.cache.shrink():
            self.forget()
        return found

    def query_at_hand(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
    ) -> QueryResult | None:
        """Return the rows of a query if nothing has to be read, planned or waited for, else None.

        For who must not be kept, as an event loop: the query ran before on this very commit, is
        answered from memory, and is small.
        """
        catalog = self._catalogs.of(snapshot)
        compiled = known_query(catalog, source, name)
        if compiled is None or compiled.reads.texts:
            return None
        ready = self._ready.find(compiled)
        if ready is None or ready.commit != snapshot.commit_id:
            return None
        if ready.is_small is None:
            ready.is_small = ready.plan.prepared.point is not None or all(
                rows <= _FEW_ROWS for _, rows in _expected(snapshot, ready).values()
            )
        return self.query(snapshot, source, name, params, budget) if ready.is_small else None

    def _query(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
    ) -> QueryResult:
        catalog = self._catalogs.of(snapshot)
        return self._run(snapshot, catalog, compile_query(catalog, source, name), params, budget)

    def picture(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
        most: int,
    ) -> Picture:
        """Return the nodes and edges behind the rows of a query; see `query`.

        Rows from the top are shown, as many as have at most `most` different nodes.
        """
        catalog = self._catalogs.of(snapshot)
        compiled = compile_query(catalog, source, name)
        _require_read(compiled)
        bound = compiled.bind(params, now_ms=self._clock.now_us() // 1_000)
        if compiled.reads.texts:
            bound = with_vectors(compiled.reads, bound, self._embedder, catalog, snapshot)

        def draw() -> Picture:
            plan, images = self._with_labels(snapshot, catalog, compiled, bound)
            ctx = ReadContext(images, bound.params, plan.types, budget)
            rows = rows_behind(plan, Window(bound.offset, bound.limit), ctx)
            nodes = [var for var in rows.at if var in plan.types and not plan.types[var][1]]
            shown = first_rows(rows, nodes, most, ctx)
            edges = [one for step in walked(plan.ir.ops) for one in edges_of(shown, step, ctx)]
            return Picture(
                compiled.name,
                snapshot.branch,
                snapshot.commit_id,
                tuple(nodes_of(shown, nodes, catalog, ctx)),
                tuple(dict.fromkeys(edges)),
                shown.size,
                truncated=shown.size < rows.size,
            )

        return self._even_after_cleanup(snapshot, draw)

    def _with_labels(
        self, snapshot: Snapshot, catalog: Catalog, compiled: CompiledQuery, bound: BoundQuery
    ) -> tuple[Prepared, Images]:
        """Plan a query so that it drops no variable, on images that know what nodes are called."""
        reads = replace(compiled.reads, columns=with_labels(compiled.reads.columns, catalog))
        if self._rules is None and not self.cache.would_reside(_tables(snapshot, compiled)):
            plan = keeping_all(self.plans.plan(compiled, snapshot, catalog).prepared)
            few = selective_images(plan.ir, reads, snapshot, catalog, bound)
            if few is not None:
                return plan, few
        images = self._images_of(snapshot, catalog)
        planned = self.plans.plan(compiled, snapshot, catalog, images)
        return keeping_all(planned.prepared), images

    def profile(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
    ) -> Profile:
        """Run a query like `query` and return what every operator did beside its rows."""
        trace, started = Trace(self._clock), self._clock.monotonic()
        catalog = self._catalogs.of(snapshot)
        compiled = compile_query(catalog, source, name)
        compiled_at = self._clock.monotonic()
        result = self._run(snapshot, catalog, compiled, params, budget, trace)
        compile_s, total_s = compiled_at - started, self._clock.monotonic() - started
        steps = tuple(
            ProfileStep(one.operator, one.depth, one.rows, one.expected, one.access, one.ms)
            for one in trace.steps
        )
        took = (compile_s * 1_000, total_s * 1_000)
        return Profile(result.query_name, len(result), *took, steps, result)

    def _run(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
        budget: Budget,
        trace: Trace | None = None,
    ) -> QueryResult:
        given = (snapshot, catalog, compiled, params, budget, trace)
        if self._rules is None:
            try:
                found = self._answer(*given)
            except (SnapshotExpiredError, UnreadableTextError):
                self._begin_anew(snapshot)
                found = self._answer(*given)
        else:
            found = self._even_after_cleanup(snapshot, lambda: self._answer(*given))
        budget.check("return")  # an answer that comes too late is none
        if self.cache.shrink():
            self.forget()  # it would keep alive what was just forgotten
        return QueryResult.of_columns(
            found.names, found.arrays, compiled.name, snapshot.branch, snapshot.commit_id
        )

    def _answer(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
        budget: Budget,
        trace: Trace | None,
    ) -> Answer:
        ready, bound = self._start(snapshot, catalog, compiled, params)
        if trace is not None:
            trace.expected = _expected(snapshot, ready)
        return run_read(ready.plan.prepared, ready.images, bound, budget, trace)

    def _even_after_cleanup(self, snapshot: Snapshot, read: Callable[[], T]) -> T:
        """Read; if older versions, which images began as, cannot be read, begin images anew.

        Their files may be gone, or they have rows with bad text that were deleted since.

        Raises:
            SnapshotExpiredError: files of the snapshot itself are gone.
            UnreadableTextError: the snapshot itself has such rows.
        """
        with nullcontext() if self._rules is None else without_sizes():
            try:
                return read()
            except (SnapshotExpiredError, UnreadableTextError):
                self._begin_anew(snapshot)
            return read()

    def _begin_anew(self, snapshot: Snapshot) -> None:
        """Let go of images that began as versions whose files are gone."""
        self.cache.forget(snapshot.tables.values())
        self.forget()

    def stream(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        budget: Budget,
        batch_rows: object,
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a read query in batches; see `query`.

        The budget is closed with the last batch, or when nobody wants another one.
        """
        if not isinstance(batch_rows, int) or batch_rows < 1:
            raise BadRequestError(
                f"a batch cannot have {shown(batch_rows)} rows", hint="65536 is the usual number"
            )
        catalog = self._catalogs.of(snapshot)
        compiled = compile_query(catalog, source, name)

        def attempt() -> tuple[Answer, Iterator[Answer]]:
            ready, bound = self._start(snapshot, catalog, compiled, params)
            pieces = stream_read(ready.plan.prepared, ready.images, bound, budget, batch_rows)
            return next(pieces), pieces

        with self._watch.call("stream", compiled.name, snapshot.branch):  # until its first rows
            first, others = self._even_after_cleanup(snapshot, attempt)
        pieces = budget.over(itertools.chain((first,), others))

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for piece in pieces:
                    budget.check("return", piece.rows)
                    yield pa.RecordBatch.from_arrays(list(piece.arrays), names=list(piece.names))
            finally:
                budget.close()
                if self.cache.shrink():
                    self.forget()

        found = batches()
        weakref.finalize(found, budget.close)  # one that is never begun has no end either
        return found

    def _start(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
    ) -> tuple[_Ready, BoundQuery]:
        """Bind and plan a query, and find what it runs on."""
        bound = compiled.bind(params, now_ms=self._clock.now_us() // 1_000)
        if compiled.reads.texts:
            bound = with_vectors(compiled.reads, bound, self._embedder, catalog, snapshot)
        ready = self._ready.find(compiled)
        if ready is None or ready.commit != snapshot.commit_id:
            ready = self._make_ready(snapshot, catalog, compiled, bound)
        return ready, bound

    def explain(self, snapshot: Snapshot, source: Source, name: str | None) -> str:
        """Return the operators a query would run as now, how they get at rows and how many."""
        catalog = self._catalogs.of(snapshot)
        compiled = compile_query(catalog, source, name)
        if not isinstance(compiled.ir, ReadIr):
            return explain_query(compiled.ir)
        return self._even_after_cleanup(
            snapshot, lambda: self._explain(snapshot, catalog, compiled)
        )

    def reads(self, snapshot: Snapshot, source: Source, name: str | None) -> Reads:
        """Return what a read query touches."""
        compiled = compile_query(self._catalogs.of(snapshot), source, name)
        _require_read(compiled)
        return compiled.reads

    def planned(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
    ) -> tuple[str, Prepared, BoundQuery]:
        """Return a query by its name, made ready and bound, for who runs it elsewhere.

        Raises:
            RowRulesError: not every row is seen; elsewhere nobody would know.
        """
        if self._rules is not None:
            raise RowRulesError("a query on another engine")
        catalog = self._catalogs.of(snapshot)
        compiled = compile_query(catalog, source, name)
        _require_read(compiled)
        bound = compiled.bind(params, now_ms=self._clock.now_us() // 1_000)
        if compiled.reads.texts:
            bound = with_vectors(compiled.reads, bound, self._embedder, catalog, snapshot)
        return compiled.name, self.plans.plan(compiled, snapshot, catalog).prepared, bound

    def selects_few(
        self,
        snapshot: Snapshot,
        source: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
    ) -> bool:
        """Whether a query touches few enough rows to be answered without whole tables."""
        _, plan, bound = self.planned(snapshot, source, name, params)
        catalog, reads = self._catalogs.of(snapshot), self.reads(snapshot, source, name)
        return selective_images(plan.ir, reads, snapshot, catalog, bound) is not None

    def _explain(self, snapshot: Snapshot, catalog: Catalog, compiled: CompiledQuery) -> str:
        resident: SnapshotImages | VisibleImages | None = None
        if self._rules is not None:  # what is expected must not come from rows nobody sees
            resident = self._images_of(snapshot, catalog)
        elif self.cache.would_reside(_tables(snapshot, compiled)):
            resident = SnapshotImages(snapshot, catalog, self.cache)
        plan, statistics = self.plans.plan(compiled, snapshot, catalog, resident)
        expected = expectations(plan, snapshot, statistics, resident=resident is not None)
        return explain_query(plan.shown, [str(one) for one in expected])

    def forget(self) -> None:
        """Let go of what was kept, for readers under rules as well."""
        self._images = None
        self._ready.clear()
        self._views.clear()

    def _make_ready(
        self, snapshot: Snapshot, catalog: Catalog, compiled: CompiledQuery, bound: BoundQuery
    ) -> _Ready:
        """Plan a query for a snapshot; kept for its next run while its tables are resident."""
        checkpoint("planning")
        _require_read(compiled)
        tables = _tables(snapshot, compiled)
        wanted = self.cache.wants_residence(tables)
        wanted = wanted or self.cache.is_on_shelf(tables, snapshot.commit_id)
        build = self._what_to_build(snapshot, catalog, compiled) if wanted else None
        if self._rules is None and (not wanted or build is not None):
            plan = self.plans.plan(compiled, snapshot, catalog)
            ir, reads = plan.prepared.ir, compiled.reads
            few = selective_images(ir, reads, snapshot, catalog, bound)
            if few is not None:
                if build is not None:
                    self._build_aside(build, snapshot, catalog, compiled, bound)
                return _Ready(snapshot.commit_id, plan, few)
        images = self._images_of(snapshot, catalog)
        plan = self.plans.plan(compiled, snapshot, catalog, images)
        ready = _Ready(snapshot.commit_id, plan, images)
        if self._heads is None:
            self._ready.put(compiled, ready)
        return ready

    def _what_to_build(
        self, snapshot: Snapshot, catalog: Catalog, compiled: CompiledQuery
    ) -> tuple[Any, ...] | None:
        """Return what names a build worth not waiting for; None if little is missing.

        What was built once for a query and the same bases is not built again: if something is
        missing nevertheless, the query makes it itself.
        """
        if self._rules is not None:
            return None
        images = self._images_of(snapshot, catalog)
        assert isinstance(images, SnapshotImages)
        assert isinstance(compiled.ir, ReadIr)
        if images.missing(compiled.reads, iter_ops(compiled.ir.ops)) <= ASIDE_FROM:
            return None
        key = (compiled, *images.bases(compiled.reads.tables))
        return None if self._built.find(key) else key

    def _build_aside(
        self,
        key: tuple[Any, ...],
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        bound: BoundQuery,
    ) -> None:
        """Build behind the queries what one of them needs, by asking it of whole tables once."""
        called = current()
        limits = Limits() if called is None else replace(called.limits, seconds=None)
        images = self._images_of(snapshot, catalog)  # of now: others will be at hand by then

        def build() -> None:
            line = current()
            stopped = _Either(self._closed, None if line is None else line.cancelled)
            try:
                with Budget(limits, self._clock, stopped) as budget:
                    plan = self.plans.plan(compiled, snapshot, catalog, images)
                    run_read(plan.prepared, images, bound, budget, None)
            except SnapshotExpiredError:  # a cleanup took the version the images began as
                self._begin_anew(snapshot)
                return
            finally:
                self._built.keep(key, True)
            self.cache.store()
            if self.cache.shrink():
                self.forget()

        BACKGROUND.start(("build", id(self), key), build)

    def _images_of(self, snapshot: Snapshot, catalog: Catalog) -> SnapshotImages | VisibleImages:
        """Return the images of a snapshot; those of the last one are kept at hand."""
        if self._heads is not None:  # which go on, so nothing of the past is kept
            return self._visible_images(snapshot, catalog)
        with self._lock:
            kept = self._images
            if kept is not None and kept[0] == snapshot.commit_id:
                return kept[1]
        fresh: SnapshotImages | VisibleImages
        if self._rules is None:
            fresh = SnapshotImages(snapshot, catalog, self.cache)
        else:
            fresh = self._visible_images(snapshot, catalog)
        with self._lock:
            self._images = (snapshot.commit_id, fresh)
        self._ready.clear()  # what is of an older commit would keep its images alive
        return fresh

    def _visible_images(self, snapshot: Snapshot, catalog: Catalog) -> VisibleImages:
        heads: tuple[VisibleImages, ...] = ()
        if self._heads is not None:
            assert self._rules is not None, "only rules look at what is now"
            now = self.under(self._rules, None)
            newer = [one for one in self._heads(snapshot) if one.commit_id != snapshot.commit_id]
            heads = tuple(now.visible(one) for one in newer)
        whole = SnapshotImages(snapshot, catalog, self.cache)
        return VisibleImages(whole, catalog, self._compiled_for(catalog), heads)

    def _compiled_for(self, catalog: Catalog) -> CompiledRules:
        found = self._compiled.find(catalog.schema_hash)
        if found is None:
            assert self._rules is not None, "a reader of every row has no rules"
            made = compile_rules(self._rules, catalog)
            found = self._compiled.keep(catalog.schema_hash, made)
        return found


def _require_read(compiled: CompiledQuery) -> None:
    if not isinstance(compiled.ir, ReadIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a mutation", hint="run it as a mutation, not as a read"
        )


def _tables(snapshot: Snapshot, compiled: CompiledQuery) -> list[TableVersion]:
    return [snapshot.table(key) for key in compiled.reads.tables]


def _expected(snapshot: Snapshot, ready: _Ready) -> dict[int, tuple[str, float]]:
    """Return access path and expected rows of every operator, by its identity."""
    plan, statistics = ready.plan
    resident = isinstance(ready.images, SnapshotImages | VisibleImages)
    found = expectations(plan, snapshot, statistics, resident=resident)
    pairs = zip(iter_ops(plan.ir.ops), found, strict=True)
    return {id(op): (one.access, one.rows) for op, one in pairs}

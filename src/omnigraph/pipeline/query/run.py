"""A prepared query on Spark: as a DataFrame, as a table, or batch by batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.base.budget import checkpoint, keep
from omnigraph.base.extras import load_extra
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Filter, Join, NodeScan, operands
from omnigraph.compiler.query.typed import Aggregate, Bm25, Expr, Nearest, Prop
from omnigraph.engine.read.prepare import Prepared, Stage
from omnigraph.engine.read.window import Window
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.query.answer import Ranked, Wanted, answered, result_slots
from omnigraph.pipeline.query.batches import Slot
from omnigraph.pipeline.query.carried import restored
from omnigraph.pipeline.query.match import Matcher, props_of
from omnigraph.pipeline.query.ranking import Scores, score_columns, with_fused
from omnigraph.pipeline.query.scan import Best
from omnigraph.pipeline.query.support import check_support, predicates_of
from omnigraph.pipeline.run.spark import SparkRunner, context_of, new_session, session_of
from omnigraph.pipeline.run.spark_jvm import SparkError
from omnigraph.pipeline.run.spark_types import spark_rows, spark_schema
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_S = 0.1
_IPC = "ipc"


class SparkQuery:
    """One query over one snapshot, planned as DataFrames."""

    def __init__(
        self,
        given: object,
        plan: Prepared,
        bound: BoundQuery,
        snapshot: Snapshot,
        catalog: Catalog,
    ) -> None:
        """Plan a query; only what scores need to know of all rows is computed.

        Args:
            given: a SparkSession or SparkContext.
            plan: the query, made ready.
            bound: its parameters.
            snapshot: what it reads.
            catalog: the schema of that.

        Raises:
            UnsupportedOnSparkError: Spark does not run one of its operators.
        """
        check_support(plan.ir)
        self.session = session_argument(given)
        self._window = Window(bound.offset, bound.limit)
        self._slots = result_slots(plan.ir.columns)
        runner = SparkRunner(self.session.sparkContext, self.session)
        scores = Scores.of(plan)
        stages = scores.inside(plan.stages)
        wanted = _wanted(plan, scores, self._window)
        matcher = Matcher(
            self.session,
            snapshot,
            catalog,
            bound.params,
            _needed(stages, wanted, scores),
            score_columns(scores, plan, snapshot, bound.params, runner),
            _best(plan, wanted),
        )
        rows = matcher.run(stages, None)
        rows = with_fused(rows, scores, self._window, bound.params, matcher, self._collected)
        self._frame = answered(rows, wanted, bound.params)

    def columns(self) -> tuple[list[str], list[pa.Array]]:
        """Return the names and the columns of the result."""
        found = self._collected(self._frame)
        keep("return", found.nbytes)
        arrays = [restored(found[slot.name], slot.kind) for slot in self._slots]
        return [slot.prop for slot in self._slots], arrays

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result in order, as tasks have them; at least one batch."""
        frame = self._frame.mapInArrow(_written, f"{_IPC} binary")
        schema = pa.schema([pa.field(slot.prop, slot.kind) for slot in self._slots])
        seen = False
        for row in self._watched_rows(frame):
            with pa.ipc.open_stream(row[_IPC]) as reader:
                rows = reader.read_all()
            arrays = [restored(rows[slot.name], slot.kind) for slot in self._slots]
            for batch in pa.Table.from_arrays(arrays, schema=schema).to_batches(batch_rows):
                seen = True
                yield batch
        if not seen:
            yield from schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]

    def frame(self) -> DataFrame:
        """Return the result as a DataFrame in the types Spark has for its columns."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = pa.schema([pa.field(slot.prop, slot.kind) for slot in self._slots])
        made = _Shown(self._slots)
        return self._frame.mapInArrow(made, from_arrow_schema(spark_schema(schema)))

    def _watched_rows(self, frame: DataFrame) -> Iterator[Any]:
        try:
            for row in frame.toLocalIterator(prefetchPartitions=True):
                checkpoint("Spark")
                yield row
        except Exception as error:
            if _is_of_spark(error):
                raise SparkError(f"the Spark job failed: {_told(error)}") from error
            raise

    def _collected(self, frame: DataFrame) -> pa.Table:
        """Return the rows of a DataFrame; a call that has to stop cancels the job."""
        context, group = self.session.sparkContext, f"omnigraph-{uuid.uuid4().hex}"

        def run() -> pa.Table:
            context.setJobGroup(group, "omnigraph", interruptOnCancel=True)
            return frame.toArrow()

        with ThreadPoolExecutor(1, "omnigraph-query") as pool:
            job = pool.submit(run)
            try:
                while True:
                    try:
                        return job.result(_LOOK_S)
                    except NotYetError:
                        checkpoint("Spark")
            except Exception as error:
                if _is_of_spark(error):
                    raise SparkError(f"the Spark job failed: {_told(error)}") from error
                raise
            finally:
                while not job.done():  # it may have been planning yet, with no job to cancel
                    context.cancelJobGroup(group)
                    wait([job], _LOOK_S)


def session_argument(given: object) -> SparkSession:
    """Return the session to run on.

    Raises:
        BadRequestError: none is given, or it is none.
        MissingExtraError: a library is missing that DataFrames of Arrow need.
    """
    if given is None:
        raise BadRequestError(
            "engine='spark' needs a Spark to run on", hint="pass spark=, a SparkSession"
        )
    load_extra("pandas", "spark", "a query on Spark")  # of which `mapInArrow` makes no use itself
    context_of(given)
    return session_of(given) or new_session()


def _is_of_spark(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def _told(error: Exception) -> str:
    """Return what a failed job says: the last line of what Python said in a worker, if it did."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("omnigraph.", "OSError", "ValueError"))]
    return (said or lines or [type(error).__name__])[0]


def _written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches as bytes, which rows of Spark can carry to the driver."""
    for batch in batches:
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_pydict({_IPC: [sink.getvalue().to_pybytes()]})


@dataclass(frozen=True, slots=True)
class _Shown:
    """Give result columns the types that Spark has for them."""

    slots: tuple[Slot, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [restored(batch.column(slot.name), slot.kind) for slot in self.slots]
            names = [slot.prop for slot in self.slots]
            yield spark_rows(pa.RecordBatch.from_arrays(arrays, names=names))


def _wanted(plan: Prepared, scores: Scores, window: Window) -> Wanted:
    ir = plan.ir
    rank = None
    if ir.ranking is not None:
        # Small distances and small places come first, large relevances do.
        rising = not isinstance(ir.ranking.score, Bm25)
        rank = Ranked(scores.column(ir.ranking.score), rising == ir.ranking.best_first)
    return Wanted(
        tuple(replace(one, expr=scores.shown(one.expr)) for one in ir.columns),
        tuple(replace(key, expr=scores.shown(key.expr)) for key in ir.order),
        plan.tie_breakers,
        ir.distinct,
        rank,
        window,
    )


def _best(plan: Prepared, wanted: Wanted) -> Best | None:
    """Return which rows of the only scan can matter, if a ranking alone says so."""
    ranking, end = plan.ir.ranking, wanted.window.end
    alone = len(plan.ir.ops) == 1 and isinstance(plan.ir.ops[0], NodeScan)
    if ranking is None or end is None or not alone or wanted.distinct or wanted.is_aggregate:
        return None
    if not ranking.best_first or not isinstance(ranking.score, Nearest) or wanted.rank is None:
        return None
    return Best(wanted.rank.prop.name, wanted.rank.ascending, end)


def _needed(
    stages: Sequence[Stage], wanted: Wanted, scores: Scores
) -> Mapping[str, frozenset[str]]:
    """Return the columns of every variable that are looked at behind its scan."""
    exprs: list[Expr] = [one.expr for one in wanted.columns]
    exprs += [key.expr for key in wanted.order]
    props = [prop for expr in exprs for prop in _props(expr)] + scores.fused
    props += [] if wanted.rank is None else [wanted.rank.prop]
    props += [prop for one in _compared(stages) for prop in props_of(one)]
    found: dict[str, set[str]] = {}
    for prop in props:
        found.setdefault(prop.var, set()).add(prop.name)
    return {var: frozenset(names) for var, names in found.items()}


def _props(expr: Expr) -> list[Prop]:
    if isinstance(expr, Aggregate):
        return [] if expr.arg is None else props_of(expr.arg)
    return props_of(expr)


def _compared(stages: Sequence[Stage]) -> Iterator[Expr]:
    """Yield what is compared behind the scans: in rows, and between the sides of a join."""
    for stage in stages:
        if isinstance(stage.op, Filter | Join):
            for predicate in predicates_of(stage.op):
                yield from operands(predicate)
        yield from _compared(stage.inner)

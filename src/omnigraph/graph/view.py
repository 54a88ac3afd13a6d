"""One state of a graph, for reading: a branch as it is whenever something is asked, or a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omnigraph.api.history import GraphSnapshot
from omnigraph.api.notebook import FixedText
from omnigraph.api.pictures import (
    MOST_PICTURE_NODES,
    PICTURE_NODES,
    Picture,
    limit_argument,
    overview_queries,
    picture_nodes_argument,
    put_together,
)
from omnigraph.api.protocols import Text
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.words import EXPORT_FORMATS, Engine, ExportFormat
from omnigraph.api.writes import ExportResult
from omnigraph.base.arguments import count_argument, text_argument, word_argument
from omnigraph.base.budget import Limits
from omnigraph.base.extras import load_extra
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.source import Source
from omnigraph.config.texts import read_query
from omnigraph.engine.contract import SCHEMA_FILE
from omnigraph.engine.read.blob_bytes import blob_bytes
from omnigraph.engine.read.reader import GraphReader
from omnigraph.errors import BadRequestError
from omnigraph.graph.history import graph_snapshot
from omnigraph.graph.state import GraphState
from omnigraph.graph.turns import TURNS
from omnigraph.storage.commit.session import WriteSession
from omnigraph.storage.manifest.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph.algorithms import Algorithms
    from omnigraph.pipeline.export.write import Selection
    from omnigraph.pipeline.query.run import SparkQuery


class GraphView:
    """One state of a graph. Every call takes one snapshot and never looks at the head again."""

    __slots__ = ("_state", "_take")

    def __init__(self, state: GraphState, take: Callable[[], Snapshot]) -> None:
        self._state = state
        self._take = take

    def __repr__(self) -> str:
        return f"GraphView({self._state.described()})"

    @property
    def _reader(self) -> GraphReader:
        """What queries are run by."""
        return self._state.reader

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._state.uri

    @property
    def catalog(self) -> Catalog:
        """What the schema of this state means."""
        return self._state.catalog(self._take())

    @property
    def schema(self) -> str:
        """The text of this state's schema."""
        return self._state.store.read_file(SCHEMA_FILE, self._take()).decode()

    def snapshot(self) -> GraphSnapshot:
        """Return every table at its version."""
        return graph_snapshot(self._take())

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        engine: Engine | None = None,
        spark: object = None,
    ) -> QueryResult:
        """Run a read query.

        Args:
            source: the query text, or the path of a `.gq` file; its body alone will do.
            name: which query of the text; needed when it has several.
            params: parameter values by name, without `$`.
            limits: time, row and memory limits of this run.
            cancel: when another thread sets it, the query stops with QueryCancelledError.
            engine: who runs it: `inline` is this process, `spark` the session, and `auto` this
                process unless the query would not fit into `GraphOptions.image_bytes`. Without a
                session it is `inline`, with one `auto`. Rows, order and types are the same.
            spark: a SparkSession to run on.

        Raises:
            CompileError: the text is wrong.
            BadRequestError: a parameter is wrong, or the query is a mutation.
            NotFoundError: no such query, branch or commit.
            BudgetExceededError: a limit was reached.
            UnsupportedOnSparkError: Spark does not run one of its operators.
        """
        TURNS.give_way()
        state = self._state
        # By name a cluster is asked for, whose jobs take as long as they take.
        begin = state.job_budget if engine == "spark" else state.query_budget
        with begin(limits, cancel) as budget:
            snapshot = self._take()  # a store that does not answer is waited for no longer either
            text = read_query(source, params)
            other = self._elsewhere(snapshot, text, name, params, engine, spark)
            if other is None:
                found = self._reader.query(snapshot, text, name, params, budget)
            else:
                told = (other[0], snapshot.branch, snapshot.commit_id)
                found = QueryResult.of_columns(*other[1].columns(), *told)
        given = (text, name, params)
        found.draw = lambda most: self._picture(snapshot, *given, most, limits, cancel)
        return found

    def _elsewhere(
        self,
        snapshot: Snapshot,
        text: Source,
        name: str | None,
        params: Mapping[str, Any] | None,
        engine: Engine | None,
        spark: object,
    ) -> tuple[str, SparkQuery] | None:
        """Return the name of a query and what runs it, if that is not this process."""
        if engine is None and spark is None:
            return None
        from omnigraph.graph.spark_queries import Asked, on_spark  # few name an engine

        asked = Asked.of(text, name, params, engine, spark)
        return on_spark(self._state, self._reader, snapshot, asked)

    def spark_query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        session: SparkSession,
    ) -> DataFrame:
        """Return the result of a read query as a Spark DataFrame, in order; nothing runs yet.

        It reads the state of now whenever it is used. What Spark has no type for comes as in
        `spark`. Only scores of relevance and fused ones read something before this returns.

        Raises:
            UnsupportedOnSparkError: Spark does not run one of its operators.
        """
        with self._state.job_budget(None):
            text = read_query(source, params)
            found = self._elsewhere(self._take(), text, name, params, "spark", session)
        assert found is not None, "it was asked for"
        return found[1].frame()

    def picture(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_nodes: int = PICTURE_NODES,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Picture:
        """Run a read query like `query` and return the nodes and edges behind its rows.

        Rows from the top are shown, as many as have at most `max_nodes` different nodes. A step of
        several hops is shown by its ends.
        """
        return self._picture(self._take(), source, name, params, max_nodes, limits, cancel)

    def show(self, limit: int = 25) -> Picture:
        """Return a picture of a few edges of every type; a notebook draws it.

        Args:
            limit: edges per edge type, and nodes per node type without edges.
        """
        snapshot = self._take()
        catalog = self._state.catalog(snapshot)
        edges = [(one.name, one.from_type, one.to_type) for one in catalog.edges.values()]
        return put_together(
            self._picture(snapshot, text, None, None, MOST_PICTURE_NODES, None, None)
            for text in overview_queries(catalog.nodes, edges, limit_argument(limit))
        )

    def _picture(
        self,
        snapshot: Snapshot,
        source: Text,
        name: str | None,
        params: Mapping[str, Any] | None,
        max_nodes: int,
        limits: Limits | None,
        cancel: threading.Event | None,
    ) -> Picture:
        TURNS.give_way()
        state, most = self._state, picture_nodes_argument(max_nodes)
        with state.query_budget(limits, cancel) as budget:
            text = read_query(source, params)
            return self._reader.picture(snapshot, text, name, params, budget, most)

    def query_at_hand(
        self,
        source: Source,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
    ) -> QueryResult | None:
        """Run a read query if that takes next to no time, else return None; see `query`.

        For event loops: it never waits for a writer or a disk, except for the look at the head.
        """
        state = self._state
        with state.query_budget(limits) as budget:
            text = read_query(source, params)
            return self._reader.query_at_hand(self._take(), text, name, params, budget)

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        batch_rows: int = 65_536,
        engine: Engine | None = None,
        spark: object = None,
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query like `query` and return its rows in Arrow batches, in order.

        Which rows there are, and their order, is settled before this returns; their values are
        fetched batch by batch, so a large result never is in memory as a whole. There is at least
        one batch: the schema is known even without rows. With `engine` and `spark`, as of `query`,
        batches come from Spark task by task.
        """
        TURNS.give_way()
        state = self._state
        begin = state.job_budget if engine == "spark" else state.query_budget  # as in `query`
        budget = begin(limits, cancel)
        try:
            with budget.current():
                given = (self._take(), read_query(source, params), name, params)
                other = self._elsewhere(*given, engine, spark)
                if other is not None:
                    return budget.over(other[1].batches(count_argument(batch_rows, "batch_rows")))
                return self._reader.stream(*given, budget, batch_rows)
        except BaseException:
            budget.close()
            raise

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Profile:
        """Run a read query like `query` and return what every operator did beside the result.

        The first run of a process also pays for loading what it touches.
        """
        state = self._state
        with state.query_budget(limits, cancel) as budget:
            return self._reader.profile(
                self._take(), read_query(source, params), name, params, budget
            )

    def explain(
        self,
        source: Text,
        name: str | None = None,
        *,
        engine: Engine | None = None,
        spark: object = None,
    ) -> str:
        """Return the operators a query runs as on this state.

        Behind each stands how it gets at its rows, and how many are expected. With `engine` or
        `spark` a first line says who would run it, and why.
        """
        snapshot, text = self._take(), read_query(source)
        told = self._reader.explain(snapshot, text, name)
        if engine is not None or spark is not None:
            from omnigraph.graph.spark_queries import Asked, engine_line  # few name an engine

            asked = Asked.of(text, name, None, engine, spark)
            told = engine_line(self._state, self._reader, snapshot, asked) + told
        return FixedText(told)

    def read_blob(self, type_name: str, id: str, prop: str) -> bytes | None:
        """Return the bytes of one Blob, of which queries only return a description.

        Args:
            type_name: a node or edge type.
            id: the id of the node or edge.
            prop: the Blob property.

        Raises:
            NotFoundError: no such type, property, node or edge.
            BadRequestError: the property is not a Blob.
        """
        snapshot = self._take()
        return blob_bytes(snapshot, self._state.catalog(snapshot), type_name, id, prop)

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there.

        Args:
            table_key: `node:<Type>` or `edge:<Type>`.
            entity_id: the id of the node or edge; a node with a `@key` has the key as its id.
        """
        found = self.entity_rows(table_key, entity_id).to_dicts()
        return found[0] if found else None

    def entity_rows(self, table_key: str, entity_id: str) -> QueryResult:
        """Return one node or edge as a result of one row, or of none; see `entity`."""
        text_argument(entity_id, "an id")
        return QueryResult(self._take().open(table_key).by_ids([entity_id]))

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> ExportResult:
        """Write everything out: JSON lines that load back to an equal graph, or Parquet files.

        Args:
            target: a path (`.gz` and `.zst` are compressed), `-`, or an open file; for Parquet a
                folder that gets one file per type.
            format: `jsonl` or `parquet`.
            types: only these node and edge types.
            tables: only these tables, by key (`node:<Type>` or `edge:<Type>`).
            limits: memory (and, if said, time) limits.

        Raises:
            BudgetExceededError: a limit was reached; no file is left.
            NotFoundError: no such type, table, branch or commit.
        """
        from omnigraph.pipeline.export.write import export_to  # writing files needs more of Arrow

        chosen = word_argument(format, EXPORT_FORMATS, "format")
        with self._state.job_budget(limits):
            return export_to(self._selection(types, tables), target, chosen)

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        from omnigraph.pipeline.export.write import export_lines  # writing needs more of Arrow

        budget = self._state.job_budget(limits)
        return budget.over(export_lines(self._selection(types, tables)))

    def _selection(self, types: Sequence[str], tables: Sequence[str]) -> Selection:
        from omnigraph.pipeline.export.write import select  # writing needs more of Arrow

        snapshot = self._take()
        return select(snapshot, self._state.catalog(snapshot), types, tables)

    @property
    def algorithms(self) -> Algorithms:
        """PageRank, connected components, shortest paths and degrees of this state."""
        from omnigraph.graph.algorithms import Algorithms  # needed by few programs

        return Algorithms(self)

    def _begin_write(
        self,
        actor: str | None,  # noqa: ARG002 - of those that can
        message: str | None,  # noqa: ARG002
    ) -> WriteSession:
        """Refuse to begin a write: this is one state, which does not change.

        Raises:
            BadRequestError: always; a branch begins one.
        """
        raise BadRequestError(
            "a state of the past cannot be written to", hint="write to a branch: graph.branch(…)"
        )

    def spark(self, session: SparkSession) -> dict[str, DataFrame]:
        """Return one Spark DataFrame per type, all at one snapshot.

        Args:
            session: a SparkSession whose Python has this package.
        """
        load_extra("pyspark", "spark", "graph.spark")
        from omnigraph.graph.spark_source import frames  # needs PySpark

        snapshot, s3 = self._take(), self._state.options.storage.s3
        return frames(session, self.uri, snapshot, self._state.catalog(snapshot), s3)

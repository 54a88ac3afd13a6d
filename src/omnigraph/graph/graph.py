"""`Graph`: what a Python program holds. Porcelain and wiring; each method a few lines.

Reads are thread-safe: a query takes one snapshot and never looks at the head again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, cast

import orjson

from omnigraph.base.ids import ULIDS
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.migration import SchemaMigrationPlan, plan_schema_migration
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import CompiledQuery, compile_query
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.ops import MutationIr, ReadIr
from omnigraph.compiler.source import Source
from omnigraph.config.environment import process_environment, s3_options, spark_master
from omnigraph.engine.maintain import IndexReport, ensure_indexes
from omnigraph.engine.read.blob_bytes import blob_bytes
from omnigraph.engine.read.context import Limits
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.write.commit import Terms, commit_changes
from omnigraph.engine.write.embed import fill_vectors, fills
from omnigraph.engine.write.mutate import run_mutation
from omnigraph.errors import BadRequestError
from omnigraph.graph.contract import (
    SCHEMA_FILE,
    Catalogs,
    accepted_ir,
    contract_files,
    table_specs,
)
from omnigraph.graph.history import Branches, Commits, GraphAt
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.reader import GraphReader, Profile
from omnigraph.graph.texts import Text, read_text
from omnigraph.pipeline.model import (
    EXPORT_FORMATS,
    Engine,
    ExportFormat,
    ExportResult,
    LoadResult,
    OnError,
    SparkSettings,
    load_options,
)
from omnigraph.pipeline.progress import Progress
from omnigraph.result import MutationResult, QueryResult
from omnigraph.storage.maintain import CompactionStats
from omnigraph.storage.options import S3Options
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore, init_store, open_store
from omnigraph.storage.verify import Finding

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.pipeline.embed_graph import GraphEmbedResult
    from omnigraph.pipeline.export import Selection
    from omnigraph.pipeline.sources import Data


class ClosedError(BadRequestError):
    """The graph was closed."""


class Graph:
    """One open graph. Get it from `connect` or `init`; close it, or use it as a context."""

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

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = "main",
        at: str | int | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> QueryResult:
        """Run a read query.

        Args:
            source: the query text, or the path of a `.gq` file.
            name: which query of the text; needed when it has several.
            params: parameter values by name, without `$`.
            branch: the branch to read.
            at: a commit id, or a version of the branch, to read the past.
            limits: time, row and memory limits of this run.
            cancel: when another thread sets it, the query stops with QueryCancelledError.

        Raises:
            CompileError: the text is wrong.
            BadRequestError: a parameter is wrong, or the query is a mutation.
            NotFoundError: no such query, branch or commit.
            BudgetExceededError: a limit was reached.
        """
        snapshot = self._snapshot_at(branch, at)
        catalog = self._catalog(snapshot)
        compiled = compile_query(catalog, read_text(source), name)
        return self._reader.run(snapshot, catalog, compiled, params, limits, cancel)

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = "main",
        at: str | int | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        batch_rows: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query like `query` and return its rows in Arrow batches, in order.

        Which rows there are, and their order, is settled before this returns; their values are
        fetched batch by batch, so a large result never is in memory as a whole. There is at least
        one batch: the schema is known even without rows.
        """
        snapshot = self._snapshot_at(branch, at)
        catalog = self._catalog(snapshot)
        compiled = compile_query(catalog, read_text(source), name)
        reader = self._reader
        return reader.stream(snapshot, catalog, compiled, params, limits, cancel, batch_rows)

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = "main",
        at: str | int | None = None,
        limits: Limits | None = None,
    ) -> Profile:
        """Run a read query like `query` and return what every operator did beside the result.

        The first run of a process also pays for loading what it touches.
        """
        clock = self._options.clock
        trace, started = Trace(clock), clock.monotonic()
        snapshot = self._snapshot_at(branch, at)
        catalog = self._catalog(snapshot)
        compiled = compile_query(catalog, read_text(source), name)
        compiled_at = clock.monotonic()
        result = self._reader.run(snapshot, catalog, compiled, params, limits, trace=trace)
        compile_s, total_s = compiled_at - started, clock.monotonic() - started
        return Profile(result, tuple(trace.steps), compile_s * 1_000, total_s * 1_000)

    def read_blob(
        self,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str = "main",
        at: str | int | None = None,
    ) -> bytes | None:
        """Return the bytes of one Blob, of which queries only return a description.

        Args:
            type_name: a node or edge type.
            id: the id of the node or edge.
            prop: the Blob property.
            branch: the branch to read.
            at: a commit id, or a version of the branch, to read the past.

        Raises:
            NotFoundError: no such type, property, node or edge.
            BadRequestError: the property is not a Blob.
        """
        snapshot = self._snapshot_at(branch, at)
        return blob_bytes(snapshot, self._catalog(snapshot), type_name, id, prop)

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = "main",
        actor: str | None = None,
        if_head: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation: all of its statements as one commit, or none.

        Args:
            source: the query text, or the path of a `.gq` file.
            name: which query of the text; needed when it has several.
            params: parameter values by name, without `$`.
            branch: the branch to write.
            actor: who does it; kept on the commit.
            if_head: commit id the branch must still be at.
            idempotency_key: repeating a request under its key returns the first result.

        Raises:
            CompileError: the text is wrong.
            ConstraintError: the data breaks rules of the schema; nothing was written.
            ConflictError: someone else changed what this write relied on.
        """
        text = read_text(source)
        session = self.store.begin(branch, actor)
        catalog = self._catalog(session.base)
        compiled = compile_query(catalog, text, name)
        ir = _mutation_ir(compiled)
        bound = compiled.bind(params, now_ms=self._options.clock.now_us() // 1_000)
        mutated = run_mutation(ir, session.base, catalog, bound.params, self._new_id)
        if mutated.changes.is_empty and idempotency_key is None and if_head is None:
            return MutationResult(mutated.affected_nodes, mutated.affected_edges, None)
        filled = fills(mutated.changes, catalog, self._options.embedder)
        changes = fill_vectors(mutated.changes, catalog, self._options.embedder)
        nodes, edges = mutated.affected_nodes, mutated.affected_edges
        terms = Terms(if_head, idempotency_key, _request_hash(text, compiled.name, params))
        commit, outcome = commit_changes(
            session, changes, catalog, terms, [nodes, edges], filled=filled
        )
        if outcome == "committed":
            self._reader.take_over(session.base, self.store.snapshot(branch), changes)
        if outcome == "unchanged":
            return MutationResult(nodes, edges, None)
        if outcome == "replayed":
            nodes, edges = cast("list[int]", commit.result)
            return MutationResult(nodes, edges, commit.id, replayed=True)
        return MutationResult(nodes, edges, commit.id)

    def load(
        self,
        data: Data,
        mode: str = "overwrite",
        *,
        branch: str = "main",
        engine: Engine | None = None,
        actor: str | None = None,
        on_error: OnError = "fail",
        max_errors: int | None = None,
        spark: object = None,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load files or tables into a branch as one commit, or not at all.

        Args:
            data: paths, globs or folders; `-`; an open file; JSON lines as bytes; or a mapping
                from type names to files or tables (Arrow, pandas, polars).
            mode: `overwrite` replaces every table the data has rows of, `append` adds rows with
                new ids, `merge` replaces rows by id and adds the others.
            branch: the branch to write; it must exist.
            engine: who does the work: `inline`, `spark`, or `auto` by the size of the data; unless
                said, as the graph's options say.
            actor: who does it; kept on the commit.
            on_error: `fail` refuses everything if one row is bad, `skip` leaves bad rows out and
                reports them.
            max_errors: how many faults are told one by one; all are counted.
            spark: a SparkSession to run on, or `SparkSettings` to start one for this load.
            progress: hears about the stages.

        Raises:
            ConstraintError: rows break rules; nothing was written. Names file and line.
            NotFoundError: a file or the branch does not exist.
            ConflictError: someone else changed what this load relied on.
        """
        from omnigraph.pipeline.engines import Engines  # reading files needs more of Arrow
        from omnigraph.pipeline.load import LoadTarget, load_data

        defaults = self._options.pipeline
        options = load_options(mode, engine, on_error, defaults, max_errors)
        target = LoadTarget(
            self.store,
            self._catalog,
            branch,
            actor,
            self._options.embedder,
            self._options.clock,
            self._s3_options,
        )
        given = spark if spark is not None else self._spark_settings()
        with Engines(options, given, defaults.own_spark()) as engines:
            return load_data(target, data, options, engines, progress)

    def ingest(
        self,
        data: Data,
        *,
        branch: str,
        source: str = "main",
        mode: str = "merge",
        engine: Engine | None = None,
        actor: str | None = None,
        on_error: OnError = "fail",
        max_errors: int | None = None,
        spark: object = None,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load into a branch, creating it from `source` first if it does not exist.

        See `load` for the arguments. A load that fails leaves no branch it created behind.
        """
        load_options(mode, engine, on_error, self._options.pipeline, max_errors)
        created: Snapshot | None = None
        if branch not in self.branches.list():
            created = self.branches.create(branch, source=source)
        try:
            result = self.load(
                data,
                mode,
                branch=branch,
                engine=engine,
                actor=actor,
                on_error=on_error,
                max_errors=max_errors,
                spark=spark,
                progress=progress,
            )
        except BaseException:
            # Somebody else may have found the new branch and written to it.
            if created is not None and _is_at(self.snapshot(branch), created):
                self.branches.delete(branch)
            raise
        return replace(result, base_branch=source, branch_created=created is not None)

    def spark(
        self, session: SparkSession, *, branch: str = "main", at: str | int | None = None
    ) -> dict[str, DataFrame]:
        """Return one Spark DataFrame per type, all at one snapshot.

        Args:
            session: a classic SparkSession; it learns to read `format("omnigraph")`.
            branch: the branch to read.
            at: a commit id, or a version of the branch, to read the past.
        """
        from omnigraph.graph.spark_source import frames  # needs PySpark

        return frames(session, GraphAt(self, self._snapshot_at(branch, at)))

    def write_spark(
        self,
        frame: DataFrame,
        *,
        type: str,
        mode: str = "append",
        branch: str = "main",
        actor: str | None = None,
    ) -> LoadResult:
        """Commit a Spark DataFrame with rows of one type as one commit; see `load`."""
        return self.load({type: frame}, mode, branch=branch, actor=actor, spark=frame.sparkSession)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = "main",
        at: str | int | None = None,
    ) -> ExportResult:
        """Write the graph out: JSON lines that load back to an equal graph, or Parquet files.

        Args:
            target: a path (`.gz` and `.zst` are compressed), `-`, or an open file; for Parquet a
                folder that gets one file per type.
            format: `jsonl` or `parquet`.
            types: only these node and edge types.
            tables: only these tables, by key (`node:<Type>` or `edge:<Type>`).
            branch: the branch to read.
            at: a commit id, or a version of the branch, to write out the past.

        Raises:
            NotFoundError: no such type, table, branch or commit.
        """
        from omnigraph.pipeline.export import export_to  # writing files needs more of Arrow

        if format not in EXPORT_FORMATS:
            raise BadRequestError(f"unknown format '{format}'", hint="use jsonl or parquet")
        return export_to(self._selection(types, tables, branch, at), target, format)

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = "main",
        at: str | int | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        from omnigraph.pipeline.export import export_lines  # writing needs more of Arrow

        return export_lines(self._selection(types, tables, branch, at))

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        *,
        branch: str = "main",
        actor: str | None = None,
        progress: Progress | None = None,
    ) -> GraphEmbedResult:
        """Fill the `@embed` columns of a branch as one commit.

        Args:
            types: only these node types; without any, all that have such columns.
            mode: `fill_missing` makes what is missing, `reembed_all` makes everything again, as
                after a change of the embedder.
            branch: the branch to write.
            actor: who does it; kept on the commit.
            progress: hears about batches.

        Raises:
            EmbeddingError: the embedder failed, or there is none; nothing was written.
            ConflictError: somebody changed one of the tables meanwhile; run it again.
        """
        from omnigraph.pipeline.embed_graph import EmbedTarget, embed_graph  # a bulk job

        target = EmbedTarget(self.store, self._catalog, branch, actor, self._options.embedder)
        return embed_graph(target, types, mode, progress)

    def _selection(
        self, types: Sequence[str], tables: Sequence[str], branch: str, at: str | int | None
    ) -> Selection:
        from omnigraph.pipeline.export import select  # writing needs more of Arrow

        snapshot = self._snapshot_at(branch, at)
        return select(snapshot, self._catalog(snapshot), types, tables)

    def _s3_options(self) -> S3Options:
        """Return how to reach the object stores of inputs: like the graph's own, if it is there."""
        own = self._options.storage.s3
        return own if own != S3Options() else s3_options(process_environment())

    def _spark_settings(self) -> SparkSettings | None:
        """Return where Spark runs, if the options or the environment say so."""
        pipeline = self._options.pipeline
        master = spark_master(process_environment())
        if pipeline.spark is not None or master is None:
            return pipeline.spark
        return pipeline.own_spark(master)

    def _new_id(self) -> str:
        return ULIDS.next(self._options.clock.now_us())

    def optimize(self, branch: str = "main", *, spark: object = None) -> list[CompactionStats]:
        """Compact every table of a branch; `spark` (a session, or settings) does the rewriting."""
        if spark is None:
            return self.store.optimize(branch)
        from omnigraph.pipeline.engines import Engines, on_spark

        with Engines(on_spark(), spark) as engines:
            return self.store.optimize(branch, engines.choose(0).runner.map)

    def ensure_indices(self, branch: str = "main", *, spark: object = None) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date.

        Safe to repeat. Answers never depend on indexes; those that cannot be built yet are
        reported as pending. With `spark` (a session, or settings) missing ones are built there.
        """
        catalog = self._catalog(self.store.snapshot(branch))
        if spark is None:
            return ensure_indexes(self.store, catalog, branch)
        from omnigraph.pipeline.engines import Engines, on_spark

        with Engines(on_spark(), spark) as engines:
            return ensure_indexes(self.store, catalog, branch, engines.choose(0).runner.map)

    def verify(self) -> list[Finding]:
        """Check the graph against its own rules; it is sound if every finding is harmless."""
        return self.store.verify()

    def plan_schema(self, schema: Text, *, allow_data_loss: bool = False) -> SchemaMigrationPlan:
        """Return the steps from the accepted schema to a new one; nothing is changed."""
        accepted = accepted_ir(self.store)
        desired = load_schema(read_text(schema), accepted).ir
        return plan_schema_migration(accepted, desired, allow_data_loss)

    def explain(self, source: Text, name: str | None = None) -> str:
        """Return the operators a query runs as on the current state of main.

        Behind each stands how it gets at its rows, and how many are expected.
        """
        snapshot = self.store.snapshot()
        catalog = self._catalog(snapshot)
        ir = compile_query(catalog, read_text(source), name).ir
        if isinstance(ir, ReadIr):
            return self._reader.explain(snapshot, catalog, ir)
        return explain_query(ir)

    def at(self, moment: str | int, *, branch: str = "main") -> GraphAt:
        """Return the graph as it was: at a commit id, or at a version of a branch.

        Raises:
            NotFoundError: no branch knows that commit, or the branch never had that version.
        """
        return GraphAt(self, self._snapshot_at(branch, moment))

    def entity_at(self, table_key: str, entity_id: str, moment: str | int) -> dict[str, Any] | None:
        """Return one node or edge as it was, or None if it was not there.

        Args:
            table_key: `node:<Type>` or `edge:<Type>`.
            entity_id: the id of the node or edge; a node with a `@key` has the key as its id.
            moment: a commit id, or a version of main.
        """
        return self.at(moment).entity(table_key, entity_id)

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
            case int():
                return self.store.snapshot_at(version=at, branch=branch)
            case _:
                return self.store.snapshot_at(commit_id=at, branch=branch)

    def _catalog(self, snapshot: Snapshot) -> Catalog:
        return self._catalogs.of(self.store, snapshot)


def connect(uri: str, *, read_only: bool = False, options: GraphOptions | None = None) -> Graph:
    """Open a graph.

    Raises:
        NotFoundError: there is no graph at this place.
        FormatError: a newer version of this package wrote it.
    """
    chosen = options or GraphOptions()
    return Graph(open_store(uri, read_only, chosen.storage, chosen.clock), chosen)


def init(uri: str, schema: Text, *, options: GraphOptions | None = None) -> Graph:
    """Create a graph with an accepted schema and return it open.

    Args:
        uri: a path, `file://` or `s3://` address.
        schema: the schema text, or the path of a `.pg` file.
        options: settings of the open graph.

    Raises:
        CompileError: the schema is wrong; nothing was created.
        AlreadyExistsError: there is a graph; it is left untouched.
    """
    chosen = options or GraphOptions()
    source = read_text(schema)
    loaded = load_schema(source)
    tables, files = table_specs(loaded.catalog), contract_files(source.text, loaded)
    return Graph(init_store(uri, tables, files, chosen.storage, chosen.clock), chosen)


def _request_hash(text: Source, name: str, params: Mapping[str, Any] | None) -> str:
    """Return a fingerprint of a request: the same key must not stand for another one."""
    request = [text.text, name, params or {}]
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _is_at(snapshot: Snapshot, other: Snapshot) -> bool:
    """Whether nobody has written anything in between."""
    return snapshot.logical_commit_id == other.logical_commit_id


def _mutation_ir(compiled: CompiledQuery) -> MutationIr:
    if not isinstance(compiled.ir, MutationIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a read", hint="run it as a read, not as a mutation"
        )
    return compiled.ir

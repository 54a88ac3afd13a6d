"""`Graph`: what a Python program holds. Porcelain and wiring; each method a few lines.

Reads are thread-safe: a query takes one snapshot and never looks at the head again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from omnigraph.base.ids import ULIDS
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.migration import SchemaMigrationPlan, plan_schema_migration
from omnigraph.compiler.compile import CompiledQuery, compile_query
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.ops import MutationIr, ReadIr
from omnigraph.engine.read.blob_bytes import blob_bytes
from omnigraph.engine.read.context import Limits
from omnigraph.engine.read.trace import Trace
from omnigraph.engine.write.commit import Terms, commit_changes
from omnigraph.engine.write.embed import fill_vectors, fills
from omnigraph.engine.write.mutate import run_mutation
from omnigraph.errors import BadRequestError
from omnigraph.graph.bulk import BulkJobs
from omnigraph.graph.contract import accepted_ir, contract_files, table_specs
from omnigraph.graph.history import GraphAt
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.reader import Profile
from omnigraph.graph.requests import check_words, request_hash
from omnigraph.graph.texts import Text, read_text
from omnigraph.pipeline.model import (
    LoadResult,
)
from omnigraph.result import MutationResult, QueryResult
from omnigraph.storage.records import Commit
from omnigraph.storage.store import init_store, open_store
from omnigraph.storage.verify import Finding

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Graph(BulkJobs):
    """One open graph. Get it from `connect` or `init`; close it, or use it as a context."""

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
        check_words(branch=branch, actor=actor, if_head=if_head, idempotency_key=idempotency_key)
        session = self.store.begin(branch, actor)
        catalog = self._catalog(session.base)
        compiled = compile_query(catalog, text, name)
        ir = _mutation_ir(compiled)
        bound = compiled.bind(params, now_ms=self._options.clock.now_us() // 1_000)
        terms = Terms(if_head)
        if idempotency_key is not None:
            request = request_hash(text, compiled.name, bound.params, params, actor)
            terms = Terms(if_head, idempotency_key, request)
            if (done := session.done_before(idempotency_key, request)) is not None:
                return _replayed(done)
        if if_head is not None:  # who saw another state is told so before any broken rule
            session.require_head(if_head)
        mutated = run_mutation(ir, session.base, catalog, bound.params, self._new_id)
        if mutated.changes.is_empty and idempotency_key is None and if_head is None:
            return MutationResult(mutated.affected_nodes, mutated.affected_edges, None)
        filled = fills(mutated.changes, catalog, self._options.embedder)
        changes = fill_vectors(mutated.changes, catalog, self._options.embedder)
        nodes, edges = mutated.affected_nodes, mutated.affected_edges
        commit, outcome = commit_changes(
            session, changes, catalog, terms, [nodes, edges], filled=filled
        )
        if outcome == "committed":
            self._reader.take_over(session.base, self.store.snapshot(branch), changes)
        if outcome == "unchanged":
            return MutationResult(nodes, edges, None)
        if outcome == "replayed":
            return _replayed(commit)
        return MutationResult(nodes, edges, commit.id)

    def spark(
        self, session: SparkSession, *, branch: str = "main", at: str | int | None = None
    ) -> dict[str, DataFrame]:
        """Return one Spark DataFrame per type, all at one snapshot.

        Args:
            session: a SparkSession whose Python has this package.
            branch: the branch to read.
            at: a commit id, or a version of the branch, to read the past.
        """
        from omnigraph.graph.spark_source import frames  # needs PySpark

        then = GraphAt(self, self._snapshot_at(branch, at))
        return frames(session, then, self._options.storage.s3)

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

    def _new_id(self) -> str:
        return ULIDS.next(self._options.clock.now_us())

    def verify(self) -> list[Finding]:
        """Check the graph against its own rules; it is sound if every finding is harmless."""
        return self.store.verify()

    def plan_schema(self, schema: Text, *, allow_data_loss: bool = False) -> SchemaMigrationPlan:
        """Return the steps from the accepted schema to a new one; nothing is changed."""
        accepted = accepted_ir(self.store)
        desired = load_schema(read_text(schema), accepted).ir
        return plan_schema_migration(accepted, desired, allow_data_loss)

    def explain(
        self,
        source: Text,
        name: str | None = None,
        *,
        branch: str = "main",
        at: str | int | None = None,
    ) -> str:
        """Return the operators a query runs as on the state of a branch, now or in the past.

        Behind each stands how it gets at its rows, and how many are expected.
        """
        snapshot = self._snapshot_at(branch, at)
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
        if moment is None:  # a moment that was never set must not become now
            raise BadRequestError("no moment is given", hint="pass a commit id or a version")
        return GraphAt(self, self._snapshot_at(branch, moment))

    def entity_at(self, table_key: str, entity_id: str, moment: str | int) -> dict[str, Any] | None:
        """Return one node or edge as it was, or None if it was not there.

        Args:
            table_key: `node:<Type>` or `edge:<Type>`.
            entity_id: the id of the node or edge; a node with a `@key` has the key as its id.
            moment: a commit id, or a version of main.
        """
        return self.at(moment).entity(table_key, entity_id)


def connect(
    uri: str | PathLike[str], *, read_only: bool = False, options: GraphOptions | None = None
) -> Graph:
    """Open a graph.

    Raises:
        NotFoundError: there is no graph at this place.
        FormatError: a newer version of this package wrote it.
    """
    chosen = options or GraphOptions()
    return Graph(open_store(uri, read_only, chosen.storage, chosen.clock), chosen)


def init(uri: str | PathLike[str], schema: Text, *, options: GraphOptions | None = None) -> Graph:
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


def _replayed(commit: Commit) -> MutationResult:
    """Return what a request did when it was made first."""
    nodes, edges = cast("list[int]", commit.result)
    return MutationResult(nodes, edges, commit.id, replayed=True)


def _mutation_ir(compiled: CompiledQuery) -> MutationIr:
    if not isinstance(compiled.ir, MutationIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a read", hint="run it as a read, not as a mutation"
        )
    return compiled.ir

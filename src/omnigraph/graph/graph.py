"""`Graph`: what a Python program holds: the view of main, and what needs the whole graph.

Whatever is done with one state of the graph is said once, by `GraphView` and `GraphBranch`; the
keywords `branch` and `at` choose another state than main as it is. Thread-safe: a read takes one
snapshot and never looks at the head again; writes queue by branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, Unpack, cast

from omnigraph.api.changes import ChangeGroup, Diff, EntityBlame, EntityHistory
from omnigraph.api.history import GraphSnapshot
from omnigraph.api.keywords import (
    DiffKeywords,
    FeedKeywords,
    LoadKeywords,
    LocalQueryKeywords,
    MutateKeywords,
    OptimizeKeywords,
    QueryKeywords,
)
from omnigraph.api.merges import ChangeApplied, Strategy
from omnigraph.api.notebook import FixedText
from omnigraph.api.pictures import PICTURE_NODES, Picture
from omnigraph.api.progress import Progress
from omnigraph.api.protocols import AnyGraph, BranchView, Reads, Text
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory
from omnigraph.api.stored import BrokenQuery, StoredChecked
from omnigraph.api.texts import SchemaPlan
from omnigraph.api.upkeep import (
    CleanupStats,
    CompactionStats,
    DiskUse,
    Finding,
    IndexReport,
    LockHolder,
    TableRepair,
)
from omnigraph.api.words import DEFAULT_BRANCH, Engine, ExportFormat, Moment
from omnigraph.api.writes import EmbedResult, ExportResult, LoadResult, MutationResult
from omnigraph.base.arguments import count_argument, text_argument
from omnigraph.base.budget import Limits
from omnigraph.base.closing import Closing
from omnigraph.base.durations import seconds_of
from omnigraph.base.uri import is_on_server
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.source import Source
from omnigraph.config.environment import bearer_token, process_environment
from omnigraph.config.stored import StoredFiles
from omnigraph.config.texts import read_text
from omnigraph.engine.contract import SCHEMA_FILE, contract_files, table_specs
from omnigraph.engine.merge.replay import Replay
from omnigraph.engine.merge.resolve import resolutions
from omnigraph.engine.verify import lonely_sources
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph import schemas
from omnigraph.graph.branch import GraphBranch, view_at
from omnigraph.graph.changes import GraphChanges
from omnigraph.graph.history import Branches, Commits
from omnigraph.graph.merging import Tags, apply_change
from omnigraph.graph.options import GraphOptions
from omnigraph.graph.requests import check_labels, who_writes
from omnigraph.graph.runs import GraphRun, Runs
from omnigraph.graph.state import GraphState
from omnigraph.graph.stored import GraphQueries
from omnigraph.graph.view import GraphView
from omnigraph.pipeline.model import load_options
from omnigraph.storage.locks.holders import Holder
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.store import GraphStore, init_store, open_store
from omnigraph.storage.upkeep.cleanup import CleanupPolicy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.api.access import AccessPolicy
    from omnigraph.api.visibility import RowRules
    from omnigraph.graph.algorithms import Algorithms
    from omnigraph.graph.seen import SeenGraph
    from omnigraph.pipeline.inputs.sources import Data
    from omnigraph.policy.guard import GuardedGraph


class Graph(Closing):
    """One open graph. Get it from `connect` or `init`; close it, or use it as a context."""

    def __init__(self, state: GraphState, actor: str | None = None) -> None:
        self._state = state
        self._actor = actor
        self._main = GraphView(state, partial(state.snapshot, DEFAULT_BRANCH))
        self._changes = GraphChanges(state)
        self.branches = Branches(state, actor)
        self.commits = Commits(state)
        self.tags = Tags(state, actor)
        self.runs = Runs(state, actor)

    def __repr__(self) -> str:
        """Say which graph this is, and in whose name it is used."""
        state = self._state.described()
        return (
            f"Graph({state})" if self._actor is None else f"Graph({state}, actor={self._actor!r})"
        )

    @property
    def store(self) -> GraphStore:
        """The storage below; for tools, not for everyday use."""
        return self._state.store

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._state.uri

    @property
    def schema(self) -> str:
        """The accepted schema text."""
        return FixedText(self.store.read_file(SCHEMA_FILE).decode())

    @property
    def queries(self) -> GraphQueries:
        """The queries that are called by name; `GraphOptions.queries` says where they are."""
        return GraphQueries(self, self._state.stored)

    def check_queries(self) -> StoredChecked:
        """Return which stored queries mean nothing under the schema of main.

        Raises:
            OmniGraphError: their files cannot be read, or do not parse.
        """
        stored = self._state.stored
        broken = tuple(
            BrokenQuery(one.query or "", one.message) for one in stored.broken(self.catalog)
        )
        return StoredChecked(len(stored.all()), broken)

    def reload_queries(self, files: StoredFiles | None = None) -> None:
        """Read stored queries anew, maybe of other places; changed files are seen without it.

        Raises:
            OmniGraphError: one is wrong; those in force stay.
        """
        chosen = self._state.options.queries if files is None else files
        self._state.stored.reload(chosen, self.catalog)

    @property
    def catalog(self) -> Catalog:
        """What the accepted schema means."""
        return self._view(DEFAULT_BRANCH).catalog

    def as_actor(self, actor: str) -> Self:
        """Return the same open graph; every write and all upkeep through it is done by `actor`.

        Raises:
            BadRequestError: it is no name, or this handle is somebody else's.
        """
        if actor is None:  # one that was never set must not become nobody
            raise BadRequestError("no actor is given", hint="pass a name, or use the graph itself")
        check_labels(actor=actor)
        return type(self)(self._state, who_writes(self._actor, actor))

    def guarded(self, policy: AccessPolicy, actor: str) -> GuardedGraph:
        """Return this graph for one actor, who can do through it what the policy allows.

        Everything is done in the actor's name. What the protocols of `omnigraph.api` do not have is
        out of reach.

        Args:
            policy: who may do what; see `omnigraph.policy.load`.
            actor: who will use it.
        """
        from omnigraph.policy.guard import GuardedGraph  # needed by few programs

        return GuardedGraph(self, policy, actor)

    def under(self, rules: RowRules) -> SeenGraph:
        """Return this graph with the rows that rules show; see `omnigraph.graph.seen`.

        Whatever needs to see the other rows is refused through it.
        """
        from omnigraph.graph.seen import SeenGraph  # needed where a policy names types

        return SeenGraph(self, self._state, rules)

    def branch(self, name: str) -> GraphBranch:
        """Return a branch: to be read as it is at every call, and to be written.

        Raises:
            NotFoundError: there is no such branch.
        """
        self._state.snapshot(name)
        return self._branch(name)

    def at(self, moment: str | int, *, branch: str = DEFAULT_BRANCH) -> GraphView:
        """Return the graph as it was: at a commit id, or at a version of a branch.

        Raises:
            NotFoundError: no branch knows that commit, or the branch never had that version.
        """
        return view_at(self._state, branch, moment)

    def _branch(self, name: str) -> GraphBranch:
        return GraphBranch(self._state, name, self._actor)

    def _view(self, branch: str, at: str | int | None = None) -> GraphView:
        """Return the view that two keywords mean; its state is looked up when it is asked."""
        if text_argument(branch, "the branch") == DEFAULT_BRANCH and at is None:
            return self._main
        return GraphView(self._state, partial(self._state.snapshot, branch, at))

    # Reads; see GraphView.

    def snapshot(
        self, branch: str = DEFAULT_BRANCH, *, at: str | int | None = None
    ) -> GraphSnapshot:
        """Return every table at its version."""
        return self._view(branch, at).snapshot()

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        **how: Unpack[LocalQueryKeywords],
    ) -> QueryResult:
        """Run a read query; see `GraphView.query`."""
        return self._view(branch, at).query(source, name, params, **how)

    def picture(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_nodes: int = PICTURE_NODES,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        **how: Unpack[QueryKeywords],
    ) -> Picture:
        """Run a read query and return the nodes and edges behind its rows.

        See `GraphView.picture`.
        """
        view = self._view(branch, at)
        return view.picture(source, name, params, max_nodes=max_nodes, **how)

    def show(
        self, limit: int = 25, *, branch: str = DEFAULT_BRANCH, at: str | int | None = None
    ) -> Picture:
        """Return a picture of a few edges of every type; see `GraphView.show`."""
        return self._view(branch, at).show(limit)

    def query_at_hand(
        self,
        source: Source,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        limits: Limits | None = None,
    ) -> QueryResult | None:
        """Run a read query if that takes next to no time; see `GraphView.query_at_hand`."""
        return self._view(branch, at).query_at_hand(source, name, params, limits=limits)

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        batch_rows: int = 65_536,
        **how: Unpack[LocalQueryKeywords],
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query and return its rows in Arrow batches; see `GraphView.stream`."""
        view = self._view(branch, at)
        return view.stream(source, name, params, batch_rows=batch_rows, **how)

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        **how: Unpack[QueryKeywords],
    ) -> Profile:
        """Run a read query and return what every operator did; see `GraphView.profile`."""
        return self._view(branch, at).profile(source, name, params, **how)

    def explain(
        self,
        source: Text,
        name: str | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        engine: Engine | None = None,
        spark: object = None,
    ) -> str:
        """Return the operators a query runs as; see `GraphView.explain`."""
        return self._view(branch, at).explain(source, name, engine=engine, spark=spark)

    def read_blob(
        self,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
    ) -> bytes | None:
        """Return the bytes of one Blob; see `GraphView.read_blob`."""
        return self._view(branch, at).read_blob(type_name, id, prop)

    def entity(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
    ) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there; see `GraphView.entity`."""
        return self._view(branch, at).entity(table_key, entity_id)

    def entity_rows(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
    ) -> QueryResult:
        """Return one node or edge as a result of one row, or of none."""
        return self._view(branch, at).entity_rows(table_key, entity_id)

    def entity_at(self, table_key: str, entity_id: str, moment: str | int) -> dict[str, Any] | None:
        """Return one node or edge as it was at a commit id, or at a version of main."""
        return self.at(moment).entity(table_key, entity_id)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        limits: Limits | None = None,
    ) -> ExportResult:
        """Write the graph out; see `GraphView.export`."""
        view = self._view(branch, at)
        return view.export(target, format=format, types=types, tables=tables, limits=limits)

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        limits: Limits | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        return self._view(branch, at).iter_export(types=types, tables=tables, limits=limits)

    def spark(
        self, session: SparkSession, *, branch: str = DEFAULT_BRANCH, at: str | int | None = None
    ) -> dict[str, DataFrame]:
        """Return one Spark DataFrame per type, all at one snapshot; see `GraphView.spark`."""
        return self._view(branch, at).spark(session)

    def spark_query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        session: SparkSession,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
    ) -> DataFrame:
        """Return the result of a read query as a DataFrame; see `GraphView.spark_query`."""
        return self._view(branch, at).spark_query(source, name, params, session=session)

    @property
    def algorithms(self) -> Algorithms:
        """PageRank, connected components, shortest paths and degrees of main; see `Algorithms`.

        Those of another branch or of the past are of `branch(…)` and `at(…)`.
        """
        return self._branch(DEFAULT_BRANCH).algorithms

    # What changed; see GraphChanges.

    def diff(self, a: Moment, b: Moment | None = None, **how: Unpack[DiffKeywords]) -> Diff:
        """Return what must change in state `a` to make it state `b`; see `GraphChanges.diff`."""
        return self._changes.diff(a, b, **how)

    def changes(
        self, branch: str = DEFAULT_BRANCH, **how: Unpack[FeedKeywords]
    ) -> Iterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first; see `GraphChanges.changes`."""
        return self._changes.changes(branch, **how)

    def cursor(self, branch: str = DEFAULT_BRANCH, *, at: str | None = None) -> str:
        """Return where the feed of a branch goes on; see `GraphChanges.cursor`."""
        return self._changes.cursor(branch, at=at)

    def entity_history(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = DEFAULT_BRANCH,
        limit: int | None = None,
    ) -> EntityHistory:
        """Return the commits that changed one node or edge; see `GraphChanges.entity_history`."""
        return self._changes.entity_history(table_key, entity_id, branch=branch, limit=limit)

    def blame(self, table_key: str, entity_id: str, *, branch: str = DEFAULT_BRANCH) -> EntityBlame:
        """Return which commit gave each property its value; see `GraphChanges.blame`."""
        return self._changes.blame(table_key, entity_id, branch=branch)

    # Writes; see GraphBranch.

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        **how: Unpack[MutateKeywords],
    ) -> MutationResult:
        """Run a mutation: one commit, or nothing; see `GraphBranch.mutate`."""
        return self._branch(branch).mutate(source, name, params, **how)

    def load(
        self,
        data: Data,
        mode: str = "overwrite",
        *,
        branch: str = DEFAULT_BRANCH,
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Load files or tables into a branch as one commit; see `GraphBranch.load`."""
        return self._branch(branch).load(data, mode, **how)

    def write_spark(
        self,
        frame: DataFrame,
        *,
        type: str,
        mode: str = "append",
        branch: str = DEFAULT_BRANCH,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadResult:
        """Commit a Spark DataFrame with rows of one type; see `GraphBranch.write_spark`."""
        return self._branch(branch).write_spark(
            frame, type=type, mode=mode, actor=actor, idempotency_key=idempotency_key
        )

    def spark_sink(
        self,
        *,
        type: str | None = None,
        split: Callable[[DataFrame], Mapping[str, DataFrame]] | None = None,
        mode: str = "append",
        branch: str = DEFAULT_BRANCH,
        actor: str | None = None,
    ) -> Callable[[DataFrame, int], None]:
        """Return what `writeStream.foreachBatch` is given; see `GraphBranch.spark_sink`."""
        target = self._branch(branch)
        return target.spark_sink(type=type, split=split, mode=mode, actor=actor)

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        *,
        branch: str = DEFAULT_BRANCH,
        actor: str | None = None,
        message: str | None = None,
        progress: Progress | None = None,
        limits: Limits | None = None,
    ) -> EmbedResult:
        """Fill the `@embed` columns of a branch as one commit; see `GraphBranch.embed`."""
        target = self._branch(branch)
        return target.embed(
            types, mode, actor=actor, message=message, progress=progress, limits=limits
        )

    def optimize(
        self,
        branch: str = DEFAULT_BRANCH,
        *,
        spark: object = None,
        **how: Unpack[OptimizeKeywords],
    ) -> list[CompactionStats]:
        """Compact every table of a branch; see `GraphBranch.optimize`."""
        return self._branch(branch).optimize(spark=spark, **how)

    def indices(self, branch: str = DEFAULT_BRANCH) -> list[IndexReport]:
        """Return every index the schema asks for; see `GraphBranch.indices`."""
        return self._branch(branch).indices()

    def ensure_indices(
        self, branch: str = DEFAULT_BRANCH, *, spark: object = None
    ) -> list[IndexReport]:
        """Build and refresh the indexes of a branch; see `GraphBranch.ensure_indices`."""
        return self._branch(branch).ensure_indices(spark=spark)

    def run(
        self,
        target: str = DEFAULT_BRANCH,
        *,
        operation_hash: str | None = None,
        actor: str | None = None,
    ) -> GraphRun:
        """Begin a run: several writes that reach a branch together, or not at all.

        Use it as a context: it is published at the end of the block, and aborted if the block
        raises. Until then nobody else sees what it wrote.

        Args:
            target: the branch it begins from and is published to.
            operation_hash: what the caller calls this request; kept to know it again.
            actor: who does it, publishing included.

        Raises:
            NotFoundError: there is no such branch.
        """
        return self.runs.begin(target, operation_hash=operation_hash, actor=actor)

    # Single commits, undone or repeated.

    def revert(
        self,
        commit: str,
        *,
        branch: str = DEFAULT_BRANCH,
        parent: int | None = None,
        strategy: Strategy = "fail",
        resolve: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        actor: str | None = None,
        message: str | None = None,
        preview: bool = False,
    ) -> ChangeApplied:
        """Undo what a commit changed, as a new commit on a branch.

        Args:
            commit: a commit id or a tag.
            branch: where it is undone.
            parent: of a merge, against which parent its change is measured, from 1.
            strategy: what becomes of rows that were changed since; see `Branches.merge`.
            resolve: the same, row by row.
            actor: who does it.
            message: why.
            preview: compute everything and write nothing.

        Raises:
            MergeConflictError: rows it is about were changed since; nothing was written.
            NotFoundError: there is no such commit.
        """
        by, said = who_writes(self._actor, actor), resolutions(strategy, resolve)
        wanted = Replay("revert", commit, branch, parent, said, by, message, preview)
        return apply_change(self._state, wanted)

    def cherry_pick(
        self,
        commit: str,
        *,
        branch: str = DEFAULT_BRANCH,
        parent: int | None = None,
        strategy: Strategy = "fail",
        resolve: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        actor: str | None = None,
        message: str | None = None,
        preview: bool = False,
    ) -> ChangeApplied:
        """Repeat on a branch what a commit changed elsewhere; see `revert` for the arguments."""
        by, said = who_writes(self._actor, actor), resolutions(strategy, resolve)
        wanted = Replay("cherry_pick", commit, branch, parent, said, by, message, preview)
        return apply_change(self._state, wanted)

    # The whole graph.

    def ingest(
        self,
        data: Data,
        *,
        branch: str,
        source: str = DEFAULT_BRANCH,
        mode: str = "merge",
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Load into a branch, creating it from `source` first if it does not exist.

        See `GraphBranch.load` for the arguments. A load that fails leaves no branch it created
        behind.
        """
        labels = {name: how.get(name) for name in ("actor", "message", "idempotency_key")}
        check_labels(branch=branch, **labels)
        words = (how.get("engine"), how.get("on_error", "fail"))
        load_options(mode, *words, self._state.options.pipeline, how.get("max_errors"))
        created: Snapshot | None = None
        if branch not in self.branches.list():
            created = self.store.branches.create(branch, source)
        try:
            result = self.load(data, mode, branch=branch, **how)
        except BaseException:
            # Somebody else may have found the new branch and written to it.
            if created is not None and _is_at(self._state.snapshot(branch), created):
                self.branches.delete(branch)
            raise
        return replace(result, base_branch=source, branch_created=created is not None)

    # The schema; see graph.schemas.

    def plan_schema(
        self, schema: Text, *, allow_data_loss: bool = False, branch: str = DEFAULT_BRANCH
    ) -> SchemaPlan:
        """Return the steps from the schema of a branch to a new one; nothing is changed."""
        return schemas.plan(self._state, schema, branch, allow_data_loss=allow_data_loss)

    def apply_schema(
        self,
        schema: Text,
        *,
        allow_data_loss: bool = False,
        branch: str = DEFAULT_BRANCH,
        preview: bool = False,
        actor: str | None = None,
        message: str | None = None,
    ) -> SchemaApplied:
        """Make a text the schema of a branch: all of it as one commit, or nothing.

        Other branches keep theirs, and what was committed before is read under the schema of its
        time. Rules that rows might break are held against all of them first.

        Args:
            schema: the new text, or the path of a `.pg` file.
            allow_data_loss: permit what drops types, properties and their values, and the
                widening of enums, which has no way back.
            branch: the branch that gets it.
            preview: plan and check everything, and write nothing.
            actor: who does it; kept on the commit.
            message: why; kept on the commit.

        Raises:
            CompileError: the text is wrong.
            SchemaUnsupportedError: the change cannot be made; it has every reason.
            ConstraintError: rows break a rule of the new schema; nothing was written.
            ConflictError: loads are writing to tables it would change, or others change the
                schema all the time.
        """
        return schemas.apply(
            self._state,
            schema,
            branch,
            allow_data_loss=allow_data_loss,
            preview=preview,
            actor=who_writes(self._actor, actor),
            message=message,
        )

    def diff_schema(self, a: Moment | Text, b: Moment | Text) -> SchemaDiff:
        """Return the steps from one schema to another; nothing is changed.

        Args:
            a: a branch, a commit id, a version of main, `branch@version`; or a text or file.
            b: the same; of a text, `@rename_from` says what parts of `a` are called now.
        """
        return schemas.diff(self._state, a, b)

    def schema_history(self, branch: str = DEFAULT_BRANCH) -> SchemaHistory:
        """Return the commits of a branch that changed its schema, newest first."""
        return schemas.history(self._state, branch)

    def verify(
        self,
        *,
        deep: bool = False,
        journal: str | PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Finding]:
        """Check the graph against its own rules; it is sound if every finding is harmless.

        Args:
            deep: read every file, also of the past, and compare its bytes with the digest that the
                commit stated which added it. Files without one are told of as `unverified`.
            journal: a local file that remembers what was found sound; a deep check that was
                stopped goes on from there.
            progress: hears of the files as they are done.
        """
        if journal is not None and not deep:
            raise BadRequestError("a journal is of a deep check", hint="ask for deep=True as well")
        found = self.store.verify()
        if deep:
            path = None if journal is None else fspath(journal)
            found += self.store.check_files(journal=path, progress=progress)
        if not any(one.kind.startswith("unreadable") for one in found):
            for one in self.store.branches.list():
                with suppress(NotFoundError):  # deleted meanwhile
                    snapshot = self.store.snapshot(one.name)
                    found += lonely_sources(snapshot, self._state.catalog(snapshot))
        return found

    def repair(
        self, branch: str | None = None, *, confirm: bool = False, force: bool = False
    ) -> list[TableRepair]:
        """Show what other tools did to the files of this graph, and settle it if told to.

        Args:
            branch: which one; all if none is given.
            confirm: act; otherwise nothing is changed. Compactions and indexes of other tools are
                taken over, indexes that cannot be read are taken out.
            force: take changed rows as they are, too: no rule of the schema was checked for them.
                Rows whose key is not UTF-8 are deleted.

        Raises:
            ConflictError: a write is unfinished.
        """
        return self.store.repair(branch, confirm=confirm, force=force, actor=self._actor)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | timedelta | None = None,
        preview: bool = True,
        progress: Progress | None = None,
    ) -> list[CleanupStats]:
        """Remove old versions of tables, forks of deleted branches, files of dead writes.

        Never touched: the newest versions, whatever was superseded a few minutes ago, and what a
        branch, a tag, a later merge, a load, a pin or an unfinished write rests on. Past states
        whose rows are gone say so when they are read; handles that are open go on.

        Args:
            keep: so many of the newest versions of every table stay.
            older_than: only what was superseded longer ago may go: `"7d"`, seconds, or a timedelta.
                With `keep`, both must hold.
            preview: only tell what would go; pass False to remove it.
            progress: hears about tables.

        Raises:
            BadRequestError: neither of the two is said, or one makes no sense.
        """
        kept = None if keep is None else count_argument(keep, "keep", least=0)
        policy = CleanupPolicy(kept, seconds_of(older_than, "older_than"))
        done = self.store.cleanup(policy, dry_run=preview is not False, progress=progress)
        if preview is False:
            self._state.let_go()
        return done

    def build_cache(self, branch: str = DEFAULT_BRANCH) -> None:
        """Put on this machine's disk what lookups and walks in large tables need.

        As after a large load: processes map it instead of building it. Nothing of the graph
        changes, and nothing happens where no derived files are kept.
        """
        self._state.build_cache(branch)

    def locks(self) -> list[LockHolder]:
        """Return every lock that is held now, here or elsewhere."""
        return [_lock_holder(one) for one in self.store.locks()]

    def break_lock(self, name: str) -> LockHolder | None:
        """Take a lock away from a writer that is gone; return who held it, if anybody did."""
        holder = self.store.break_lock(name)
        return None if holder is None else _lock_holder(holder)

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes that every branch of every dataset takes."""
        return self.store.disk_usage()

    def close(self) -> None:
        """Let go of everything, for all handles of this graph; closing twice is fine."""
        self._state.close()


def connect(
    uri: str | PathLike[str],
    *,
    read_only: bool = False,
    options: GraphOptions | None = None,
    token: str | None = None,
) -> Graph:
    """Open a graph, or take one on a server (`http://…`), which can be asked the same.

    Args:
        uri: a path, `file://`, `s3://` or `http(s)://` address.
        read_only: whether writes are refused; a server decides that by the token.
        options: settings of a graph that is opened here.
        token: who asks a server; unless given, what OMNIGRAPH_BEARER_TOKEN says.

    Raises:
        NotFoundError: there is no graph at this place.
        FormatError: a newer version of this package wrote it.
        BadRequestError: an argument means nothing for this address.
    """
    if isinstance(uri, str) and is_on_server(uri):
        if read_only or options is not None:
            raise BadRequestError("read_only and options are for a graph that is opened here")
        from omnigraph.client.graph import connect as connect_remote  # only who has a server pays

        said = bearer_token(process_environment()) if token is None else token
        # It has what a graph has; what only a local one has, it refuses by name.
        return cast("Graph", connect_remote(uri, said))
    if token is not None:
        raise BadRequestError("a token is for a graph on a server", hint="leave it out")
    chosen = options or GraphOptions()
    return Graph(GraphState(open_store(uri, read_only, chosen.storage, chosen.clock), chosen))


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
    return make(uri, schema, options or GraphOptions())


def make(
    uri: str | PathLike[str],
    schema: Text,
    options: GraphOptions,
    stated: Callable[[Catalog], Mapping[str, bytes]] = lambda _: {},
) -> Graph:
    """Create a graph whose first commit states more files than its contract."""
    source = read_text(schema)
    loaded = load_schema(source)
    files = contract_files(source.text, loaded) | dict(stated(loaded.catalog))
    tables = table_specs(loaded.catalog)
    store = init_store(uri, tables, files, options.storage, options.clock)
    return Graph(GraphState(store, options))


def _is_at(snapshot: Snapshot, other: Snapshot) -> bool:
    """Whether nobody has written anything in between."""
    return snapshot.logical_commit_id == other.logical_commit_id


def _lock_holder(holder: Holder) -> LockHolder:
    return LockHolder(holder.name, holder.operation, holder.pid, holder.host, holder.since_us)


if TYPE_CHECKING:

    def _fulfilled(
        graph: Graph, branch: GraphBranch, view: GraphView
    ) -> tuple[AnyGraph, BranchView, Reads]:
        """Let the type checker compare what graphs can do with what surfaces may ask."""
        return graph, branch, view

"""`Graph`: what a Python program holds. Porcelain and wiring; each method a few lines.

Reads are thread-safe: a query takes one snapshot and never looks at the head again.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, cast

import orjson

from omnigraph.base.clock import SYSTEM_CLOCK, Clock
from omnigraph.base.ids import ULIDS, TableKey
from omnigraph.compiler.catalog.arrow import arrow_schema
from omnigraph.compiler.catalog.build import LoadedSchema, catalog_of, load_schema
from omnigraph.compiler.catalog.ir_json import from_json, schema_hash, to_json
from omnigraph.compiler.catalog.migration import SchemaMigrationPlan, plan_schema_migration
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.compile import BoundQuery, CompiledQuery, compile_query
from omnigraph.compiler.ir.explain import explain_query
from omnigraph.compiler.ir.ops import MutationIr, ReadIr
from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.embedders.local import LocalEmbedder
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.maintain import IndexReport, ensure_indexes
from omnigraph.engine.read.context import Budget, Images, Limits
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.narrow import narrow_images, tables_of
from omnigraph.engine.read.plan import Plans
from omnigraph.engine.read.run import run_read
from omnigraph.engine.read.trace import Step, Trace
from omnigraph.engine.search.embedder import Embedder
from omnigraph.engine.search.queries import with_vectors
from omnigraph.engine.write.change_set import ChangeSet
from omnigraph.engine.write.commit import Terms, commit_changes
from omnigraph.engine.write.embed import fill_vectors
from omnigraph.engine.write.mutate import run_mutation
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.model import (
    EXPORT_FORMATS,
    Engine,
    ExportFormat,
    ExportResult,
    LoadResult,
    OnError,
    load_options,
)
from omnigraph.pipeline.progress import Progress
from omnigraph.result import MutationResult, QueryResult
from omnigraph.storage.create import TableSpec
from omnigraph.storage.layout import MAIN
from omnigraph.storage.options import DEFAULTS, StorageOptions
from omnigraph.storage.records import Commit
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore, init_store, open_store
from omnigraph.storage.verify import Finding

if TYPE_CHECKING:
    from omnigraph.pipeline.export import Selection
    from omnigraph.pipeline.sources import Data

SCHEMA_FILE, IR_FILE, STATE_FILE = "_schema.pg", "_schema.ir.json", "__schema_state.json"
MEMORY_SHARE = 4
"""Resident tables may take this fraction of the machine's memory unless told otherwise."""

Text = str | Path | Source
"""A text as such, the path of its file, or a text with a name for messages."""


class ClosedError(BadRequestError):
    """The graph was closed."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Everything a caller may decide about an open graph."""

    storage: StorageOptions = DEFAULTS
    image_bytes: int = field(default_factory=lambda: _machine_memory() // MEMORY_SHARE)
    """Memory for resident tables; what does not fit is read again."""
    limits: Limits = field(default_factory=Limits)
    """Limits of every query, unless the call brings its own."""
    clock: Clock = SYSTEM_CLOCK
    embedder: Embedder | None = field(default_factory=LocalEmbedder)
    """Turns text into vectors; None leaves `@embed` columns alone and refuses text in nearest."""


@dataclass(frozen=True, slots=True)
class GraphCommit:
    """One point in the history of a branch; a `manifest_branch` of None is main."""

    graph_commit_id: str
    manifest_branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """Microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a query did, operator by operator, beside its result."""

    result: QueryResult
    steps: tuple[Step, ...]
    compile_ms: float
    total_ms: float


class Graph:
    """One open graph. Get it from `connect` or `init`; close it, or use it as a context."""

    def __init__(self, store: GraphStore, options: GraphOptions) -> None:
        self._store: GraphStore | None = store
        self._options = options
        self._cache = ImageCache(options.image_bytes)
        self._plans = Plans()
        self._catalogs: dict[str, Catalog] = {}
        self._images: tuple[str, SnapshotImages] | None = None
        self._lock = threading.Lock()
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
    ) -> QueryResult:
        """Run a read query.

        Args:
            source: the query text, or the path of a `.gq` file.
            name: which query of the text; needed when it has several.
            params: parameter values by name, without `$`.
            branch: the branch to read.
            at: a commit id, or a version of the branch, to read the past.
            limits: time and row limits of this run.

        Raises:
            CompileError: the text is wrong.
            BadRequestError: a parameter is wrong, or the query is a mutation.
            NotFoundError: no such query, branch or commit.
            BudgetExceededError: a limit was reached.
        """
        snapshot = self._snapshot_at(branch, at)
        catalog = self._catalog(snapshot)
        compiled = compile_query(catalog, _source(source), name)
        return self._run(snapshot, catalog, compiled, params, limits)

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
        compiled = compile_query(catalog, _source(source), name)
        compiled_at = clock.monotonic()
        result = self._run(snapshot, catalog, compiled, params, limits, trace)
        compile_s, total_s = compiled_at - started, clock.monotonic() - started
        return Profile(result, tuple(trace.steps), compile_s * 1_000, total_s * 1_000)

    def _run(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        compiled: CompiledQuery,
        params: Mapping[str, Any] | None,
        limits: Limits | None,
        trace: Trace | None = None,
    ) -> QueryResult:
        ir = _read_ir(compiled)
        bound = compiled.bind(params, now_ms=self._options.clock.now_us() // 1_000)
        budget = Budget(limits or self._options.limits, self._options.clock)
        ir = self._plans.plan(ir, snapshot, catalog)
        ir, bound = with_vectors(ir, bound, self._options.embedder, catalog)
        table = run_read(ir, self._images_for(ir, bound, snapshot, catalog), bound, budget, trace)
        if self._cache.shrink():
            self._images = None  # it would keep alive what was just forgotten
        return QueryResult(table, compiled.name, snapshot.branch, snapshot.commit_id)

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
        text = _source(source)
        session = self.store.begin(branch, actor)
        catalog = self._catalog(session.base)
        compiled = compile_query(catalog, text, name)
        ir = _mutation_ir(compiled)
        bound = compiled.bind(params, now_ms=self._options.clock.now_us() // 1_000)
        mutated = run_mutation(ir, session.base, catalog, bound.params, self._new_id)
        if mutated.changes.is_empty and idempotency_key is None and if_head is None:
            return MutationResult(mutated.affected_nodes, mutated.affected_edges, None)
        changes = fill_vectors(mutated.changes, catalog, self._options.embedder)
        nodes, edges = mutated.affected_nodes, mutated.affected_edges
        terms = Terms(if_head, idempotency_key, _request_hash(text, compiled.name, params))
        commit, outcome = commit_changes(session, changes, catalog, terms, [nodes, edges])
        if outcome == "committed":
            self._take_over(session.base, changes)
        if outcome == "unchanged":
            return MutationResult(nodes, edges, None)
        if outcome == "replayed":
            nodes, edges = cast("list[int]", commit.result)
            return MutationResult(nodes, edges, commit.id, replayed=True)
        return MutationResult(nodes, edges, commit.id)

    def _take_over(self, before: Snapshot, changes: ChangeSet) -> None:
        """Hand what was just committed to the images, so that reading it back costs nothing."""
        after = self.store.snapshot(before.branch)
        for key, change in changes.tables.items():
            deleted = [] if change.deletes is None else change.deletes.to_pylist()
            if key in before.tables and key in after.tables:
                self._cache.advance(
                    before.table(key),
                    after.table(key),
                    change.upserts,
                    deleted,
                    in_place=key.startswith("node:"),
                )

    def load(
        self,
        data: Data,
        mode: str = "overwrite",
        *,
        branch: str = "main",
        engine: Engine = "auto",
        actor: str | None = None,
        on_error: OnError = "fail",
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
            engine: who reads the data: `inline`, `spark`, or `auto` by its size.
            actor: who does it; kept on the commit.
            on_error: `fail` refuses everything if one row is bad, `skip` leaves bad rows out and
                reports them.
            spark: a SparkSession to run on, or `SparkSettings` to start one for this load.
            progress: hears about the stages.

        Raises:
            ConstraintError: rows break rules; nothing was written. Names file and line.
            NotFoundError: a file or the branch does not exist.
            ConflictError: someone else changed what this load relied on.
        """
        from omnigraph.pipeline.engines import Engines  # reading files needs more of Arrow
        from omnigraph.pipeline.load import LoadTarget, load_data

        options = load_options(mode, engine, on_error)
        target = LoadTarget(
            self.store,
            self._catalog,
            branch,
            actor,
            self._options.embedder,
            self._options.clock,
        )
        with Engines(options, spark) as engines:
            return load_data(target, data, options, engines.choose, progress)

    def ingest(
        self,
        data: Data,
        *,
        branch: str,
        source: str = "main",
        mode: str = "merge",
        engine: Engine = "auto",
        actor: str | None = None,
        on_error: OnError = "fail",
        spark: object = None,
        progress: Progress | None = None,
    ) -> LoadResult:
        """Load into a branch, creating it from `source` first if it does not exist.

        See `load` for the arguments. A load that fails leaves no branch it created behind.
        """
        load_options(mode, engine, on_error)
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
                spark=spark,
                progress=progress,
            )
        except BaseException:
            # Somebody else may have found the new branch and written to it.
            if created is not None and self.snapshot(branch).commit_id == created.commit_id:
                self.branches.delete(branch)
            raise
        return replace(result, base_branch=source, branch_created=created is not None)

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

    def _selection(
        self, types: Sequence[str], tables: Sequence[str], branch: str, at: str | int | None
    ) -> Selection:
        from omnigraph.pipeline.export import select  # writing needs more of Arrow

        snapshot = self._snapshot_at(branch, at)
        return select(snapshot, self._catalog(snapshot), types, tables)

    def _new_id(self) -> str:
        return ULIDS.next(self._options.clock.now_us())

    def ensure_indices(self, branch: str = "main") -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date.

        Safe to repeat. Answers never depend on indexes; those that cannot be built yet are
        reported as pending.
        """
        return ensure_indexes(self.store, self._catalog(self.store.snapshot(branch)), branch)

    def verify(self) -> list[Finding]:
        """Check the graph against its own rules; it is sound if every finding is harmless."""
        return self.store.verify()

    def plan_schema(self, schema: Text, *, allow_data_loss: bool = False) -> SchemaMigrationPlan:
        """Return the steps from the accepted schema to a new one; nothing is changed."""
        accepted = from_json(self.store.read_file(IR_FILE))
        desired = load_schema(_source(schema), accepted).ir
        return plan_schema_migration(accepted, desired, allow_data_loss)

    def explain(self, source: Text, name: str | None = None) -> str:
        """Return the operators a query runs as on the current state of main."""
        snapshot = self.store.snapshot()
        catalog = self._catalog(snapshot)
        ir = compile_query(catalog, _source(source), name).ir
        return explain_query(
            self._plans.plan(ir, snapshot, catalog) if isinstance(ir, ReadIr) else ir
        )

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
        self._images = None

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
        digest = snapshot.files[IR_FILE]
        found = self._catalogs.get(digest)
        if found is None:
            found = catalog_of(from_json(self.store.read_file(IR_FILE, snapshot)))
            self._catalogs[digest] = found
        return found

    def _images_for(
        self, ir: ReadIr, bound: BoundQuery, snapshot: Snapshot, catalog: Catalog
    ) -> Images:
        """Return what a query runs on: resident tables, or just its rows of cold ones."""
        kept = self._images
        if kept is not None and kept[0] == snapshot.commit_id:
            return kept[1]
        if not self._cache.wants_residence(tables_of(ir, snapshot)):
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
        fresh = SnapshotImages(snapshot, catalog, self._cache)
        with self._lock:
            self._images = (snapshot.commit_id, fresh)
        return fresh


class GraphAt:
    """The graph as one commit left it; only for reading."""

    def __init__(self, graph: Graph, snapshot: Snapshot) -> None:
        self._graph = graph
        self.snapshot = snapshot

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
    ) -> QueryResult:
        """Run a read query; see `Graph.query`."""
        snapshot = self.snapshot
        return self._graph.query(
            source, name, params, branch=snapshot.branch, at=snapshot.commit_id, limits=limits
        )

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it was not there."""
        found = QueryResult(self.snapshot.open(table_key).by_ids([entity_id])).to_dicts()
        return found[0] if found else None


class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self) -> list[str]:
        """Return the names of all branches, sorted."""
        return sorted(info.name for info in self._graph.store.branches.list())

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> Snapshot:
        """Create a branch from what `source` is now, or was at a commit."""
        return self._graph.store.branches.create(name, source, commit_id=at)

    def delete(self, name: str) -> None:
        """Delete a branch and what only it knows."""
        self._graph.store.branches.delete(name)


class Commits:
    """The history of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(self, branch: str = "main") -> list[GraphCommit]:
        """Return the commits of a branch, oldest first."""
        return [_graph_commit(commit) for commit in self._graph.store.commits(branch)]

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch.

        Raises:
            NotFoundError: no branch knows it.
        """
        return _graph_commit(self._graph.store.commit(commit_id))


def _graph_commit(commit: Commit) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=commit.id,
        manifest_branch=None if commit.branch == MAIN else commit.branch,
        manifest_version=commit.manifest_version,
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
        created_at=commit.created_at_us,
    )


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
    source = _source(schema)
    loaded = load_schema(source)
    catalog = loaded.catalog
    kinds: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
    tables = [TableSpec(TableKey(kind.table_key), arrow_schema(kind)) for kind in kinds]
    files = contract_files(source.text, loaded)
    return Graph(init_store(uri, tables, files, chosen.storage, chosen.clock), chosen)


def contract_files(text: str, loaded: LoadedSchema) -> dict[str, bytes]:
    """Return the files that record an accepted schema: its text, its meaning, its hash."""
    state = {
        "format_version": 1,
        "schema_ir_hash": schema_hash(loaded.ir),
        "schema_identity_version": 1,
    }
    return {
        SCHEMA_FILE: text.encode(),
        IR_FILE: to_json(loaded.ir).encode(),
        STATE_FILE: orjson.dumps(state, option=orjson.OPT_INDENT_2),
    }


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _source(given: Text) -> Source:
    """Return a text as it is, a path as the text of its file."""
    if isinstance(given, Source):
        return given
    if isinstance(given, str) and not given.rstrip().endswith((".gq", ".pg")):
        return Source(given)
    path = Path(given)
    try:
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise NotFoundError(f"file '{path}' not found") from None


def _request_hash(text: Source, name: str, params: Mapping[str, Any] | None) -> str:
    """Return a fingerprint of a request: the same key must not stand for another one."""
    request = [text.text, name, params or {}]
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _mutation_ir(compiled: CompiledQuery) -> MutationIr:
    if not isinstance(compiled.ir, MutationIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a read", hint="run it as a read, not as a mutation"
        )
    return compiled.ir


def _read_ir(compiled: CompiledQuery) -> ReadIr:
    if not isinstance(compiled.ir, ReadIr):
        raise BadRequestError(
            f"query '{compiled.name}' is a mutation", hint="run it as a mutation, not as a read"
        )
    return compiled.ir

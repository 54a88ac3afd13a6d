"""A graph on a server, which can be asked what a local one can; see `api.protocols`.

Like a local graph it is main and the whole; `branch` and `at` give other states. Who writes is
known by the token, so nobody can be named here.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, Self, Unpack

import pyarrow as pa

from omnigraph.api.changes import (
    ChangedRows,
    ChangeGroup,
    Diff,
    EntityBlame,
    EntityHistory,
)
from omnigraph.api.history import BranchCreated, BranchDeleted, GraphCommit, GraphSnapshot
from omnigraph.api.keywords import (
    DiffKeywords,
    FeedKeywords,
    LoadKeywords,
    MutateKeywords,
    OptimizeKeywords,
    QueryKeywords,
    StoredKeywords,
)
from omnigraph.api.merges import ChangeApplied, MergeResult, Strategy, Tag
from omnigraph.api.pictures import (
    PICTURE_NODES,
    Picture,
    limit_argument,
    overview_queries,
    put_together,
)
from omnigraph.api.progress import Progress
from omnigraph.api.protocols import AnyGraph, BranchView, Reads, Text
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.runs import Run
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory
from omnigraph.api.stored import StoredQuery, StoredQueryNotFoundError
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
from omnigraph.api.words import DEFAULT_BRANCH, ExportFormat, Moment
from omnigraph.api.writes import (
    EmbedResult,
    ExportResult,
    LoadResult,
    MutationResult,
    TableWritten,
)
from omnigraph.base.arguments import text_argument
from omnigraph.base.budget import Limits, QueryCancelledError
from omnigraph.base.closing import Closing
from omnigraph.client import asks
from omnigraph.client.transport import Transport
from omnigraph.client.uploads import called, sent, tar_of
from omnigraph.client.wire import Ask, place_of
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, StorageError

_POLL_S = 0.5
_STDOUT = "-"


_LOCAL = (
    "check_queries",
    "reload_queries",
    "store",
    "algorithms",
    "spark",
    "spark_query",
    "spark_sink",
    "write_spark",
    "run",
    "query_at_hand",
    "entity_rows",
)


class NotRemoteError(BadRequestError, AttributeError):
    """A server cannot do this."""


def _missing(asked: object, name: str) -> AttributeError:
    """Return what to raise where something is asked for that is not there."""
    if name in _LOCAL:
        return NotRemoteError(f"a graph on a server has no '{name}'", hint="open the graph itself")
    return AttributeError(f"'{type(asked).__name__}' object has no attribute '{name}'")


class RemoteGraph(Closing):
    """A graph on a server. Get it from `connect`; close it, or use it as a context."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._ask = transport.ask
        self.queries = RemoteQueries(self)
        self.branches = RemoteBranches(transport)
        self.commits = RemoteCommits(transport)
        self.tags = RemoteTags(transport)
        self.runs = RemoteRuns(transport)

    @property
    def uri(self) -> str:
        """Where the server is."""
        return self._transport.place.base

    @property
    def schema(self) -> str:
        """The accepted schema text."""
        return self._ask(asks.schema())

    def schema_of(self, branch: str, at: str | None) -> str:
        """Return the text of a state's schema; what views ask."""
        return self._ask(asks.schema(branch, at=at))

    @property
    def catalog(self) -> Catalog:
        """What the accepted schema means."""
        return load_schema(Source(self.schema, "<schema>")).catalog

    def __getattr__(self, name: str) -> NoReturn:
        """Say of what only a local graph has that a server does not have it."""
        raise _missing(self, name)

    def as_actor(self, actor: str) -> Self:
        """Refuse: a server knows by the token who asks."""
        asks.refuse_actor(actor)
        raise BadRequestError("no actor is given", hint="use the graph itself")

    def branch(self, name: str) -> RemoteBranch:
        """Return a branch: to be read as it is at every call, and to be written.

        Raises:
            NotFoundError: there is no such branch.
        """
        self._ask(asks.snapshot(name))
        return RemoteBranch(self, name)

    def at(self, moment: Moment, *, branch: str = DEFAULT_BRANCH) -> RemoteView:
        """Return the graph as it was: at a commit id or tag, or at a version of a branch."""
        if moment is None:
            raise BadRequestError("no moment is given", hint="pass a commit id or a version")
        commit = self._commit(branch, moment)
        self._ask(asks.snapshot(branch, at=commit))
        return RemoteView(self, branch, commit)

    def _commit(self, branch: str, at: Moment | None) -> str | None:
        """Return the commit that a moment is, None if it is now."""
        if isinstance(at, int) and not isinstance(at, bool):
            return self._ask(asks.snapshot(branch, version=at)).commit_id
        return None if at is None else text_argument(at, "a moment")

    # Reads.

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> QueryResult:
        """Run a read query; limits may be tighter than those of the server, not looser."""
        commit = self._commit(branch, at)
        ask = asks.query(source, name, params, branch=branch, at=commit, limits=limits)
        found = self._ask(ask, cancel)
        state: dict[str, Any] = {"branch": branch, "at": found.commit_id, "limits": limits}
        found.draw = lambda most: self._ask(
            asks.picture(source, name, params, max_nodes=most, **state), cancel
        )
        return found

    def picture(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_nodes: int = PICTURE_NODES,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Picture:
        """Run a read query and return the nodes and edges behind its rows."""
        where: dict[str, Any] = {"branch": branch, "at": self._commit(branch, at)}
        ask = asks.picture(source, name, params, max_nodes=max_nodes, limits=limits, **where)
        return self._ask(ask, cancel)

    def show(
        self, limit: int = 25, *, branch: str = DEFAULT_BRANCH, at: Moment | None = None
    ) -> Picture:
        """Return a picture of a few edges of every type; a notebook draws it."""
        commit = self._commit(branch, at) or self._ask(asks.snapshot(branch)).commit_id
        schema = load_schema(Source(self.schema_of(branch, commit), "<schema>")).catalog
        edges = [(one.name, one.from_type, one.to_type) for one in schema.edges.values()]
        return put_together(
            self._ask(asks.picture(text, branch=branch, at=commit))
            for text in overview_queries(schema.nodes, edges, limit_argument(limit))
        )

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        batch_rows: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query and return its rows in Arrow batches, in order."""
        given: object = batch_rows
        if not isinstance(given, int) or given < 1:
            raise BadRequestError(
                f"a batch cannot have {batch_rows!r} rows", hint="65536 is the usual number"
            )
        commit = self._commit(branch, at)
        ask = asks.query(source, name, params, branch=branch, at=commit, limits=limits)
        stack = contextlib.ExitStack()
        try:
            body = stack.enter_context(self._transport.open(ask))
            reader = stack.enter_context(pa.ipc.open_stream(pa.PythonFile(body, mode="r")))
        except BaseException:
            stack.close()
            raise
        return _batches(reader, stack, batch_rows, cancel)

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Profile:
        """Run a read query and return what every operator did; its rows stay on the server."""
        commit = self._commit(branch, at)
        ask = asks.profile(source, name, params, branch=branch, at=commit, limits=limits)
        return self._ask(ask, cancel)

    def explain(
        self,
        source: Text,
        name: str | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
    ) -> str:
        """Return the operators a query runs as."""
        return self._ask(asks.explain(source, name, branch=branch, at=self._commit(branch, at)))

    def read_blob(
        self,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
    ) -> bytes | None:
        """Return the bytes of one Blob."""
        commit = self._commit(branch, at)
        return self._ask(asks.read_blob(type_name, id, prop, branch=branch, at=commit))

    def entity(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
    ) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there."""
        commit = self._commit(branch, at)
        return self._ask(asks.entity(table_key, entity_id, branch=branch, at=commit))

    def entity_at(self, table_key: str, entity_id: str, moment: Moment) -> dict[str, Any] | None:
        """Return one node or edge as it was at a commit id, or at a version of main."""
        return self.at(moment).entity(table_key, entity_id)

    def snapshot(self, branch: str = DEFAULT_BRANCH, *, at: Moment | None = None) -> GraphSnapshot:
        """Return every table at its version."""
        if isinstance(at, int) and not isinstance(at, bool):
            return self._ask(asks.snapshot(branch, version=at))
        return self._ask(asks.snapshot(branch, at=self._commit(branch, at)))

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
    ) -> ExportResult:
        """Write everything out as JSON lines; a server sends nothing else."""
        if format != "jsonl":
            raise BadRequestError(
                f"a server does not export {format}", hint="export jsonl, or open the graph itself"
            )
        taken = self.snapshot(branch, at=at)
        pieces = self.iter_export(
            types=types, tables=tables, branch=branch, at=taken.commit_id, limits=limits
        )
        with _written(target) as out:
            for piece in pieces:
                out.write(piece)
        wanted = {*tables, *(f"{kind}:{name}" for name in types for kind in ("node", "edge"))}
        rows = tuple(
            TableWritten(one.table_key, one.row_count)
            for one in taken.tables
            if not wanted or one.table_key in wanted
        )
        return ExportResult(taken.branch, taken.commit_id, rows)

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        limits: Limits | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes, in pieces of many lines."""
        asks.refuse_limits(limits, "an export")
        ask = asks.export(types, tables, branch=branch, at=self._commit(branch, at))
        stack = contextlib.ExitStack()
        body = stack.enter_context(self._transport.open(ask))

        def pieces() -> Iterator[bytes]:
            with stack:
                while piece := body.read(1 << 18):
                    yield piece

        return pieces()

    # What changed.

    def diff(self, a: Moment, b: Moment | None = None, **how: Unpack[DiffKeywords]) -> Diff:
        """Return what must change in state `a` to make it state `b`."""
        filters = asks.filters(
            how.get("types"),
            how.get("kinds"),
            how.get("ops"),
            how.get("images", "none"),
            how.get("columns"),
        )
        said = self._ask(asks.diff_states(a, b, filters))
        origin = (said["from_version"], said["to_version"], said.get("branch"))
        ask = asks.diff_pieces(said["states"], filters)

        def pieces() -> Iterator[ChangedRows]:
            with self._transport.open(ask) as body:
                yield from asks.changed_rows(body)

        return Diff(origin, pieces)

    def changes(
        self, branch: str = DEFAULT_BRANCH, **how: Unpack[FeedKeywords]
    ) -> Iterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first; see a local graph."""
        filters = asks.filters(
            how.get("types"),
            how.get("kinds"),
            how.get("ops"),
            how.get("images", "after"),
            how.get("columns"),
        )
        given = how.get("cancel")
        cancel = threading.Event() if given is None else given
        bounds = (how.get("max_rows"), how.get("max_bytes"))
        since = how.get("since")
        first = self._groups(asks.changes(branch, since, filters, *bounds))

        def all_of() -> Iterator[ChangeGroup]:
            groups, reached = first, since
            while True:
                for group in groups:
                    yield group
                    reached = group.cursor
                if not how.get("follow") or cancel.wait(_POLL_S):
                    return
                groups = self._groups(asks.changes(branch, reached, filters, *bounds))

        return all_of()

    def _groups(self, ask: Ask[None]) -> Iterator[ChangeGroup]:
        """Open a feed now, so that what is wrong with it is told now, and read it later."""
        stack = contextlib.ExitStack()
        body = stack.enter_context(self._transport.open(ask))

        def groups() -> Iterator[ChangeGroup]:
            with stack:
                for line in body:
                    yield asks.change_group(line)

        return groups()

    def cursor(self, branch: str = DEFAULT_BRANCH, *, at: str | None = None) -> str:
        """Return where the feed of a branch goes on."""
        return self._ask(asks.cursor(branch, at=at))

    def entity_history(
        self,
        table_key: str,
        entity_id: str,
        *,
        branch: str = DEFAULT_BRANCH,
        limit: int | None = None,
    ) -> EntityHistory:
        """Return the commits that changed one node or edge, newest first."""
        return self._ask(asks.entity_history(table_key, entity_id, branch=branch, limit=limit))

    def blame(self, table_key: str, entity_id: str, *, branch: str = DEFAULT_BRANCH) -> EntityBlame:
        """Return which commit gave every property its value."""
        return self._ask(asks.blame(table_key, entity_id, branch=branch))

    # Writes.

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        **how: Unpack[MutateKeywords],
    ) -> MutationResult:
        """Run a mutation: one commit, or nothing. Under a key of its own unless one is given."""
        ask = asks.mutate(
            source,
            name,
            params,
            branch=branch,
            actor=how.get("actor"),
            message=how.get("message"),
            if_head=how.get("if_head"),
            idempotency_key=how.get("idempotency_key"),
            preview=how.get("preview", False),
            limits=how.get("limits"),
        )
        return self._ask(ask)

    def load(
        self,
        data: Any,  # noqa: ANN401 - as a local load
        mode: str = "overwrite",
        *,
        branch: str = DEFAULT_BRANCH,
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Send files or tables and load them as one commit, or not at all."""
        return self._load(data, mode, branch, None, how)

    def ingest(
        self,
        data: Any,  # noqa: ANN401 - as a local load
        *,
        branch: str,
        source: str = DEFAULT_BRANCH,
        mode: str = "merge",
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Load into a branch, creating it from `source` first if it does not exist."""
        return self._load(data, mode, branch, source, how)

    def _load(
        self,
        data: Any,  # noqa: ANN401 - as a local load
        mode: str,
        branch: str,
        source: str | None,
        how: LoadKeywords,
    ) -> LoadResult:
        asks.refuse_actor(how.get("actor"))
        asks.refuse_limits(how.get("limits"), "a load")
        if how.get("engine") == "spark" or how.get("spark") is not None:
            raise BadRequestError("a server does not load with Spark", hint="leave engine out")
        with sent(data) as members:
            members += called(how.get("mapping"), how.get("columns"))
            ask = asks.load(
                lambda: tar_of(members),
                branch=branch,
                source=source,
                mode=str(mode),
                message=how.get("message"),
                on_error=how.get("on_error", "fail"),
                max_errors=how.get("max_errors"),
                idempotency_key=how.get("idempotency_key"),
            )
            return replace(self._ask(ask), uri=self.uri)

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
        """Fill the `@embed` columns of a branch as one commit."""
        del progress  # the server tells of the end alone
        asks.refuse_limits(limits, "an embedding")
        ask = asks.embed(types, mode, branch=branch, actor=actor, message=message)
        return replace(self._ask(ask), uri=self.uri)

    def optimize(
        self,
        branch: str = DEFAULT_BRANCH,
        *,
        tables: Sequence[str] = (),
        preview: bool = False,
        max_seconds: float | None = None,
        progress: Progress | None = None,
    ) -> list[CompactionStats]:
        """Compact every table of a branch, or those that are named."""
        del progress  # the server tells of the end alone
        ask = asks.optimize(branch, tables=tables, preview=preview, max_seconds=max_seconds)
        return self._ask(ask)

    def indices(self, branch: str = DEFAULT_BRANCH) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows."""
        return self._ask(asks.indices(branch))

    def ensure_indices(self, branch: str = DEFAULT_BRANCH) -> list[IndexReport]:
        """Build and refresh the indexes of a branch."""
        return self._ask(asks.ensure_indices(branch))

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
        """Undo what a commit changed, as a new commit on a branch."""
        return self._ask(
            asks.replay(
                "/revert",
                commit,
                branch=branch,
                parent=parent,
                strategy=strategy,
                resolve=resolve,
                actor=actor,
                message=message,
                preview=preview,
            )
        )

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
        """Repeat on a branch what a commit changed elsewhere."""
        return self._ask(
            asks.replay(
                "/cherry-pick",
                commit,
                branch=branch,
                parent=parent,
                strategy=strategy,
                resolve=resolve,
                actor=actor,
                message=message,
                preview=preview,
            )
        )

    # The whole graph.

    def plan_schema(
        self, schema: Text, *, allow_data_loss: bool = False, branch: str = DEFAULT_BRANCH
    ) -> SchemaPlan:
        """Return the steps from the schema of a branch to a new one; nothing is changed."""
        ask = asks.plan_schema(schema, allow_data_loss=allow_data_loss, branch=branch)
        return replace(self._ask(ask), uri=self.uri)

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
        """Make a text the schema of a branch: all of it as one commit, or nothing."""
        ask = asks.apply_schema(
            schema,
            allow_data_loss=allow_data_loss,
            branch=branch,
            preview=preview,
            actor=actor,
            message=message,
        )
        return replace(self._ask(ask), uri=self.uri)

    def diff_schema(self, a: Moment | Text, b: Moment | Text) -> SchemaDiff:
        """Return the steps from one schema to another; nothing is changed."""
        return self._ask(asks.diff_schema(a, b))

    def schema_history(self, branch: str = DEFAULT_BRANCH) -> SchemaHistory:
        """Return the commits of a branch that changed its schema, newest first."""
        return self._ask(asks.schema_history(branch))

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Check the graph against its own rules; `deep` compares the bytes of every file."""
        return self._ask(asks.verify(deep=deep))

    def repair(
        self, branch: str | None = None, *, confirm: bool = False, force: bool = False
    ) -> list[TableRepair]:
        """Show what other tools did to the files of the graph, and settle it if told to."""
        return self._ask(asks.repair(branch, confirm=confirm, force=force))

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | timedelta | None = None,
        preview: bool = True,
        progress: Progress | None = None,
    ) -> list[CleanupStats]:
        """Remove old versions and what dead writes and deleted branches left; or tell of them."""
        del progress  # the server tells of the end alone
        return self._ask(asks.cleanup(keep=keep, older_than=older_than, preview=preview))

    def locks(self) -> list[LockHolder]:
        """Return every lock that is held now."""
        return self._ask(asks.list_locks())

    def break_lock(self, name: str) -> LockHolder | None:
        """Take a lock away from a writer that is gone."""
        return self._ask(asks.break_lock(name))

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes that every branch of every dataset takes."""
        return self._ask(asks.disk_usage())

    def close(self) -> None:
        """Let go of every connection; the server goes on. Closing twice is fine."""
        self._transport.close()


class RemoteView:
    """One state of a graph on a server, for reading."""

    def __init__(self, graph: RemoteGraph, branch: str, commit: str | None) -> None:
        self._graph, self._branch, self._at = graph, branch, commit

    def __getattr__(self, name: str) -> NoReturn:
        """Say of what only a local graph has that a server does not have it."""
        raise _missing(self, name)

    @property
    def uri(self) -> str:
        """Where the server is."""
        return self._graph.uri

    @property
    def schema(self) -> str:
        """The text of this state's schema."""
        return self._graph.schema_of(self._branch, self._at)

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> QueryResult:
        """Run a read query."""
        return self._graph.query(
            source, name, params, branch=self._branch, at=self._at, limits=limits, cancel=cancel
        )

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
        state: dict[str, Any] = {"branch": self._branch, "at": self._at}
        return self._graph.picture(source, name, params, max_nodes=max_nodes, **state, **how)

    def show(self, limit: int = 25) -> Picture:
        """Return a picture of a few edges of every type."""
        return self._graph.show(limit, branch=self._branch, at=self._at)

    def stream(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        batch_rows: int = 65_536,
    ) -> Iterator[pa.RecordBatch]:
        """Run a read query and return its rows in batches."""
        return self._graph.stream(
            source,
            name,
            params,
            branch=self._branch,
            at=self._at,
            limits=limits,
            cancel=cancel,
            batch_rows=batch_rows,
        )

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
    ) -> Profile:
        """Run a read query and return what every operator did."""
        return self._graph.profile(
            source, name, params, branch=self._branch, at=self._at, limits=limits, cancel=cancel
        )

    def explain(self, source: Text, name: str | None = None) -> str:
        """Return the operators a query runs as."""
        return self._graph.explain(source, name, branch=self._branch, at=self._at)

    def read_blob(self, type_name: str, id: str, prop: str) -> bytes | None:
        """Return the bytes of one Blob."""
        return self._graph.read_blob(type_name, id, prop, branch=self._branch, at=self._at)

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there."""
        return self._graph.entity(table_key, entity_id, branch=self._branch, at=self._at)

    def snapshot(self) -> GraphSnapshot:
        """Return every table at its version."""
        return self._graph.snapshot(self._branch, at=self._at)

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> ExportResult:
        """Write everything out."""
        return self._graph.export(
            target,
            format=format,
            types=types,
            tables=tables,
            branch=self._branch,
            at=self._at,
            limits=limits,
        )

    def iter_export(
        self,
        *,
        types: Sequence[str] = (),
        tables: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> Iterator[bytes]:
        """Yield what `export` writes, in pieces of many lines."""
        return self._graph.iter_export(
            types=types, tables=tables, branch=self._branch, at=self._at, limits=limits
        )


class RemoteBranch(RemoteView):
    """A branch on a server: as it is whenever something is asked, and to be written to."""

    def __init__(self, graph: RemoteGraph, name: str) -> None:
        super().__init__(graph, name, None)
        self.name = name

    def at(self, moment: Moment) -> RemoteView:
        """Return the graph as it was: at a commit id, or at a version of this branch."""
        return self._graph.at(moment, branch=self.name)

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[MutateKeywords],
    ) -> MutationResult:
        """Run a mutation: one commit, or nothing."""
        return self._graph.mutate(source, name, params, branch=self.name, **how)

    def load(
        self,
        data: Any,  # noqa: ANN401 - as a local load
        mode: str = "overwrite",
        **how: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Send files or tables and load them."""
        return self._graph.load(data, mode, branch=self.name, **how)

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        *,
        actor: str | None = None,
        message: str | None = None,
        progress: Progress | None = None,
        limits: Limits | None = None,
    ) -> EmbedResult:
        """Fill the `@embed` columns."""
        return self._graph.embed(
            types,
            mode,
            branch=self.name,
            actor=actor,
            message=message,
            progress=progress,
            limits=limits,
        )

    def optimize(self, **how: Unpack[OptimizeKeywords]) -> list[CompactionStats]:
        """Compact every table, or those that are named."""
        return self._graph.optimize(self.name, **how)

    def indices(self) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows."""
        return self._graph.indices(self.name)

    def ensure_indices(self) -> list[IndexReport]:
        """Build and refresh the indexes."""
        return self._graph.ensure_indices(self.name)


class RemoteQueries:
    """The stored queries of a graph on a server."""

    def __init__(self, graph: RemoteGraph) -> None:
        self._graph = graph

    def list(self) -> list[StoredQuery]:
        """Return every stored query that may be called, by name."""
        return self._graph._ask(asks.list_queries())

    def get(self, name: str) -> StoredQuery:
        """Return a stored query.

        Raises:
            StoredQueryNotFoundError: there is none of that name, or not for who asks.
        """
        for one in self.list():
            if one.name == text_argument(name, "the name of a stored query"):
                return one
        raise StoredQueryNotFoundError(name)

    def run(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        at: Moment | None = None,
        **how: Unpack[StoredKeywords],
    ) -> QueryResult | MutationResult:
        """Run a stored query: a read, or a write that is one commit; see a local graph."""
        ask = asks.run_query(
            name,
            params,
            branch=branch,
            at=self._graph._commit(branch, at),
            actor=how.get("actor"),
            message=how.get("message"),
            if_head=how.get("if_head"),
            idempotency_key=how.get("idempotency_key"),
            preview=how.get("preview", False),
            limits=how.get("limits"),
        )
        return self._graph._ask(ask, how.get("cancel"))


class RemoteBranches:
    """The branches of a graph on a server."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask
        self._uri = transport.place.base

    def list(self) -> list[str]:
        """Return the names of all branches, main first, then sorted."""
        return self._ask(asks.list_branches())

    def create(
        self, name: str, *, source: str = DEFAULT_BRANCH, at: str | None = None
    ) -> BranchCreated:
        """Create a branch from what `source` is now, or was at a commit."""
        return replace(self._ask(asks.create_branch(name, source=source, at=at)), uri=self._uri)

    def delete(self, name: str) -> BranchDeleted:
        """Delete a branch and what only it knows."""
        return replace(self._ask(asks.delete_branch(name)), uri=self._uri)

    def merge(
        self,
        source: str,
        into: str = DEFAULT_BRANCH,
        *,
        actor: str | None = None,
        strategy: Strategy = "fail",
        resolve: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        columns: bool = False,
        base: str | None = None,
        delete_source: bool = False,
        message: str | None = None,
        preview: bool = False,
    ) -> MergeResult:
        """Merge a branch into another: as one commit, or not at all."""
        return self._ask(
            asks.merge(
                source,
                into,
                actor=actor,
                strategy=strategy,
                resolve=resolve,
                columns=columns,
                base=base,
                delete_source=delete_source,
                message=message,
                preview=preview,
            )
        )

    def reset(
        self,
        name: str,
        *,
        to: str,
        actor: str | None = None,
        message: str | None = None,
        preview: bool = False,
    ) -> ChangeApplied:
        """Make a branch what it was at a commit, as a new commit."""
        return self._ask(asks.reset(name, to=to, actor=actor, message=message, preview=preview))


class RemoteCommits:
    """The history of a graph on a server."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(
        self,
        branch: str = DEFAULT_BRANCH,
        *,
        limit: int | None = None,
        since: str | datetime | None = None,
        actor: str | None = None,
        all: bool = False,
        reverse: bool = False,
    ) -> list[GraphCommit]:
        """Return the commits of a branch, newest first."""
        return self._ask(
            asks.list_commits(
                branch, limit=limit, since=since, actor=actor, all=all, reverse=reverse
            )
        )

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch."""
        return self._ask(asks.get_commit(commit_id))


class RemoteTags:
    """The tags of a graph on a server."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Tag]:
        """Return all tags by their names."""
        return self._ask(asks.list_tags())

    def create(
        self,
        name: str,
        *,
        at: Moment | None = None,
        branch: str = DEFAULT_BRANCH,
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a commit, which stays readable."""
        ask = asks.create_tag(name, at=at, branch=branch, actor=actor, message=message)
        return self._ask(ask)

    def delete(self, name: str) -> None:
        """Let go of a tag."""
        self._ask(asks.delete_tag(name))


class RemoteRuns:
    """The runs of a graph on a server; they are begun by who opens the graph itself."""

    def __init__(self, transport: Transport) -> None:
        self._ask = transport.ask

    def list(self) -> list[Run]:
        """Return all runs, oldest first."""
        return self._ask(asks.list_runs())

    def get(self, run_id: str) -> Run:
        """Return one run."""
        return self._ask(asks.get_run(run_id))

    def publish(self, run_id: str, *, actor: str | None = None, message: str | None = None) -> Run:
        """Merge what a run wrote into its target."""
        asks.refuse_actor(actor)
        return self._ask(asks.end_run(run_id, "publish", message))

    def abort(self, run_id: str) -> Run:
        """Give up what a run wrote."""
        return self._ask(asks.end_run(run_id, "abort"))


def connect(address: str, token: str | None = None) -> RemoteGraph:
    """Return a graph on a server; nothing is sent yet.

    Args:
        address: where the server is, for example `http://127.0.0.1:8080`.
        token: who asks; without one nobody in particular.

    Raises:
        BadRequestError: it is no address of a server.
    """
    return RemoteGraph(Transport(place_of(address, token)))


def _batches(
    reader: pa.ipc.RecordBatchStreamReader,
    stack: contextlib.ExitStack,
    most: int,
    cancel: threading.Event | None,
) -> Iterator[pa.RecordBatch]:
    with stack:
        for batch in reader:
            if cancel is not None and cancel.is_set():
                raise QueryCancelledError("the query was cancelled")
            plain = batch.replace_schema_metadata(None)
            for start in range(0, max(len(plain), 1), most):
                yield plain.slice(start, most)


@contextlib.contextmanager
def _written(target: str | Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a target for writing; a file appears when everything is in it."""
    if not isinstance(target, str | Path):
        if not hasattr(target, "write"):
            raise BadRequestError(f"cannot export to a {type(target).__name__}")
        yield target
        return
    if str(target) == _STDOUT:
        yield sys.stdout.buffer
        return
    path = Path(target)
    draft = path.with_name(f"{path.name}.tmp")
    packed = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    try:
        with pa.output_stream(str(draft), compression=packed) as out:
            yield out
        draft.replace(path)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"cannot write '{path}': {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


if TYPE_CHECKING:

    def _fulfilled(
        graph: RemoteGraph, branch: RemoteBranch, view: RemoteView
    ) -> tuple[AnyGraph, BranchView, Reads]:
        """Let the type checker compare what graphs can do with what surfaces may ask."""
        return graph, branch, view

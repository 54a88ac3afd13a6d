"""What a graph can be asked, whoever answers: a local graph, a client of a server, a guard.

A surface is written against these. `Reads` is one state of a graph, be it a branch as it is or a
commit; `Writes` and `BulkJobs` go to one branch; `History` and `Administration` are of the graph as
a whole. A graph is all of them, for its main branch; `branch` and `at` give the same for other
states, `as_actor` the same in the name of somebody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, Unpack, runtime_checkable

from omnigraph.api.changes import ChangeGroup, Diff, EntityBlame, EntityHistory
from omnigraph.api.history import BranchCreated, BranchDeleted, GraphCommit, GraphSnapshot
from omnigraph.api.keywords import (
    AnyLoadKeywords,
    CleanupKeywords,
    CommitListKeywords,
    DiffKeywords,
    EmbedKeywords,
    ExportKeywords,
    FeedKeywords,
    IngestKeywords,
    MergeKeywords,
    MutateKeywords,
    OptimizeKeywords,
    QueryKeywords,
    ReplayKeywords,
    ResetKeywords,
    SchemaApplyKeywords,
    StoredKeywords,
)
from omnigraph.api.merges import ChangeApplied, MergeResult, Tag
from omnigraph.api.pictures import PICTURE_NODES, Picture
from omnigraph.api.query import Profile, QueryResult
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory
from omnigraph.api.stored import StoredQuery
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
from omnigraph.api.words import ExportFormat, Moment
from omnigraph.api.writes import EmbedResult, ExportResult, LoadResult, MutationResult

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class NamedText(Protocol):
    """A text with the name that messages call it by."""

    @property
    def text(self) -> str:
        """The text."""
        ...

    @property
    def name(self) -> str:
        """What messages call it, usually a path."""
        ...


Text = str | Path | NamedText
"""A text as such, the path of its file, or a text with a name for messages."""


class Reads(Protocol):
    """One state of a graph."""

    def query(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[QueryKeywords],
    ) -> QueryResult:
        """Run a read query."""
        ...

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
        ...

    def profile(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[QueryKeywords],
    ) -> Profile:
        """Run a read query and return what every operator did."""
        ...

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
        ...

    def show(self, limit: int = 25) -> Picture:
        """Return a picture of a few edges of every type."""
        ...

    def explain(self, source: Text, name: str | None = None) -> str:
        """Return the operators a query runs as."""
        ...

    def read_blob(self, type_name: str, id: str, prop: str) -> bytes | None:
        """Return the bytes of one Blob."""
        ...

    def entity(self, table_key: str, entity_id: str) -> dict[str, Any] | None:
        """Return one node or edge, or None if it is not there."""
        ...

    def snapshot(self) -> GraphSnapshot:
        """Return every table at its version."""
        ...

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        format: ExportFormat = "jsonl",
        **what: Unpack[ExportKeywords],
    ) -> ExportResult:
        """Write everything out."""
        ...

    def iter_export(self, **what: Unpack[ExportKeywords]) -> Iterator[bytes]:
        """Yield what `export` writes as JSON lines, in pieces of many lines."""
        ...


class Writes(Protocol):
    """Small writes to one branch."""

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        **how: Unpack[MutateKeywords],
    ) -> MutationResult:
        """Run a mutation: all of its statements as one commit, or none."""
        ...


class BulkJobs(Protocol):
    """Jobs over many rows of one branch; each is one commit, or none."""

    def load(
        self,
        data: Any,  # noqa: ANN401 - files, tables or bytes; who loads says which
        mode: str = "overwrite",
        **how: Unpack[AnyLoadKeywords],
    ) -> LoadResult:
        """Load files or tables."""
        ...

    def embed(
        self,
        types: Sequence[str] = (),
        mode: str = "fill_missing",
        **how: Unpack[EmbedKeywords],
    ) -> EmbedResult:
        """Fill the `@embed` columns."""
        ...

    def optimize(self, **how: Unpack[OptimizeKeywords]) -> list[CompactionStats]:
        """Compact every table, or those that are named."""
        ...

    def indices(self) -> list[IndexReport]:
        """Return every index the schema asks for, and how far it covers the rows."""
        ...

    def ensure_indices(self) -> list[IndexReport]:
        """Build the indexes the schema asks for, and bring existing ones up to date."""
        ...


class BranchView(Reads, Writes, BulkJobs, Protocol):
    """A branch: as it is whenever something is asked, and to be written to."""


class Queries(Protocol):
    """The stored queries of a graph."""

    def list(self) -> list[StoredQuery]:
        """Return every stored query, by name."""
        ...

    def get(self, name: str) -> StoredQuery:
        """Return a stored query."""
        ...

    def run(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = "main",
        at: Moment | None = None,
        **how: Unpack[StoredKeywords],
    ) -> QueryResult | MutationResult:
        """Run a stored query: a read, or a write that is one commit."""
        ...


class Branches(Protocol):
    """The branches of a graph."""

    def list(self) -> list[str]:
        """Return the names of all branches, main first, then sorted."""
        ...

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> BranchCreated:
        """Create a branch from what `source` is now, or was at a commit."""
        ...

    def delete(self, name: str) -> BranchDeleted:
        """Delete a branch and what only it knows."""
        ...

    def merge(self, source: str, into: str = "main", **how: Unpack[MergeKeywords]) -> MergeResult:
        """Merge a branch into another: as one commit, or not at all."""
        ...

    def reset(self, name: str, *, to: str, **how: Unpack[ResetKeywords]) -> ChangeApplied:
        """Make a branch what it was at a commit, as a new commit."""
        ...


class Commits(Protocol):
    """The history of a graph."""

    def list(self, branch: str = "main", **which: Unpack[CommitListKeywords]) -> list[GraphCommit]:
        """Return the commits of a branch, newest first."""
        ...

    def get(self, commit_id: str) -> GraphCommit:
        """Return a commit of any branch."""
        ...


class Tags(Protocol):
    """Commits by names for people."""

    def list(self) -> list[Tag]:
        """Return all tags by their names."""
        ...

    def create(
        self,
        name: str,
        *,
        at: Moment | None = None,
        branch: str = "main",
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a commit, which stays readable."""
        ...

    def delete(self, name: str) -> None:
        """Let go of a tag."""
        ...


class History(Protocol):
    """Branches, commits, tags and the past."""

    @property
    def tags(self) -> Tags:
        """The tags of the graph."""
        ...

    def diff(self, a: Moment, b: Moment | None = None, **how: Unpack[DiffKeywords]) -> Diff:
        """Return what must change in state `a` to make it state `b`."""
        ...

    def changes(self, branch: str = "main", **how: Unpack[FeedKeywords]) -> Iterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first."""
        ...

    def cursor(self, branch: str = "main", *, at: str | None = None) -> str:
        """Return where the feed of a branch goes on."""
        ...

    def entity_history(
        self, table_key: str, entity_id: str, *, branch: str = "main", limit: int | None = None
    ) -> EntityHistory:
        """Return the commits that changed one node or edge."""
        ...

    def blame(self, table_key: str, entity_id: str, *, branch: str = "main") -> EntityBlame:
        """Return which commit gave each property its value."""
        ...

    def revert(self, commit: str, **how: Unpack[ReplayKeywords]) -> ChangeApplied:
        """Undo what a commit changed, as a new commit."""
        ...

    def cherry_pick(self, commit: str, **how: Unpack[ReplayKeywords]) -> ChangeApplied:
        """Repeat on a branch what a commit changed elsewhere."""
        ...

    @property
    def branches(self) -> Branches:
        """The branches of the graph."""
        ...

    @property
    def commits(self) -> Commits:
        """The commits of the graph."""
        ...

    def branch(self, name: str) -> BranchView:
        """Return a branch, to be read and written."""
        ...

    def at(self, moment: Moment, *, branch: str = "main") -> Reads:
        """Return the graph as it was: at a commit, or at a version of a branch."""
        ...


class Administration(Protocol):
    """What is done to a graph as a whole."""

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        ...

    @property
    def schema(self) -> str:
        """The accepted schema text."""
        ...

    def plan_schema(
        self, schema: Text, *, allow_data_loss: bool = False, branch: str = "main"
    ) -> SchemaPlan:
        """Return the steps from the schema of a branch to a new one."""
        ...

    def apply_schema(self, schema: Text, **how: Unpack[SchemaApplyKeywords]) -> SchemaApplied:
        """Make a text the schema of a branch."""
        ...

    def diff_schema(self, a: Moment | Text, b: Moment | Text) -> SchemaDiff:
        """Return the steps from one schema to another."""
        ...

    def schema_history(self, branch: str = "main") -> SchemaHistory:
        """Return the commits of a branch that changed its schema."""
        ...

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Check the graph against its own rules; `deep` compares the bytes of every file."""
        ...

    def repair(
        self, branch: str | None = None, *, confirm: bool = False, force: bool = False
    ) -> list[TableRepair]:
        """Show what other tools did to the files of the graph, and settle it if told to."""
        ...

    def cleanup(self, **what: Unpack[CleanupKeywords]) -> list[CleanupStats]:
        """Remove old versions and what dead writes and deleted branches left; or tell of them."""
        ...

    def locks(self) -> list[LockHolder]:
        """Return every lock that is held now."""
        ...

    def break_lock(self, name: str) -> LockHolder | None:
        """Take a lock away from a writer that is gone."""
        ...

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes that every branch of every dataset takes."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class AnyGraph(BranchView, History, Administration, Protocol):
    """A whole graph, and its main branch where none is named."""

    @property
    def queries(self) -> Queries:
        """The queries that are called by name."""
        ...

    def ingest(
        self,
        data: Any,  # noqa: ANN401 - files, tables or bytes; who loads says which
        *,
        branch: str,
        source: str = "main",
        mode: str = "merge",
        **how: Unpack[IngestKeywords],
    ) -> LoadResult:
        """Load into a branch, creating it first if it does not exist."""
        ...

    def as_actor(self, actor: str) -> Self:
        """Return the same graph; whatever is done through it is done by that actor."""
        ...

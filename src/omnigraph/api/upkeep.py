"""What upkeep finds and does: findings, repairs, indexes, compaction, cleanup, disk use, locks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from omnigraph.api.wire import Shape, Wire

FindingKind = Literal[
    "unreadable_branch",
    "unreadable_table",
    "unreadable_index",
    "unreadable_text",
    "duplicate_ids",
    "row_count_differs",
    "drift",
    "head_rows",
    "snapshot_differs_from_history",
    "broken_line",
    "projection_lags",
    "unreferenced_fork",
    "unreferenced_dataset",
    "torn_ref",
    "lost_ref",
    "lost_commits",
    "pending_sidecar",
    "unreadable_sidecar",
    "unreadable_pin",
    "unreadable_tag",
    "file_differs",
    "contract_lost",
    "missing_edges",
    "damaged_file",
    "missing_file",
    "unverified",
]


@dataclass(frozen=True, slots=True)
class Finding(Shape):
    """One rule that does not hold; `harmless` ones heal by themselves, or with a write to come."""

    kind: FindingKind
    subject: str
    detail: str
    harmless: bool = False
    file: str | None = None
    """Which stored file, relative to the graph, if it is about one."""
    rows: int | None = None
    """How many rows of a state it touches, if that is known."""
    commits: tuple[str, ...] = ()
    """The first of the commits it touches, oldest first."""


@dataclass(frozen=True, slots=True)
class Verified(Shape):
    """What a check of a graph found; it is sound if every finding is harmless."""

    uri: str
    findings: tuple[Finding, ...]

    @property
    def broken(self) -> tuple[Finding, ...]:
        """What does not heal by itself."""
        return tuple(found for found in self.findings if not found.harmless)

    def _derived(self) -> dict[str, Any]:
        return {"status": "error" if self.broken else "ok"}


class DriftKind(StrEnum):
    """What lies beyond the version of a table that the graph points at."""

    NONE = "no_drift"
    MAINTENANCE = "verified_maintenance"
    ABANDONED = "abandoned_write"
    ROWS = "suspicious"
    UNKNOWN = "unverifiable"


RepairAction = Literal["no_op", "preview", "healed", "forced", "refused"]


@dataclass(frozen=True, slots=True)
class TableRepair(Shape):
    """One table: what is wrong with it, and what was done about it."""

    branch: str
    table_key: str
    classification: DriftKind
    action: RepairAction
    published_version: int
    newest_version: int
    operations: tuple[str, ...] = ()
    """What another tool did to it."""
    lost_indexes: tuple[str, ...] = ()
    unreadable_keys: int = 0
    """Rows whose key is not UTF-8; they are taken out only with `force`."""


@dataclass(frozen=True, slots=True)
class Repaired(Shape):
    """What a repair found in every table, and did about it."""

    uri: str
    tables: tuple[TableRepair, ...]


class IndexStatus(StrEnum):
    """What happened to one wanted index."""

    BUILT = "built"
    REFRESHED = "refreshed"
    CURRENT = "current"
    PARTIAL = "partial"
    MISSING = "missing"
    LOST = "lost"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class IndexReport(Shape):
    """One wanted index; `reason` says why it is not there yet, or cannot be read."""

    table_key: str
    column: str
    kind: str
    status: IndexStatus
    reason: str | None = None
    rows: int = 0
    """Of the table."""
    unindexed_rows: int = 0
    """Rows that are looked for without the index."""


@dataclass(frozen=True, slots=True)
class IndexList(Shape):
    """Every index the schema of a branch asks for."""

    uri: str
    indexes: tuple[IndexReport, ...]


SkipReason = Literal[
    "other_branch", "load_under_way", "replaced", "drift_needs_repair", "out_of_time"
]


@dataclass(frozen=True, slots=True)
class CompactionStats(Shape):
    """What one compaction step did to one table, or would do."""

    table_key: str
    fragments_removed: int
    fragments_added: int
    committed: bool
    skipped: SkipReason | None = None
    """Why the table was left as it is, although it may need compaction."""
    detail: str | None = None
    """The same, for people."""
    pending_indexes: tuple[str, ...] = ()
    """Columns whose index is missing or does not cover all rows; `ensure_indices` builds them."""
    manifest_version: int | None = None
    """The version of the branch that shows what was done."""


@dataclass(frozen=True, slots=True)
class Optimized(Shape):
    """What an optimization did to every table it looked at, or would do."""

    uri: str
    tables: tuple[CompactionStats, ...]
    preview: bool = False


@dataclass(frozen=True, slots=True)
class CleanupStats(Shape):
    """What was removed of one dataset and branch, or would be."""

    location: str
    branch: str | None
    versions_removed: Annotated[int, Wire("old_versions_removed")]
    bytes_removed: int
    what: str = "versions"
    """Which kind of thing went: `versions`, a `fork`, `orphans` or a whole `dataset`."""
    table_key: str | None = None
    """Whose rows these are; None if no branch has the table any more."""
    error: str | None = None
    """Why the dataset was left as it is."""


@dataclass(frozen=True, slots=True)
class Cleaned(Shape):
    """What a cleanup removed under its policy; as a dry run, what it would remove."""

    uri: str
    keep_versions: int | None
    older_than_secs: float | None
    tables: tuple[CleanupStats, ...]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Cloned(Shape):
    """What a copy of a whole graph consists of."""

    uri: str
    target: str
    objects: int
    bytes: int
    graph_commit_id: str
    """The newest commit of main in the copy."""


@dataclass(frozen=True, slots=True)
class Relocated(Shape):
    """A graph that knows now where it is."""

    uri: str
    files: int
    """How many files said otherwise."""


@dataclass(frozen=True, slots=True)
class DiskUse(Shape):
    """Bytes of one branch of one dataset, by what they are for."""

    location: str
    branch: str | None
    data: int = 0
    versions: int = 0
    indexes: int = 0
    other: int = 0
    table_key: str | None = None
    """Whose rows these are; None if no branch has the table, or it is none of the schema's."""

    @property
    def total(self) -> int:
        """All bytes of this branch of the dataset."""
        return self.data + self.versions + self.indexes + self.other

    def _derived(self) -> dict[str, Any]:
        return {"total": self.total}


@dataclass(frozen=True, slots=True)
class DiskUsage(Shape):
    """The bytes that every branch of every dataset takes."""

    uri: str
    datasets: tuple[DiskUse, ...]


@dataclass(frozen=True, slots=True)
class LockHolder(Shape):
    """Who holds a lock, as far as they said."""

    name: str
    operation: str
    pid: int
    host: str
    since: int
    """Microseconds since the epoch."""

    def __str__(self) -> str:
        return f"{self.operation} in process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class LockList(Shape):
    """Every lock that is held."""

    locks: tuple[LockHolder, ...]


@dataclass(frozen=True, slots=True)
class LockBroken(Shape):
    """A lock that was to be taken away, and from whom it was."""

    name: str
    holder: LockHolder | None

    def _derived(self) -> dict[str, Any]:
        return {"broken": self.holder is not None}


@dataclass(frozen=True, slots=True)
class CachedTable(Shape):
    """What one table at one version left on this machine's disk, for processes to map."""

    uri: str
    location: str
    branch: str | None
    version: int
    rows: int
    bytes: int
    used_at: int
    """When it was used last, in microseconds since 1970."""
    faults: tuple[str, ...] = ()
    """What was wrong with its files, if that was looked for; those were removed."""


@dataclass(frozen=True, slots=True)
class CacheContents(Shape):
    """The derived files of one user on this machine; no folder if none are kept."""

    folder: str | None
    bytes: int
    max_bytes: int | None
    tables: tuple[CachedTable, ...]


@dataclass(frozen=True, slots=True)
class CachePurged(Shape):
    """What was taken from the derived files."""

    folder: str | None
    uri: str | None
    """Of which graph; None is of all."""
    bytes: int

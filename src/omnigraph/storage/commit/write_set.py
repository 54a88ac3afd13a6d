"""What a session wants: the writes it has collected and the options it commits them with.

It only carries; the kernel in it is for those who carry it out. Knows rows and keys, not what they
mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.base.budget import Budget
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.storage.files.records import Kind, TableSpec, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.history import RecentKeys
from omnigraph.storage.manifest.merging import MergeSource
from omnigraph.storage.manifest.rows import Head
from omnigraph.storage.manifest.snapshot import Heads, Snapshot
from omnigraph.storage.tables.stage import TableWrite


@dataclass(frozen=True, slots=True)
class CommitWindow:
    """What changed between the session's snapshot and the head it is about to go on top of."""

    base: Snapshot
    head: Snapshot
    moved: tuple[TableKey, ...]
    """Tables with logical changes in between, including added and dropped ones."""


Revalidate = Callable[[CommitWindow], None]


@dataclass(slots=True)
class PlannedWrite:
    """What a session does to one table."""

    write: TableWrite
    strict: bool


@dataclass(frozen=True, slots=True)
class Preconditions:
    """On what terms a caller wants a write: only there, and only once."""

    if_head: str | None = None
    """The commit the branch must (logically) still be at."""
    idempotency_key: str | None = None
    """A second commit under a key returns the first one."""
    request_hash: str | None = None
    """Fingerprint of the request behind the key."""


UNCONDITIONAL = Preconditions()


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What the caller demands of a commit and attaches to it."""

    preconditions: Preconditions = UNCONDITIONAL
    revalidate: Revalidate | None = None
    result: object = None
    merged: MergeSource | None = None


@dataclass(slots=True)
class WriteSet:
    """Everything a session has collected, ready to be committed on top of `base`."""

    kernel: Kernel
    heads: Heads
    recent: RecentKeys
    base: Snapshot
    actor: str | None
    message: str | None
    kind: Kind
    writer_kind: str
    after_commit: Callable[[Head], None]
    budget: Budget | None
    """Limits of the call, which end where its turn to write begins."""
    writes: dict[TableKey, PlannedWrite] = field(default_factory=dict)
    created: dict[TableKey, TableSpec] = field(default_factory=dict)
    dropped: list[TableKey] = field(default_factory=list)
    renamed: dict[TableKey, TableKey] = field(default_factory=dict)
    points: dict[TableKey, TableVersion] = field(default_factory=dict)
    """Tables that are to be read from where another line has them; no row is written."""
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.base.branch

"""What a session wants: the writes it has collected and the terms it commits them on.

Plain values on top of one snapshot; touches nothing. Knows rows and keys, not what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.storage.create import TableSpec
from omnigraph.storage.history import RecentKeys
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import Head
from omnigraph.storage.records import Kind
from omnigraph.storage.snapshot import Heads, Snapshot
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
class Terms:
    """What the caller demands of and attaches to a commit."""

    revalidate: Revalidate | None
    if_head: str | None
    idempotency_key: str | None
    request_hash: str | None
    result: object
    merged_parent: CommitId | None
    merged_from: BranchName | None


@dataclass(slots=True)
class Plan:
    """Everything a session has collected, ready to be committed on top of `base`."""

    kernel: Kernel
    heads: Heads
    recent: RecentKeys
    base: Snapshot
    actor: str | None
    kind: Kind
    writer_kind: str
    after_commit: Callable[[Head], None]
    writes: dict[TableKey, PlannedWrite] = field(default_factory=dict)
    created: dict[TableKey, TableSpec] = field(default_factory=dict)
    dropped: list[TableKey] = field(default_factory=list)
    renamed: dict[TableKey, TableKey] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def branch(self) -> BranchName:
        """Return the branch being written."""
        return self.base.branch

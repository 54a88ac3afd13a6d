"""Merging branches: what became of it, and what stood in its way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from omnigraph.api.wire import Shape, Wire
from omnigraph.errors import ConflictError, ErrorKind

Outcome = Literal["already_up_to_date", "fast_forward", "merged"]
Operation = Literal["revert", "cherry_pick", "reset"]
Strategy = Literal["fail", "ours", "theirs"]
STRATEGIES: tuple[Strategy, ...] = ("fail", "ours", "theirs")


class ConflictKind(StrEnum):
    """The kinds of conflict; the first three are about one row that both sides changed.

    The last one is about a part of the schema, not about rows.
    """

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class MergeConflict(Shape):
    """One conflict. Of a row both sides changed it has the three images, None where it was not."""

    table_key: str
    row_id: str | None
    kind: ConflictKind
    message: str
    base: Annotated[Mapping[str, Any] | None, Wire(omit_empty=True)] = None
    ours: Annotated[Mapping[str, Any] | None, Wire(omit_empty=True)] = None
    theirs: Annotated[Mapping[str, Any] | None, Wire(omit_empty=True)] = None
    columns: Annotated[tuple[str, ...], Wire(omit_empty=True)] = ()
    """In which ours and theirs differ, if both have the row."""
    resolution: Annotated[Any, Wire(omit_empty=True)] = None
    """How somebody settled it: `ours`, `theirs`, or a row's columns and values."""

    def __str__(self) -> str:
        row = "" if self.row_id is None else f":{self.row_id}"
        return f"{self.table_key}{row} ({self.kind})"


class MergeConflictError(ConflictError):
    """Both sides changed what does not go together; nothing was written.

    `conflicts` holds the first hundred, `total` counts all, and `every` yields all of them.
    """

    kind = ErrorKind.MERGE_CONFLICTS

    def __init__(
        self,
        conflicts: Iterable[MergeConflict],
        total: int | None = None,
        every: Iterable[MergeConflict] | None = None,
    ) -> None:
        self.conflicts = tuple(conflicts)
        self.total = len(self.conflicts) if total is None else total
        self.every: Iterable[MergeConflict] = self.conflicts if every is None else every
        shown = "; ".join(map(str, self.conflicts[:3]))
        more = f"; and {self.total - 3} more" if self.total > 3 else ""
        rules = all(one.kind not in ROW_KINDS for one in self.conflicts)
        super().__init__(
            f"merge conflicts: {shown}{more}",
            hint="change one of the sides"
            if rules
            else "choose a strategy, or resolve them row by row",
        )


ROW_KINDS = frozenset(
    {ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE}
)


@dataclass(frozen=True, slots=True)
class TableMerged(Shape):
    """How many rows of one table a merge brought, changed and removed."""

    table_key: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MergeResult(Shape):
    """What became of a merge; one that had nothing to do, or was only tried, has no commit."""

    source: str
    target: str
    outcome: Outcome
    actor_id: str | None = None
    commit_id: str | None = None
    tables: tuple[TableMerged, ...] = ()
    """What the target got, by table."""
    bases: tuple[str, ...] = ()
    """The commits both sides began from; several after merges in both directions."""
    preview: bool = False
    """Whether nothing was written because that was asked for."""
    conflicts: Annotated[tuple[MergeConflict, ...], Wire(omit_empty=True)] = ()
    """What a preview found in the way, the first hundred."""
    total_conflicts: int = 0
    branch_deleted: Annotated[bool | None, Wire(omit_empty=True)] = None
    """Whether the source is gone now, if that was asked for."""
    branch_delete_error: Annotated[str | None, Wire(omit_empty=True)] = None


@dataclass(frozen=True, slots=True)
class ChangeApplied(Shape):
    """What became of a commit undone, repeated or gone back to; no effect, no commit."""

    operation: Operation
    of: str
    """The commit it is about."""
    branch: str
    actor_id: str | None = None
    commit_id: str | None = None
    tables: tuple[TableMerged, ...] = ()
    preview: bool = False
    conflicts: Annotated[tuple[MergeConflict, ...], Wire(omit_empty=True)] = ()
    total_conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Tag(Shape):
    """A commit by name."""

    name: str
    graph_commit_id: str
    branch: str
    """The branch whose line the commit is on."""
    created_at: int
    """Microseconds since the epoch."""
    actor_id: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TagList(Shape):
    """All tags of a graph."""

    tags: tuple[Tag, ...]

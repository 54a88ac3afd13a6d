"""The values that manifest rows and sidecars are made of.

Plain data with its JSON forms; nothing here reads or writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from omnigraph.base.ids import BranchName, CommitId, TableKey

Kind = Literal["logical", "maintenance"]
Place: TypeAlias = tuple[str, str | None, int]
"""Location, branch and version of a table: what names exactly the same rows for ever."""
RECOVERY_ACTOR = "omnigraph:recovery"
TAKEN_OVER = "taken_over"
"""In the result of a commit: what another tool did to a table, which became this commit."""


def digest(content: bytes) -> str:
    """Return what the head row states about a contract file."""
    return hashlib.sha256(content).hexdigest()


class TableVersion(NamedTuple):
    """One table as a snapshot sees it: where its rows are, and how many.

    A tuple, because opening a graph makes one for every table.
    """

    key: TableKey
    location: str
    version: int
    branch: str | None
    """The Lance branch that holds this version; None is the dataset's main lineage."""
    row_count: int

    @property
    def place(self) -> Place:
        """Return what names exactly these rows for ever."""
        return self.location, self.branch, self.version

    def as_list(self) -> list[Any]:
        """Return the form stated in the head row."""
        return [self.version, self.branch, self.row_count, self.location]

    @classmethod
    def from_list(cls, key: str, stated: Sequence[Any]) -> TableVersion:
        """Read the form stated in the head row."""
        version, branch, row_count, location = stated
        return cls(TableKey(key), location, version, branch, row_count)


@dataclass(frozen=True, slots=True)
class Merged:
    """The state a merge took in: later merges may start from it, whatever became of its branch."""

    branch: BranchName
    tables: Mapping[str, Sequence[Any]]
    files: Mapping[str, str]

    def table_versions(self) -> dict[TableKey, TableVersion]:
        """Return where the rows of every table were."""
        return {
            TableKey(key): TableVersion.from_list(key, stated)
            for key, stated in sorted(self.tables.items())
        }

    def as_json(self) -> dict[str, Any]:
        """Return the form kept with the merge commit."""
        tables = {key: list(stated) for key, stated in self.tables.items()}
        return {"branch": self.branch, "tables": tables, "files": dict(self.files)}


@dataclass(frozen=True, slots=True)
class Commit:
    """One point in a branch's history."""

    id: CommitId
    sequence: int
    branch: BranchName
    manifest_version: int
    parent: CommitId | None
    merged_parent: CommitId | None
    created_at_us: int
    actor: str | None
    kind: Kind
    logical_id: CommitId
    """The newest commit up to here that changed what the graph means."""
    tables: tuple[TableKey, ...] = ()
    idempotency_key: str | None = None
    request_hash: str | None = None
    result: object = None
    recovery: Mapping[str, Any] | None = None
    """For a commit by recovery: what was healed and how."""
    message: str | None = None
    """Why, in the words of who did it."""
    merged: Merged | None = None
    """For a merge: the state of `merged_parent`."""

    @property
    def parents(self) -> tuple[CommitId, ...]:
        """Return the commits it was made from: none for the first one, two for a merge."""
        return tuple(one for one in (self.parent, self.merged_parent) if one)

    @classmethod
    def first(
        cls,
        *,
        id: CommitId,
        branch: BranchName,
        manifest_version: int,
        created_at_us: int,
        tables: tuple[TableKey, ...] = (),
    ) -> Commit:
        """Return the commit a line begins with: nobody's, and on top of nothing."""
        return cls(
            id=id,
            sequence=0,
            branch=branch,
            manifest_version=manifest_version,
            parent=None,
            merged_parent=None,
            created_at_us=created_at_us,
            actor=None,
            kind="logical",
            logical_id=id,
            tables=tables,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the commit as stored in rows and sidecars."""
        return {
            "id": self.id,
            "sequence": self.sequence,
            "branch": self.branch,
            "manifest_version": self.manifest_version,
            "parent": self.parent,
            "merged_parent": self.merged_parent,
            "created_at_us": self.created_at_us,
            "actor": self.actor,
            "kind": self.kind,
            "logical_id": self.logical_id,
            "tables": list(self.tables),
            "idempotency_key": self.idempotency_key,
            "request_hash": self.request_hash,
            "result": self.result,
            "recovery": None if self.recovery is None else dict(self.recovery),
            "message": self.message,
            "merged": None if self.merged is None else self.merged.as_json(),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Commit:
        """Read a commit back."""
        known = {**stored, "tables": tuple(stored.get("tables") or ())}
        if known.get("merged") is not None:
            known["merged"] = Merged(**known["merged"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one commit does to the set of tables and contract files."""

    versions: tuple[TableVersion, ...] = ()
    registered: tuple[TableVersion, ...] = ()
    """Tables that become part of the graph with this commit, at their first version."""
    dropped: tuple[TableKey, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Contract files replaced by this commit: name to digest of the new content."""
    digests: Mapping[TableKey, Mapping[str, str]] = field(default_factory=dict)
    """Per table the files this commit adds, by their names in its lineage, with their digests."""

    @property
    def is_empty(self) -> bool:
        """Whether the commit would change nothing."""
        return not (self.versions or self.registered or self.dropped or self.files)

    def as_json(self) -> dict[str, Any]:
        """Return the changes as stored in sidecars."""
        return {
            "versions": {table.key: table.as_list() for table in self.versions},
            "registered": {table.key: table.as_list() for table in self.registered},
            "dropped": list(self.dropped),
            "files": dict(self.files),
            "digests": {key: dict(told) for key, told in self.digests.items()},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Changes:
        """Read changes back."""
        return cls(
            tuple(TableVersion.from_list(key, value) for key, value in stored["versions"].items()),
            tuple(
                TableVersion.from_list(key, value) for key, value in stored["registered"].items()
            ),
            tuple(stored["dropped"]),
            stored["files"],
            stored.get("digests", {}),  # sidecars of older programs have none
        )


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table to create: its key and columns."""

    key: TableKey
    schema: pa.Schema

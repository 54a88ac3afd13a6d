"""Sidecars: the intent of a write, on disk before any table moves, gone when it is visible.

Since version 3 one carries the whole intended commit and, per table, the uuid of its transaction,
so that recovery publishes exactly what the writer meant and can prove what happened; since version
4 also the commits that a merge brings along, whose branch may be gone by then. Older ones are
read; a newer one is refused and left alone. Decides nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from omnigraph.base.ids import BranchName, CommitId, OperationId, TableKey
from omnigraph.errors import ErrorKind, FormatError, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.files.records import Changes, Commit

VERSION = 4


class SidecarError(FormatError):
    """A sidecar cannot be understood; it stays on disk and blocks writes until looked at."""

    kind = ErrorKind.CORRUPT


class OutcomePendingError(StorageError):
    """The store failed us in the middle: it is not settled whether the write counts.

    It is settled, one way or the other and once, by the next write or open for writing.
    """

    kind = ErrorKind.OUTCOME_PENDING

    def __init__(self, what: str, cause: Exception, *, commit_id: CommitId | None = None) -> None:
        self.commit_id = commit_id
        settle = "open the graph for writing to settle it, then look whether it is there"
        retry = "; a retry with the same idempotency key never writes twice"
        super().__init__(
            f"{what} is neither done nor undone: {cause}",
            hint=settle if commit_id is None else settle + retry,
        )


@dataclass(frozen=True, slots=True)
class SidecarTable:
    """One table a write is about to move."""

    table_key: TableKey
    location: str
    table_branch: str | None
    expected_version: int
    post_commit_pin: int
    tx_uuid: str | None = None
    """None in sidecars of older programs and for compaction, whose uuid Lance chooses."""
    confirmed_version: int | None = None


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One interrupted or running write."""

    operation_id: OperationId
    branch: BranchName
    writer_kind: str
    actor_id: str | None
    started_at_us: int
    tables: tuple[SidecarTable, ...]
    commit: Commit | None
    """None in sidecars of older programs."""
    changes: Changes
    merge_source_commit_id: str | None = None
    adopted_from: BranchName | None = None
    epoch: int = 0
    branch_tag: str | None = None
    """Which branch of that name; None if the writer did not say."""
    merged_commits: bytes = b""
    """Commits that a merge brings to its target, as an Arrow file; empty if there are none."""

    @property
    def name(self) -> str:
        """Return where the sidecar is stored."""
        return layout.sidecar(self.operation_id)


def catalog_sidecar(
    operation_id: OperationId, branch: BranchName, writer_kind: str, started_at_us: int, epoch: int
) -> Sidecar:
    """Return the intent of a change to the catalog of a branch alone: no commit, no tables.

    While it is there, a catalog torn by a power cut is known to be ours and half done.
    """
    nobody, nothing = None, Changes()
    return Sidecar(
        operation_id, branch, writer_kind, nobody, started_at_us, (), None, nothing, epoch=epoch
    )


def write_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Store the intent, synced before it gets its name."""
    objects.put(sidecar.name, encode(sidecar))


def delete_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Remove the intent; already gone is fine."""
    objects.delete(sidecar.name)


def list_sidecars(objects: Objects) -> list[Sidecar]:
    """Return every pending intent, oldest first.

    Raises:
        SidecarError: one cannot be read; it is named and kept.
    """
    found = []
    for info in objects.list(layout.RECOVERY_DIR):
        if info.name.endswith(".json"):
            data = objects.find(info.name)
            if data is not None:  # its writer finished while we were looking
                found.append(decode(info.name, data))
    return found


def encode(sidecar: Sidecar) -> bytes:
    """Return the stored form."""
    content: dict[str, Any] = {
        "schema_version": VERSION,
        "operation_id": sidecar.operation_id,
        "started_at": sidecar.started_at_us,
        "branch": layout.lance_branch(sidecar.branch),
        "actor_id": sidecar.actor_id,
        "writer_kind": sidecar.writer_kind,
        "epoch": sidecar.epoch,
        "tables": [_table_json(table) for table in sidecar.tables],
        "commit": None if sidecar.commit is None else sidecar.commit.as_json(),
        "changes": sidecar.changes.as_json(),
    }
    if sidecar.merge_source_commit_id is not None:
        content["merge_source_commit_id"] = sidecar.merge_source_commit_id
    if sidecar.adopted_from is not None:
        content["adopted_from"] = sidecar.adopted_from
    if sidecar.merged_commits:
        content["merged_commits"] = base64.b64encode(sidecar.merged_commits).decode()
    if sidecar.branch_tag is not None:
        content["branch_tag"] = sidecar.branch_tag
    return orjson.dumps(content, option=orjson.OPT_INDENT_2)


def decode(name: str, data: bytes) -> Sidecar:
    """Read a stored sidecar of this or an older version."""
    try:
        content = orjson.loads(data)
        version = content["schema_version"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise SidecarError(
            f"'{name}' cannot be read: {error}",
            hint="look at the file; move it away only if its write is known to be settled",
        ) from error
    if not isinstance(version, int) or version > VERSION or version < 1:
        raise SidecarError(
            f"'{name}' has version {version}, this program knows versions up to {VERSION}",
            hint="upgrade omnigraph, or let an operator review the file",
        )
    try:
        found = _decode_checked(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SidecarError(f"'{name}' lacks or garbles a field: {error}") from error
    if found.adopted_from is not None and version < 4:
        raise SidecarError(
            f"'{name}' is half a merge of an older program, which kept the rest elsewhere",
            hint="open the graph for writing with that program once",
        )
    return found


def _decode_checked(content: Mapping[str, Any]) -> Sidecar:
    commit = content.get("commit")
    changes = content.get("changes")
    branch = content.get("branch")
    return Sidecar(
        OperationId(content["operation_id"]),
        layout.MAIN if branch is None else BranchName(branch),
        content["writer_kind"],
        content.get("actor_id"),
        content["started_at"] if isinstance(content["started_at"], int) else 0,
        tuple(_decode_table(table) for table in content["tables"]),
        None if commit is None else Commit.from_json(commit),
        Changes() if changes is None else Changes.from_json(changes),
        content.get("merge_source_commit_id"),
        content.get("adopted_from"),
        content.get("epoch", 0),
        content.get("branch_tag"),
        base64.b64decode(content.get("merged_commits", ""), validate=True),
    )


def _table_json(table: SidecarTable) -> dict[str, Any]:
    content = {
        "table_key": table.table_key,
        "table_path": table.location,
        "table_branch": table.table_branch,
        "expected_version": table.expected_version,
        "post_commit_pin": table.post_commit_pin,
        "tx_uuid": table.tx_uuid,
        "confirmed_version": table.confirmed_version,
    }
    return {name: value for name, value in content.items() if value is not None}


def _decode_table(content: Mapping[str, Any]) -> SidecarTable:
    path = str(content["table_path"]).rstrip("/")
    return SidecarTable(
        TableKey(content["table_key"]),
        "/".join(path.split("/")[-2:]),  # older programs wrote the full address
        content.get("table_branch"),
        int(content["expected_version"]),
        int(content["post_commit_pin"]),
        content.get("tx_uuid"),
        content.get("confirmed_version"),
    )

"""The commit protocol: many tables become visible together, or none does.

`publish` runs inside the exclusive window of its branch (see `write`), on a head that was
re-read there. Each step is durable before the next one starts, and a failpoint names each gap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, OperationId, TableKey
from omnigraph.errors import StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Changes, Commit, TableVersion
from omnigraph.storage.files.sidecar import Sidecar, SidecarTable, delete_sidecar, write_sidecar
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.contracts import keep_contents, show_files
from omnigraph.storage.manifest.rows import Head, State, commit_on, finish_publish, stage_publish
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.failures import CommitRaceError
from omnigraph.storage.tables.fork import find_branch
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import Staged
from omnigraph.storage.tables.whole import sync_whole_files

log = logging.getLogger(__name__)

OPERATION_MARK = "omnigraph:operation_id"
"""Property by which a table tells our transactions from foreign ones."""

AFTER_STAGING = register(
    "publish.after_staging", "all files are staged; the sidecar is not written"
)
AFTER_SIDECAR = register("publish.after_sidecar", "the sidecar is written; no table has moved")
BETWEEN_TABLES = register("publish.between_tables", "some tables have moved, others have not")
AFTER_TABLES = register("publish.after_tables", "all tables have moved; none is synced")
AFTER_TABLE_SYNC = register("publish.after_table_sync", "all tables are durable; nothing is public")
AFTER_PUBLISH = register("publish.after_publish", "the commit is visible but not yet durable")
AFTER_MANIFEST_SYNC = register(
    "publish.after_manifest_sync", "the commit is durable; contract files are not in place"
)
AFTER_FILES = register("publish.after_files", "contract files are in place; the sidecar remains")
AFTER_SIDECAR_DELETE = register(
    "publish.after_sidecar_delete", "the sidecar is gone; the caller has no answer yet"
)


@dataclass(frozen=True, slots=True)
class TableMove:
    """One table's staged transaction and the version it goes on top of."""

    key: TableKey
    staged: Staged

    @property
    def pin(self) -> int:
        """Return the version the write goes on top of: the one the graph points at."""
        return self.staged.base.version

    @property
    def digests(self) -> dict[str, str]:
        """Return the digests of the files it adds, by their names in the table's lineage."""
        return below(self.staged.base.files_at, self.staged.digests)


@dataclass(frozen=True, slots=True)
class Intent:
    """Everything one publish is going to do."""

    operation_id: OperationId
    branch: BranchName
    writer_kind: str
    commit: Commit
    changes: Changes
    moves: tuple[TableMove, ...]
    adopted: pa.Table | None = None
    adopted_from: BranchName | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    created: tuple[Handle, ...] = ()
    """Datasets created for this commit, not yet known to be on disk."""


def below(home: str, digests: Mapping[str, str]) -> dict[str, str]:
    """Return digests of files of one lineage by their names in it."""
    return {name.removeprefix(f"{home}/"): told for name, told in digests.items()}


def physical_intent(
    kernel: Kernel,
    head: Head,
    writer_kind: str,
    moves: tuple[TableMove, ...],
    tables: tuple[TableVersion, ...],
    actor: str | None = None,
    digests: Mapping[TableKey, Mapping[str, str]] | None = None,
) -> Intent:
    """Return the intent to publish tables whose rows did not change, as `actor` asked if any.

    Tables that Lance itself moves have no staged write to tell the `digests` of their files.
    """
    commit = commit_on(
        head,
        id=kernel.new_commit_id(),
        created_at_us=kernel.clock.now_us(),
        actor=actor,
        tables=tuple(table.key for table in tables),
    )
    return Intent(
        kernel.new_operation_id(),
        head.branch,
        writer_kind,
        commit,
        Changes(
            versions=tables,
            digests={move.key: move.digests for move in moves} if digests is None else digests,
        ),
        moves,
    )


def publish(kernel: Kernel, head: Head, intent: Intent, lock: HeldLock) -> Head:
    """Make every touched table visible at once, or none; return the new head.

    Raises:
        CommitRaceError: a table or the head was moved by someone who should not have been
            there; nothing became visible and the sidecar tells recovery what to undo.
    """
    asks: tuple[Callable[[], Any], ...] = (
        partial(stage_publish, kernel, head, [(intent.commit, intent.changes)], intent.adopted),
        kernel.identity.check,  # before anything says what we mean to do
    )
    (staged_head, state), _ = kernel.objects.together(*asks)
    keep_contents(kernel, intent.files.values())
    failpoint(AFTER_STAGING)
    _sync_staged(kernel, intent, staged_head)
    lock.check()
    sidecar = write_sidecar_for(kernel, intent, lock)
    failpoint(AFTER_SIDECAR)
    handles = _commit_tables(kernel, intent.moves, lock)
    failpoint(AFTER_TABLES)
    sync_versions(kernel, handles)
    failpoint(AFTER_TABLE_SYNC)
    lock.check()
    after = swap_head(kernel, head, staged_head, state)
    failpoint(AFTER_PUBLISH)
    sync_versions(kernel, [after.handle])
    failpoint(AFTER_MANIFEST_SYNC)
    _finish(kernel, intent, sidecar)
    failpoint(AFTER_SIDECAR_DELETE)
    return after


def _finish(kernel: Kernel, intent: Intent, sidecar: Sidecar) -> None:
    """Tidy up behind a commit that is visible and durable, and so must be acknowledged."""
    try:
        if intent.branch == layout.MAIN:
            show_files(kernel, intent.changes.files)
        failpoint(AFTER_FILES)
        delete_sidecar(kernel.objects, sidecar)
    except StorageError as error:
        kernel.counters.add("unfinished_commits")
        log.warning("commit %s stands, recovery will finish it: %s", intent.commit.id, error)


def swap_head(kernel: Kernel, head: Head, staged: Staged, after: State) -> Head:
    """Swap the head row: the only visible moment of a commit."""
    try:
        return finish_publish(kernel, head, staged, after)
    except CommitRaceError:
        kernel.counters.add("publish_races")
        raise


def publish_moved(kernel: Kernel, head: Head, commit: Commit, changes: Changes) -> Head:
    """Publish tables that already moved under a sidecar; the caller ends the sidecar."""
    staged, state = stage_publish(kernel, head, [(commit, changes)], None)
    sync_whole_files(kernel.objects, staged.files)
    after = swap_head(kernel, head, staged, state)
    failpoint(AFTER_PUBLISH)
    sync_versions(kernel, [after.handle])
    return after


def write_sidecar_for(
    kernel: Kernel, intent: Intent, lock: HeldLock, unsigned: Sequence[TableVersion] = ()
) -> Sidecar:
    """Write down what is about to happen, in the sidecar and in every transaction.

    `unsigned` tables are moved by Lance itself, under a uuid of its choosing.
    """
    mark = {
        OPERATION_MARK: intent.operation_id,
        "omnigraph:branch": intent.branch,
        "omnigraph:epoch": str(lock.epoch),
    }
    for move in intent.moves:
        move.staged.sign(mark)
    sidecar = Sidecar(
        intent.operation_id,
        intent.branch,
        intent.writer_kind,
        intent.commit.actor,
        kernel.clock.now_us(),
        tuple(
            SidecarTable(
                move.key,
                move.staged.base.location,
                move.staged.base.branch,
                move.pin,
                move.pin + 1,
                move.staged.uuid,
            )
            for move in intent.moves
        )
        + tuple(
            SidecarTable(table.key, table.location, table.branch, table.version, table.version + 1)
            for table in unsigned
        ),
        intent.commit,
        intent.changes,
        intent.commit.merged_parent,
        intent.adopted_from,
        lock.epoch,
        branch_tag(kernel, intent.branch),
        _as_file(intent.adopted),
    )
    write_sidecar(kernel.objects, sidecar)
    return sidecar


def branch_tag(kernel: Kernel, branch: BranchName) -> str | None:
    """Return what tells a branch from an earlier one of its name; main has no earlier one."""
    if branch == layout.MAIN:
        return ""
    ref = find_branch(kernel.objects, layout.MANIFEST, branch)
    return None if ref is None else ref.tag


def _commit_tables(kernel: Kernel, moves: tuple[TableMove, ...], lock: HeldLock) -> list[Handle]:
    """Move every table by one version; in parallel where each mostly waits for the network."""

    def move_one(move: TableMove) -> Handle:
        lock.check()
        handle = commit_staged(kernel.tables, move.staged)
        failpoint(BETWEEN_TABLES)
        return handle

    if len(moves) < 2 or kernel.root.is_local:  # on disk threads measured no faster
        return [move_one(move) for move in moves]
    with ThreadPoolExecutor(min(len(moves), 8), "omnigraph-commit") as pool:
        return list(pool.map(move_one, moves))


def _sync_staged(kernel: Kernel, intent: Intent, staged_head: Staged) -> None:
    """First barrier: nothing that a later step names may be lost."""
    files = [name for move in intent.moves for name in move.staged.files]
    files += staged_head.files
    sync_whole_files(kernel.objects, files)
    sync_versions(kernel, intent.created)


def sync_versions(kernel: Kernel, handles: Iterable[Handle]) -> None:
    """Force the manifests of freshly committed versions to the disk."""
    kernel.objects.sync_named(
        [layout.version_file(part.location, part.branch, part.version) for part in handles]
    )


def _as_file(rows: pa.Table | None) -> bytes:
    """Return the commits a merge brings along: their branch may be gone when it is finished."""
    if rows is None:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def merged_commits(sidecar: Sidecar) -> pa.Table | None:
    """Return the commits that an unfinished merge brings along, if there are any."""
    kept = sidecar.merged_commits
    return pa.ipc.open_file(pa.py_buffer(kept)).read_all() if kept else None

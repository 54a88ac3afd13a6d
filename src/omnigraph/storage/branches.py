"""Branches of the graph: created, listed, deleted.

A graph branch *is* the Lance branch of `__manifest` with its name: its ref appears and
disappears in one step. No table is forked until it is written. Everything here runs under the
graph-wide refs lock, which cleanup takes too.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, TableKey
from omnigraph.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
)
from omnigraph.storage import layout
from omnigraph.storage.dependents import (
    drop_note,
    note_dependent,
    require_unused,
    visible_parent,
)
from omnigraph.storage.history import rows_until, tables_at
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks import REFS_LOCK, branch_lock_name
from omnigraph.storage.manifest import Head, open_manifest, read_head
from omnigraph.storage.records import Commit, TableVersion
from omnigraph.storage.sidecar import OutcomePendingError
from omnigraph.storage.snapshot import BranchNotFoundError, Heads, snapshot_of
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.fork import (
    BranchRef,
    branch_names,
    create_fork,
    delete_branch,
    find_branch,
    fork_files,
    has_files,
    list_branches,
)
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import stage_refold
from omnigraph.storage.tables.tiers import fragment_rows
from omnigraph.storage.tables.whole import harden

log = logging.getLogger(__name__)

AFTER_CREATE = register("branch_create.after_ref", "the branch exists; its files are not synced")
AFTER_ORIGIN = register(
    "branch_create.after_origin", "a hidden branch exists; it does not hold the old commit yet"
)
AFTER_REF_DELETE = register("branch_delete.after_ref", "the branch is gone; its forks remain")


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """One branch, as listed."""

    name: BranchName
    parent: BranchName | None
    created_at_us: int | None


def branch_refs(kernel: Kernel) -> dict[str, BranchRef]:
    """Return every Lance branch of the manifest, hidden ones included."""
    return list_branches(kernel.objects, layout.MANIFEST)


def live_branches(kernel: Kernel) -> list[BranchName]:
    """Return the names of all branches, main first, then sorted."""
    names = branch_names(kernel.objects, layout.MANIFEST)
    return [layout.MAIN, *(BranchName(n) for n in sorted(names) if not layout.is_system_branch(n))]


def list_infos(kernel: Kernel) -> list[BranchInfo]:
    """Return all branches with where they came from."""
    refs = branch_refs(kernel)
    infos = [BranchInfo(layout.MAIN, None, None)]
    for name in sorted(refs):
        if not layout.is_system_branch(name):
            ref = refs[name]
            parent = visible_parent(ref, refs.get)
            infos.append(BranchInfo(BranchName(name), parent, ref.created_at_s * 1_000_000))
    return infos


def settle_branches(kernel: Kernel) -> None:
    """Finish or undo branches whose creation was cut off before it was acknowledged.

    A power cut may keep a branch's name and lose its content, or the other way round.
    """
    if not kernel.objects.list(layout.BRANCH_INTENTS):
        return
    with kernel.locks.try_hold(REFS_LOCK, "recovery") as lock:
        if lock is None:
            return  # somebody is creating one right now
        for info in kernel.objects.list(layout.BRANCH_INTENTS):
            name = layout.branch_of_ref(info.name)
            if _is_whole(kernel, name):
                first = kernel.tables.version_numbers(layout.MANIFEST, name)[0]
                kernel.objects.sync_named(fork_files(layout.MANIFEST, name, first))
            else:
                delete_branch(kernel.tables, layout.MANIFEST, name)
                log.warning("removed the half-made branch '%s'; it was never acknowledged", name)
            kernel.objects.delete(info.name)


def _is_whole(kernel: Kernel, name: str) -> bool:
    try:
        if find_branch(kernel.objects, layout.MANIFEST, name) is None:
            return False
        read_head(open_manifest(kernel, BranchName(name)), BranchName(name))
    except (DamagedError, SnapshotExpiredError):
        return False
    return True


@contextlib.contextmanager
def _announced(kernel: Kernel, name: BranchName) -> Iterator[None]:
    """Keep a note for as long as a branch exists without being durable; undo it on failure."""
    intent = layout.branch_intent(name)
    kernel.objects.put(intent, b"")
    try:
        yield
    except (StorageError, FormatError, NotFoundError) as error:
        try:
            delete_branch(kernel.tables, layout.MANIFEST, name)
            kernel.objects.sync_dirs([f"{layout.MANIFEST}/{layout.REFS_DIR}"])
            kernel.objects.delete(intent)
        except StorageError as failure:
            raise OutcomePendingError(f"creating branch '{name}'", error) from failure
        raise
    kernel.objects.delete(intent)


def create_branch(kernel: Kernel, heads: Heads, name: BranchName, source: BranchName) -> Head:
    """Create a branch that starts as what `source` is now.

    Raises:
        AlreadyExistsError: the name is taken.
        ConflictError: it is a path prefix of a live name, or the other way round.
    """
    with kernel.locks.hold(REFS_LOCK, f"create branch {name}"):
        _require_new(kernel, name)
        head = heads.current(source)
        if has_files(kernel.objects, layout.MANIFEST, name):
            delete_branch(kernel.tables, layout.MANIFEST, name)  # left by a crash, without a ref
        with _announced(kernel, name):
            note_dependent(kernel, name, source)
            forked = create_fork(head.handle, name)
            failpoint(AFTER_CREATE)
            kernel.objects.sync_named(fork_files(layout.MANIFEST, name, head.manifest_version))
        return heads.inherit(head, name, forked)


def create_branch_at(
    kernel: Kernel, heads: Heads, name: BranchName, source: BranchName, commit: Commit
) -> Head:
    """Create a branch that starts as what `source` was after `commit`.

    The branch appears in one step, with the right content: it is prepared on a hidden branch
    and only then named.

    Raises:
        SnapshotExpiredError: files of that commit were cleaned.
    """
    with kernel.locks.hold(REFS_LOCK, f"create branch {name}"):
        _require_new(kernel, name)
        head = heads.current(source)
        tables = tables_at(head, commit.sequence)
        _require_readable(kernel, name, tables)
        if has_files(kernel.objects, layout.MANIFEST, name):
            delete_branch(kernel.tables, layout.MANIFEST, name)
        past = _past(kernel, head, commit, tables)
        with _announced(kernel, name):
            note_dependent(kernel, name, source)
            create_fork(past, name)
            failpoint(AFTER_CREATE)
            kernel.objects.sync_named(fork_files(layout.MANIFEST, name, past.version))
    heads.forget(name)
    return heads.current(name)


def _past(
    kernel: Kernel, head: Head, commit: Commit, tables: Mapping[TableKey, TableVersion]
) -> Handle:
    """Return the manifest of a hidden branch that states what an old commit stated."""
    origin = BranchName(layout.origin_branch(kernel.ulids.next(kernel.clock.now_us())))
    with _announced(kernel, origin):
        hidden = create_fork(head.handle, origin)
        files = fork_files(layout.MANIFEST, origin, hidden.version)
        failpoint(AFTER_ORIGIN)
        rows = rows_until(head, commit, tables)
        fragments = [fragment_id for fragment_id, _ in fragment_rows(hidden)]
        staged = stage_refold(kernel.tables, hidden, fragments, rows)
        past = commit_staged(kernel.tables, staged, remember=False)
        files += [*staged.files, layout.version_file(layout.MANIFEST, origin, past.version)]
        harden(kernel.objects, files)
    return past


def _require_readable(
    kernel: Kernel, name: BranchName, tables: Mapping[TableKey, TableVersion]
) -> None:
    for table in tables.values():
        if not kernel.tables.version_exists(table.location, table.branch, table.version):
            raise SnapshotExpiredError(
                f"{table.key} version {table.version} was cleaned up",
                hint="choose a newer commit",
            )
        if table.branch is not None and layout.fork_owner(table.branch) == name:
            raise ConflictError(
                f"that commit reads {table.key} from an earlier branch '{name}'",
                hint="choose another name",
            )


def remove_branch(kernel: Kernel, heads: Heads, name: BranchName) -> None:
    """Delete a branch; its tables' forks stay until cleanup may take them.

    Raises:
        BranchNotFoundError: there is no such branch.
        ConflictError: another branch still rests on it.
    """
    if name == layout.MAIN:
        raise BadRequestError("cannot delete branch 'main'")
    with (
        kernel.locks.hold(REFS_LOCK, f"delete branch {name}"),
        kernel.locks.hold(branch_lock_name(name), f"delete branch {name}"),
    ):
        ref = find_branch(kernel.objects, layout.MANIFEST, name)
        if ref is None:
            raise BranchNotFoundError(name)
        require_unused(kernel, heads, name)
        source = visible_parent(ref, partial(find_branch, kernel.objects, layout.MANIFEST))
        # Readers of this branch may be under way: its forks stay for the floor at least.
        snapshot_of(kernel, heads.current(name)).pin(kernel.options.retention.floor_s)
        try:
            kernel.objects.delete(layout.branch_ref(layout.MANIFEST, name))
            kernel.objects.sync_dirs([f"{layout.MANIFEST}/{layout.REFS_DIR}"])
        except StorageError as error:  # its ref may be gone, and may be back after a power cut
            raise OutcomePendingError(f"deleting branch '{name}'", error) from error
        failpoint(AFTER_REF_DELETE)
        heads.forget(name)
        _drop_manifest(kernel, ref, source)


def _drop_manifest(kernel: Kernel, ref: BranchRef, source: BranchName) -> None:
    """Remove what a deleted branch leaves; a branch is gone with its ref, so this may fail."""
    name = BranchName(ref.name)
    try:
        delete_branch(kernel.tables, layout.MANIFEST, name)
        if ref.parent is not None and layout.is_origin(ref.parent):  # made for this one alone
            delete_branch(kernel.tables, layout.MANIFEST, ref.parent)
        drop_note(kernel, name, source)
    except StorageError as error:
        kernel.counters.add("unfinished_deletions")
        log.warning("branch '%s' is deleted; its files remain: %s", name, error)


def _require_new(kernel: Kernel, name: BranchName) -> None:
    refs = branch_names(kernel.objects, layout.MANIFEST)
    if name == layout.MAIN:
        raise AlreadyExistsError("cannot create branch 'main'", hint="every graph has it")
    if name in refs:
        raise AlreadyExistsError(f"branch '{name}' already exists", hint="choose another name")
    if kernel.objects.exists(layout.branch_ref(layout.MANIFEST, name)):
        # Going on would remove the files of the other as those of a creation cut off by a crash.
        raise ConflictError(
            f"to this file system '{name}' is the name of a branch that is spelt differently",
            hint="choose a name that differs by more than upper and lower case",
        )
    for taken in refs:
        if taken.startswith(f"{name}/") or name.startswith(f"{taken}/"):
            raise ConflictError(
                f"'{name}' and the live branch '{taken}' are prefixes of each other",
                hint="choose another name; their files would lie inside each other",
            )

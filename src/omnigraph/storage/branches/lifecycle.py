"""Branches of the graph: created, listed, deleted.

A graph branch *is* the Lance branch of `__manifest` with its name: its ref appears and
disappears in one step. No table is forked until it is written. Everything here runs under the
graph-wide refs lock, which cleanup takes too.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
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
from omnigraph.storage.branches.dependents import (
    UNREADABLE,
    drop_note,
    note_dependent,
    require_unused,
    visible_parent,
)
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit, TableVersion
from omnigraph.storage.files.sidecar import OutcomePendingError
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import REFS_LOCK, branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.locks.leases import LeaseLostError, still_ours
from omnigraph.storage.manifest.history import rows_until, tables_at
from omnigraph.storage.manifest.rows import Head, open_manifest, read_head
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Heads, snapshot_of
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
    readable_branches,
)
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.stage import stage_refold
from omnigraph.storage.tables.tiers import fragment_rows
from omnigraph.storage.tables.whole import sync_whole_files

log = logging.getLogger(__name__)

AFTER_CREATE = register("branch_create.after_ref", "the branch exists; its files are not synced")
AFTER_ORIGIN = register(
    "branch_create.after_origin", "a hidden branch exists; it does not hold the old commit yet"
)
AFTER_REF_DELETE = register("branch_delete.after_ref", "the branch is gone; its forks remain")


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """One branch, as listed; of a damaged one only the name may be known."""

    name: BranchName
    parent: BranchName | None
    created_at_us: int | None


def branch_refs(kernel: Kernel) -> dict[str, BranchRef]:
    """Return every Lance branch of the manifest, hidden ones included."""
    return list_branches(kernel.objects, layout.MANIFEST)


def live_branches(kernel: Kernel) -> list[BranchName]:
    """Return the names of all branches, those of runs included: main first, then sorted."""
    names = branch_names(kernel.objects, layout.MANIFEST)
    return [layout.MAIN, *(BranchName(n) for n in sorted(names) if layout.is_graph_branch(n))]


def list_infos(kernel: Kernel) -> list[BranchInfo]:
    """Return the branches that users made, with where they came from."""
    refs = readable_branches(kernel.objects, layout.MANIFEST)
    infos = [BranchInfo(layout.MAIN, None, None)]
    for name in sorted(refs):
        if not layout.is_system_branch(name):
            ref = refs[name]
            parent = None if ref is None else visible_parent(ref, refs.get)
            made_us = None if ref is None else ref.created_at_s * 1_000_000
            infos.append(BranchInfo(BranchName(name), parent, made_us))
    return infos


def finish_branches(kernel: Kernel) -> None:
    """Finish or undo what was cut off: creations that were not acknowledged, and deletions.

    A power cut may keep a branch's name and lose its content, or the other way round.
    """
    if not kernel.objects.list(layout.BRANCH_INTENTS):
        return
    with kernel.locks.try_hold(REFS_LOCK, "recovery") as lock:
        if lock is None:
            return  # somebody is creating one right now
        for info in kernel.objects.list(layout.BRANCH_INTENTS):
            name = layout.branch_of_ref(info.name)
            if not still_ours(lock):
                return  # whoever took over goes on
            if _is_whole(kernel, name):
                first = kernel.tables.version_numbers(layout.MANIFEST, name)[0]
                kernel.objects.sync_named(fork_files(layout.MANIFEST, name, first))
            else:
                delete_branch(kernel.tables, layout.MANIFEST, name)
                log.warning("removed what was left of the branch '%s'", name)
            _drop_intent(kernel, name)


def _drop_intent(kernel: Kernel, name: str) -> None:
    """Forget that a branch was being made or deleted, once a power cut brings no files back."""
    home = layout.lineage(layout.MANIFEST, name)
    if kernel.root.is_local and kernel.objects.path(home).is_dir():
        kernel.objects.sync_dirs([home])
    kernel.objects.delete(layout.branch_intent(name))


def _is_whole(kernel: Kernel, name: str) -> bool:
    try:
        if find_branch(kernel.objects, layout.MANIFEST, name) is None:
            return False
        read_head(open_manifest(kernel, BranchName(name)), BranchName(name))
    except (DamagedError, SnapshotExpiredError):
        return False
    return True


@contextlib.contextmanager
def _announced(kernel: Kernel, name: BranchName, version: int, lock: HeldLock) -> Iterator[None]:
    """Keep a note for as long as a branch exists without being durable; undo it on failure."""
    intent = layout.branch_intent(name)
    lock.check()
    kernel.objects.put(intent, b"")
    try:
        yield
        lock.check()
    except (StorageError, FormatError, NotFoundError, ConflictError) as error:
        try:
            _take_back(kernel, name, version, lock)
        except (StorageError, ConflictError) as failure:
            raise OutcomePendingError(f"creating branch '{name}'", error) from failure
        raise
    kernel.objects.delete(intent)


def _take_back(kernel: Kernel, name: BranchName, version: int, lock: HeldLock) -> None:
    """Undo a creation that failed, unless the branch was seen and written by others meanwhile.

    Raises:
        ConflictError: it was, or somebody is at it, or it is not ours to decide any more.
    """
    with kernel.locks.try_hold(branch_lock_name(name), "undo the creation") as writing:
        if writing is None or kernel.tables.next_exists(layout.MANIFEST, name, version):
            raise ConflictError(f"branch '{name}' is in use already")
        lock.check()
        writing.check()
        delete_branch(kernel.tables, layout.MANIFEST, name)
        kernel.objects.sync_dirs([f"{layout.MANIFEST}/{layout.REFS_DIR}"])
        _drop_intent(kernel, name)


def _clear_remains(kernel: Kernel, name: BranchName, lock: HeldLock) -> None:
    """Remove what a creation or deletion that was cut off left behind.

    Raises:
        DamagedError: there are files of a branch whose ref is lost; they are not ours to remove.
    """
    if not has_files(kernel.objects, layout.MANIFEST, name):
        return
    if not kernel.objects.exists(layout.branch_intent(name)):
        raise DamagedError(
            f"branch '{name}' has files, but its ref is gone",
            hint=f"restore '{layout.branch_ref(layout.MANIFEST, name)}' from a backup; only to "
            f"give the branch up, remove '{layout.lineage(layout.MANIFEST, name)}'",
        )
    lock.check()
    delete_branch(kernel.tables, layout.MANIFEST, name)


def lost_branches(kernel: Kernel) -> list[str]:
    """Return branches that have files and no ref, though nobody was creating or deleting them."""
    marker = f"/{layout.VERSIONS_DIR}/"
    prefix = f"{layout.MANIFEST}/{layout.TREE_DIR}/"
    stored = {
        info.name.removeprefix(prefix).partition(marker)[0]
        for info in kernel.objects.list(f"{layout.MANIFEST}/{layout.TREE_DIR}")
        if marker in info.name and layout.version_of_file(info.name) is not None
    }
    known = {layout.branch_of_ref(info.name) for info in kernel.objects.list(layout.BRANCH_INTENTS)}
    known |= set(branch_names(kernel.objects, layout.MANIFEST))
    return sorted(
        name
        for name in stored - known
        # In this order, so that a branch is not missed which is made or deleted meanwhile: its
        # note is there before its files and as long as they are without a ref.
        if layout.is_graph_branch(name)
        and not kernel.objects.exists(layout.branch_intent(name))
        and not kernel.objects.exists(layout.branch_ref(layout.MANIFEST, name))
        and has_files(kernel.objects, layout.MANIFEST, name)
    )


def create_branch(kernel: Kernel, heads: Heads, name: BranchName, source: BranchName) -> Head:
    """Create a branch that starts as what `source` is now.

    Raises:
        AlreadyExistsError: the name is taken.
        ConflictError: it is a path prefix of a live name, or the other way round.
    """
    with kernel.locks.hold(REFS_LOCK, f"create branch {name}") as lock:
        _require_new(kernel, name)
        head = heads.current(source)
        _clear_remains(kernel, name, lock)
        with _announced(kernel, name, head.manifest_version, lock):
            note_dependent(kernel, name, source)
            forked = create_fork(head.handle, name)
            failpoint(AFTER_CREATE)
            kernel.objects.sync_named(fork_files(layout.MANIFEST, name, head.manifest_version))
            made = heads.inherited(head, name, forked)
        heads.remember(made)  # the lock was still ours, so the ref that was read is ours, too
        return made


def create_branch_at(
    kernel: Kernel, heads: Heads, name: BranchName, source: BranchName, commit: Commit
) -> Head:
    """Create a branch that starts as what `source` was after `commit`.

    The branch appears in one step, with the right content: it is prepared on a hidden branch
    and only then named.

    Raises:
        SnapshotExpiredError: files of that commit were cleaned.
    """
    with kernel.locks.hold(REFS_LOCK, f"create branch {name}") as lock:
        _require_new(kernel, name)
        head = heads.current(source)
        tables = tables_at(head, commit.sequence)
        require_readable(kernel, tables.values())
        _require_not_own(name, tables.values())
        _clear_remains(kernel, name, lock)
        past = _past(kernel, head, commit, tables, lock)
        with _announced(kernel, name, past.version, lock):
            note_dependent(kernel, name, source)
            create_fork(past, name)
            failpoint(AFTER_CREATE)
            kernel.objects.sync_named(fork_files(layout.MANIFEST, name, past.version))
    heads.forget(name)
    return heads.current(name)


def _past(
    kernel: Kernel,
    head: Head,
    commit: Commit,
    tables: Mapping[TableKey, TableVersion],
    lock: HeldLock,
) -> Handle:
    """Return the manifest of a hidden branch that states what an old commit stated."""
    origin = BranchName(layout.origin_branch(kernel.ulids.next(kernel.clock.now_us())))
    with _announced(kernel, origin, head.manifest_version + 1, lock):
        hidden = create_fork(head.handle, origin)
        files = fork_files(layout.MANIFEST, origin, hidden.version)
        failpoint(AFTER_ORIGIN)
        rows = rows_until(head, commit, tables)
        fragments = [fragment_id for fragment_id, _ in fragment_rows(hidden)]
        staged = stage_refold(kernel.tables, hidden, fragments, rows)
        past = commit_staged(kernel.tables, staged, remember=False)
        files += [*staged.files, layout.version_file(layout.MANIFEST, origin, past.version)]
        sync_whole_files(kernel.objects, files)
    return past


def require_readable(kernel: Kernel, tables: Iterable[TableVersion]) -> None:
    """Refuse to name a state whose rows were cleaned up.

    Raises:
        SnapshotExpiredError: a version of a table is gone.
    """
    for table in tables:
        if not kernel.tables.version_exists(table.location, table.branch, table.version):
            raise SnapshotExpiredError(
                f"{table.key} version {table.version} was cleaned up",
                hint="choose a newer commit",
            )


def _require_not_own(name: BranchName, tables: Iterable[TableVersion]) -> None:
    """Refuse a branch whose files would lie among those of an earlier one of its name."""
    for table in tables:
        if table.branch is not None and layout.fork_owner(table.branch) == name:
            raise ConflictError(
                f"that commit reads {table.key} from an earlier branch '{name}'",
                hint="choose another name",
            )


def remove_branch(kernel: Kernel, heads: Heads, name: BranchName) -> None:
    """Delete a branch; its tables' forks stay until cleanup may take them.

    One that cannot be read can be deleted, too: only its readers, if any, are not waited for.

    Raises:
        BranchNotFoundError: there is no such branch.
        ConflictError: another branch still rests on it.
    """
    if name == layout.MAIN:
        raise BadRequestError("cannot delete branch 'main'")
    with (
        kernel.locks.hold(REFS_LOCK, f"delete branch {name}") as lock,
        kernel.locks.hold(branch_lock_name(name), f"delete branch {name}") as writing,
    ):
        if not kernel.objects.exists(layout.branch_ref(layout.MANIFEST, name)):
            raise BranchNotFoundError(name)
        require_unused(kernel, heads, name)
        ref = _readable_ref(kernel, name)
        _pin_last(kernel, heads, name)
        try:
            # Until its files are gone, this tells them from those of a branch whose ref got lost.
            kernel.objects.put(layout.branch_intent(name), b"")
            lock.check()
            writing.check()
            kernel.objects.delete(layout.branch_ref(layout.MANIFEST, name))
            kernel.objects.sync_dirs([f"{layout.MANIFEST}/{layout.REFS_DIR}"])
        except StorageError as error:  # its ref may be gone, and may be back after a power cut
            raise OutcomePendingError(f"deleting branch '{name}'", error) from error
        failpoint(AFTER_REF_DELETE)
        heads.forget(name)
        _drop_manifest(kernel, name, ref, lock)


def _readable_ref(kernel: Kernel, name: BranchName) -> BranchRef | None:
    """Return what a ref says; None if it cannot be read."""
    try:
        return find_branch(kernel.objects, layout.MANIFEST, name)
    except DamagedError as error:
        log.warning("deleting branch '%s' without knowing where it came from: %s", name, error)
        return None


def _pin_last(kernel: Kernel, heads: Heads, name: BranchName) -> None:
    """Keep the forks of a branch for the floor at least: readers may be under way."""
    try:
        snapshot_of(kernel, heads.current(name)).pin(kernel.options.retention.floor_s)
    except UNREADABLE as error:
        log.warning("deleting branch '%s', which cannot be read: %s", name, error)


def _drop_manifest(kernel: Kernel, name: BranchName, ref: BranchRef | None, lock: HeldLock) -> None:
    """Remove what a deleted branch leaves; a branch is gone with its ref, so this may fail.

    The note of one whose origin is unknown is dropped when its parent is to be deleted.
    """
    find = partial(find_branch, kernel.objects, layout.MANIFEST)
    try:
        source = None if ref is None else visible_parent(ref, find)
        lock.check()  # else the name may be another branch's by now, and its files that one's
        delete_branch(kernel.tables, layout.MANIFEST, name)
        if ref is not None and ref.parent is not None and layout.is_origin(ref.parent):
            delete_branch(kernel.tables, layout.MANIFEST, ref.parent)  # made for this one alone
        if source is not None:
            drop_note(kernel, name, source)
        _drop_intent(kernel, name)
    except (StorageError, DamagedError, LeaseLostError) as error:
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
    if kernel.objects.exists(layout.tag(name)):
        raise AlreadyExistsError(f"'{name}' is a tag", hint="choose another name")
    for taken in refs:
        if taken.startswith(f"{name}/") or name.startswith(f"{taken}/"):
            raise ConflictError(
                f"'{name}' and the live branch '{taken}' are prefixes of each other",
                hint="choose another name; their files would lie inside each other",
            )

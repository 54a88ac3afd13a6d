"""Bringing older graphs to the current format, on every branch, before anything is written.

One step per format; each is safe to run again after a crash. Runs under the refs lock and every
branch's lock. Readers never come here.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName
from omnigraph.errors import FormatError
from omnigraph.storage.branches.lifecycle import branch_refs, live_branches
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit
from omnigraph.storage.files.sidecar import catalog_sidecar, delete_sidecar, write_sidecar
from omnigraph.storage.identity import GRAPH_UUID_KEY
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.locks.by_name import REFS_LOCK, branch_lock_name
from omnigraph.storage.locks.holders import HeldLock
from omnigraph.storage.manifest.contracts import keep_stated_files
from omnigraph.storage.manifest.legacy import upgraded_rows
from omnigraph.storage.manifest.publish import sync_versions
from omnigraph.storage.manifest.rows import (
    CONTRACT_FILE,
    GRAPH_ROOT_KEY,
    HEAD,
    SCHEMA,
    STAMP,
    STAMP_KEY,
    check_stamp,
    file_row,
    head_row,
    open_manifest,
    read_head,
    read_rows,
    rows_of,
    stamp_of,
)
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.recovery.recover import heal_torn_manifest
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.fork import delete_branch
from omnigraph.storage.tables.handle import PRIMARY_KEY, Handle
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.scan import Reader
from omnigraph.storage.tables.schema import annotate_field, stamp_schema
from omnigraph.storage.tables.stage import stage_refold
from omnigraph.storage.tables.tiers import fragment_rows
from omnigraph.storage.tables.whole import sync_whole_files

AFTER_ROWS = register("upgrade.after_rows", "the head row exists; the stamp is still old")
BETWEEN_BRANCHES = register("upgrade.between_branches", "one branch is upgraded, another is not")


def needs_upgrade(handle: Handle) -> bool:
    """Whether a manifest is of an older format; refuses a newer one."""
    check_stamp(handle)
    return stamp_of(handle) < STAMP


def upgrade(kernel: Kernel, heads: Heads) -> int:
    """Bring every branch to the current format; return how many were upgraded."""
    done = 0
    with kernel.locks.hold(REFS_LOCK, "upgrade"):
        sweep_run_branches(kernel)
        # Main goes last: its stamp is what an open looks at, so it must speak for all.
        graph = open_manifest(kernel, layout.MAIN).metadata.get(GRAPH_UUID_KEY, "")
        graph = graph or str(uuid.uuid4())
        for branch in reversed(live_branches(kernel)):
            with kernel.locks.hold(branch_lock_name(branch), "upgrade") as lock:
                heal_torn_manifest(kernel, heads, branch)
                done += _upgrade_branch(kernel, branch, lock, graph)
                heads.forget(branch)
            failpoint(BETWEEN_BRANCHES)
    return done


def _upgrade_branch(kernel: Kernel, branch: BranchName, lock: HeldLock, graph: str) -> bool:
    handle = open_manifest(kernel, branch)
    if not needs_upgrade(handle):
        return False
    started = kernel.new_operation_id(), branch, "Upgrade", kernel.clock.now_us()
    sidecar = catalog_sidecar(*started, lock.epoch)
    write_sidecar(kernel.objects, sidecar)
    handle = _add_key(kernel, handle)
    handle = _add_head(kernel, branch, handle)
    handle = _add_files(kernel, branch, handle)
    failpoint(AFTER_ROWS)
    identity = {
        STAMP_KEY: str(STAMP),
        GRAPH_UUID_KEY: graph,
        # Where it was made stays: its branches may point there, by a link.
        GRAPH_ROOT_KEY: handle.metadata.get(GRAPH_ROOT_KEY) or str(kernel.root),
    }
    handle = stamp_schema(kernel.tables, handle, identity)
    sync_versions(kernel, [handle])
    delete_sidecar(kernel.objects, sidecar)
    kernel.counters.add("upgraded_branches")
    return True


def _add_key(kernel: Kernel, handle: Handle) -> Handle:
    """Format 2: `object_id` is annotated as the key."""
    keyed = [field.name for field in handle.dataset.schema if PRIMARY_KEY in (field.metadata or {})]
    if keyed == ["object_id"]:
        return handle
    if keyed:
        raise FormatError(f"{handle} has the key {keyed}, expected object_id")
    return annotate_field(kernel.tables, handle, "object_id", {PRIMARY_KEY.decode(): "true"})


def sweep_run_branches(kernel: Kernel) -> None:
    """Format 3: branches of the long gone run registry are removed."""
    for name in sorted(branch_refs(kernel)):
        recorded = layout.run_record(layout.run_of(name))
        if layout.is_run_branch(name) and not kernel.objects.exists(recorded):
            delete_branch(kernel.tables, layout.MANIFEST, name)


def _add_head(kernel: Kernel, branch: BranchName, handle: Handle) -> Handle:
    """Format 4: commits and the stated snapshot live in the manifest."""
    if len(read_rows(handle, equals("object_id", HEAD))):
        return handle  # an earlier run got this far
    upgraded = upgraded_rows(kernel, branch, handle, _genesis(kernel, branch, handle))
    return _refold(kernel, handle, upgraded)


def _add_files(kernel: Kernel, branch: BranchName, handle: Handle) -> Handle:
    """Format 5: contract files are kept by content, and history says since when each counts.

    No earlier program replaced a schema, so what the head states was there from the start.
    """
    head = read_head(handle, branch)
    keep_stated_files(kernel, head.files)
    if not head.files or len(read_rows(handle, equals("object_type", CONTRACT_FILE))):
        return handle
    kept = Reader(handle).scan()
    kept = kept.filter(pc.not_equal(kept["object_id"], HEAD)).select(SCHEMA.names).cast(SCHEMA)
    stated = rows_of([file_row(name, known, 0) for name, known in head.files.items()])
    last = head_row(replace(head, rows=len(kept) + len(stated) + 1))
    rows = pa.concat_tables([kept, stated, rows_of([last])])
    return _refold(kernel, handle, rows)


def _refold(kernel: Kernel, handle: Handle, rows: pa.Table) -> Handle:
    """Put rows in the place of all that are there."""
    fragments = [fragment_id for fragment_id, _ in fragment_rows(handle)]
    staged = stage_refold(kernel.tables, handle, fragments, rows)
    sync_whole_files(kernel.objects, staged.files)
    return commit_staged(kernel.tables, staged, remember=False)


def _genesis(kernel: Kernel, branch: BranchName, handle: Handle) -> Commit:
    return Commit.first(
        id=kernel.new_commit_id(),
        branch=branch,
        manifest_version=handle.version,
        created_at_us=kernel.clock.now_us(),
    )

"""Bringing older graphs to the current format, on every branch, before anything is written.

One step per format; each is safe to run again after a crash. Runs under the refs lock and every
branch's lock. Readers never come here.
"""

from __future__ import annotations

import uuid
from typing import Any

import orjson
import pyarrow as pa

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName, CommitId
from omnigraph.errors import FormatError
from omnigraph.storage import layout
from omnigraph.storage.branches import branch_refs, live_branches
from omnigraph.storage.holders import HeldLock
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.legacy import ROW_VERSION, derive_tables, legacy_commits, legacy_rows
from omnigraph.storage.locks import REFS_LOCK, branch_lock_name
from omnigraph.storage.manifest import (
    GRAPH_ROOT_KEY,
    GRAPH_UUID_KEY,
    HEAD,
    STAMP,
    STAMP_KEY,
    TABLE_VERSION,
    TOMBSTONE,
    State,
    check_stamp,
    commit_row,
    head_row,
    open_manifest,
    read_rows,
    rows_of,
    stamp_of,
)
from omnigraph.storage.publish import digest, sync_versions
from omnigraph.storage.records import Changes, Commit
from omnigraph.storage.recovery import heal_torn_manifest
from omnigraph.storage.sidecar import Sidecar, delete_sidecar, write_sidecar
from omnigraph.storage.snapshot import Heads
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.fork import delete_branch
from omnigraph.storage.tables.handle import PRIMARY_KEY, Handle
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.schema import annotate_field, stamp_schema
from omnigraph.storage.tables.stage import stage_refold
from omnigraph.storage.tables.tiers import fragment_rows
from omnigraph.storage.tables.whole import harden

AFTER_ROWS = register("upgrade.after_rows", "the head row exists; the stamp is still old")
BETWEEN_BRANCHES = register("upgrade.between_branches", "one branch is upgraded, another is not")

_RUN_PREFIX = "__run__"


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
        for branch in reversed(live_branches(kernel)):
            with kernel.locks.hold(branch_lock_name(branch), "upgrade") as lock:
                heal_torn_manifest(kernel, heads, branch)
                done += _upgrade_branch(kernel, branch, lock)
                heads.forget(branch)
            failpoint(BETWEEN_BRANCHES)
    return done


def _upgrade_branch(kernel: Kernel, branch: BranchName, lock: HeldLock) -> bool:
    handle = open_manifest(kernel, branch)
    if not needs_upgrade(handle):
        return False
    # While it is there, a manifest torn by a power cut is known to be ours and half done.
    sidecar = Sidecar(
        kernel.new_operation_id(),
        branch,
        "Upgrade",
        None,
        kernel.clock.now_us(),
        (),
        None,
        Changes(),
        epoch=lock.epoch,
    )
    write_sidecar(kernel.objects, sidecar)
    handle = _add_key(kernel, handle)
    handle = _add_head(kernel, branch, handle)
    failpoint(AFTER_ROWS)
    identity = {
        STAMP_KEY: str(STAMP),
        GRAPH_UUID_KEY: str(uuid.uuid4()),
        GRAPH_ROOT_KEY: str(kernel.root),
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
        if name.startswith(_RUN_PREFIX):
            delete_branch(kernel.tables, layout.MANIFEST, name)


def _add_head(kernel: Kernel, branch: BranchName, handle: Handle) -> Handle:
    """Format 4: commits and the stated snapshot live in the manifest."""
    if len(read_rows(handle, equals("object_id", HEAD))):
        return handle  # an earlier run got this far
    rows = legacy_rows(handle)
    tables = derive_tables(rows)
    commits = legacy_commits(kernel, branch) or [_genesis(kernel, branch, handle)]
    last = commits[-1]
    locations = {row["table_key"]: row["location"] for row in rows if row["location"]}
    stamped = [_with_sequence(row, commits, locations) for row in rows]
    changed = {key: _changed_at(stamped, key) for key in tables}
    state = State(
        branch, last.id, last.sequence, last.id, tables, changed, _files(kernel), len(commits)
    )
    upgraded = pa.concat_tables(
        [
            rows_of(stamped),
            rows_of([commit_row(commit) for commit in commits]),
            rows_of([head_row(state)]),
        ]
    )
    fragments = [fragment_id for fragment_id, _ in fragment_rows(handle)]
    staged = stage_refold(kernel.tables, handle, fragments, upgraded)
    harden(kernel.objects, staged.files)
    return commit_staged(kernel.tables, staged, remember=False)


def _genesis(kernel: Kernel, branch: BranchName, handle: Handle) -> Commit:
    commit_id = kernel.new_commit_id()
    return Commit(
        CommitId(commit_id),
        0,
        branch,
        handle.version,
        None,
        None,
        kernel.clock.now_us(),
        None,
        "logical",
        CommitId(commit_id),
    )


def _with_sequence(
    row: dict[str, Any], commits: list[Commit], locations: dict[str, str]
) -> dict[str, Any]:
    """Give a history row the sequence of the commit that published it."""
    kept = {name: value for name, value in row.items() if name != ROW_VERSION}
    if row["object_type"] not in (TABLE_VERSION, TOMBSTONE):
        return kept
    reached = [commit for commit in commits if commit.manifest_version >= row[ROW_VERSION]]
    stated = orjson.loads(row["metadata"]) if row["metadata"] else {}
    stated["sequence"] = reached[0].sequence if reached else commits[-1].sequence
    if row["object_type"] == TABLE_VERSION:
        stated["location"] = locations[row["table_key"]]
    return {**kept, "metadata": orjson.dumps(stated).decode()}


def _changed_at(rows: list[dict[str, Any]], key: str) -> int:
    sequences = [
        orjson.loads(row["metadata"])["sequence"]
        for row in rows
        if row["table_key"] == key and row["object_type"] == TABLE_VERSION
    ]
    return max(sequences, default=0)


def _files(kernel: Kernel) -> dict[str, str]:
    """Return the digests of the contract files an old graph has."""
    found = {name: kernel.objects.find(name) for name in layout.CONTRACT_FILES}
    return {name: digest(content) for name, content in found.items() if content is not None}

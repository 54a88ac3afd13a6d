"""`_graph_commits.lance` and its two companions: views of the commit rows in `__manifest`.

They exist for tools and for joining; nothing in the kernel reads them to decide anything. They
are brought up to date at every open for writing and every so many commits, never on the commit
path, and rebuilt when lost. One dataset holds the commits of all branches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName
from omnigraph.storage import layout
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import Head, commit_row, read_commits, rows_of
from omnigraph.storage.records import Commit
from omnigraph.storage.snapshot import Heads
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.compact import last_fragment, read_fragments
from omnigraph.storage.tables.failures import (
    CommitRaceError,
    DamagedError,
    SnapshotExpiredError,
)
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.predicate import is_in
from omnigraph.storage.tables.scan import Reader
from omnigraph.storage.tables.stage import Append, stage, stage_refold
from omnigraph.storage.tables.tiers import over_full_tier

log = logging.getLogger(__name__)

BETWEEN = register("projections.between", "one projection is up to date, the next is not")

RECONCILE_EVERY = 32
_LOOK_BACK = 256
_STAMP = pa.timestamp("us")

COMMITS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", _STAMP, nullable=False),
    ]
)
ACTORS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", _STAMP, nullable=False),
    ]
)
RECOVERIES_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes_json", pa.string(), nullable=False),
        pa.field("created_at", _STAMP, nullable=False),
    ]
)


def _commit_view(commit: Commit) -> dict[str, Any] | None:
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": layout.lance_branch(commit.branch),
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "created_at": commit.created_at_us,
    }


def _actor_view(commit: Commit) -> dict[str, Any] | None:
    if commit.actor is None:
        return None
    return {
        "graph_commit_id": commit.id,
        "actor_id": commit.actor,
        "created_at": commit.created_at_us,
    }


def _recovery_view(commit: Commit) -> dict[str, Any] | None:
    if commit.recovery is None:
        return None
    told = commit.recovery
    return {
        "graph_commit_id": commit.id,
        "recovery_kind": told["recovery_kind"],
        "recovery_for_actor": told["recovery_for_actor"],
        "operation_id": told["operation_id"],
        "sidecar_writer_kind": told["sidecar_writer_kind"],
        "per_table_outcomes_json": orjson.dumps(told["per_table_outcomes"]).decode(),
        "created_at": commit.created_at_us,
    }


@dataclass(frozen=True, slots=True)
class Projection:
    """One derived dataset: where, which columns, and what a commit contributes."""

    location: str
    schema: pa.Schema
    view: Callable[[Commit], dict[str, Any] | None]


PROJECTIONS = (
    Projection(layout.COMMIT_ACTORS, ACTORS_SCHEMA, _actor_view),
    Projection(layout.COMMIT_RECOVERIES, RECOVERIES_SCHEMA, _recovery_view),
    Projection(layout.COMMITS, COMMITS_SCHEMA, _commit_view),
)


def reconcile(kernel: Kernel, head: Head) -> int:
    """Bring the projections up to this head; return how many rows were missing.

    Safe to run at any time and by several processes: rows are looked for before they are
    added, and a lost race is left to the next run.
    """
    added = 0
    with kernel.locks.try_hold("projections", "projections") as lock:
        if lock is None:
            return 0
        if _is_current(kernel, head):
            return 0
        for projection in PROJECTIONS:
            added += _reconcile_one(kernel, projection, head)
            failpoint(BETWEEN)
    return added


def _is_current(kernel: Kernel, head: Head) -> bool:
    """Whether the newest rows name the head commit: a few small reads, flat in history.

    The commits are projected last, so what they say goes for all. Each projection is read,
    because nobody syncs them: a power cut may have torn one and kept the others.
    """
    newest = None
    for projection in PROJECTIONS:
        if not _exists(kernel, projection.location):
            return False
        try:
            handle = kernel.tables.open_latest(projection.location, None)
            newest = last_fragment(handle, ["graph_commit_id"])
        except (DamagedError, SnapshotExpiredError):
            return False  # torn; it is about to be rebuilt
    return newest is not None and head.commit_id in newest["graph_commit_id"].to_pylist()


def _reconcile_one(kernel: Kernel, projection: Projection, head: Head) -> int:
    """Extend one projection; one that a power cut tore is written anew, for nobody syncs a view."""
    try:
        return _extend(kernel, projection, head)
    except (DamagedError, SnapshotExpiredError) as error:
        log.warning("'%s' cannot be read and is rebuilt: %s", projection.location, error)
        kernel.counters.add("rebuilt_projections")
        kernel.tables.forget(projection.location)
        kernel.objects.delete_prefix(projection.location)
        return _extend(kernel, projection, head)


def _extend(kernel: Kernel, projection: Projection, head: Head) -> int:
    exists = _exists(kernel, projection.location)
    recent = read_commits(head.handle, since=head.sequence - _LOOK_BACK)
    if not exists:
        every = read_commits(head.handle, every=True)
        rows = _rows(projection, every)
        kernel.tables.create(projection.location, rows)
        return len(rows)
    reader = Reader(kernel.tables.open_latest(projection.location, None))
    missing, oldest_known = _missing(reader, projection, recent)
    if missing and not oldest_known:
        missing, _ = _missing(reader, projection, read_commits(head.handle, every=True))
    if not missing:
        return 0
    rows = _rows(projection, missing)
    staged = stage(kernel.tables, reader.handle, Append(rows))
    if staged is not None:
        try:
            _fold(kernel, commit_staged(kernel.tables, staged, remember=False))
        except CommitRaceError:
            return 0
    return len(rows)


def _fold(kernel: Kernel, handle: Handle) -> None:
    """Merge small fragments, so that reading a projection does not slow down with history."""
    chosen = over_full_tier(handle)
    if chosen:
        rows = read_fragments(handle, chosen)
        commit_staged(
            kernel.tables, stage_refold(kernel.tables, handle, chosen, rows), remember=False
        )


def _missing(
    reader: Reader, projection: Projection, commits: Sequence[Commit]
) -> tuple[list[Commit], bool]:
    """Return the commits without a row, and whether the oldest that should have one has it."""
    relevant = [commit for commit in commits if projection.view(commit) is not None]
    if not relevant:
        return [], bool(commits) and commits[0].sequence == 0
    ids = [commit.id for commit in relevant]
    known = set(
        reader.scan(["graph_commit_id"], is_in("graph_commit_id", ids))[
            "graph_commit_id"
        ].to_pylist()
        if len(ids) <= _LOOK_BACK
        else reader.scan(["graph_commit_id"])["graph_commit_id"].to_pylist()
    )
    missing = [commit for commit in relevant if commit.id not in known]
    return missing, relevant[0].id in known or relevant[0].sequence == 0


def _rows(projection: Projection, commits: Sequence[Commit]) -> pa.Table:
    views = [view for commit in commits if (view := projection.view(commit)) is not None]
    return pa.Table.from_pylist(views, schema=projection.schema)


def adopted_rows(heads: Heads, target: Head, source_branch: BranchName) -> pa.Table | None:
    """Return the source branch's commit rows that the target does not have.

    A merge copies them, so that the ancestry of a merge commit stays known after the source
    branch is deleted. They carry no sequence: they are not on the target's line.
    """
    source = heads.current(source_branch)
    known = {commit.id for commit in read_commits(target.handle, every=True)}
    fresh = [
        commit_row(commit, on_this_line=False)
        for commit in read_commits(source.handle, every=True)
        if commit.id not in known
    ]
    return rows_of(fresh) if fresh else None


def projected_ids(kernel: Kernel) -> set[str] | None:
    """Return the ids in the commit projection, or None if it does not exist."""
    if not _exists(kernel, layout.COMMITS):
        return None
    reader = Reader(kernel.tables.open_latest(layout.COMMITS, None))
    return set(pc.unique(reader.scan(["graph_commit_id"])["graph_commit_id"]).to_pylist())


def _exists(kernel: Kernel, location: str) -> bool:
    return bool(kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}"))

"""`_graph_commits.lance` and its two companions: views of the commit rows in `__manifest`.

They exist for tools and for joining; nothing in the kernel reads them to decide anything. They
are brought up to date at every open for writing and every so many commits, never on the commit
path, and rebuilt when lost. One dataset holds the commits of all branches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.failpoints import failpoint, register
from omnigraph.base.ids import BranchName
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Commit
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.rows import Head, read_commits
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.commit import commit_staged
from omnigraph.storage.tables.compact import last_fragment, read_fragments
from omnigraph.storage.tables.failures import (
    CommitRaceError,
    DamagedError,
    SnapshotExpiredError,
)
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.predicate import IsNull, Not, is_in
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


@dataclass(frozen=True, slots=True)
class Views:
    """What the newest rows of the projections say: a few small reads, flat in history."""

    commits: pa.Table | None
    """Of the commits: id, branch and version; None if there are none, or they are torn."""
    are_whole: bool
    """Whether all of them are there. Nobody syncs them: a power cut may tear one and keep the
    others."""

    @property
    def ids(self) -> set[str]:
        """The commits named; these are projected last, so what they say goes for all."""
        return set() if self.commits is None else set(self.commits[0].to_pylist())


def look_at_views(kernel: Kernel) -> Views:
    """Read the newest rows of every projection."""
    *others, (commits, is_whole) = kernel.objects.together(
        *(partial(_newest_of, kernel, one) for one in PROJECTIONS)
    )
    return Views(commits, is_whole and all(whole for _, whole in others))


def _newest_of(kernel: Kernel, projection: Projection) -> tuple[pa.Table | None, bool]:
    """Return the first columns of the newest rows of one projection, and whether it is whole."""
    if not _exists(kernel, projection.location):
        return None, False
    try:
        handle = kernel.tables.open_latest(projection.location, None)
        return last_fragment(handle, projection.schema.names[:3]), True
    except (DamagedError, SnapshotExpiredError):
        return None, False  # torn; it is about to be rebuilt


def reconcile(kernel: Kernel, *heads: Head, views: Views | None = None) -> int:
    """Bring the projections up to these heads; return how many rows were missing.

    Safe to run at any time and by several processes: rows are looked for before they are
    added, and a lost race is left to the next run.
    """
    added = 0
    views = look_at_views(kernel) if views is None else views
    known = views.ids if views.are_whole else set()
    lines = [_Line(head) for head in heads if head.commit_id not in known]
    if not lines:  # as nearly always; far away a lock costs more than this look
        return 0
    with kernel.locks.try_hold("projections", "projections") as lock:
        if lock is None:
            return 0
        for projection in PROJECTIONS:
            added += _reconcile_one(kernel, projection, lines)
            failpoint(BETWEEN)
    return added


class _Line:
    """The commits of one branch, read once for all projections."""

    def __init__(self, head: Head) -> None:
        self._head = head

    @cached_property
    def recent(self) -> list[Commit]:
        """Return the newest commits; nearly always they are enough."""
        return read_commits(self._head.handle, since=self._head.sequence - _LOOK_BACK)

    @cached_property
    def every(self) -> list[Commit]:
        """Return all commits, those merged in included."""
        return read_commits(self._head.handle, every=True)


def lagging_branches(kernel: Kernel) -> list[BranchName]:
    """Return branches whose newest version is that of no commit in the views.

    Judged by names of files and three columns of one view: heads are read only of those that
    this names. A branch whose manifest was folded last may be named for nothing.
    """
    made_at_us = {
        layout.branch_of_ref(info.name): info.modified_us
        for info in kernel.objects.list(f"{layout.MANIFEST}/{layout.REFS_DIR}")
        if info.name.endswith(".json")
    }
    versions = _versions(kernel, made_at_us)
    written = {  # the one version of a branch that nobody wrote is its parent's
        name: max(found)
        for name, found in versions.items()
        if len(found) > 1 and layout.is_graph_branch(name)
    }
    projected = _newest_projected(kernel) if written else {}
    return [
        BranchName(name)
        for name, newest in written.items()
        # Stores date files downwards, by up to a second: commits of this branch are not older.
        if projected.get((name, newest), 0) < made_at_us[name]
    ]


def _versions(kernel: Kernel, branches: Iterable[str]) -> dict[str, list[int]]:
    """Return the versions of every branch; on object stores from one listing of them all."""
    if kernel.root.is_local:
        return {name: kernel.tables.version_numbers(layout.MANIFEST, name) for name in branches}
    found: dict[str, list[int]] = {name: [] for name in branches}
    prefix = f"{layout.MANIFEST}/{layout.TREE_DIR}"
    for info in kernel.objects.list(prefix):
        name, _, file = info.name.removeprefix(f"{prefix}/").partition(f"/{layout.VERSIONS_DIR}/")
        version = layout.version_of_file(file)
        if version is not None and name in found:
            found[name].append(version)
    return found


def _newest_projected(kernel: Kernel) -> dict[tuple[str, int], int]:
    """Return the versions of branches that the views know, and when each was made."""
    if not _exists(kernel, layout.COMMITS):
        return {}
    try:
        reader = Reader(kernel.tables.open_latest(layout.COMMITS, None))
        rows = reader.scan(
            ["manifest_branch", "manifest_version", "created_at"], Not(IsNull("manifest_branch"))
        )
    except (DamagedError, SnapshotExpiredError):
        return {}  # torn; it will be rebuilt
    made = rows["created_at"].cast(pa.int64()).to_pylist()
    places = zip(
        rows["manifest_branch"].to_pylist(), rows["manifest_version"].to_pylist(), strict=True
    )
    return dict(sorted(zip(places, made, strict=True), key=itemgetter(1)))


def _reconcile_one(kernel: Kernel, projection: Projection, lines: Sequence[_Line]) -> int:
    """Extend one projection; one that a power cut tore is written anew, for nobody syncs a view."""
    try:
        return _extend(kernel, projection, lines)
    except (DamagedError, SnapshotExpiredError) as error:
        if _is_readable(kernel, projection):
            raise  # it is a branch that cannot be read, or was deleted meanwhile
        log.warning("'%s' cannot be read and is rebuilt: %s", projection.location, error)
        kernel.counters.add("rebuilt_projections")
        kernel.tables.forget(projection.location)
        kernel.objects.delete_prefix(projection.location)
        return _extend(kernel, projection, lines)


def _is_readable(kernel: Kernel, projection: Projection) -> bool:
    if not _exists(kernel, projection.location):
        return True
    try:
        Reader(kernel.tables.open_latest(projection.location, None)).scan()
    except (DamagedError, SnapshotExpiredError):
        return False
    return True


def _extend(kernel: Kernel, projection: Projection, lines: Sequence[_Line]) -> int:
    """Add what one projection lacks of some branches, all of it at once."""
    if not _exists(kernel, projection.location):
        rows = _rows(projection, _merged(line.every for line in lines))
        kernel.tables.create(projection.location, rows)
        return len(rows)
    reader = Reader(kernel.tables.open_latest(projection.location, None))
    known = _known_ids(reader, _merged(line.recent for line in lines))
    doubtful = [line for line in lines if not _reaches_back(projection, line.recent, known)]
    if doubtful:
        known = _known_ids(reader, None)
    wanted = _merged(line.every if line in doubtful else line.recent for line in lines)
    rows = _rows(projection, [commit for commit in wanted if commit.id not in known])
    staged = stage(kernel.tables, reader.handle, Append(rows)) if len(rows) else None
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


def _known_ids(reader: Reader, commits: Sequence[Commit] | None) -> set[str]:
    """Return which of some commits have a row; without any, or for many, the ids of all rows."""
    where = None
    if commits is not None and len(commits) <= _LOOK_BACK:
        where = is_in("graph_commit_id", [commit.id for commit in commits])
    return set(reader.scan(["graph_commit_id"], where)["graph_commit_id"].to_pylist())


def _reaches_back(projection: Projection, recent: Sequence[Commit], known: set[str]) -> bool:
    """Whether nothing older than the recent commits can be missing.

    Rows are added in order, so it is enough if the oldest that should have one has it.
    """
    relevant = [commit for commit in recent if projection.view(commit) is not None]
    if all(commit.id in known for commit in relevant):
        return True
    return relevant[0].id in known or relevant[0].sequence == 0


def _merged(lines: Iterable[Sequence[Commit]]) -> list[Commit]:
    """Return the commits of several branches, those they share once."""
    return list({commit.id: commit for line in lines for commit in line}.values())


def _rows(projection: Projection, commits: Sequence[Commit]) -> pa.Table:
    views = [view for commit in commits if (view := projection.view(commit)) is not None]
    return pa.Table.from_pylist(views, schema=projection.schema)


def projected_ids(kernel: Kernel) -> set[str] | None:
    """Return the ids in the commit projection, or None if it does not exist."""
    if not _exists(kernel, layout.COMMITS):
        return None
    reader = Reader(kernel.tables.open_latest(layout.COMMITS, None))
    return set(pc.unique(reader.scan(["graph_commit_id"])["graph_commit_id"]).to_pylist())


def require_all_commits(heads: Heads, head: Head, views: Views) -> None:
    """Refuse to write on top of a manifest that lost commits.

    Raises:
        DamagedError: a write would bury them.
    """
    beyond = commits_beyond(heads, head, views)
    if beyond is not None:
        raise DamagedError(
            f"{beyond} from '{head.branch}', which is at commit {head.commit_id}",
            hint=f"restore '{layout.MANIFEST}' from a backup; only to give those commits up, "
            f"remove '{layout.COMMITS}'",
        )


def commits_beyond(heads: Heads, head: Head, views: Views) -> str | None:
    """Return what the views know of main that its manifest does not; None if nothing.

    They follow the manifest, and its versions only grow: whatever lies beyond was lost there,
    unless it was published after this head was read.
    """
    rows = views.commits
    if rows is None:
        return None
    rows = rows.filter(pc.is_null(rows["manifest_branch"]))
    ahead = _published_after(rows, head)
    if len(ahead):
        ahead = _published_after(rows, heads.reread(head.branch))
    return f"commit {ahead[-1]} was published and is gone" if len(ahead) else None


def _published_after(rows: pa.Table, head: Head) -> pa.ChunkedArray:
    return rows.filter(pc.greater(rows["manifest_version"], head.manifest_version))[0]


def _exists(kernel: Kernel, location: str) -> bool:
    return bool(kernel.objects.list(f"{location}/{layout.VERSIONS_DIR}"))

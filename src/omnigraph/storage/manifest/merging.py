"""The side a commit merges in: pinned when the merge is planned, kept with the commit for ever.

What its branch does later is not part of the merge, nor is what another branch of its name does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import BranchName, CommitId, TableKey
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import Merged, TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.ancestry import (
    Ancestries,
    Parents,
    ancestors,
    lowest_common_ancestors,
)
from omnigraph.storage.manifest.rows import (
    SCHEMA,
    Head,
    find_commit,
    known_commit_ids,
    read_commit_rows,
    read_parents,
)
from omnigraph.storage.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MergeSource:
    """The head of a branch, and the commits that the target of a merge does not know yet."""

    commit_id: CommitId
    branch: BranchName
    tables: Mapping[TableKey, TableVersion]
    files: Mapping[str, str]
    commits: pa.Table

    @property
    def stated(self) -> Merged:
        """Return what the merge commit says of it, so that it can be a base of later merges."""
        tables: dict[str, Sequence[Any]] = {
            key: table.as_list() for key, table in self.tables.items()
        }
        return Merged(self.branch, tables, dict(self.files))


@dataclass(frozen=True, slots=True)
class MergeSides:
    """Where a merge starts from: the source, pinned, and what both sides have in common."""

    theirs: Snapshot
    source: MergeSource
    bases: tuple[CommitId, ...]
    """The lowest common ancestors; several after merges in both directions, none if unrelated."""
    parents: Parents


def merge_source(source: Head, into: CommitId, parents: Parents) -> MergeSource:
    """Return the source of a merge as it is now."""
    fresh = ancestors(parents, source.commit_id) - ancestors(parents, into)
    return MergeSource(
        source.commit_id,
        source.branch,
        source.tables,
        source.files,
        off_the_line(read_commit_rows(source.handle, sorted(fresh))),
    )


def off_the_line(rows: pa.Table) -> pa.Table:
    """Return commit rows as another line keeps them: without a place on it."""
    at = SCHEMA.get_field_index("table_version")
    return rows.set_column(at, SCHEMA.field(at), pa.nulls(len(rows), SCHEMA.field(at).type))


def unknown_commits(head: Head, source: MergeSource) -> pa.Table | None:
    """Return the rows of a source's commits that a branch does not have."""
    known = known_commit_ids(head.handle, source.commits["object_id"].to_pylist())
    fresh = source.commits.filter(
        pc.invert(pc.is_in(source.commits["object_id"], value_set=pa.array(known, pa.string())))
    )
    return fresh if len(fresh) else None


def bases_moved(sides: MergeSides, base: Snapshot, head: Snapshot) -> bool:
    """Whether both sides of a merge have come to have more in common since it was planned.

    Only merges into the target can do that, and most of them bring nothing of this source.
    """
    if head.sequence == base.sequence:
        return False
    branch = layout.lance_branch(head.branch)
    handle = head.kernel.tables.open(layout.MANIFEST, branch, head.manifest_version)
    fresh = read_parents(handle, since=base.sequence + 1)
    if not any(len(one) > 1 for one in fresh.values()):
        return False
    parents = {**sides.parents, **read_parents(handle)}
    now = lowest_common_ancestors(parents, [sides.theirs.commit_id], [head.commit_id])
    return now != sides.bases


def merged_snapshot(
    kernel: Kernel, ancestries: Ancestries, head: Head, commit_id: CommitId
) -> Snapshot | None:
    """Return the state of a commit that was merged into a branch, from what the merge says of it.

    So its branch may be gone. None if no merge this branch knows of brought it as a head.
    """
    for child, parents in ancestries.of(head).items():
        if parents[1:] != (commit_id,):
            continue
        merge = find_commit(head.handle, child)
        if merge is None or merge.merged is None:
            continue
        told = find_commit(head.handle, commit_id)
        if told is None:
            continue
        return Snapshot(
            kernel,
            merge.merged.branch,
            commit_id,
            told.logical_id,
            told.sequence,
            told.manifest_version,
            merge.merged.table_versions(),
            dict(merge.merged.files),
        )
    return None

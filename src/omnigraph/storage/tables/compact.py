"""Physical upkeep of one dataset: fewer fragments, fewer old versions, the same rows.

Compaction reads and writes off the lock; only its commit needs the window. Lance commits it in
two steps and moves the handle it is given, so it works on handles of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionOptions, RewriteResult

from omnigraph.storage import layout
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.lineage import forget_old_versions
from omnigraph.storage.tables.spread import (
    RewriteTask,
    Spread,
    dataset_at,
    rewrite_result,
    run_rewrite,
)
from omnigraph.storage.tables.stage import blob_files


@dataclass(frozen=True, slots=True)
class Compacted:
    """Rewritten fragments that wait for their commit."""

    results: tuple[RewriteResult, ...]
    merged: tuple[FragmentMetadata, ...]
    files: tuple[str, ...]
    rows: int
    fragments_removed: int
    fragments_added: int


def rewrite_fragments(
    tables: Tables,
    handle: Handle,
    *,
    target_rows: int,
    max_rows: int,
    spread: Spread | None = None,
) -> Compacted | None:
    """Write merged copies of small fragments; None if there is nothing to merge.

    `max_rows` bounds the work of one step, so that cost follows the writes, not the table. With
    `spread` other processes do the writing.
    """
    own = tables.reopen(handle.location, handle.branch, handle.version)
    options = CompactionOptions(
        target_rows_per_fragment=target_rows, max_source_rows=max_rows, num_threads=1
    )
    with lance_errors(f"compacting {handle}"):
        tasks = Compaction.plan(own.dataset, options).tasks
        if spread is None:
            done = [task.execute(own.dataset) for task in tasks]
        else:
            place = dataset_at(tables, own)
            specs = [RewriteTask(place, task.json()) for task in tasks]  # type: ignore[attr-defined]  # missing in pylance's stubs
            done = [rewrite_result(text) for text in spread(run_rewrite, specs)]
        results = tuple(_short(result, own.version) for result in done)
    if not results:
        return None
    fresh = [part for result in results for part in result.new_fragments]
    home = f"{handle.files_at}/{layout.DATA_DIR}"
    files = tuple(f"{home}/{file.path}" for part in fresh for file in part.files)
    return Compacted(
        results,
        tuple(part for result in results for part in result.original_fragments),  # type: ignore[attr-defined]  # missing in pylance's stubs
        files + blob_files(tables, own, files),
        sum(part.physical_rows for part in fresh),
        sum(result.metrics.fragments_removed for result in results),
        sum(result.metrics.fragments_added for result in results),
    )


def _short(result: RewriteResult, version: int) -> RewriteResult:
    """Return a result that does not carry the whole past of its rows."""
    text = forget_old_versions(result.json(), version)  # type: ignore[attr-defined]  # missing in pylance's stubs
    return RewriteResult.from_json(text)  # type: ignore[attr-defined,no-any-return]  # the same


def still_fits(compacted: Compacted, newer: Handle) -> bool:
    """Whether every fragment that was merged is in a newer version, as it was."""
    with lance_errors(f"looking at the fragments of {newer}"):
        present = {part.fragment_id: part.metadata for part in newer.dataset.get_fragments()}
        return all(_is_same(part, present.get(part.id)) for part in compacted.merged)


def _is_same(old: FragmentMetadata, new: FragmentMetadata | None) -> bool:
    return (
        new is not None
        and [file.path for file in old.files] == [file.path for file in new.files]
        and old.deletion_file == new.deletion_file
    )


def commit_compaction(tables: Tables, compacted: Compacted, base: Handle) -> Handle:
    """Commit a compaction on top of `base`, which it fits; return the handle it made."""
    own = tables.reopen(base.location, base.branch, base.version)
    with lance_errors(f"committing the compaction of {base}"):
        Compaction.commit(own.dataset, list(compacted.results))
        version = int(own.dataset.version)
    return tables.open(base.location, base.branch, version)


def read_fragments(handle: Handle, fragment_ids: Sequence[int]) -> pa.Table:
    """Return the live rows of some fragments, in storage order."""
    with lance_errors(f"reading fragments of {handle}"):
        parts = [handle.dataset.get_fragment(fragment_id) for fragment_id in fragment_ids]
        return handle.dataset.scanner(
            fragments=[part for part in parts if part is not None], scan_in_order=True
        ).to_table()


def last_fragment(handle: Handle, columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of the newest fragment; None if there is none."""
    with lance_errors(f"reading the newest fragment of {handle}"):
        parts = handle.dataset.get_fragments()
        return parts[-1].to_table(columns=list(columns)) if parts else None


def remove_versions(tables: Tables, newest: Handle, versions: Sequence[int]) -> tuple[int, int]:
    """Remove exactly these versions and the files only they use; return count and bytes.

    Files that no version names are left alone: they may belong to a write in progress.
    """
    tables.forget(newest.location)
    own = tables.reopen(newest.location, newest.branch, newest.version)
    with lance_errors(f"cleaning {newest}"):
        stats = own.dataset.cleanup_old_versions(
            versions=list(versions), error_if_tagged_old_versions=False
        )
    return int(stats.old_versions), int(stats.bytes_removed)


def referenced_files(tables: Tables, location: str, branch: str | None, version: int) -> set[str]:
    """Return the data and deletion files one version uses, relative to its dataset's lineage."""
    handle = tables.reopen(location, branch, version)
    used: set[str] = set()
    with lance_errors(f"listing the files of {handle}"):
        for part in handle.dataset.get_fragments():
            used.update(f"{layout.DATA_DIR}/{file.path}" for file in part.data_files())
            deletion = part.metadata.deletion_file
            if deletion is not None:
                used.add(deletion.path(part.fragment_id))
    return used

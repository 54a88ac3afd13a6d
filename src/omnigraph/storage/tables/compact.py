"""Physical upkeep of one dataset: fewer fragments, fewer old versions, the same rows.

Compaction reads and writes off the lock; only its commit needs the window. Lance commits it in
two steps and moves the handle it is given, so it works on handles of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
from lance.fragment import LanceFragment
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult

from omnigraph.base.runner import Runner
from omnigraph.storage.files import layout
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.inherited import fragments_of_inherited_indexes
from omnigraph.storage.tables.lineage import forget_old_versions
from omnigraph.storage.tables.stage import blob_files
from omnigraph.storage.tables.tasks import (
    RewriteTask,
    dataset_at,
    rewrite_result,
    run_rewrite,
)

Place = tuple[str, str | None, int]
_Files = tuple[tuple[str, ...], str | None]
"""The data files of a fragment, and its deletion file."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Rewritten fragments that wait for their commit."""

    results: tuple[RewriteResult, ...]
    merged: Mapping[int, _Files]
    """The fragments that were merged."""
    indexes: frozenset[str]
    """The index segments there were: Lance refuses a compaction that an index has outrun."""
    files: tuple[str, ...]
    digests: Mapping[str, str]
    rows: int
    fragments_removed: int
    fragments_added: int


def rewrite_fragments(
    tables: Tables,
    handle: Handle,
    *,
    target_rows: int,
    max_rows: int,
    runner: Runner | None = None,
) -> Compacted | None:
    """Write merged copies of small fragments; None if there is nothing to merge.

    `max_rows` bounds the work of one step, so that cost follows the writes, not the table. With
    `runner` other processes do the writing.
    """
    own = tables.reopen(handle.location, handle.branch, handle.version)
    with lance_errors(f"compacting {handle}"):
        place = dataset_at(tables, own)
        specs = [
            RewriteTask(place, task.json())  # type: ignore[attr-defined]  # missing in pylance's stubs
            for task in _tasks(own, target_rows, max_rows)
        ]
        done = (
            [run_rewrite(spec, own.dataset) for spec in specs]
            if runner is None
            else list(runner.map(run_rewrite, specs))
        )
        results = tuple(_short(rewrite_result(one.result), own.version) for one in done)
    if not results:
        return None
    fresh = [part for result in results for part in result.new_fragments]
    home = f"{handle.files_at}/{layout.DATA_DIR}"
    files = tuple(f"{home}/{file.path}" for part in fresh for file in part.files)
    return Compacted(
        results,
        {part["id"]: _files_stated(part) for one in done for part in _originals(one.result)},
        _segments(own),
        files + blob_files(tables, own, files),
        {f"{handle.files_at}/{name}": told for one in done for name, told in one.digests},
        sum(part.physical_rows for part in fresh),
        sum(result.metrics.fragments_removed for result in results),
        sum(result.metrics.fragments_added for result in results),
    )


def planned_compaction(
    tables: Tables, handle: Handle, *, target_rows: int, max_rows: int
) -> tuple[int, int]:
    """Return how many fragments `rewrite_fragments` would take, and about how many make of them."""
    own = tables.reopen(handle.location, handle.branch, handle.version)
    removed = added = 0
    with lance_errors(f"planning the compaction of {handle}"):
        for task in _tasks(own, target_rows, max_rows):
            parts = [own.dataset.get_fragment(part.id) for part in task.fragments]
            rows = sum(part.count_rows() for part in parts if part is not None)
            removed += len(parts)
            added += math.ceil(rows / target_rows)
    return removed, added


def _tasks(own: Handle, target_rows: int, max_rows: int) -> list[CompactionTask]:
    """Return what Lance would merge, but for what inherited indexes cover."""
    kept = fragments_of_inherited_indexes(own)
    options = CompactionOptions(
        target_rows_per_fragment=target_rows, max_source_rows=max_rows, num_threads=1
    )
    return [
        task
        for task in Compaction.plan(own.dataset, options).tasks
        if kept.isdisjoint(part.id for part in task.fragments)
    ]


def _short(result: RewriteResult, version: int) -> RewriteResult:
    """Return a result that does not carry the whole past of its rows."""
    text = forget_old_versions(result.json(), version)  # type: ignore[attr-defined]  # missing in pylance's stubs
    return RewriteResult.from_json(text)  # type: ignore[attr-defined,no-any-return]  # the same


def still_fits(compacted: Compacted, newer: Handle) -> bool:
    """Whether every fragment that was merged is in a newer version, as it was, and no new index."""
    with lance_errors(f"looking at the fragments of {newer}"):
        if _segments(newer) != compacted.indexes:
            return False
        present = {
            part.fragment_id: (tuple(file.path for file in part.data_files()), part.deletion_file())
            for part in newer.dataset.get_fragments()
        }
    return all(_is_same(files, present.get(at)) for at, files in compacted.merged.items())


def _segments(handle: Handle) -> frozenset[str]:
    return frozenset(
        str(part.uuid) for index in handle.dataset.describe_indices() for part in index.segments
    )


def _originals(result: str) -> list[dict[str, Any]]:
    """Return the fragments a rewrite began with; Lance takes long to make objects of many."""
    found: list[dict[str, Any]] = orjson.loads(result)["original_fragments"]
    return found


def _files_stated(part: Mapping[str, Any]) -> _Files:
    gone = part.get("deletion_file")
    ending = None if gone is None else f"/{part['id']}-{gone['read_version']}-{gone['id']}."
    return tuple(file["path"] for file in part["files"]), ending


def _is_same(old: _Files, new: _Files | None) -> bool:
    """Whether a fragment is as it was; where a deletion file lies does not matter, but which."""
    if new is None or old[0] != new[0] or (old[1] is None) != (new[1] is None):
        return False
    return old[1] is None or old[1] in f"/{new[1]}"


def commit_compaction(tables: Tables, compacted: Compacted, base: Handle) -> Handle:
    """Commit a compaction on top of `base`, which it fits; return the handle it made."""
    own = tables.reopen(base.location, base.branch, base.version)
    with lance_errors(f"committing the compaction of {base}"):
        Compaction.commit(own.dataset, list(compacted.results))
        version = int(own.dataset.version)
    return tables.open(base.location, base.branch, version)


def moved_indexes(tables: Tables, compacted: Compacted, after: Handle) -> dict[str, str]:
    """Return the digests of index files that Lance wrote while it committed a compaction."""
    with lance_errors(f"looking at the indexes of {after}"):
        fresh = _segments(after) - compacted.indexes
    names = [
        info.name
        for uuid in sorted(fresh)
        for info in tables.objects.list(f"{after.files_at}/{layout.INDICES_DIR}/{uuid}")
    ]
    asks = (partial(tables.objects.digest, name) for name in names)
    found = zip(names, tables.objects.together(*asks), strict=True)
    return {name: told for name, told in found if told is not None}


def read_fragments(handle: Handle, fragment_ids: Sequence[int]) -> pa.Table:
    """Return the live rows of some fragments, in storage order."""
    with lance_errors(f"reading fragments of {handle}"):
        parts = [handle.dataset.get_fragment(fragment_id) for fragment_id in fragment_ids]
        return handle.dataset.scanner(
            fragments=[part for part in parts if part is not None], scan_in_order=True
        ).to_table()


class Pieces:
    """Whole tables read piece by piece; what several versions or branches share is read once.

    The name of a data file is unique for ever and its bytes never change: fragments of the same
    files and the same deletion file hold the same rows.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[object, ...], pa.Table] = {}

    def rows(self, handle: Handle) -> pa.Table:
        """Return all live rows of a version, in storage order."""
        with lance_errors(f"reading {handle}"):
            keys = {part.fragment_id: _piece(part) for part in handle.dataset.get_fragments()}
        missing = [number for number, key in keys.items() if key not in self._read]
        for number in missing:
            self._read[keys[number]] = read_fragments(handle, [number])
        parts = [self._read[key] for key in keys.values()]
        return (
            pa.concat_tables(parts).combine_chunks()
            if parts
            else handle.dataset.schema.empty_table()
        )


def _piece(part: LanceFragment) -> tuple[object, ...]:
    files = tuple((file.path, tuple(file.fields)) for file in part.metadata.files)
    gone = part.metadata.deletion_file
    if gone is None:
        return files
    stated = gone.asdict()  # its number is drawn at random
    return (*files, part.fragment_id, stated["read_version"], stated["id"])


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


def own_files(tables: Tables, before: Place, after: Place) -> list[str]:
    """Return the files that a newer version of a lineage uses and an older one did not."""
    home = layout.lineage(*after[:2])
    added = referenced_files(tables, *after) - referenced_files(tables, *before)
    handle = tables.reopen(*after)
    with lance_errors(f"looking at the indexes of {handle}"):
        indexes = {
            part.uuid for index in handle.dataset.describe_indices() for part in index.segments
        }
    files = [f"{home}/{name}" for name in sorted(added)]
    for uuid in sorted(indexes):
        files += [info.name for info in tables.objects.list(f"{home}/{layout.INDICES_DIR}/{uuid}")]
    return files


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

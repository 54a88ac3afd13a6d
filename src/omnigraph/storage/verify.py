"""Checking a graph against its own rules, without changing anything.

Every rule that the protocol relies on is looked at from the stored bytes; what is broken is
returned as a typed finding, not raised.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import orjson

from omnigraph.errors import FormatError, NotFoundError, StorageError
from omnigraph.storage import layout
from omnigraph.storage.branches import live_branches
from omnigraph.storage.history import tables_at
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest import HEAD, Head, head_row, read_commits, read_rows
from omnigraph.storage.orphans import unreferenced_datasets
from omnigraph.storage.projections import projected_ids
from omnigraph.storage.publish import digest
from omnigraph.storage.records import TableVersion
from omnigraph.storage.sidecar import SidecarError, list_sidecars
from omnigraph.storage.snapshot import Heads
from omnigraph.storage.tables.fork import list_branches, torn_refs
from omnigraph.storage.tables.handle import check_dataset
from omnigraph.storage.tables.predicate import equals

FindingKind = Literal[
    "unreadable_branch",
    "unreadable_table",
    "row_count_differs",
    "drift",
    "head_rows",
    "snapshot_differs_from_history",
    "broken_line",
    "projection_lags",
    "unreferenced_fork",
    "unreferenced_dataset",
    "torn_ref",
    "pending_sidecar",
    "unreadable_sidecar",
    "file_differs",
]
_READ_ERRORS = (NotFoundError, StorageError, FormatError)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that does not hold; `harmless` ones heal by themselves."""

    kind: FindingKind
    subject: str
    detail: str
    harmless: bool = False


def verify(kernel: Kernel, heads: Heads) -> list[Finding]:
    """Return everything that is wrong with the graph; empty means sound."""
    found: list[Finding] = []
    readable: list[Head] = []
    for branch in live_branches(kernel):
        try:
            readable.append(heads.reread(branch))
        except _READ_ERRORS as error:
            found.append(Finding("unreadable_branch", branch, str(error)))
    stored = _Stored(kernel)
    for head in readable:
        found += _check_head(head)
        found += _check_line(head)
        found += _check_tables(heads, head, stored)
    found += _check_refs(kernel)
    found += _check_projection(kernel, readable)
    found += _check_forks(kernel, readable)
    found += _check_datasets(kernel, heads)
    found += _check_sidecars(kernel)
    found += _check_files(kernel, readable)
    return found


def _check_head(head: Head) -> Iterator[Finding]:
    rows = read_rows(head.handle, equals("object_id", HEAD))
    if len(rows) != 1:
        yield Finding("head_rows", head.branch, f"{len(rows)} head rows instead of one")
    elif _stated(rows["metadata"][0].as_py()) != _stated(head_row(head)["metadata"]):
        yield Finding("head_rows", head.branch, "the head row differs from what was published")
    derived = tables_at(head, head.sequence)
    if derived != dict(head.tables):
        wrong = sorted(
            key for key in {*derived, *head.tables} if derived.get(key) != head.tables.get(key)
        )
        yield Finding(
            "snapshot_differs_from_history", head.branch, f"tables {', '.join(wrong)} differ"
        )


def _stated(text: str) -> dict[str, object]:
    """Return what a head row states; a new branch inherits the row and with it the name."""
    return {key: value for key, value in orjson.loads(text).items() if key != "branch"}


def _check_line(head: Head) -> Iterator[Finding]:
    """Commits of a branch form one line: sequences without gaps, each the parent of the next."""
    commits = read_commits(head.handle)
    sequences = [commit.sequence for commit in commits]
    if sequences != list(range(sequences[0] if sequences else 0, head.sequence + 1)):
        yield Finding("broken_line", head.branch, "commit sequences have gaps or repeats")
        return
    for before, after in itertools.pairwise(commits):
        if after.parent != before.id:
            yield Finding("broken_line", head.branch, f"{after.id} does not follow {before.id}")
    if commits and commits[-1].id != head.commit_id:
        yield Finding("broken_line", head.branch, "the head is not the last commit")


class _Stored:
    """What is really stored; branches share most tables, and each version is looked at once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._rows: dict[tuple[str, str | None, int], int | str] = {}

    def rows(self, table: TableVersion) -> int | str:
        """Return the number of rows of a version, or why it cannot be read."""
        place = (table.location, table.branch, table.version)
        if place not in self._rows:
            self._rows[place] = self._read(*place)
        return self._rows[place]

    def _read(self, location: str, branch: str | None, version: int) -> int | str:
        try:
            handle = self.kernel.tables.open_cold(location, branch, version)
            rows = handle.row_count
            check_dataset(handle)
        except _READ_ERRORS as error:
            return str(error).splitlines()[0]
        return rows


def _check_tables(heads: Heads, head: Head, stored: _Stored) -> Iterator[Finding]:
    kernel = stored.kernel
    for table in head.tables.values():
        subject = f"{table.key} on '{head.branch}'"
        rows = stored.rows(table)
        if isinstance(rows, str):
            yield Finding("unreadable_table", subject, rows)
            continue
        if rows != table.row_count:
            yield Finding("row_count_differs", subject, f"stated {table.row_count}, stored {rows}")
        owned = layout.fork_owner(table.branch) == head.branch
        if owned and kernel.tables.next_exists(table.location, table.branch, table.version):
            yield from _explain_drift(kernel, heads, head, table)


def _explain_drift(
    kernel: Kernel, heads: Heads, head: Head, table: TableVersion
) -> Iterator[Finding]:
    """Tell versions nobody answers for from those of a write that is under way or to be healed."""
    try:
        pending = list_sidecars(kernel.objects)
    except SidecarError:
        pending = []  # told of elsewhere
    expected = any(
        (moving.location, moving.table_branch) == (table.location, table.branch)
        for sidecar in pending
        for moving in sidecar.tables
    )
    if expected or heads.reread(head.branch).commit_id == head.commit_id:
        detail = f"versions after {table.version} exist and are not published"
        yield Finding("drift", f"{table.key} on '{head.branch}'", detail, expected)


def _check_refs(kernel: Kernel) -> Iterator[Finding]:
    """A torn ref of a branch that was never acknowledged heals; of others it is a loss."""
    for name in torn_refs(kernel.objects, layout.MANIFEST):
        half_made = kernel.objects.exists(layout.branch_intent(name))
        yield Finding("torn_ref", f"branch '{name}'", "its ref cannot be read", half_made)


def _check_projection(kernel: Kernel, heads: list[Head]) -> Iterator[Finding]:
    projected = projected_ids(kernel)
    known = {commit.id for head in heads for commit in read_commits(head.handle, every=True)}
    missing = known - (projected or set())
    if missing:
        yield Finding(
            "projection_lags", layout.COMMITS, f"{len(missing)} commits not projected", True
        )


def _check_forks(kernel: Kernel, heads: list[Head]) -> Iterator[Finding]:
    placed = {(table.location, table.branch) for head in heads for table in head.tables.values()}
    for location in sorted({location for location, _ in placed}):
        torn = torn_refs(kernel.objects, location)
        for name in torn:
            used = (location, name) in placed
            yield Finding("torn_ref", f"{location} '{name}'", "cleanup will remove it", not used)
        if torn:
            continue
        refs = list_branches(kernel.objects, location)
        parents = {ref.parent for ref in refs.values()}
        for name in sorted(refs):
            if (location, name) not in placed and name not in parents:
                yield Finding(
                    "unreferenced_fork", f"{location} '{name}'", "cleanup will remove it", True
                )


def _check_datasets(kernel: Kernel, heads: Heads) -> Iterator[Finding]:
    try:
        unused = unreferenced_datasets(kernel, heads)
    except _READ_ERRORS:
        return  # what cannot be read is told of elsewhere
    for location in unused:
        detail = "of a dropped or never published table; cleanup removes it when it is old"
        yield Finding("unreferenced_dataset", location, detail, True)


def _check_sidecars(kernel: Kernel) -> Iterator[Finding]:
    try:
        for sidecar in list_sidecars(kernel.objects):
            yield Finding(
                "pending_sidecar",
                sidecar.name,
                f"{sidecar.writer_kind} on '{sidecar.branch}'",
                True,
            )
    except SidecarError as error:
        yield Finding("unreadable_sidecar", layout.RECOVERY_DIR, str(error))


def _check_files(kernel: Kernel, heads: list[Head]) -> Iterator[Finding]:
    main = [head for head in heads if head.branch == layout.MAIN]
    for name, expected in main[0].files.items() if main else ():
        content = kernel.objects.find(name)
        if content is None or digest(content) != expected:
            yield Finding("file_differs", name, "not what the last commit recorded")

"""Checking a graph against its own rules, without changing anything.

Every rule that the protocol relies on is looked at from the stored bytes; what is broken is
returned as a typed finding, not raised. A store that does not answer is no finding: nothing is
known then, and that is raised.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.upkeep import DriftKind, Finding
from omnigraph.base.ids import BranchName
from omnigraph.errors import FormatError, NotFoundError, StorageError
from omnigraph.storage.branches.lifecycle import live_branches, lost_branches
from omnigraph.storage.branches.tags import list_tags
from omnigraph.storage.files import layout
from omnigraph.storage.files.pins import stored_pins
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.files.sidecar import SidecarError, list_sidecars
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.contracts import differing_files, find_contract
from omnigraph.storage.manifest.history import tables_in
from omnigraph.storage.manifest.projections import (
    commits_beyond,
    look_at_views,
    projected_ids,
)
from omnigraph.storage.manifest.rows import (
    COMMIT,
    HEAD,
    Head,
    HeadRowsError,
    commits_in,
    head_row,
)
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Heads
from omnigraph.storage.recovery.drift import drift_of
from omnigraph.storage.tables.compact import Pieces
from omnigraph.storage.tables.content import Content, check_content
from omnigraph.storage.tables.failures import StoreSilentError
from omnigraph.storage.tables.fork import list_branches, torn_refs
from omnigraph.storage.tables.handle import check_dataset
from omnigraph.storage.tables.inherited import unusable_indexes
from omnigraph.storage.upkeep.orphans import unreferenced_datasets

_ROWS_NAMED = 10
_LOOKS = 5
_READ_ERRORS = (NotFoundError, StorageError, FormatError)


def verify(kernel: Kernel, heads: Heads) -> list[Finding]:
    """Return everything that is wrong with the graph; empty means sound."""
    found: list[Finding] = []
    readable: list[Head] = []
    for branch in live_branches(kernel):
        match _read_branch(heads, branch):
            case Finding() as wrong:
                found.append(wrong)
            case Head() as head:
                readable.append(head)
            case None:
                pass  # deleted since it was listed
    stored = _Stored(kernel)
    checked: list[Head] = []
    for head in readable:
        now, faults = _check_newest(heads, head, stored)
        found += faults
        if now is not None:
            checked.append(now)
    found += _check_refs(kernel)
    found += _check_projection(kernel, heads, checked, stored.commits)
    found += _check_forks(kernel, checked)
    found += _check_datasets(kernel, heads)
    found += _check_sidecars(kernel)
    found += _check_what_stays(kernel)
    found += _check_files(kernel, heads, checked)
    return found


def _read_branch(heads: Heads, branch: BranchName) -> Head | Finding | None:
    """Return the newest head of a branch, or why it cannot be read; None if it is deleted.

    The files of a branch go after its ref: an error counts only while the ref is what it was.
    """
    found: Finding | None = None
    seen: str | None = None
    for _ in range(_LOOKS):
        try:
            incarnation = heads.incarnation(branch)
            if incarnation == seen:
                break
            seen = incarnation
            return heads.reread(branch)
        except BranchNotFoundError:
            return None
        except HeadRowsError as error:
            found = Finding("head_rows", branch, str(error))
        except StoreSilentError:
            raise
        except _READ_ERRORS as error:
            found = Finding("unreadable_branch", branch, str(error))
    return found


def _check_newest(heads: Heads, head: Head, stored: _Stored) -> tuple[Head | None, list[Finding]]:
    """Check a branch; what is wrong counts only if the branch is still what was looked at.

    Nothing keeps the files of an older state: looking may take long, and others go on meanwhile.
    A branch that never rests is told of as it was seen last.
    """
    for _ in range(_LOOKS):
        wrong = _check_branch(heads, head, stored)
        if not wrong:
            return head, []
        now = _read_branch(heads, head.branch)
        if now is None:
            return None, []  # deleted meanwhile, and its files with it
        if isinstance(now, Finding):
            return None, [now]
        if (now.incarnation, now.commit_id) == (head.incarnation, head.commit_id):
            break
        stored.look_again(head)
        head = now
    return head, wrong


def _check_branch(heads: Heads, head: Head, stored: _Stored) -> list[Finding]:
    try:
        rows = stored.manifests.rows(head.handle)
        return [
            *_check_head(head, rows),
            *_check_line(head, rows, stored.commits),
            *_check_tables(heads, head, stored),
        ]
    except StoreSilentError:
        raise
    except _READ_ERRORS as error:
        return [Finding("unreadable_branch", head.branch, str(error))]


def _check_head(head: Head, rows: pa.Table) -> Iterator[Finding]:
    stated = rows.filter(pc.equal(rows["object_id"], HEAD))["metadata"].to_pylist()
    if len(stated) != 1:
        yield Finding("head_rows", head.branch, f"{len(stated)} head rows instead of one")
    elif _stated(stated[0]) != _stated(head_row(head)["metadata"]):
        yield Finding("head_rows", head.branch, "the head row differs from what was published")
    derived = tables_in(head, head.sequence, rows)
    if derived != dict(head.tables):
        wrong = sorted(
            key for key in {*derived, *head.tables} if derived.get(key) != head.tables.get(key)
        )
        yield Finding(
            "snapshot_differs_from_history", head.branch, f"tables {', '.join(wrong)} differ"
        )


def _stated(text: str) -> dict[str, object]:
    """Return what a head row states; a new branch inherits the row and with it the name."""
    told = {"rows": 0, **orjson.loads(text)}  # older programs did not count them
    return {key: value for key, value in told.items() if key != "branch"}


def _check_line(head: Head, rows: pa.Table, known: set[str]) -> Iterator[Finding]:
    """Commits of a branch form one line: sequences without gaps, each the parent of the next."""
    recorded = rows.filter(pc.equal(rows["object_type"], COMMIT))
    known.update(recorded["object_id"].to_pylist())
    commits = commits_in(head.handle, recorded.filter(pc.is_valid(recorded["table_version"])))
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
        self.manifests = Pieces()
        self.commits: set[str] = set()
        """Row ids of every commit that some branch knows."""
        self._rows: dict[tuple[str, str | None, int], int | str] = {}
        self._indexes: dict[tuple[str, str | None, int], dict[str, str]] = {}
        self._contents: dict[tuple[str, str | None, int], Content] = {}

    def rows(self, table: TableVersion) -> int | str:
        """Return the number of rows of a version, or why it cannot be read."""
        if table.place not in self._rows:
            self._rows[table.place] = self._read(*table.place)
        return self._rows[table.place]

    def look_again(self, head: Head) -> None:
        """Forget what was found of a state that is none any more."""
        for table in head.tables.values():
            self._rows.pop(table.place, None)

    def unusable_indexes(self, table: TableVersion) -> dict[str, str]:
        """Return the indexes of a readable version that cannot be read, and why."""
        return self._indexes[table.place]

    def content(self, table: TableVersion) -> Content:
        """Return what is wrong with the rows of a readable version."""
        return self._contents[table.place]

    def _read(self, location: str, branch: str | None, version: int) -> int | str:
        try:
            handle = self.kernel.tables.open_cold(location, branch, version)
            rows = handle.row_count
            check_dataset(handle)
            self._contents[location, branch, version] = check_content(handle, _ROWS_NAMED)
            self._indexes[location, branch, version] = unusable_indexes(handle)
        except StoreSilentError:
            raise
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
        yield from _check_content(subject, stored.content(table))
        for name, reason in stored.unusable_indexes(table).items():
            detail = f"'{name}': {reason}; `repair` takes it out, rows are not affected"
            yield Finding("unreadable_index", subject, detail)
        owned = layout.fork_owner(table.branch) == head.branch
        if owned and kernel.tables.next_exists(table.location, table.branch, table.version):
            yield from _explain_drift(kernel, heads, head, table)


def _check_content(subject: str, content: Content) -> Iterator[Finding]:
    remedy = "`repair` with force deletes rows without a key" if content.nameless else ""
    for name, rows in content.unreadable.items():
        more = ", …" if len(rows) == _ROWS_NAMED else ""
        how = remedy or "delete these rows by their id"
        detail = f"'{name}' is not UTF-8 in {', '.join(rows)}{more}; {how}"
        yield Finding("unreadable_text", subject, detail)
    if content.repeated:
        shown = ", ".join(f"'{one}'" for one in content.repeated[:_ROWS_NAMED])
        detail = f"{len(content.repeated)} ids are there more than once, such as {shown}"
        yield Finding("duplicate_ids", subject, detail)


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
        drift = drift_of(kernel, table)
        if drift.kind is DriftKind.NONE:
            return  # taken back meanwhile
        done = ", ".join(drift.operations)
        detail = f"versions after {table.version} exist and are not published: {done}"
        heals = drift.kind in (DriftKind.MAINTENANCE, DriftKind.ABANDONED)
        yield Finding("drift", f"{table.key} on '{head.branch}'", detail, expected or heals)


def _check_refs(kernel: Kernel) -> Iterator[Finding]:
    """A torn ref of a branch that was never acknowledged heals; of others it is a loss."""
    for name in torn_refs(kernel.objects, layout.MANIFEST):
        half_made = kernel.objects.exists(layout.branch_intent(name))
        yield Finding("torn_ref", f"branch '{name}'", "its ref cannot be read", half_made)
    for name in lost_branches(kernel):
        yield Finding("lost_ref", f"branch '{name}'", "its files are there, its ref is gone")


def _check_projection(
    kernel: Kernel, heads: Heads, readable: list[Head], known: set[str]
) -> Iterator[Finding]:
    missing = {name.removeprefix(f"{COMMIT}:") for name in known} - (projected_ids(kernel) or set())
    for head in readable:
        if head.branch == layout.MAIN:
            beyond = commits_beyond(heads, head, look_at_views(kernel))
            if beyond is not None:
                yield Finding("lost_commits", head.branch, beyond)
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
    except StoreSilentError:
        raise
    except _READ_ERRORS:
        return  # what cannot be read is told of elsewhere
    for location in unused:
        detail = "of a dropped or never published table; cleanup removes it when it is old"
        yield Finding("unreferenced_dataset", location, detail, True)


def _check_what_stays(kernel: Kernel) -> Iterator[Finding]:
    """Tell pins and tags that cannot be read: nobody can say what they keep, so nothing may go."""
    try:
        stored_pins(kernel.objects)
    except FormatError as error:
        yield Finding("unreadable_pin", layout.PINS_DIR, str(error))
    try:
        list_tags(kernel)
    except FormatError as error:
        yield Finding("unreadable_tag", layout.TAGS_DIR, str(error))


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


def _differing(kernel: Kernel, heads: Heads, head: Head) -> tuple[Head, list[str]]:
    """Return the files at the root that are wrong, and the head of main they are not of.

    A writer shows them behind its swap of the head and ahead of the end of its sidecar. So what
    differs while main stays where it is and has no sidecar is nobody's work in progress.
    """
    while True:
        wrong = differing_files(kernel, head.files)
        if not wrong or _is_being_written(kernel):
            return head, []
        again = heads.reread(layout.MAIN)
        if again.files == head.files and differing_files(kernel, head.files) == wrong:
            return head, wrong
        head = again


def _is_being_written(kernel: Kernel) -> bool:
    try:
        return any(sidecar.branch == layout.MAIN for sidecar in list_sidecars(kernel.objects))
    except SidecarError:
        return True  # told of by itself


def _check_files(kernel: Kernel, known: Heads, heads: list[Head]) -> Iterator[Finding]:
    """Root files are only shown; the contents that heads name are what the graph rests on."""
    for head in heads:
        if head.branch == layout.MAIN:
            now, wrong = _differing(kernel, known, head)
            for name in wrong:
                is_kept = find_contract(kernel, name, now.files[name]) is not None
                more = "; an open for writing puts it right" if is_kept else ", which is lost"
                detail = f"not what main states{more}"
                yield Finding("file_differs", name, detail)
    named = {(name, stated) for head in heads for name, stated in head.files.items()}
    for name, stated in sorted(named):
        if find_contract(kernel, name, stated) is None:
            yield Finding("contract_lost", name, f"'{layout.contract(stated)}' is gone or damaged")

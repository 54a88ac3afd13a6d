"""Checking stored bytes: every file is read and compared with what its commit said of it.

Only bytes can tell: a flipped bit in a data file is another value of a row, which no rule of the
graph contradicts. Files are read side by side. A journal, if wanted, remembers those found sound,
so that a check that was stopped goes on where it was. Changes nothing in the graph.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import orjson

from omnigraph.api.progress import Progress, listening
from omnigraph.api.upkeep import Finding
from omnigraph.base.ids import CommitId, TableKey
from omnigraph.errors import BadRequestError, FormatError, NotFoundError, StorageError
from omnigraph.storage.branches.lifecycle import live_branches
from omnigraph.storage.branches.tags import list_tags
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.manifest.digests import stated_digests
from omnigraph.storage.manifest.history import table_of
from omnigraph.storage.manifest.rows import (
    TABLE_VERSION,
    Head,
    read_commits,
    read_rows,
    stated_in,
)
from omnigraph.storage.manifest.snapshot import Heads
from omnigraph.storage.tables.failures import StoreSilentError
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.predicate import equals
from omnigraph.storage.tables.version_files import VersionFile, version_files

_AT_ONCE = 8
_COMMITS_NAMED = 100
_READ_ERRORS = (NotFoundError, StorageError, FormatError)


@dataclass(frozen=True, slots=True)
class _Needed:
    """A file that a state in use is read from."""

    file: VersionFile
    key: TableKey
    state: str
    """Whose state: of a branch or a tag."""


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    digest: str
    key: TableKey


def check_files(
    kernel: Kernel, heads: Heads, *, journal: str | None = None, progress: Progress | None = None
) -> list[Finding]:
    """Return the files that are damaged or missing, and how many nothing is known of.

    Looked at is every file that a commit stated a digest of and that is still there, be it of the
    newest state of a branch or of its past. What cannot be read at all is left to `verify`.
    """
    told = listening(progress)
    lines = list(_readable(kernel, heads))
    stated, contradicted = _stated(lines)
    with _Journal(journal) as known:
        tasks = [one for one in stated.values() if not known.has(one.name, one.digest)]
        told.stage("checking files", len(tasks))
        wrong: list[_Task] = []
        missing: set[str] = set()
        for task, found, size in _checked(kernel, tasks):
            told.done(0, int(found is not None and found != task.digest), size)
            if found is None:
                missing.add(task.name)
            elif found != task.digest:
                wrong.append(task)
            else:
                known.note(task.name, task.digest)
    # Asked last: whoever cleaned up meanwhile has taken nothing that a state of now is read from.
    needed = _needed(kernel, _readable(kernel, heads))
    wrong.sort(key=lambda task: task.name)
    findings = [_damaged(kernel, lines, task, now=task.name in needed) for task in wrong]
    findings += contradicted
    lost = {name for name in needed if name in missing and not kernel.objects.exists(name)}
    findings += (_lost(needed[name]) for name in sorted(lost))
    return [*findings, *_unverified(kernel, needed, stated)]


def damaged_indexes(kernel: Kernel, head: Head, handle: Handle) -> set[str]:
    """Return the indexes of a table of which a file is not what was written, or is gone."""
    files = [file for file in version_files(kernel.tables, handle) if file.index is not None]
    names = {file.name for file in files}
    known = {one.name: one.digest for one in stated_digests(head.handle) if one.name in names}
    return {
        file.index
        for file in files
        if file.index is not None
        and file.name in known
        and kernel.objects.digest(file.name) != known[file.name]
    }


def _readable(kernel: Kernel, heads: Heads) -> Iterator[Head]:
    for branch in live_branches(kernel):
        try:
            yield heads.reread(branch)
        except StoreSilentError:
            raise
        except _READ_ERRORS:
            continue  # deleted meanwhile, or told of elsewhere


def _stated(lines: Iterable[Head]) -> tuple[dict[str, _Task], list[Finding]]:
    """Return a task per file; of two commits that state it differently one is damaged."""
    tasks: dict[str, _Task] = {}
    contradicted: dict[str, Finding] = {}
    for head in lines:
        for one in stated_digests(head.handle):
            known = tasks.setdefault(one.name, _Task(one.name, one.digest, one.key))
            if known.digest != one.digest:
                detail = "commits state two digests of it; one of their rows is damaged"
                contradicted[one.name] = Finding("damaged_file", one.name, detail, file=one.name)
    return tasks, [contradicted[name] for name in sorted(contradicted)]


def _checked(kernel: Kernel, tasks: Sequence[_Task]) -> Iterator[tuple[_Task, str | None, int]]:
    """Yield every task with the digest of what is there now, None if nothing is, and its size."""

    def look(task: _Task) -> tuple[str | None, int]:
        info = kernel.objects.info(task.name)
        return (None, 0) if info is None else (kernel.objects.digest(task.name), info.size)

    workers = min(_AT_ONCE, (os.cpu_count() or 1) if kernel.root.is_local else _AT_ONCE)
    with ThreadPoolExecutor(workers, "omnigraph-verify") as pool:
        running = {pool.submit(look, task): task for task in tasks}
        try:
            for future in as_completed(running):
                yield running[future], *future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _needed(kernel: Kernel, lines: Iterable[Head]) -> dict[str, _Needed]:
    """Return what the states of branches and tags are read from."""
    states = [(f"branch '{head.branch}'", head.tables.values()) for head in lines]
    states += [
        (f"tag '{tag.name}'", tag.snapshot(kernel).tables.values()) for tag in list_tags(kernel)
    ]
    needed: dict[str, _Needed] = {}
    seen: set[tuple[str, str | None, int]] = set()
    for state, tables in states:
        for table in tables:
            if table.place in seen:
                continue
            seen.add(table.place)
            for file in _files(kernel, table):
                needed.setdefault(file.name, _Needed(file, table.key, state))
    return needed


def _files(kernel: Kernel, table: TableVersion) -> list[VersionFile]:
    try:
        return list(version_files(kernel.tables, kernel.tables.open_cold(*table.place)))
    except StoreSilentError:
        raise
    except _READ_ERRORS:
        return []  # told of elsewhere


def _unverified(
    kernel: Kernel, needed: Mapping[str, _Needed], stated: Mapping[str, _Task]
) -> Iterator[Finding]:
    """Tell, per table, of files that nobody took a digest of."""
    per_table: dict[TableKey, list[str]] = {}
    for name, one in needed.items():
        if name not in stated:
            per_table.setdefault(one.key, []).append(name)
    for key, names in sorted(per_table.items()):
        size = sum(0 if info is None else info.size for info in map(kernel.objects.info, names))
        detail = f"{len(names)} files, {size} bytes, of other tools or older programs; damage in "
        detail += "them cannot be told. `optimize` and `ensure_indices` write new ones"
        yield Finding("unverified", key, detail, harmless=True)


def _lost(one: _Needed) -> Finding:
    detail = f"it is gone, and {one.state} reads {one.file.rows} rows of {one.key} with it"
    if one.file.index is not None:
        detail = f"it is gone, of index '{one.file.index}'; `repair` takes that out"
    return Finding("missing_file", one.file.name, detail, file=one.file.name, rows=one.file.rows)


def _damaged(kernel: Kernel, lines: Sequence[Head], task: _Task, *, now: bool) -> Finding:
    """Say whose bytes changed: of which table, how many rows, and which commits read them.

    An index that only the past has (not one of `now`) is in nobody's way.
    """
    uses = [use for head in lines for use in _uses(kernel, head, task)]
    commits = tuple(dict.fromkeys(commit for _, ids in uses for commit in ids))
    files = [file for file, _ in uses]
    rows = max((file.rows for file in files), default=0)
    index = next((file.index for file in files if file.index is not None), None)
    subject = f"{task.key}: {task.name}"
    if index is not None:
        detail = f"not what was written, of index '{index}': lookups may miss rows, none is "
        detail += "affected. `repair` takes it out, `index build` makes a new one"
    elif not uses:
        detail = "not what was written; no state that can be read rests on it any more"
    else:
        what = "hides" if "/_deletions/" in task.name else "holds values of"
        detail = (
            f"not what was written; it {what} {rows} rows and is read by {len(commits)} commits "
        )
        detail += f"from {commits[0]} to {commits[-1]}. Restore the file from a backup"
    return Finding(
        "damaged_file",
        subject,
        detail,
        harmless=not uses or (index is not None and not now),
        file=task.name,
        rows=rows,
        commits=commits[:_COMMITS_NAMED],
    )


def _uses(
    kernel: Kernel, head: Head, task: _Task
) -> Iterator[tuple[VersionFile, tuple[CommitId, ...]]]:
    """Yield how the states of a line use a file, and the commits they belong to, oldest first.

    Along a line a file comes once and goes once, so where it goes is found by halving.
    """
    versions = _line(head, task)
    found: dict[int, VersionFile | None] = {}

    def use(at: int) -> VersionFile | None:
        if at not in found:
            files = _files(kernel, versions[at][1])
            found[at] = next((file for file in files if file.name == task.name), None)
        return found[at]

    low, high = 0, len(versions) - 1
    while low < high:  # the newest version that uses it; what was cleaned up counts as older
        middle = (low + high + 1) // 2
        if use(middle) is not None or not _is_there(kernel, versions[middle][1]):
            low = middle
        else:
            high = middle - 1
    if high < 0 or (file := use(low)) is None:
        return
    first, last = versions[0][0], versions[low + 1][0] if low + 1 < len(versions) else None
    ids = tuple(
        commit.id
        for commit in read_commits(head.handle, since=first)
        if last is None or commit.sequence < last
    )
    yield file, ids


def _line(head: Head, task: _Task) -> list[tuple[int, TableVersion]]:
    """Return the versions of the table from the one that added a file on, with their sequences."""
    listed: list[tuple[int, TableVersion]] = []
    added: list[int] = []
    location = "/".join(task.name.split("/")[:2])
    for row in read_rows(head.handle, equals("object_type", TABLE_VERSION)).to_pylist():
        stated = stated_in(head.handle, row["metadata"])
        table = table_of(row, stated)
        if table is None or table.location != location:
            continue
        listed.append((stated["sequence"], table))
        home = layout.lineage(table.location, table.branch)
        if any(task.name == f"{home}/{name}" for name in stated.get("digests", {})):
            added.append(stated["sequence"])
    if not added:
        return []
    return sorted(
        (one for one in listed if one[0] >= min(added)), key=lambda one: (one[0], one[1].version)
    )


def _is_there(kernel: Kernel, table: TableVersion) -> bool:
    return kernel.tables.version_exists(*table.place)


class _Journal(contextlib.AbstractContextManager["_Journal"]):
    """Files that were found sound before, one line of JSON each; a last line cut short is none."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._known: set[tuple[str, str]] = set()
        self._guard = threading.Lock()
        self._file = None
        if self._path is None:
            return
        try:
            if self._path.is_file():
                self._known = set(_entries(self._path.read_bytes()))
            self._file = self._path.open("ab", buffering=0)
            self._file.write(b"\n")  # behind a line that was cut short
        except OSError as error:
            raise BadRequestError(
                f"the journal '{path}' cannot be used: {error.strerror}",
                hint="name a file that can be written",
            ) from error

    def has(self, name: str, digest: str) -> bool:
        return (name, digest) in self._known

    def note(self, name: str, digest: str) -> None:
        if self._file is not None:
            line = orjson.dumps({"file": name, "digest": digest}) + b"\n"
            try:
                with self._guard:
                    self._file.write(line)
            except OSError as error:
                raise self._full(error) from error

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _full(self, error: OSError) -> StorageError:
        return StorageError(
            f"the journal '{self._path}' cannot be written: {error.strerror}",
            hint="make room, or name another file; what it says already counts",
        )


def _entries(content: bytes) -> Iterator[tuple[str, str]]:
    for line in content.splitlines():
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            told = orjson.loads(line)
            yield str(told["file"]), str(told["digest"])

"""Opening Lance datasets at exact versions, cheaply.

One `lance.Session` per graph shares Lance's own caches; a small map keeps the handles in use.
A handle never moves: `(location, branch, version)` names the same rows for ever, because fork
names are never used twice (see `layout.retired_marker`) and versions are immutable.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import lance
import pyarrow as pa

from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.tables.failures import (
    DamagedError,
    ForkedProcessError,
    SnapshotExpiredError,
    lance_errors,
)
from omnigraph.storage.tables.versions import newest_version

if TYPE_CHECKING:
    from lance import Session  # type: ignore[attr-defined]  # public, but not in __all__
    from lance.dataset import Transaction

    from omnigraph.storage.options import StorageOptions

_HANDLES = 512
PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
FILE_FORMAT: Final = "2.2"
RESERVE = "BaseOperation"  # how pylance shows the id reservation that precedes a compaction
UNKNOWN_OPERATION = "Unknown"

# pylance 14 makes three facts about a moved index mandatory and then does not give them when it
# reads a compaction back, so reading any compaction of an indexed table fails. Nobody here looks
# at them.
lance.LanceOperation.RewrittenIndex.__init__.__defaults__ = ("", b"", 0)


@dataclass(frozen=True, slots=True)
class Handle:
    """One dataset at one version of one branch."""

    location: str
    branch: str | None
    version: int
    dataset: lance.LanceDataset
    places: dict[str, tuple[int, int] | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Row id and address of keys somebody asked for lately; None for those it does not have."""

    @property
    def files_at(self) -> str:
        """Return where new files of this branch are written, relative to the graph."""
        return layout.lineage(self.location, self.branch)

    @property
    def apart(self) -> lance.LanceDataset:
        """Return the dataset as an object that no other thread uses.

        Reading a transaction and making a branch borrow Lance's object for themselves: whoever
        else touches it meanwhile gets a `RuntimeError`. A copy costs microseconds.
        """
        return copy.copy(self.dataset)

    @property
    def row_count(self) -> int:
        """Return the number of live rows, from metadata alone."""
        return int(self.dataset.count_rows())

    @property
    def metadata(self) -> dict[str, str]:
        """Return the schema-level metadata."""
        return dict(self.dataset.schema_metadata)

    @property
    def fragment_count(self) -> int:
        """Return the number of fragments."""
        return len(self.dataset.get_fragments())

    def __str__(self) -> str:
        where = self.location if self.branch is None else f"{self.location} on '{self.branch}'"
        return f"{where} at version {self.version}"


class Tables:
    """Every dataset of one graph, by relative location."""

    def __init__(self, objects: Objects, options: StorageOptions) -> None:
        self.objects = objects
        self.max_rows_per_file = options.max_rows_per_file
        self.storage_options = None if objects.root.is_local else options.s3.as_lance()
        self._session = _new_session()
        self._lock = threading.Lock()
        self._handles: OrderedDict[tuple[str, str | None, int], Handle] = OrderedDict()

    def open(self, location: str, branch: str | None, version: int) -> Handle:
        """Return a dataset at an exact version.

        Raises:
            SnapshotExpiredError: the version is gone.
        """
        _lance.require_usable()
        key = (location, branch, version)
        with self._lock:
            if (known := self._handles.get(key)) is not None:
                self._handles.move_to_end(key)
                return known
        return self.remember(self._open(location, branch, version))

    def is_open(self, location: str, branch: str | None, version: int) -> bool:
        """Whether `open` would return a handle without looking at the store."""
        return (location, branch, version) in self._handles

    def open_latest(self, location: str, branch: str | None) -> Handle:
        """Return a dataset at its newest version; costs a listing, so only for cold paths."""
        try:
            return self._open(location, branch, None)
        except SnapshotExpiredError as error:
            if not self.version_numbers(location, branch):
                raise
            # A manifest of zeros makes Lance look for a version that never was.
            raise DamagedError(f"the newest manifest of {location} is damaged: {error}") from error

    def open_newest(self, location: str, branch: str | None) -> Handle:
        """Return a dataset at its newest version, at a cost that does not grow with them.

        Only for datasets whose cleanup says what it removes (see `versions`).
        """
        version = newest_version(self.objects, location, branch)
        if version is not None:
            try:
                return self._open(location, branch, version)
            except SnapshotExpiredError:
                pass  # cleaned since; rare enough to look at all of them
        return self.open_latest(location, branch)

    def reopen(self, location: str, branch: str | None, version: int) -> Handle:
        """Open past our own map, for datasets whose branch names may be used again."""
        return self._open(location, branch, version)

    def open_cold(self, location: str, branch: str | None, version: int | None) -> Handle:
        """Open past every cache, also Lance's own, to see what is really stored."""
        return self._open(location, branch, version, session=_new_session())

    def next_exists(self, location: str, branch: str | None, version: int) -> bool:
        """Whether a version after `version` was committed: one existence test, flat in history."""
        return self.objects.exists(layout.version_file(location, branch, version + 1))

    def version_exists(self, location: str, branch: str | None, version: int) -> bool:
        """Whether one version can be opened, judged by its manifest file alone."""
        return self.objects.exists(layout.version_file(location, branch, version))

    def version_numbers(self, location: str, branch: str | None) -> list[int]:
        """Return the versions that have a manifest file, oldest first; costs a listing."""
        folder = f"{layout.lineage(location, branch)}/{layout.VERSIONS_DIR}"
        return sorted(
            version
            for info in self.objects.list(folder)
            if (version := layout.version_of_file(info.name)) is not None
        )

    def create(self, location: str, rows: pa.Table) -> Handle:
        """Create a dataset with stable row ids; refuses to write over an existing one."""
        _lance.require_usable()
        with lance_errors(f"creating {location}"):
            dataset = lance.write_dataset(
                rows,
                self.objects.root.join(location),
                mode="create",
                enable_stable_row_ids=True,
                data_storage_version=FILE_FORMAT,
                max_rows_per_file=self.max_rows_per_file,
                storage_options=self.storage_options,
                session=self._session,
            )
        return self.remember(Handle(location, None, int(dataset.version), dataset))

    def remember(self, handle: Handle) -> Handle:
        """Keep a handle for the next `open` of the same version."""
        key = (handle.location, handle.branch, handle.version)
        with self._lock:
            self._handles[key] = handle
            self._handles.move_to_end(key)
            while len(self._handles) > _HANDLES:
                self._handles.popitem(last=False)
        return handle

    def forget(self, location: str) -> None:
        """Drop the handles of a dataset whose files are about to be removed."""
        with self._lock:
            for key in [key for key in self._handles if key[0] == location]:
                del self._handles[key]

    def close(self) -> None:
        """Drop every handle."""
        with self._lock:
            self._handles.clear()

    def _open(
        self,
        location: str,
        branch: str | None,
        version: int | None,
        session: Session | None = None,
    ) -> Handle:
        _lance.require_usable()
        uri = self.objects.root.join(layout.lineage(location, branch))
        where = location if branch is None else f"{location} on '{branch}'"
        with lance_errors(f"opening {where}" + (f" version {version}" if version else "")):
            dataset = self.objects.answered(
                lambda: lance.dataset(
                    uri,
                    version=version,
                    storage_options=self.storage_options,
                    session=session or self._session,
                ),
                f"opening {where}",
            )
        found = int(dataset.version)
        if found < 1 or found != (version or found):
            # Lance takes a manifest of zeros, which a power cut can leave, for an empty dataset.
            raise DamagedError(f"the newest manifest of {location} states version {found}")
        return Handle(location, branch, found, dataset)


def in_memory(like: Handle, rows: pa.Table) -> Handle:
    """Return a handle of the same name whose rows are others and are stored nowhere."""
    _lance.require_usable()
    with lance_errors(f"keeping {like} in memory"):
        dataset = lance.write_dataset(
            rows.replace_schema_metadata(like.dataset.schema_metadata),
            "memory://",
            data_storage_version=FILE_FORMAT,
        )
    return Handle(like.location, like.branch, like.version, dataset)


def empty_handle(name: str, schema: pa.Schema) -> Handle:
    """Return a handle of a table without rows that is stored nowhere."""
    _lance.require_usable()
    with lance_errors(f"keeping {name} in memory"):
        rows = schema.empty_table()
        dataset = lance.write_dataset(rows, "memory://", data_storage_version=FILE_FORMAT)
    return Handle(name, None, int(dataset.version), dataset)


class _Lance:
    """Whether Lance can still be used: in a forked child its threads are missing."""

    def __init__(self) -> None:
        self._used = self._lost = False
        os.register_at_fork(after_in_child=self._forked)

    def require_usable(self) -> None:
        """Refuse what would hang or crash."""
        if self._lost:
            raise ForkedProcessError(
                "this process was forked from one that had a graph open, and Lance cannot be "
                "used in it",
                hint="start processes with spawn or forkserver",
            )
        self._used = True

    def _forked(self) -> None:
        self._lost = self._used


_lance = _Lance()


def _new_session() -> Session:
    return lance.Session()  # type: ignore[attr-defined]  # public, but not in __all__


def operation_name(transaction: Transaction | None) -> str:
    """Return the kind of a transaction; one whose record is gone could be anything."""
    return UNKNOWN_OPERATION if transaction is None else type(transaction.operation).__name__


def check_dataset(handle: Handle) -> None:
    """Return if Lance finds the version consistent; reads no rows."""
    with lance_errors(f"checking {handle}"):
        handle.dataset.validate()  # type: ignore[no-untyped-call]  # pylance leaves it unannotated

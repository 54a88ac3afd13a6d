"""Images of table versions, kept between queries within a memory budget.

A version that is already here is returned as it is. A newer version of a known lineage is made
from the newest older one and what changed since; only a rewrite (restore, overwrite, changed
columns) or too many changes make the table be read again. `(location, branch, version)` names the
same rows for ever, so nothing here ever goes stale; it only goes unused.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.blobs import described
from omnigraph.engine.image.layers import layers_of
from omnigraph.engine.image.postings import Postings, build_lists, with_changes
from omnigraph.engine.image.table import ID, BaseTable, TableImage, fresh_image
from omnigraph.engine.image.vectors import Vectors, build_base
from omnigraph.storage.records import TableVersion
from omnigraph.storage.tables.scan import ROW_ID, Reader

_LINEAGE_COLUMNS = ("_row_created_at_version", "_row_last_updated_at_version")
_MAX_STEPS = 256
"""Versions a refresh may span; beyond that reading the table again costs less."""

_UNKNOWN_ROW_ID = pa.field(ROW_ID, pa.uint64())
"""Row ids are given by storage; rows taken over from a commit do not know theirs."""

_EVERY = 64

_VERSIONED = frozenset({"table", "postings", "vectors"})
_VERSIONS = 16
"""How many versions of a lineage are kept at most, whatever the budget."""

_PATIENCE = 64
"""Uses for which a table that did not fit is not read whole again without need."""

_BY_VERSION = ("table", "postings", "vectors")
"""What is kept per version of a table; the rest belongs to its base."""
_VERSIONS = 4

Lineage = tuple[str, str | None]
VersionKey = tuple[str, str | None, int]
T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    """`bases` are what the value is made of; they live as long as it does."""

    value: Any
    nbytes: Callable[[], int]
    bases: tuple[BaseTable, ...]
    is_new: bool = True


class ImageCache:
    """Least recently used first out; thread-safe; one build per key at a time."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
        self._grew = False
        self._calls = 0
        self._uses: dict[Lineage, int] = {}
        self._unfit: dict[Lineage, int] = {}
        self._lock = threading.Lock()
        self._building: dict[tuple[Any, ...], threading.Lock] = {}

    def table(self, table: TableVersion, reader: Reader, *, in_place: bool) -> TableImage:
        """Return the image of a table version.

        Args:
            table: which version.
            reader: reads exactly that version.
            in_place: whether an updated row keeps its position (nodes do, edges do not).
        """
        key = ("table", *_key(table))

        def build() -> TableImage:
            older = self._older(table)
            refreshed = None if older is None else _refreshed(older, reader, in_place=in_place)
            return refreshed or read_image(reader, table.row_count)

        return self.get(key, build, lambda image: image.nbytes, lambda image: (image.base,))

    def wants_residence(self, tables: Sequence[TableVersion]) -> bool:
        """Whether reading these tables whole pays off: they are here, or asked for again.

        Counts as a use; the first use of a cold table says no, and so does one that was read
        whole before and found too large to keep.
        """
        wanted = self.would_reside(tables)
        with self._lock:
            for lineage in ((table.location, table.branch) for table in tables):
                self._uses[lineage] = self._uses.get(lineage, 0) + 1
        return wanted

    def would_reside(self, tables: Sequence[TableVersion]) -> bool:
        """Whether the next use of these tables would want them whole."""
        lineages = [(table.location, table.branch) for table in tables]
        with self._lock:
            here = {key[1:3] for key in self._entries if key[0] == "table"}
            if all(lineage in here for lineage in lineages):
                return True
            uses = {lineage: self._uses.get(lineage, 0) for lineage in lineages}
            fits = all(uses[one] >= self._unfit.get(one, 0) for one in lineages)
            return fits and any(uses.values())

    def advance(
        self,
        before: TableVersion,
        after: TableVersion,
        upserts: pa.Table | None,
        deleted: Sequence[str],
        *,
        in_place: bool,
    ) -> None:
        """Take over what this process just committed, so that the next query need not ask.

        Only for a commit directly on top of a version that is here; otherwise nothing happens
        and the next query refreshes as usual.
        """
        if (before.location, before.branch, before.version + 1) != _key(after):
            return
        found = self._find(("table", *_key(before)))
        if found is None:
            return
        image: TableImage = found.value
        rows = (
            None
            if upserts is None
            else _loose(described(upserts).append_column(_UNKNOWN_ROW_ID, _nulls(upserts)))
        )
        newer = image.with_changes(rows, deleted, in_place=in_place)
        if not newer.wants_folding:
            # What one commit adds is small: it is weighed with the others, some queries later.
            entry = _Entry(newer, lambda: newer.nbytes, (newer.base,))
            with self._lock:
                self._entries["table", *_key(after)] = entry
                self._retire(after)

    def postings(self, table: TableVersion, image: TableImage, prop: str) -> Postings:
        """Return the postings of a text column; the lists of its base are shared by versions."""

        def build() -> Postings:
            lists = self.get(
                ("lists", image.base, prop),
                lambda: build_lists(image.base.arrays([prop])[0]),
                lambda found: found.nbytes,
                lambda _: (image.base,),
            )
            return with_changes(lists, layers_of(image), _changed(image, prop))

        key = ("postings", *_key(table), prop)
        return self.get(key, build, lambda found: found.nbytes, lambda _: (image.base,))

    def vectors(self, table: TableVersion, image: TableImage, prop: str) -> Vectors:
        """Return the vectors of a column; the matrix of its base is shared by versions."""

        def build() -> Vectors:
            base = self.get(
                ("matrix", image.base, prop),
                lambda: build_base(image.base.arrays([prop])[0]),
                lambda found: found.nbytes,
                lambda _: (image.base,),
            )
            changed = _changed(image, prop)
            return Vectors(base, layers_of(image), None if changed is None else build_base(changed))

        key = ("vectors", *_key(table), prop)
        return self.get(key, build, lambda found: found.nbytes, lambda _: (image.base,))

    def get(
        self,
        key: tuple[Any, ...],
        build: Callable[[], T],
        nbytes: Callable[[T], int],
        bases: Callable[[T], tuple[BaseTable, ...]],
    ) -> T:
        """Return what is kept under a key, building it at most once at a time.

        Args:
            key: names the same value for ever.
            build: makes it.
            nbytes: memory it holds beside its bases.
            bases: the tables it is made of.
        """
        found = self._find(key)
        if found is not None:
            value: T = found.value
            return value
        with self._lock:
            gate = self._building.setdefault(key, threading.Lock())
        with gate:
            found = self._find(key)
            if found is None:
                built = build()
                found = _Entry(built, lambda: nbytes(built), bases(built))
                with self._lock:
                    self._grew = True
                    self._entries[key] = found
                    self._building.pop(key, None)
        result: T = found.value
        return result

    def shrink(self) -> bool:
        """Forget the least recently used until the budget holds; return whether anything went.

        Called after a query: what one query needs is never taken from under it.
        """
        self._calls += 1
        if not self._grew and self._calls % _EVERY:
            return False  # columns load one by one; weighing them after every query costs more
        with self._lock:
            self._grew = False
            self._forget_old_versions()
            gone = self._evict()
            for entry in self._entries.values():
                entry.is_new = False
            return gone

    def _forget_old_versions(self) -> None:
        """Keep a few versions of every lineage: each has its own copy of what changed."""
        seen: Counter[tuple[Any, ...]] = Counter()
        for key in reversed(list(self._entries)):  # those used last come first
            if key[0] in _VERSIONED:
                lineage = (*key[:3], *key[4:])
                seen[lineage] += 1
                if seen[lineage] > _VERSIONS:
                    del self._entries[key]

    def _evict(self) -> bool:
        """Forget the least recently used; what was made of a table goes with its last version."""
        own = {key: entry.nbytes() for key, entry in self._entries.items()}
        bases = {base: base.nbytes for entry in self._entries.values() for base in entry.bases}
        oldest = list(self._entries)
        for key in oldest:
            if sum(own.values()) + sum(bases.values()) <= self.max_bytes:
                break
            if key in own:
                self._note_unfit(key)
                for one in (key, *self._orphans(without=key)):
                    del self._entries[one], own[one]
                left = {base for entry in self._entries.values() for base in entry.bases}
                bases = {base: size for base, size in bases.items() if base in left}
        return len(self._entries) < len(oldest)

    def _retire(self, newest: TableVersion) -> None:
        """Keep a few versions of a lineage that this process goes on writing, used last."""
        lineage = (newest.location, newest.branch)
        versions = [key for key in self._entries if key[0] in _BY_VERSION and key[1:3] == lineage]
        for key in versions[: -_VERSIONS * len(_BY_VERSION)]:
            del self._entries[key]

    def _note_unfit(self, key: tuple[Any, ...]) -> None:
        """Remember a table that is already too much when just read."""
        if key[0] == "table" and self._entries[key].is_new:
            lineage = key[1:3]
            self._unfit[lineage] = self._uses.get(lineage, 0) + _PATIENCE

    def _orphans(self, without: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return what is made of a table no version of which is left without the given entry."""
        known = {
            base
            for key, entry in self._entries.items()
            if key[0] == "table" and key != without
            for base in entry.bases
        }
        return [
            key
            for key, entry in self._entries.items()
            if key != without and any(base not in known for base in entry.bases)
        ]

    @property
    def nbytes(self) -> int:
        """Memory held; what versions share is counted once."""
        with self._lock:
            entries = list(self._entries.values())
        bases = {base for entry in entries for base in entry.bases}
        return sum(entry.nbytes() for entry in entries) + sum(base.nbytes for base in bases)

    def _find(self, key: tuple[Any, ...]) -> _Entry | None:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def _older(self, table: TableVersion) -> tuple[int, TableImage] | None:
        """Return the newest kept image of the same lineage below a version."""
        with self._lock:
            versions = [
                key[3]
                for key in self._entries
                if key[0] == "table"
                and key[1:3] == (table.location, table.branch)
                and key[3] < table.version
            ]
        if not versions:
            return None
        found = self._find(("table", table.location, table.branch, max(versions)))
        return None if found is None else (max(versions), found.value)


def read_image(reader: Reader, rows: int) -> TableImage:
    """Return a fresh image that reads its columns from one table version on first use."""

    def load(names: Sequence[str]) -> pa.Table:
        plain = [name for name in names if name != ROW_ID]
        return described(reader.scan(plain, with_row_id=ROW_ID in names))

    return fresh_image(rows, load)


def _refreshed(
    older: tuple[int, TableImage], reader: Reader, *, in_place: bool
) -> TableImage | None:
    """Return the older image brought up to the reader's version, or None if it cannot be."""
    version, image = older
    if reader.version - version > _MAX_STEPS or reader.has_rewrites_since(version):
        return None
    delta = reader.delta(version)
    changed = delta.inserted.num_rows + delta.updated.num_rows + len(delta.deleted_row_ids)
    if not changed:
        return image
    upserts = _whole_rows(reader, delta.inserted, delta.updated)
    gone = _deleted_ids(image, delta.deleted_row_ids)
    if gone is None:
        return None
    after = image.with_changes(upserts, gone, in_place=in_place)
    return None if after.wants_folding else after


def _whole_rows(reader: Reader, inserted: pa.Table, updated: pa.Table) -> pa.Table | None:
    parts = [part for part in (inserted, updated) if part.num_rows]
    if not parts:
        return None
    names = [*reader.schema.names, ROW_ID]
    return pa.concat_tables([_loose(described(part.select(names))) for part in parts])


def _deleted_ids(image: TableImage, row_ids: pa.Array) -> list[str] | None:
    """Return the ids of rows by their stable row id; None if some rows do not know theirs."""
    if not len(row_ids):
        return []
    column = image.column(ROW_ID).full
    if column.null_count:
        return None
    known = column.to_numpy()
    at = np.flatnonzero(np.isin(known, row_ids.to_numpy()))
    ids: list[str] = image.column(ID).take(at).to_pylist()
    return ids


def _loose(rows: pa.Table) -> pa.Table:
    """Return the rows without promises about null: storage and writers state them differently."""
    fields = [pa.field(field.name, field.type) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _nulls(rows: pa.Table) -> pa.Array:
    return pa.nulls(rows.num_rows, pa.uint64())


def _changed(image: TableImage, prop: str) -> pa.Array | None:
    return None if image.overlay is None else one_array(image.overlay.column(prop))


def _key(table: TableVersion) -> VersionKey:
    return (table.location, table.branch, table.version)

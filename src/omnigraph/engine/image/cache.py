"""Images of table versions, kept between queries within a memory budget.

A version that is already here is returned as it is. A newer version of a known lineage is made
from the newest older one and what changed since; only a rewrite (restore, overwrite, changed
columns) or too many changes make the table be read again. `(location, branch, version)` names the
same rows for ever, so nothing here ever goes stale; it only goes unused.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.base.background import BACKGROUND
from omnigraph.base.budget import keep, waited
from omnigraph.base.metrics import METRICS
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.blobs import described
from omnigraph.engine.image.layers import layers_of
from omnigraph.engine.image.mapped import FAULTS
from omnigraph.engine.image.postings import Postings, TermLists, build_lists, with_changes
from omnigraph.engine.image.shelf import Shelf, ShelvedBase
from omnigraph.engine.image.shelved_search import (
    find_lists,
    find_vectors,
    keep_lists,
    keep_vectors,
)
from omnigraph.engine.image.table import BaseTable, Renamed, TableImage, fresh_image
from omnigraph.engine.image.vectors import VectorBase, Vectors, build_base
from omnigraph.storage.delta.warm import rows_since
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.scan import Reader

log = logging.getLogger(__name__)

LOOKUPS = METRICS.counter(
    "omnigraph_image_cache_total", "Resident state asked for.", "what", "result"
)
WAYS = METRICS.counter(
    "omnigraph_images_total", "Images of tables, by the way they came to be.", "way"
)
EVICTIONS = METRICS.counter(
    "omnigraph_image_evictions_total", "Pieces of resident state let go for want of memory."
)
BYTES = METRICS.gauge(
    "omnigraph_image_bytes", "Memory of the resident state that was weighed last."
)

_EVERY = 64

_VERSIONS = 4
"""How many versions of a lineage are kept at most, whatever the budget."""

_PATIENCE = 64
"""Uses for which a table that did not fit is not read whole again without need."""

Lineage = tuple[str, str | None]
VersionKey = tuple[str, str | None, int]
T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    """`bases` are what the value is made of, and live as long as it does; `image`, if it is of one.

    What is made of an image says where rows are *in that image*; another one of the same version
    may number them differently.
    """

    value: Any
    nbytes: Callable[[], int]
    bases: tuple[BaseTable, ...]
    image: TableImage | None = None
    is_new: bool = True
    store: Callable[[Any], None] | None = None
    """Puts the value on disk, if it can be kept there."""


class ImageCache:
    """Least recently used first out; thread-safe; one build per key at a time."""

    def __init__(self, max_bytes: int, shelf: Shelf | None = None) -> None:
        self.max_bytes = max_bytes
        self.shelf = shelf
        """Where bases are found that were made before, by whichever process."""
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
        self._grew = False
        self._calls = 0
        self._uses: dict[Lineage, int] = {}
        self._unfit: dict[Lineage, int] = {}
        self._lock = threading.Lock()
        self._building: dict[tuple[Any, ...], threading.Lock] = {}
        self._is_told = False
        """Whether the log says already that nothing can be written."""

    def table(
        self,
        table: TableVersion,
        reader: Callable[[], Reader],
        kernel: Kernel,
        *,
        in_place: bool,
        commit_id: str,
    ) -> TableImage:
        """Return the image of a table version.

        Args:
            table: which version.
            reader: opens exactly that version; asked only if something has to be read.
            kernel: of the graph it belongs to.
            in_place: whether an updated row keeps its position (nodes do, edges do not).
            commit_id: a commit that states this version.
        """
        key = ("table", *_key(table))

        def build() -> TableImage:
            older = self._older(table) or self._shelved(table, kernel, commit_id)
            if older is not None:
                same = older[0].version == table.version
                found = older[1] if same else _refreshed(older, table, kernel, in_place=in_place)
                if found is not None:
                    WAYS.add(1, "mapped" if same else "refreshed")
                    return found
            WAYS.add(1, "read")
            base = None if self.shelf is None else self.shelf.base_of(table, commit_id)
            return read_image(reader, table.row_count, base)

        return self.get(key, build, lambda image: image.nbytes, lambda image: (image.base,))

    def _shelved(
        self, table: TableVersion, kernel: Kernel, commit_id: str
    ) -> tuple[TableVersion, TableImage] | None:
        """Return an image of the newest base on disk at or below a version."""
        base = None if self.shelf is None else self.shelf.newest(table, commit_id)
        if base is None:
            return None
        older = table._replace(version=base.version, row_count=base.rows)
        return older, read_image(lambda: Reader(kernel.tables.open(*older.place)), base.rows, base)

    def is_on_shelf(self, tables: Sequence[TableVersion], commit_id: str) -> bool:
        """Whether tables need not be read whole: those large enough were made before."""
        shelf = self.shelf
        if shelf is None:
            return False
        with self._lock:
            here = {key[1:3] for key in self._entries if key[0] == "table"}
        large = [one for one in tables if shelf.fits(one)]
        return bool(large) and all(
            (one.location, one.branch) in here or shelf.newest(one, commit_id) is not None
            for one in large
        )

    def knows(self, key: tuple[Any, ...]) -> bool:
        """Whether something is kept under a key."""
        with self._lock:
            return key in self._entries

    def place_of(self, way: str, bases: Sequence[BaseTable]) -> Path | None:
        """Return where adjacency between bases is kept on disk, if it can be."""
        return None if self.shelf is None else self.shelf.adjacency(way, [b.shelved for b in bases])

    def store(self) -> None:
        """Put on disk what was made since, so that no process has to make it again.

        A full or broken disk is told to the log; nothing depends on it.
        """
        if self.shelf is None:
            return
        with self._lock:
            entries = list(self._entries.items())
        bases = {base: key for key, entry in entries for base in entry.bases if key[0] == "table"}
        try:
            for base, (_, location, branch, _) in bases.items():
                self._put(partial(self._keep_base, base, location, branch))
            for _, entry in entries:
                if entry.store is not None:
                    self._put(partial(entry.store, entry.value))
            self.shelf.settle()
            self._is_told = False
        except OSError as error:
            FAULTS.add(1, "not written")
            how = logging.INFO if self._is_told else logging.WARNING
            log.log(how, "derived files are not written: %s", error)
            self._is_told = True

    def _keep_base(self, base: BaseTable, location: str, branch: str | None) -> None:
        if self.shelf is not None and base.shelved is not None:
            self.shelf.begin(location, branch, base.shelved)
            base.keep()

    def _put(self, write: Callable[[], None]) -> None:
        """Write something; a folder that a cleanup or a purge takes away meanwhile is no fault."""
        try:
            write()
        except (FileNotFoundError, FileExistsError) as error:
            log.info("derived files were taken away while they were written: %s", error)

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
        deleted: pa.Array | None,
        *,
        in_place: bool,
        are_new: bool = False,
    ) -> None:
        """Take over what this process just committed, so that the next query need not ask.

        Only for a commit directly on top of a version that is here, and that is no large part of
        it; otherwise nothing happens and the next query refreshes as usual.
        """
        if (before.location, before.branch, before.version + 1) != _key(after):
            return
        found = self._find(("table", *_key(before)))
        if found is None:
            return
        image: TableImage = found.value
        changes = (0 if upserts is None else len(upserts)) + (
            0 if deleted is None else len(deleted)
        )
        if image.is_outgrown_by(changes):
            return
        rows = None if upserts is None else _loose(described(upserts))
        gone = [] if deleted is None else deleted.to_pylist()
        fresh = len(rows) if are_new and rows is not None else 0
        newer = image.with_changes(rows, gone, in_place=in_place, fresh=fresh)
        if not newer.wants_folding:
            # What one commit adds is small: it is weighed with the others, some queries later.
            entry = _Entry(newer, lambda: newer.nbytes, (newer.base,))
            with self._lock:
                # A query may have been faster; others hold its image by now.
                self._entries.setdefault(("table", *_key(after)), entry)
                WAYS.add(1, "taken over")
                self._forget_old_versions()

    def postings(self, image: TableImage, prop: str) -> Postings:
        """Return the postings of a text column; the lists of its base are shared by versions."""

        def build() -> Postings:
            shelved, column = image.base.shelved, image.base_key(prop)
            lists = self.get(
                ("lists", image.base, column),
                lambda: find_lists(shelved, column) or self._lists(image, prop),
                lambda found: found.nbytes,
                lambda _: (image.base,),
                store=lambda found: keep_lists(shelved, column, found),
            )
            return with_changes(lists, layers_of(image), _changed(image, prop))

        key = ("postings", image, prop)
        return self.get(key, build, lambda found: found.nbytes, lambda _: (image.base,), image)

    def vectors(self, image: TableImage, prop: str) -> Vectors:
        """Return the vectors of a column; the matrix of its base is shared by versions."""

        def build() -> Vectors:
            shelved, column = image.base.shelved, image.base_key(prop)
            base = self.get(
                ("matrix", image.base, column),
                lambda: self._matrix(image, prop),
                lambda found: found.nbytes,
                lambda _: (image.base,),
                store=lambda found: keep_vectors(shelved, column, found),
            )
            changed = _changed(image, prop)
            return Vectors(base, layers_of(image), None if changed is None else build_base(changed))

        key = ("vectors", image, prop)
        return self.get(key, build, lambda found: found.nbytes, lambda _: (image.base,), image)

    def _lists(self, image: TableImage, prop: str) -> TermLists:
        made = build_lists(image.base_array(prop))
        image.base.grew = True
        return made

    def _matrix(self, image: TableImage, prop: str) -> VectorBase:
        values = image.base_array(prop)
        found = find_vectors(image.base.shelved, image.base_key(prop), values)
        if found is None:
            found = build_base(values)
            image.base.grew = True
        if image.base.shelved is not None:
            found.settled = self.store
        return found

    def get(
        self,
        key: tuple[Any, ...],
        build: Callable[[], T],
        nbytes: Callable[[T], int],
        bases: Callable[[T], tuple[BaseTable, ...]],
        image: TableImage | None = None,
        store: Callable[[T], None] | None = None,
    ) -> T:
        """Return what is kept under a key, building it at most once at a time.

        Args:
            key: names the same value for ever.
            build: makes it.
            nbytes: memory it holds beside its bases.
            bases: the tables it is made of.
            image: the one image it is of, if it does not serve all of a base.
            store: puts it on disk.
        """
        found = self._find(key)
        if METRICS.active:
            LOOKUPS.add(1, str(key[0]), "miss" if found is None else "hit")
        if found is not None:
            value: T = found.value
            return value
        with self._lock:
            gate = self._building.setdefault(key, threading.Lock())
        with waited(gate, "reading a table"):
            try:
                found = self._find(key) or self._keep(key, build, nbytes, bases, image, store)
            finally:
                with self._lock:  # also of what failed: the key may hold a whole image
                    if self._building.get(key) is gate:
                        del self._building[key]
        result: T = found.value
        return result

    def _keep(
        self,
        key: tuple[Any, ...],
        build: Callable[[], T],
        nbytes: Callable[[T], int],
        bases: Callable[[T], tuple[BaseTable, ...]],
        image: TableImage | None,
        store: Callable[[T], None] | None,
    ) -> _Entry:
        built = build()
        keep("reading a table", nbytes(built))
        entry = _Entry(built, lambda: nbytes(built), bases(built), image, store=store)
        with self._lock:
            self._grew = True
            # Whoever came after a build that failed may have been faster; all see one value.
            return self._entries.setdefault(key, entry)

    def forget(self, tables: Iterable[TableVersion]) -> None:
        """Let go of every version of some tables and of all that is made of them.

        Columns are read on first use, and the version an image began as may be gone by then.
        """
        tables = list(tables)
        lineages = {(table.location, table.branch) for table in tables}
        if self.shelf is not None:
            self.shelf.drop(tables)
        with self._lock:
            bases = {
                base
                for key, entry in self._entries.items()
                if key[0] == "table" and key[1:3] in lineages
                for base in entry.bases
            }
            for key in [key for key, entry in self._entries.items() if bases & {*entry.bases}]:
                del self._entries[key]

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
            made = {base for entry in self._entries.values() for base in entry.bases if base.grew}
        if made and self.shelf is not None:
            BACKGROUND.start(("store", id(self)), self.store)
        return gone

    def _forget_old_versions(self) -> None:
        """Keep a few versions of every lineage, used last, and what is made of those images."""
        seen: Counter[Lineage] = Counter()
        for key in reversed([key for key in self._entries if key[0] == "table"]):
            lineage = key[1:3]
            seen[lineage] += 1
            if seen[lineage] > _VERSIONS:
                del self._entries[key]
        for key in self._orphans():
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
        BYTES.set(sum(own.values()) + sum(bases.values()))
        EVICTIONS.add(len(oldest) - len(self._entries))
        return len(self._entries) < len(oldest)

    def _note_unfit(self, key: tuple[Any, ...]) -> None:
        """Remember a table that is already too much when just read."""
        if key[0] == "table" and self._entries[key].is_new:
            lineage = key[1:3]
            self._unfit[lineage] = self._uses.get(lineage, 0) + _PATIENCE

    def _orphans(self, without: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return what is made of an image, or of a base, that no entry but `without` keeps."""
        images: set[TableImage | None] = {
            entry.value
            for key, entry in self._entries.items()
            if key[0] == "table" and key != without
        }
        bases = {image.base for image in images if image is not None}
        images.add(None)  # most is made of bases, of no single image
        return [
            key
            for key, entry in self._entries.items()
            if key != without
            and (entry.image not in images or any(base not in bases for base in entry.bases))
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

    def _older(self, table: TableVersion) -> tuple[TableVersion, TableImage] | None:
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
        older = table._replace(version=max(versions))
        found = self._find(("table", *_key(older)))
        return None if found is None else (older, found.value)


def read_image(
    reader: Callable[[], Reader], rows: int, base: ShelvedBase | None = None
) -> TableImage:
    """Return a fresh image that reads its columns from one table version on first use."""

    def load(names: Sequence[str]) -> pa.Table:
        return described(reader().scan(names))

    return fresh_image(rows, load, base)


def _refreshed(
    older: tuple[TableVersion, TableImage],
    table: TableVersion,
    kernel: Kernel,
    *,
    in_place: bool,
) -> TableImage | None:
    """Return the older image brought up to a version, or None if reading anew costs no more."""
    version, image = older
    since = rows_since(kernel, version, table)
    if since is None or image.is_outgrown_by(since.count):
        return None
    if since.columns is not None:
        kinds = {field.name: field.type for field in described(since.columns.empty).schema}
        image = image.under(Renamed(since.columns.names, kinds))
    if not since.count:
        return image
    upserts = _loose(since.upserts) if len(since.upserts) else None
    # A node that comes back takes its old place, so it must be looked for; an edge does not.
    fresh = 0 if in_place else since.inserted
    gone = since.deleted.to_pylist()
    after = image.with_changes(upserts, gone, in_place=in_place, fresh=fresh)
    return None if after.wants_folding else after


def _loose(rows: pa.Table) -> pa.Table:
    """Return the rows without promises about null: storage and writers state them differently."""
    fields = [pa.field(field.name, field.type) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _changed(image: TableImage, prop: str) -> pa.Array | None:
    return None if image.overlay is None else one_array(image.overlay.column(prop))


def _key(table: TableVersion) -> VersionKey:
    return (table.location, table.branch, table.version)

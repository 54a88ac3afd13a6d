"""Bases of tables on this machine's disk, mapped by every process that reads them.

    <folder>/<graph uuid>/<lineage>/<version>-<rows>-<transaction uuid>/   columns and ids of a base
        csr-<bases of both ends>/                                one direction, of an edge type

All of it can be made anew from the graph, so whatever is doubtful is a miss. A version alone does
not name rows: a graph may be put back to an earlier state and go on otherwise. So a base is used if
its version was made by the very transaction it was written for; that is asked once for every commit
it is used at. Ends of edges are never kept as text: adjacency says them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from omnigraph.base.ids import BranchName
from omnigraph.base.table_keys import is_node_key
from omnigraph.compiler.catalog.model import DST, SRC
from omnigraph.engine.image import mapped
from omnigraph.engine.image.folders import CacheFolderError, private_folder
from omnigraph.engine.image.hashes import TextHash
from omnigraph.engine.image.ids import IdIndex
from omnigraph.engine.image.mapped import FAULTS
from omnigraph.engine.image.shelf_upkeep import (
    ABOUT,
    about_of,
    bases_in,
    folders_in,
    put_text,
    remove_tree,
    shrink,
    sweep,
)
from omnigraph.storage.files.layout import lance_branch
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.commit import transaction_uuid
from omnigraph.storage.tables.failures import SnapshotExpiredError

log = logging.getLogger(__name__)

LEAST_ROWS = 50_000
"""Smaller tables are read as fast as files are found."""
_CSR = "csr"
_SEEN, _IDS = "seen", "ids"
_NAME_CHARS = 32


@dataclass(frozen=True, slots=True)
class ShelvedBase:
    """What is kept of one table at one version; `sign` names these rows for ever."""

    folder: Path
    sign: str
    rows: int
    version: int
    left_out: frozenset[str]
    """Columns that are never kept."""
    commit_id: str
    """A commit that states this version, or one above it."""

    def file(self, kind: str, column: str) -> str:
        """Return the name under which something made of a column is kept."""
        return f"{kind}-{_short(column)}"

    def column(self, name: str) -> pa.Array | None:
        """Return a column without reading it; None if it is not kept."""
        found = mapped.read_column(self.folder, _column_file(name))
        if found is None or found[1].get("column") != name or len(found[0]) != self.rows:
            return None
        return found[0]

    def has_column(self, name: str) -> bool:
        """Whether a column is kept."""
        return mapped.is_there(self.folder, _column_file(name))

    @property
    def has_ids(self) -> bool:
        """Whether the lookup of ids is kept."""
        return mapped.is_there(self.folder, _IDS)

    def ids(self, ids: pa.StringArray) -> IdIndex | None:
        """Return the lookup of the id column without making it; None if it is not kept."""
        found = mapped.read_arrays(self.folder, _IDS)
        if found is None:
            return None
        arrays, said = found
        index = IdIndex(
            ids,
            TextHash(bytes.fromhex(said["seed"])),
            arrays["starts"],
            arrays["rows"],
            arrays["marks"],
        )
        return index if len(index.rows) == self.rows else None

    def keep_column(self, name: str, values: pa.Array) -> None:
        """Write a column, if nobody did."""
        if name not in self.left_out and not self.has_column(name):
            mapped.write_column(self.folder, _column_file(name), values, {"column": name})

    def keep_ids(self, index: IdIndex) -> None:
        """Write the lookup of ids, if nobody did."""
        if not self.has_ids:
            arrays = {"starts": index.starts, "rows": index.rows, "marks": index.marks}
            mapped.write_arrays(self.folder, _IDS, arrays, {"seed": index.hash.seed.hex()})

    def begin(self) -> None:
        """Make room for files; a base without columns tells where adjacency begins."""
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        if not (self.folder / _SEEN).exists():
            put_text(self.folder / _SEEN, self.commit_id)


@dataclass(frozen=True, slots=True)
class ShelfOptions:
    """Where derived files are, how much of them, and of which tables."""

    folder: Path
    max_bytes: int | None
    is_asked_for: bool = True
    """Whether somebody named the folder, who is told if it cannot be used."""


class Shelf:
    """The derived files of one open graph; thread-safe, and shared with other processes."""

    def __init__(self, options: ShelfOptions, kernel: Kernel) -> None:
        """Look at a folder that somebody asked for; one that nobody did is looked at when needed.

        Raises:
            CacheFolderError: it must not hold such files.
        """
        self.options = options
        self._kernel = kernel
        self._known: tuple[Path | None] | None = None
        if options.is_asked_for:
            self._known = (private_folder(options.folder),)

    @property
    def root(self) -> Path | None:
        """The folder, which is made when it is first needed; None if it must not be used."""
        if self._known is None:
            try:
                self._known = (private_folder(self.options.folder),)
            except CacheFolderError as error:
                log.info("nothing is kept on disk: %s", error)
                self._known = (None,)
        return self._known[0]

    @property
    def folder(self) -> Path | None:
        """Where the files of this graph are; None of one that has no name of its own."""
        root, uuid = self.root, self._kernel.identity.uuid
        return root / _safe(uuid) if root is not None and uuid else None

    def fits(self, table: TableVersion) -> bool:
        """Whether a table is worth files."""
        return table.row_count >= LEAST_ROWS

    def base_of(self, table: TableVersion, commit_id: str) -> ShelvedBase | None:
        """Return where a base that was read at this version belongs; None if nowhere."""
        folder = self.folder
        if folder is None or not self.fits(table):
            return None
        uuid = transaction_uuid(self._kernel.tables.open(*table.place))
        if uuid is None:
            return None
        lineage = self._lineage(folder, table)
        return self._base(
            lineage / _base_name(table.version, table.row_count, uuid), table, commit_id
        )

    def newest(self, table: TableVersion, commit_id: str) -> ShelvedBase | None:
        """Return the newest kept base at or below a version, if it is of that very history.

        Args:
            table: the version that will be read.
            commit_id: the commit that states it.
        """
        try:
            return self._newest(table, commit_id)
        except OSError as error:  # taken away meanwhile, or the disk is full or broken
            FAULTS.add(1, "unusable")
            log.warning("what is kept of %s is not used: %s", table.key, error)
            return None

    def _newest(self, table: TableVersion, commit_id: str) -> ShelvedBase | None:
        folder = self.folder
        for version, place in () if folder is None else bases_in(self._lineage(folder, table)):
            if version <= table.version and self._is_sound(place, table, version, commit_id):
                os.utime(place)
                return self._base(place, table, commit_id)
        return None

    def _base(self, place: Path, table: TableVersion, commit_id: str) -> ShelvedBase:
        version, rows, _ = place.name.split("-", 2)
        left_out = frozenset() if is_node_key(table.key) else frozenset((SRC, DST))
        sign = f"{place.parent.name}/{place.name}"
        return ShelvedBase(place, sign, int(rows), int(version), left_out, commit_id)

    def adjacency(self, way: str, bases: Sequence[ShelvedBase | None]) -> Path | None:
        """Return where one direction between three bases is kept; None if they are not."""
        signs = [base.sign for base in bases if base is not None]
        if len(signs) < len(bases) or bases[0] is None:
            return None
        return bases[0].folder / f"{_CSR}-{_short('|'.join([way, *signs]))}"

    def begin(self, location: str, branch: str | None, base: ShelvedBase) -> None:
        """Make room for the files of a base, and say beside it what it is of."""
        about = base.folder.parent / ABOUT
        if not about.exists():
            about.parent.mkdir(0o700, parents=True, exist_ok=True)
            said = {"uri": self._uri, "location": location, "branch": branch}
            put_text(about, json.dumps(said))
        base.begin()

    def drop(self, tables: Collection[TableVersion]) -> None:
        """Take away all that is kept of some tables."""
        folder = self.folder
        if folder is not None:
            for table in tables:
                remove_tree(self._lineage(folder, table))

    def drop_branch(self, branch: str) -> None:
        """Take away what was kept of tables as a branch wrote them."""
        own = lance_branch(BranchName(branch))
        for place, _, of, _ in self._kept():
            if of == own and own is not None:
                remove_tree(place)

    def drop_gone(self) -> None:
        """Take away what the graph itself does not have any more: erased rows must not live on."""
        for place, location, branch, version in self._kept():
            if not self._kernel.tables.version_exists(location, branch, version):
                remove_tree(place)

    def settle(self) -> None:
        """Hold the size, oldest use first, and let go of what the graph let go of."""
        self.drop_gone()
        if self.root is None:
            return
        sweep(self.root)
        if self.options.max_bytes is not None:
            shrink(self.root, self.options.max_bytes)

    def _kept(self) -> Iterator[tuple[Path, str, str | None, int]]:
        """Yield the bases kept of this graph, each with its table version."""
        folder = self.folder
        for lineage in () if folder is None else folders_in(folder):
            about = about_of(lineage)
            if about is not None and about["uri"] == self._uri:
                for version, place in bases_in(lineage):
                    yield place, about["location"], about["branch"], version

    @property
    def _uri(self) -> str:
        return str(self._kernel.root)

    def _lineage(self, folder: Path, table: TableVersion) -> Path:
        # A copy that was made by hand has the same uuid and goes on by itself.
        return folder / _short("|".join([self._uri, table.location, table.branch or ""]))

    def _is_sound(self, place: Path, table: TableVersion, version: int, commit_id: str) -> bool:
        seen = place / _SEEN
        if version == table.version and _text_of(seen) == commit_id:
            return True
        try:
            older = self._kernel.tables.open(table.location, table.branch, version)
            uuid = transaction_uuid(older)
        except SnapshotExpiredError:
            uuid = None
        if uuid is None or place.name.split("-", 2)[2] != _safe(uuid):
            FAULTS.add(1, "of another history")
            remove_tree(place)
            return False
        if version == table.version:
            put_text(seen, commit_id)
        return True


def _column_file(name: str) -> str:
    return f"column-{_short(name)}"


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _safe(name: str) -> str:
    """Return a name that is certainly a single one."""
    is_plain = name.isascii() and name.replace("-", "").isalnum()
    return name if is_plain else _short(name)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARS]


def _base_name(version: int, rows: int, uuid: str) -> str:
    return f"{version}-{rows}-{_safe(uuid)}"

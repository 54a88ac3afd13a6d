"""Which rows of two versions of one dataset may differ, told from their fragment lists.

The name of a data file is unique for ever and its bytes never change. So fragments of the same
files, with the same rows deleted, hold equal rows, whatever lineages list them and whatever
happened in between: this compares states, not histories, and needs no row versions. What is left
over are candidates; whether they really differ, only their content can tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType

from omnigraph.base.budget import checkpoint
from omnigraph.storage.files import layout
from omnigraph.storage.tables.deletions import Offsets, base_home, deleted_rows
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.scan import ROW_ADDRESS

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata, LanceFragment

SIZE = pa.struct([pa.field("size", pa.int64())])
"""What stands for a blob: how long it is. Its bytes are read by address where they matter."""

_DENSE = 150
"""A fragment is scanned if more than one in so many of its rows is wanted, else rows are taken."""
_TAKES_AT_ONCE = 4
_TAKEN = 8_192
_FILTERED = 1_000
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 8_192
_AHEAD_BYTES = 32 << 20
"""What Lance may read before it is asked for; by itself it takes two gigabytes."""

_FileKey: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Some:
    """Single rows of a fragment: where they are in its files, and among its live rows."""

    fragment: LanceFragment
    physical: Offsets
    logical: Offsets

    @property
    def is_dense(self) -> bool:
        """Whether so many rows of the fragment are wanted that it is scanned."""
        return len(self.physical) * _DENSE > self.fragment.physical_rows


@dataclass(frozen=True, slots=True)
class OwnFragment:
    """A fragment that only one of two versions has, none of its rows deleted."""

    fragment_id: int
    rows: int
    bytes: int
    """Of its data files, as far as Lance noted them."""
    files: tuple[str, ...]
    """Its data files, relative to the graph."""
    metadata: str
    """What Lance knows of it, as JSON."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of one version that the other may not have, or not as they are here."""

    handle: Handle
    whole: tuple[LanceFragment, ...] = ()
    some: tuple[_Some, ...] = ()

    @property
    def rows(self) -> int:
        """Return how many they are, from metadata alone."""
        return sum(part.metadata.num_rows for part in self.whole) + sum(
            len(part.physical) for part in self.some
        )

    @property
    def stored_bytes(self) -> float:
        """Return their share of the bytes of their files; without end where Lance noted none."""
        shares = [(part.metadata, part.metadata.num_rows) for part in self.whole]
        shares += [(one.fragment.metadata, len(one.physical)) for one in self.some]
        return sum(_bytes_of(part) * rows / max(part.physical_rows, 1) for part, rows in shares)

    @property
    def fragments(self) -> int:
        """Return in how many fragments they are."""
        return len(self.whole) + len(self.some)

    def own_fragments(self) -> tuple[OwnFragment, ...]:
        """Return the fragments that are candidates as a whole and have lost no row."""
        return tuple(
            OwnFragment(
                part.fragment_id,
                int(part.physical_rows),
                sum(file.file_size_bytes or 0 for file in part.metadata.files),
                tuple(
                    f"{base_home(self.handle, file.base_id)}/{layout.DATA_DIR}/{file.path}"
                    for file in part.metadata.files
                ),
                json.dumps(part.metadata.to_json()),
            )
            for part in self.whole
            if part.metadata.deletion_file is None
        )

    def without(self, fragment_ids: Collection[int]) -> Candidates:
        """Return the candidates that are in none of some whole fragments."""
        left = tuple(part for part in self.whole if part.fragment_id not in fragment_ids)
        return Candidates(self.handle, left, self.some)

    def only(self, fragment_ids: Collection[int]) -> Candidates:
        """Return the candidates that are in some whole fragments."""
        kept = tuple(part for part in self.whole if part.fragment_id in fragment_ids)
        return Candidates(self.handle, kept)

    def part(self, number: int, of: int) -> Candidates:
        """Return one of several parts, each with other fragments."""
        return Candidates(self.handle, self.whole[number::of], self.some[number::of])

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the candidates piece by piece, in no order.

        A blob is stood for by its size; then the rows have their address too, as `ROW_ADDRESS`.
        """
        blobs = blob_columns(self.handle, columns)
        with lance_errors(f"comparing {self.handle}"):
            for rows in self._read(columns, with_address=bool(blobs)):
                checkpoint(f"comparing {self.handle}", rows.nbytes)
                yield sized(rows, blobs)

    def _read(self, columns: Sequence[str], *, with_address: bool) -> Iterator[pa.Table]:
        if self.whole:
            yield from _scan(self.handle, self.whole, columns, with_address=with_address)
        dense = [one for one in self.some if one.is_dense]
        few = [one for one in self.some if not one.is_dense]
        if dense:
            yield from _among(self.handle, dense, columns, with_address=with_address)
        take = partial(_filter, self.handle) if with_address else _take
        for start in range(0, len(few), _TAKES_AT_ONCE):
            group = few[start : start + _TAKES_AT_ONCE]
            if len(group) == 1:
                yield from take(group[0], columns)
                continue
            with ThreadPoolExecutor(len(group), "omnigraph-differ") as pool:
                for taken in pool.map(partial(take, columns=columns), group):
                    yield from taken


def compare_fragments(
    tables: Tables, before: Handle, after: Handle
) -> tuple[Candidates, Candidates]:
    """Return the rows of two versions of a dataset that may differ, on each side.

    Reads the fragment lists, and the deletion files of fragments that both have but with other
    rows deleted; no rows.
    """
    old, new = _by_files(before), _by_files(after)
    if old is None or new is None:
        return all_rows(before), all_rows(after)
    shared = [
        (part, new[key])
        for key, part in old.items()
        if key in new and _deleted_key(part) != _deleted_key(new[key])
    ]
    lost, back = _deletions_apart(tables, before, after, shared)
    return (
        Candidates(before, tuple(part for key, part in old.items() if key not in new), lost),
        Candidates(after, tuple(part for key, part in new.items() if key not in old), back),
    )


def same_fragment(one: Handle, fragment_id: int, other: Handle) -> LanceFragment | None:
    """Return the fragment of another version that is of the same files, if it has one."""
    part = one.dataset.get_fragment(fragment_id)
    known = _by_files(other)
    if part is None or known is None:
        return None
    return known.get(_file_key(part.metadata))


def all_rows(handle: Handle) -> Candidates:
    """Return every row of a version, for want of anything it can be compared with."""
    return Candidates(handle, tuple(handle.dataset.get_fragments()))


def same_columns(one: Handle, other: Handle) -> bool:
    """Whether two versions of one lineage have the same columns: not others of the same name."""
    mine, theirs = one.dataset.lance_schema.fields(), other.dataset.lance_schema.fields()
    return [(field.id(), field.name()) for field in mine] == [
        (field.id(), field.name()) for field in theirs
    ]


def blob_columns(handle: Handle, columns: Sequence[str]) -> list[str]:
    """Return which columns hold blobs that are kept apart: scans describe them."""
    schema = handle.dataset.schema
    return [name for name in columns if isinstance(schema.field(name).type, BlobType)]


def plain_blobs(rows: pa.Table) -> list[str]:
    """Return which columns hold blobs among the other values: nothing else is stored so."""
    return [field.name for field in rows.schema if pa.types.is_large_binary(field.type)]


def read_blobs(handle: Handle, column: str, addresses: pa.Array) -> pa.Array:
    """Return the bytes of blobs of rows at some addresses, in that order."""
    if not len(addresses):
        return pa.array([], pa.large_binary())
    with lance_errors(f"reading blobs of {handle}"):
        found = handle.dataset.read_blobs(column, addresses=addresses.to_pylist())
    return pa.array([value for _, value in found], pa.large_binary())


def sized(rows: pa.Table, blobs: Sequence[str]) -> pa.Table:
    """Return rows with the size in place of every blob, whether it is described or there."""
    for name in blobs:
        parts = [_size(part) for part in rows[name].chunks]
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, pa.chunked_array(parts, SIZE))
    return rows


def _size(blobs: pa.Array) -> pa.Array:
    if isinstance(blobs, pa.ExtensionArray):
        blobs = blobs.storage
    is_described = pa.types.is_struct(blobs.type)
    sizes = blobs.field("size") if is_described else pc.binary_length(blobs)
    return pa.StructArray.from_arrays(
        [sizes.cast(pa.int64())], fields=list(SIZE), mask=blobs.is_null()
    )


def _by_files(handle: Handle) -> Mapping[_FileKey, LanceFragment] | None:
    """Return the fragments by what they are made of; None if that does not tell them apart."""
    parts = handle.dataset.get_fragments()
    found = {_file_key(part.metadata): part for part in parts}
    return found if len(found) == len(parts) else None


def _bytes_of(part: FragmentMetadata) -> float:
    return sum(file.file_size_bytes or math.inf for file in part.files)


def _file_key(part: FragmentMetadata) -> _FileKey:
    files = sorted((file.path, tuple(file.fields)) for file in part.files)
    return (*files, *(repr(overlay) for overlay in part.overlays or ()))


def _deleted_key(part: LanceFragment) -> tuple[int, int, int] | None:
    """Return what names a deletion file for ever: equal ones have the same rows deleted."""
    stated = part.metadata.deletion_file
    return None if stated is None else (part.fragment_id, stated.read_version, stated.id)


def _deletions_apart(
    tables: Tables,
    before: Handle,
    after: Handle,
    shared: Sequence[tuple[LanceFragment, LanceFragment]],
) -> tuple[tuple[_Some, ...], tuple[_Some, ...]]:
    """Return the rows that only one side has of fragments both have."""
    asked = [(before, old.metadata) for old, _ in shared]
    asked += [(after, new.metadata) for _, new in shared]
    dead = deleted_rows(tables, asked)
    lost: list[_Some] = []
    back: list[_Some] = []
    for at, (old, new) in enumerate(shared):
        were, are = dead[at], dead[len(shared) + at]
        _note(lost, old, np.setdiff1d(are, were, assume_unique=True), were)
        _note(back, new, np.setdiff1d(were, are, assume_unique=True), are)
    return tuple(lost), tuple(back)


def _note(found: list[_Some], part: LanceFragment, rows: Offsets, dead: Offsets) -> None:
    if len(rows):
        found.append(_Some(part, rows, rows - np.searchsorted(dead, rows)))


def _scan(
    handle: Handle,
    parts: Sequence[LanceFragment],
    columns: Sequence[str],
    *,
    with_address: bool,
    where: str | None = None,
) -> Iterator[pa.Table]:
    scanner = handle.dataset.scanner(
        columns=list(columns),
        filter=where,
        fragments=list(parts),
        with_row_address=with_address,
        batch_size=_BATCH_ROWS,
        batch_size_bytes=_BATCH_BYTES,
        batch_readahead=4,
        fragment_readahead=4,
        io_buffer_size=_AHEAD_BYTES,
        scan_in_order=True,
    )
    for batch in scanner.to_batches():
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _among(
    handle: Handle, parts: Sequence[_Some], columns: Sequence[str], *, with_address: bool
) -> Iterator[pa.Table]:
    """Yield single rows of fragments by scanning them, one after another, at once."""
    ends = np.cumsum([part.fragment.metadata.num_rows for part in parts])
    wanted = np.concatenate(
        [part.logical + start for part, start in zip(parts, [0, *ends[:-1]], strict=True)]
    )
    passed = 0
    fragments = [part.fragment for part in parts]
    for rows in _scan(handle, fragments, columns, with_address=with_address):
        start, end = np.searchsorted(wanted, [passed, passed + len(rows)])
        if end > start:
            yield rows.take(pa.array(wanted[start:end] - passed))
        passed += len(rows)


def _take(part: _Some, columns: Sequence[str]) -> list[pa.Table]:
    """Return single rows of a fragment by where they are among its live rows."""
    wanted = part.logical.tolist()
    return [
        part.fragment.take(wanted[start : start + _TAKEN], columns=list(columns))
        for start in range(0, len(wanted), _TAKEN)
    ]


def _filter(handle: Handle, part: _Some, columns: Sequence[str]) -> list[pa.Table]:
    """Return single rows of a fragment, with their addresses: what `take` cannot do with blobs."""
    first = part.fragment.fragment_id << 32
    found: list[pa.Table] = []
    for start in range(0, len(part.physical), _FILTERED):
        wanted = ", ".join(map(str, (first + part.physical[start : start + _FILTERED]).tolist()))
        where = f"{ROW_ADDRESS} in ({wanted})"
        found += _scan(handle, [part.fragment], columns, with_address=True, where=where)
    return found

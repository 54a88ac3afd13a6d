"""Which rows of a fragment a version has deleted, read from the small files that say so.

Lance offers no way to read them, and asking it for the addresses of the rows that are left takes
ten times as long. Two forms are known: an Arrow file of one column, and a roaring bitmap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.tables.failures import DamagedError, SnapshotExpiredError
from omnigraph.storage.tables.handle import Handle, Tables

if TYPE_CHECKING:
    from lance.fragment import DeletionFile, FragmentMetadata

Offsets: TypeAlias = npt.NDArray[np.int64]

NONE: Offsets = np.empty(0, np.int64)
_BITMAP = "bitmap"
_ENDINGS = {"array": "arrow", _BITMAP: "bin"}

# The roaring format: a cookie, flags of containers that hold runs, keys and sizes of containers,
# where they start (not needed in order), and the containers.
_COOKIE_WITH_RUNS = 12347
_FEW_WITHOUT_STARTS = 4
_ARRAY_LIMIT = 4096
_BITS_OF_A_CONTAINER = 8192


def deleted_rows(tables: Tables, asked: Sequence[tuple[Handle, FragmentMetadata]]) -> list[Offsets]:
    """Return, for every fragment, the physical offsets of its deleted rows, ascending.

    The files are asked for together, because each is a round trip on an object store.

    Raises:
        SnapshotExpiredError: a file is gone, which its version needs.
        DamagedError: a file does not hold what its fragment says.
    """
    return tables.objects.together(
        *(partial(_deleted, tables, handle, part) for handle, part in asked)
    )


def _deleted(tables: Tables, handle: Handle, part: FragmentMetadata) -> Offsets:
    stated: DeletionFile | None = part.deletion_file
    if stated is None:
        return NONE
    home = base_home(handle, stated.base_id)
    stem = f"{home}/_deletions/{part.id}-{stated.read_version}-{stated.id}"
    name = f"{stem}.{_ENDINGS.get(stated.file_type, stated.file_type)}"
    data = tables.objects.find(name)
    if data is None:
        raise SnapshotExpiredError(
            f"'{name}' is gone, which {handle} needs",
            hint="the version was cleaned up; read a newer snapshot",
        )
    try:
        found = decode_bitmap(data) if stated.file_type == _BITMAP else _decode_array(data)
    except (pa.ArrowInvalid, struct.error, ValueError, IndexError) as error:
        raise DamagedError(f"'{name}' is damaged: {error}") from error
    if len(found) != stated.num_deleted_rows:
        raise DamagedError(
            f"'{name}' names {len(found)} rows instead of {stated.num_deleted_rows}",
            hint="restore the file from a backup",
        )
    return found


def base_home(handle: Handle, base_id: int | None) -> str:
    """Return where the files of a base lie, relative to the graph: in this dataset or a branch."""
    if base_id is None:
        return handle.files_at
    path = str(handle.dataset.base_paths()[base_id].path)
    return handle.location + path.rpartition(handle.location)[2]


def _decode_array(data: bytes) -> Offsets:
    rows = pa.ipc.open_file(pa.BufferReader(data)).read_all().column(0)
    return np.sort(rows.to_numpy().astype(np.int64))


def decode_bitmap(data: bytes) -> Offsets:
    """Return the numbers of a roaring bitmap, ascending."""
    containers = list(_containers(data))
    return np.concatenate(containers) if containers else NONE


def _containers(data: bytes) -> Iterator[Offsets]:
    (cookie,) = struct.unpack_from("<I", data)
    with_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if with_runs:
        count, at = (cookie >> 16) + 1, 4
        flags = data[at : at + (count + 7) // 8]
        at += len(flags)
    else:
        (count,), at, flags = struct.unpack_from("<I", data, 4), 8, b""
    heads = np.frombuffer(data, "<u2", 2 * count, at).astype(np.int64).reshape(count, 2)
    at += 4 * count
    if not with_runs or count >= _FEW_WITHOUT_STARTS:
        at += 4 * count
    for number, (key, less_one) in enumerate(heads.tolist()):
        first, size = key << 16, less_one + 1
        if with_runs and flags[number // 8] >> (number % 8) & 1:
            (runs,) = struct.unpack_from("<H", data, at)
            pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64).reshape(runs, 2)
            spans = [np.arange(start, start + more + 1) for start, more in pairs.tolist()]
            yield first + np.concatenate(spans)
            at += 2 + 4 * runs
        elif size <= _ARRAY_LIMIT:
            yield first + np.frombuffer(data, "<u2", size, at).astype(np.int64)
            at += 2 * size
        else:
            bits = np.frombuffer(data, np.uint8, _BITS_OF_A_CONTAINER, at)
            yield first + np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += _BITS_OF_A_CONTAINER

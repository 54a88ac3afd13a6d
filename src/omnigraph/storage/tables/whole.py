"""Files that are surely as long as they were meant to be, before anything names them.

On a disk that fills up, the system may take only a part of a write and say so; Lance does not
look at that for the last part of a data or deletion file. Such a file would be committed,
acknowledged and unreadable. So the end of every staged file is looked at before its commit. On
object stores an upload is whole or not there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from omnigraph.errors import StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects

_ENDINGS = {".lance": b"LANC", ".idx": b"LANC", ".arrow": b"ARROW1"}
_BITMAP = ".bin"
_NO_RUNS = 12346  # how a roaring bitmap without run containers begins
_LARGEST_CONTAINER = 8192


def sync_whole_files(objects: Objects, names: Iterable[str]) -> None:
    """Force staged files to the disk, having checked that none was cut short.

    Raises:
        StorageError: one was; it is named.
    """
    listed = list(names)
    if objects.root.is_local:
        for name in listed:
            if not _is_whole(objects, name):
                raise StorageError(
                    f"'{name}' was cut short when it was written",
                    hint="the disk is full or failing; make room and run it again",
                )
    objects.sync_named(listed)


def _is_whole(objects: Objects, name: str) -> bool:
    suffix = name[name.rfind(".") :]
    if suffix == _BITMAP and f"/{layout.DELETIONS_DIR}/" in name:
        return _is_whole_bitmap(objects.get(name))
    ending = _ENDINGS.get(suffix)
    return ending is None or objects.tail(name, len(ending)) == ending


def _is_whole_bitmap(data: bytes) -> bool:
    """Whether a bitmap of deleted rows is as long as its header says."""
    if len(data) < 8:
        return False
    cookie, count = struct.unpack_from("<II", data)
    if cookie != _NO_RUNS or len(data) < 8 + 8 * count:
        return False
    sizes = struct.unpack_from("<" + "HH" * count, data, 8)[1::2]
    content = sum(min(2 * (int(size) + 1), _LARGEST_CONTAINER) for size in sizes)
    return len(data) == 8 + 8 * int(count) + content

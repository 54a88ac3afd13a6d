"""Folders for files that are mapped into memory: private, local, and nobody else's.

Whoever can write such a file can make this process read anywhere, and a file that is cut while it
is mapped kills the process. So a folder is used only if it belongs to this user, nobody else may
enter it, and it lies on a local file system; of one that is unknown nothing is assumed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from omnigraph.errors import BadRequestError

_MOUNTS = Path("/proc/self/mountinfo")
_PRIVATE = 0o700
LOCAL = frozenset(
    "apfs bcachefs btrfs erofs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs xfs zfs".split()
)
"""File systems whose files no other machine can cut."""


class CacheFolderError(BadRequestError):
    """A folder cannot hold derived files; the message says why."""


def private_folder(path: Path) -> Path:
    """Return a folder as it may be used, made if it is missing.

    Raises:
        CacheFolderError: it is no folder, somebody else's, open to others, or not on a local disk.
    """
    try:
        path.mkdir(_PRIVATE, parents=True, exist_ok=True)
        found = path.lstat()
        real = path.resolve(strict=True)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "it is not a folder, or a link to one")
    if found.st_uid != os.geteuid():
        raise _refused(path, "it belongs to another user")
    if found.st_mode & 0o077:
        raise _refused(path, f"others may enter it (mode {stat.S_IMODE(found.st_mode):o}, not 700)")
    if not os.access(real, os.W_OK):
        raise _refused(path, "it cannot be written to")
    kind = file_system_of(real)
    if kind not in LOCAL:
        raise _refused(path, f"its file system, {kind or 'unknown'}, is not known to be local")
    return real


def file_system_of(path: Path) -> str | None:
    """Return the kind of file system a path is on; None where that cannot be told."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    best, kind = -1, None
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split(" ")[4].encode().decode("unicode_escape"))
        depth = len(point.parts)
        # Of two mounts at one point the later one is seen.
        if depth >= best and path.is_relative_to(point):
            best, kind = depth, after.split(" ")[0]
    return kind


def _refused(path: Path, why: str) -> CacheFolderError:
    return CacheFolderError(
        f"'{path}' cannot hold mapped files: {why}",
        hint="name another folder (OMNIGRAPH_CACHE_DIR, GraphOptions(cache=…)), or switch it off",
    )

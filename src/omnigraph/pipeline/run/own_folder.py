"""Temporary folders that do not outlive their process for long.

A process that is killed cannot remove its folder; the next one that makes such a folder does. A
folder in use is known by a locked file in it: the system frees the lock when its process ends,
however that happens, and does not mistake another process for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_MARK = "alive"


class OwnFolder:
    """A folder of this process, below the temporary one."""

    def __init__(self, prefix: str) -> None:
        remove_abandoned(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        draft = self.path / f"{_MARK}.new"
        self._mark = os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600)
        fcntl.flock(self._mark, fcntl.LOCK_EX)
        draft.rename(self.path / _MARK)  # nobody sees it before it is locked

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._mark)


def remove_abandoned(prefix: str) -> list[Path]:
    """Remove folders of processes of this user that are gone; return which."""
    found = [
        folder
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*")
        if _is_own(folder) and _is_abandoned(folder)
    ]
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _is_own(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.getuid()
    except OSError:  # gone meanwhile
        return False


def _is_abandoned(folder: Path) -> bool:
    """Whether it was in use and is no more; of one without a mark nobody can tell."""
    try:
        with (folder / _MARK).open("rb") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

"""Files that this process has read and found to be what was written.

For those who ask for it: before a version is read for the first time, the files that no version
before it had are compared with their digests. That reads them whole, however few columns are
wanted.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from omnigraph.storage.files.objects import Objects
from omnigraph.storage.tables.failures import DamagedError
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.version_files import VersionFile, version_files

Place = tuple[str, str | None, int]
_MOST = 100_000
"""So many files and versions are remembered; beyond that they are looked at again."""


class FirstReads:
    """What was looked at already; thread-safe."""

    def __init__(self, objects: Objects, tables: Tables, *, wanted: bool) -> None:
        self._objects, self._tables, self._wanted = objects, tables, wanted
        self._guard = threading.Lock()
        self._places: set[Place] = set()
        self._sound: set[str] = set()

    def is_due(self, place: Place) -> bool:
        """Whether a version is to be looked at before it is read."""
        return self._wanted and place not in self._places

    def check(self, handle: Handle, digests: Mapping[str, str]) -> None:
        """Return if no file of a version differs from its digest; others are not looked at.

        Raises:
            DamagedError: one does; it is named.
        """
        files = {
            file.name: file
            for file in version_files(self._tables, handle)
            if file.name in digests and file.name not in self._sound
        }
        asks = (partial(self._objects.digest, name) for name in files)
        for file, found in zip(files.values(), self._objects.together(*asks), strict=True):
            if found != digests[file.name]:
                raise _damaged(handle, file, found)
        with self._guard:
            if len(self._sound) > _MOST or len(self._places) > _MOST:
                self._sound.clear()
                self._places.clear()
            self._sound.update(files)
            self._places.add((handle.location, handle.branch, handle.version))


def _damaged(handle: Handle, file: VersionFile, found: str | None) -> DamagedError:
    state = "is gone" if found is None else "is not what was written"
    remedy = "restore it from a backup; `omnigraph verify --deep` says what it holds"
    if file.index is not None:
        remedy = f"`omnigraph repair --confirm` takes its index '{file.index}' out"
    return DamagedError(f"'{file.name}' {state}, which {handle} is read from", hint=remedy)

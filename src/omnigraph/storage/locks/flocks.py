"""Locks on a local file system: an `flock` on a file that is never removed.

It dies with its process and cannot be split in two. Knows nothing of waiting, nor of what is
being protected.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from omnigraph.errors import ConflictError
from omnigraph.storage.files import layout
from omnigraph.storage.files.backends import naming
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.locks.holders import HeldLock, Holder, decode_holder, encode_holder


class HeldFile(HeldLock):
    """A lock that is ours for as long as its file stays open."""

    def __init__(self, holder: Holder, descriptor: int) -> None:
        super().__init__(holder)
        self.descriptor = descriptor


class FileLocks:
    """Locks on a local file system."""

    poll_s = 0.0

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def attempt(self, holder: Holder) -> HeldFile | None:
        """Take a lock if it is free at once."""
        with naming("lock", layout.lock_file(holder.name)):
            descriptor = self._open(holder.name)
            try:
                return self._take(descriptor, holder)
            except OSError:
                os.close(descriptor)
                raise

    def _take(self, descriptor: int, holder: Holder) -> HeldFile | None:
        if not _flock(descriptor):
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):  # on a full disk the lock holds, only unnamed
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, encode_holder(holder), 0)
        return HeldFile(holder, descriptor)

    def release(self, held: HeldLock) -> None:
        """Let a lock go."""
        assert isinstance(held, HeldFile)
        with contextlib.suppress(OSError):  # a full disk must not keep the lock
            os.ftruncate(held.descriptor, 0)
        os.close(held.descriptor)

    def holder(self, name: str) -> Holder | None:
        """Return who holds a lock, as far as they said."""
        return decode_holder(self._objects.find(layout.lock_file(name)))

    def show(self) -> list[Holder]:
        """Return every lock that is held now."""
        return [
            holder
            for info in self._objects.list(layout.LOCKS_DIR)
            if info.name.endswith(".lock")
            and (holder := decode_holder(self._objects.find(info.name))) is not None
            and not self._is_free(info.name)
        ]

    def break_lock(self, name: str) -> Holder | None:
        """Return who left a lock behind; a live process keeps its own."""
        holder = self.holder(name)
        if holder is None:
            return None
        if not self._forget_dead(layout.lock_file(name)):
            raise ConflictError(
                f"lock '{name}' is held by a live process: {holder}",
                hint=f"end process {holder.pid}; the lock frees itself",
            )
        return holder

    def _forget_dead(self, file_name: str) -> bool:
        """Wipe out the name of a holder that is gone; False if it is alive."""
        with naming("break", file_name):
            descriptor = os.open(self._objects.path(file_name), os.O_RDWR | os.O_CLOEXEC)
            try:
                if free := _flock(descriptor):
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
        return free

    def _is_free(self, file_name: str) -> bool:
        with naming("look at", file_name):
            descriptor = os.open(self._objects.path(file_name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _flock(descriptor)
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        path = self._objects.path(layout.lock_file(name))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o644)


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Small objects and file housekeeping under one graph root, on disk and on S3.

Names are relative to the root (see `layout`); `backends` does the work. Decides what is synced, and
in which order. Knows no Lance and no meaning of the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from omnigraph.base.uri import GraphUri
from omnigraph.base.waiting import all_answered, answered
from omnigraph.errors import StorageError
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.backends import ObjectInfo, backend_of, failed, fsync, naming
from omnigraph.storage.options import StorageOptions

T = TypeVar("T")
_MANY_SYNCS = 32
"""From so many on threads pay off; one commit of a few tables has fewer."""
_SYNCS_AT_ONCE = 16
Mark = str | tuple[int, ...]
"""Tells two contents of an object apart."""


class Objects:
    """The objects of one graph; every failure is a `StorageError` that names the object."""

    def __init__(self, root: GraphUri, options: StorageOptions, counters: Counters) -> None:
        self.root = root
        self._syncs = root.is_local and options.durability == "full"
        self._counters = counters
        self._settled: set[str] = set()
        self._prefix = root.path if root.is_local else None
        self._backend = backend_of(root, options, counters)

    def path(self, name: str) -> Path:
        """Return the local path of an object; only for graphs on disk."""
        return Path(self.root.path) / name

    def find(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None."""
        with naming("read", name):
            return self.answered(lambda: self._backend.get(name), f"reading '{name}'")

    def get(self, name: str) -> bytes:
        """Return the bytes of an object that must exist."""
        data = self.find(name)
        if data is None:
            raise StorageError(f"'{name}' is missing from {self.root}")
        return data

    def tail(self, name: str, length: int) -> bytes:
        """Return the last bytes of an object, all of it if it is shorter."""
        with naming("read", name):
            return self.answered(lambda: self._backend.tail(name, length), f"reading '{name}'")

    def digest(self, name: str) -> str | None:
        """Return what tells the bytes of an object from any others, or None if it is missing."""
        with naming("read", name):
            return self.answered(lambda: self._backend.digest(name), f"reading '{name}'")

    def pieces(self, name: str, size: int) -> Iterator[bytes] | None:
        """Return the bytes of an object in pieces of about `size`, or None."""
        with naming("read", name):
            found = self._backend.pieces(name, size)
        return None if found is None else self._named_pieces(name, found)

    def _named_pieces(self, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        with naming("read", name):
            yield from pieces

    def put_pieces(self, name: str, pieces: Iterator[bytes]) -> int:
        """Write an object piece by piece; return its size. It is not synced yet."""
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                size += len(piece)
                yield piece

        with naming("write", name):
            self._backend.put_pieces(name, counted())
        return size

    def put(self, name: str, data: bytes) -> None:
        """Write an object, replacing any old one in one step; synced first if durable."""
        with naming("write", name):
            self._backend.put(name, data, sync=self._syncs)
        self.sync_dirs([_folder(name)])

    def create(self, name: str, data: bytes, *, durable: bool = True) -> bool:
        """Write an object only if there is none; return whether this call made it."""
        with naming("create", name):
            made = self._backend.create(name, data, sync=self._syncs and durable)
        if made and durable:
            self.sync_dirs([_folder(name)])
        return made

    def exists(self, name: str) -> bool:
        """Whether an object exists; a failure to find out is an error, not False."""
        return self.info(name) is not None

    def info(self, name: str) -> ObjectInfo | None:
        """Return an object's facts, or None if it does not exist."""
        with naming("look at", name):
            return self.answered(lambda: self._backend.head(name), f"looking at '{name}'")

    def exist(self, *names: str) -> list[bool]:
        """Return which objects exist, asked together."""
        return self.together(*(partial(self.exists, name) for name in names))

    def marks(self, *names: str) -> list[Mark | None]:
        """Return, for every object, something that changes with its content; None if missing.

        The probe of every snapshot, so on disk it is nothing but the system call.
        """
        if self._prefix is None:
            found = self.together(*(partial(self.info, name) for name in names))
            return [None if info is None else info.tag for info in found]
        marks: list[Mark | None] = []
        for name in names:
            try:
                stat = os.stat(f"{self._prefix}/{name}")  # noqa: PTH116 - a Path costs several probes
                marks.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
            except (FileNotFoundError, NotADirectoryError):
                marks.append(None)
            except OSError as error:
                raise failed("look at", name, error) from error
        return marks

    def together(self, *asks: Callable[[], T]) -> list[T]:
        """Run independent questions: at once where each waits for the network, else in order."""
        if self.root.is_local or len(asks) < 2:
            return [ask() for ask in asks]
        answers = all_answered(asks, "asking the store")
        if answers is not None:
            return answers
        with ThreadPoolExecutor(len(asks), "omnigraph-ask") as pool:
            return [future.result() for future in [pool.submit(ask) for ask in asks]]

    def answered(self, ask: Callable[[], T], step: str) -> T:
        """Return the answer to one question, unless the running call has to stop meanwhile."""
        return ask() if self.root.is_local else answered(ask, step)

    def folders(self, prefix: str) -> list[str]:
        """Return the names of what lies directly below a prefix and has objects below itself."""
        with naming("list", prefix):
            return self.answered(
                lambda: sorted(self._backend.folders(prefix)), f"listing '{prefix}'"
            )

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Return every object below a prefix, sorted by name; unfinished writes are hidden."""
        with naming("list", prefix):
            found = self.answered(
                lambda: list(self._backend.find_all(prefix)), f"listing '{prefix}'"
            )
        return sorted(found, key=lambda info: info.name)

    def delete(self, *names: str) -> None:
        """Remove objects; those already gone are fine."""
        with naming("delete", ", ".join(names)):
            self._backend.delete(list(names))

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix."""
        with naming("delete", prefix):
            self._backend.delete_prefix(prefix)
        inside = f"{prefix}/"
        self._settled = {
            name for name in self._settled if name != prefix and not name.startswith(inside)
        }

    def rename(self, old: str, new: str) -> None:
        """Give an object another name."""
        with naming("rename", old):
            self._backend.rename(old, new)

    def link(self, name: str, other: str) -> None:
        """Give an object that never changes a second name; a store that cannot makes a copy."""
        if name == other:
            return
        with naming("link", name):
            self._backend.link(name, other)

    def probe_create_only(self, name: str) -> None:
        """Refuse a store that ignores create-only writes: on it, commits would get lost.

        Raises:
            StorageError: a second create of one object succeeded.
        """
        try:
            first = self.create(name, b"probe", durable=False)
        except StorageError as error:
            raise StorageError(
                f"{self.root} cannot hold a graph: {error}",
                hint="it must be a folder that may be written, on a disk that knows hard links",
            ) from error
        try:
            second = self.create(name, b"probe again", durable=False)
        finally:
            self.delete(name)
        if not first or second:
            raise StorageError(
                f"{self.root} does not honour create-only writes",
                hint="use a store that enforces If-None-Match, or a local disk",
            )

    def sync_files(self, names: Iterable[str]) -> None:
        """Force files to the disk; nothing on object stores or under `durability="os"`."""
        if self._syncs:
            self._sync_all(dict.fromkeys(names))

    def sync_named(self, names: Iterable[str]) -> None:
        """Force files to the disk, then the directories that name them."""
        if self._syncs:
            listed = list(dict.fromkeys(names))
            self.sync_files(listed)
            self.sync_dirs(map(_folder, listed))

    def count_as_synced(self, names: Iterable[str]) -> None:
        """Take directories as durably named, because something durable rests on them."""
        if self._syncs:
            self._settled.update(names)

    def sync_dirs(self, names: Iterable[str]) -> None:
        """Force directory entries to the disk, and above each new directory its parents.

        The first time this process meets a directory it may be new, or its maker may have died
        before syncing it. After that its parents are known to name it, until it is removed.
        """
        if not self._syncs:
            return
        due: dict[str, None] = {}
        fresh: set[str] = set()
        for folder in names:
            name = folder
            due[name] = None
            while name and name not in self._settled and name not in fresh:
                fresh.add(name)
                name = _folder(name)
                due[name] = None
        self._sync_all(f"{name}/" for name in due)
        self._settled.update(fresh)  # only now: another thread must not rely on it before

    def _sync_all(self, names: Iterable[str]) -> None:
        """Force files and directories (which end in a slash) to the disk, in any order.

        Many of them side by side: a disk that is asked for several at once writes them together.
        """
        listed = list(names)
        if len(listed) < _MANY_SYNCS:
            for name in listed:
                self._sync(name)
            return
        with ThreadPoolExecutor(_SYNCS_AT_ONCE, "omnigraph-sync") as pool:
            for future in [pool.submit(self._sync, name) for name in listed]:
                future.result()

    def _sync(self, name: str) -> None:
        with naming("sync", name):
            fsync(self.path(name.rstrip("/")))
        self._counters.synced(name)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]

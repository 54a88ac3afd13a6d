"""Small objects and file housekeeping under one graph root, on disk and on S3.

The only module that imports `obstore`. Names are relative to the root (see `layout`). Disk goes
through plain system calls instead of `obstore`, because a record of intent must be synced
*before* it gets its final name, which `obstore` cannot do. Knows no Lance and no meaning of
the bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError as ObjectExists
from obstore.exceptions import BaseError as ObjectStoreFailure
from obstore.exceptions import NotFoundError as ObjectMissing
from obstore.exceptions import PreconditionError as ObjectPrecondition
from obstore.store import S3Store

from omnigraph.base.uri import GraphUri
from omnigraph.errors import ErrorKind, StorageError
from omnigraph.storage.counters import Counters
from omnigraph.storage.options import StorageOptions

T = TypeVar("T")
_TEMP_MARK = "#"
_temp_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object: its name, size, last change and a tag that differs per incarnation."""

    name: str
    size: int
    modified_us: int
    tag: str


class Backend(Protocol):
    """What a place for small objects must be able to do."""

    # What each does is described at `Objects`.
    def get(self, name: str) -> bytes | None: ...  # noqa: D102
    def tail(self, name: str, length: int) -> bytes: ...  # noqa: D102
    def put(self, name: str, data: bytes, *, sync: bool) -> None: ...  # noqa: D102
    def create(self, name: str, data: bytes, *, sync: bool) -> bool: ...  # noqa: D102
    def head(self, name: str) -> ObjectInfo | None: ...  # noqa: D102
    def find_all(self, prefix: str) -> list[ObjectInfo]: ...  # noqa: D102
    def folders(self, prefix: str) -> list[str]: ...  # noqa: D102
    def delete(self, names: list[str]) -> None: ...  # noqa: D102
    def delete_prefix(self, prefix: str) -> None: ...  # noqa: D102
    def rename(self, old: str, new: str) -> None: ...  # noqa: D102


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
        self._backend: Backend = (
            _LocalBackend(Path(root.path), counters)
            if root.is_local
            else _S3Backend(root, options, counters)
        )

    def path(self, name: str) -> Path:
        """Return the local path of an object; only for graphs on disk."""
        return Path(self.root.path) / name

    def find(self, name: str) -> bytes | None:
        """Return the bytes of an object, or None."""
        with naming("read", name):
            return self._backend.get(name)

    def get(self, name: str) -> bytes:
        """Return the bytes of an object that must exist."""
        data = self.find(name)
        if data is None:
            raise StorageError(f"'{name}' is missing from {self.root}")
        return data

    def tail(self, name: str, length: int) -> bytes:
        """Return the last bytes of an object, all of it if it is shorter."""
        with naming("read", name):
            return self._backend.tail(name, length)

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
            return self._backend.head(name)

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
                raise _failed("look at", name, error) from error
        return marks

    def together(self, *asks: Callable[[], T]) -> list[T]:
        """Run independent questions: at once where each waits for the network, else in order."""
        if self.root.is_local or len(asks) < 2:
            return [ask() for ask in asks]
        with ThreadPoolExecutor(len(asks), "omnigraph-ask") as pool:
            return [future.result() for future in [pool.submit(ask) for ask in asks]]

    def folders(self, prefix: str) -> list[str]:
        """Return the names of what lies directly below a prefix and has objects below itself."""
        with naming("list", prefix):
            return sorted(self._backend.folders(prefix))

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Return every object below a prefix, sorted by name; unfinished writes are hidden."""
        with naming("list", prefix):
            return sorted(self._backend.find_all(prefix), key=lambda info: info.name)

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

    def probe_create_only(self, name: str) -> None:
        """Refuse a store that ignores create-only writes: on it, commits would get lost.

        Raises:
            StorageError: a second create of one object succeeded.
        """
        try:
            first = self.create(name, b"probe", durable=False)
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
            for name in dict.fromkeys(names):
                with naming("sync", name):
                    _fsync(self.path(name))
                self._counters.synced(name)

    def sync_named(self, names: Iterable[str]) -> None:
        """Force files to the disk, then the directories that name them."""
        if self._syncs:
            listed = list(dict.fromkeys(names))
            self.sync_files(listed)
            self.sync_dirs(map(_folder, listed))

    def settle(self, names: Iterable[str]) -> None:
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
        for folder in names:
            name = folder
            due[name] = None
            while name and name not in self._settled:
                self._settled.add(name)
                name = _folder(name)
                due[name] = None
        for name in due:
            with naming("sync", name or "/"):
                _fsync(self.path(name))
            self._counters.synced(f"{name}/")


class _LocalBackend:
    """Files below a directory."""

    def __init__(self, root: Path, counters: Counters) -> None:
        self._root = root
        self._prefix = str(root)
        self._counters = counters

    def get(self, name: str) -> bytes | None:
        try:  # on the way of every open: joining text is several times cheaper than a Path
            with open(f"{self._prefix}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def tail(self, name: str, length: int) -> bytes:
        with (self._root / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), length, max(size - length, 0))

    def put(self, name: str, data: bytes, *, sync: bool) -> None:
        with self._written(name, data, sync) as temp:
            temp.replace(self._root / name)

    def create(self, name: str, data: bytes, *, sync: bool) -> bool:
        with self._written(name, data, sync) as temp:
            try:
                (self._root / name).hardlink_to(temp)
            except FileExistsError:
                return False
        return True

    def head(self, name: str) -> ObjectInfo | None:
        try:
            # The probe of every snapshot: joining text is several times cheaper than a Path.
            return _stat_info(name, os.stat(f"{self._prefix}/{name}"))  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None

    def find_all(self, prefix: str) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        pending = [prefix]
        while pending:
            folder = pending.pop()
            try:
                entries = list(os.scandir(self._root / folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(name)
                elif _TEMP_MARK not in entry.name:
                    with contextlib.suppress(FileNotFoundError):  # removed while we look
                        found.append(_stat_info(name, entry.stat()))
        return found

    def folders(self, prefix: str) -> list[str]:
        try:
            entries = list(os.scandir(self._root / prefix))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [f"{prefix}/{entry.name}" for entry in entries if entry.is_dir()]

    def delete(self, names: list[str]) -> None:
        for name in names:
            (self._root / name).unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root / prefix)

    def rename(self, old: str, new: str) -> None:
        (self._root / old).rename(self._root / new)

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes, sync: bool) -> Iterator[Path]:
        target = self._root / name
        temp = target.with_name(f"{target.name}{_TEMP_MARK}{os.getpid()}{next(_temp_numbers):06d}")
        try:
            temp.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            temp.write_bytes(data)
        try:
            if sync:
                _fsync(temp)
                self._counters.synced(name)
            yield temp
        finally:
            temp.unlink(missing_ok=True)


class _S3Backend:
    """Objects below a key prefix of a bucket."""

    def __init__(self, root: GraphUri, options: StorageOptions, counters: Counters) -> None:
        s3 = options.s3
        settings = {
            "endpoint": s3.endpoint,
            "access_key_id": s3.access_key_id,
            "secret_access_key": s3.secret_access_key,
            "session_token": s3.session_token,
            "region": s3.region,
            "virtual_hosted_style_request": s3.virtual_hosted_style or None,
        }
        self._store = S3Store(
            root.bucket,
            prefix=root.path,
            client_options={"allow_http": s3.allow_http},
            **{name: value for name, value in settings.items() if value is not None},  # type: ignore[arg-type]  # a mapping of optional settings
        )
        self._counters = counters

    def get(self, name: str) -> bytes | None:
        self._counters.add("requests")
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except (ObjectMissing, FileNotFoundError):
            return None

    def tail(self, name: str, length: int) -> bytes:
        self._counters.add("requests")
        return bytes(obstore.get(self._store, name, options={"range": {"suffix": length}}).bytes())

    def put(self, name: str, data: bytes, *, sync: bool) -> None:  # noqa: ARG002 - a PUT is durable
        self._counters.add("requests")
        obstore.put(self._store, name, data, use_multipart=False)

    def create(self, name: str, data: bytes, *, sync: bool) -> bool:  # noqa: ARG002 - a PUT is durable
        self._counters.add("requests")
        try:
            obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (ObjectExists, ObjectPrecondition):
            return False
        return True

    def head(self, name: str) -> ObjectInfo | None:
        self._counters.add("requests")
        try:
            meta = obstore.head(self._store, name)
        except (ObjectMissing, FileNotFoundError):
            return None
        return _meta_info(name, meta)

    def find_all(self, prefix: str) -> list[ObjectInfo]:
        self._counters.add("requests")
        return [
            _meta_info(meta["path"], meta)
            for batch in obstore.list(self._store, prefix, chunk_size=1000)
            for meta in batch
        ]

    def folders(self, prefix: str) -> list[str]:
        self._counters.add("requests")
        return list(obstore.list_with_delimiter(self._store, prefix)["common_prefixes"])

    def delete(self, names: list[str]) -> None:
        if names:
            self._counters.add("requests")
            with contextlib.suppress(ObjectMissing, FileNotFoundError):
                obstore.delete(self._store, names if len(names) > 1 else names[0])

    def delete_prefix(self, prefix: str) -> None:
        self.delete([info.name for info in self.find_all(prefix)])

    def rename(self, old: str, new: str) -> None:
        self._counters.add("requests", 2)
        obstore.rename(self._store, old, new)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _stat_info(name: str, stat: os.stat_result) -> ObjectInfo:
    tag = f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectInfo(name, stat.st_size, stat.st_mtime_ns // 1_000, tag)


def _meta_info(name: str, meta: obstore.store.ObjectMeta) -> ObjectInfo:  # type: ignore[name-defined]  # exported for type checkers only
    changed_us = int(meta["last_modified"].timestamp() * 1_000_000)
    return ObjectInfo(name, meta["size"], changed_us, meta["e_tag"] or str(changed_us))


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(verb: str, name: str) -> Iterator[None]:
    """Turn a failure of the store into one that names the object."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, ObjectStoreFailure) as error:
        raise _failed(verb, name, error) from error


def _failed(verb: str, name: str, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    failure = StorageError(f"cannot {verb} '{name}': {reason}")
    failure.kind = ErrorKind.STORAGE
    return failure

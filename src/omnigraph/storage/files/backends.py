"""The two places for small objects: a directory, and a key prefix of a bucket.

The only module that imports `obstore`. Disk goes through plain system calls instead, because a
record of intent must be synced *before* it gets its final name, which `obstore` cannot do. Knows
no Lance and no meaning of the bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

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

_TEMP_MARK = "#"
_CHUNK = 1 << 20
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

    # What each does is described at `objects.Objects`.
    def get(self, name: str) -> bytes | None: ...  # noqa: D102
    def tail(self, name: str, length: int) -> bytes: ...  # noqa: D102
    def digest(self, name: str) -> str | None: ...  # noqa: D102
    def pieces(self, name: str, size: int) -> Iterator[bytes] | None: ...  # noqa: D102
    def put_pieces(self, name: str, pieces: Iterator[bytes]) -> None: ...  # noqa: D102
    def put(self, name: str, data: bytes, *, sync: bool) -> None: ...  # noqa: D102
    def create(self, name: str, data: bytes, *, sync: bool) -> bool: ...  # noqa: D102
    def head(self, name: str) -> ObjectInfo | None: ...  # noqa: D102
    def find_all(self, prefix: str) -> list[ObjectInfo]: ...  # noqa: D102
    def folders(self, prefix: str) -> list[str]: ...  # noqa: D102
    def delete(self, names: list[str]) -> None: ...  # noqa: D102
    def delete_prefix(self, prefix: str) -> None: ...  # noqa: D102
    def rename(self, old: str, new: str) -> None: ...  # noqa: D102
    def link(self, name: str, other: str) -> None: ...  # noqa: D102


def backend_of(root: GraphUri, options: StorageOptions, counters: Counters) -> Backend:
    """Return the place where the objects of a graph are."""
    if root.is_local:
        return _LocalBackend(Path(root.path), counters)
    return _S3Backend(root, options, counters)


class _LocalBackend:
    """Files below a directory."""

    def __init__(self, root: Path, counters: Counters) -> None:
        self._root = root
        self._prefix = str(root)
        self._counters = counters

    def get(self, name: str) -> bytes | None:
        try:  # on the way of every read of a branch: bare calls cost half of a file object
            descriptor = os.open(f"{self._prefix}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            data = b""
            while more := os.read(descriptor, _CHUNK):  # a disk may give less than it is asked for
                data += more
        finally:
            os.close(descriptor)
        return data

    def tail(self, name: str, length: int) -> bytes:
        with (self._root / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), length, max(size - length, 0))

    def digest(self, name: str) -> str | None:
        try:
            descriptor = os.open(f"{self._prefix}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            told = hashlib.sha256()
            while more := os.read(descriptor, _CHUNK):  # hashing lets other threads go on
                told.update(more)
        finally:
            os.close(descriptor)
        return told.hexdigest()

    def pieces(self, name: str, size: int) -> Iterator[bytes] | None:
        try:
            file = (self._root / name).open("rb")
        except FileNotFoundError:
            return None
        return _read_through(file, size)

    def put_pieces(self, name: str, pieces: Iterator[bytes]) -> None:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        temp = _temp_of(target)
        try:
            with temp.open("wb") as file:
                file.writelines(pieces)
            temp.replace(target)
        finally:
            temp.unlink(missing_ok=True)

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

    def link(self, name: str, other: str) -> None:
        source, target = self._root / name, self._root / other
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # by an attempt before: its bytes never change
            target.hardlink_to(source)

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes, sync: bool) -> Iterator[Path]:
        target = self._root / name
        temp = _temp_of(target)
        try:
            temp.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            temp.write_bytes(data)
        try:
            if sync:
                fsync(temp)
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

    def digest(self, name: str) -> str | None:
        self._counters.add("requests")
        try:
            found = obstore.get(self._store, name)
        except (ObjectMissing, FileNotFoundError):
            return None
        told = hashlib.sha256()
        for part in found.stream(min_chunk_size=_CHUNK):
            told.update(part)
        return told.hexdigest()

    def pieces(self, name: str, size: int) -> Iterator[bytes] | None:
        self._counters.add("requests")
        try:
            found = obstore.get(self._store, name)
        except (ObjectMissing, FileNotFoundError):
            return None
        return (bytes(part) for part in found.stream(min_chunk_size=size))

    def put_pieces(self, name: str, pieces: Iterator[bytes]) -> None:
        self._counters.add("requests")
        obstore.put(self._store, name, pieces)

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

    def link(self, name: str, other: str) -> None:
        self._counters.add("requests")
        obstore.copy(self._store, name, other)


def _temp_of(target: Path) -> Path:
    """Return a name beside a file for what is yet to become it; listings hide it."""
    return target.with_name(f"{target.name}{_TEMP_MARK}{os.getpid()}{next(_temp_numbers):06d}")


def _read_through(file: BinaryIO, size: int) -> Iterator[bytes]:
    with file:
        while more := file.read(size):
            yield more


def _stat_info(name: str, stat: os.stat_result) -> ObjectInfo:
    tag = f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectInfo(name, stat.st_size, stat.st_mtime_ns // 1_000, tag)


def _meta_info(name: str, meta: obstore.store.ObjectMeta) -> ObjectInfo:  # type: ignore[name-defined]  # exported for type checkers only
    changed_us = int(meta["last_modified"].timestamp() * 1_000_000)
    return ObjectInfo(name, meta["size"], changed_us, meta["e_tag"] or str(changed_us))


def fsync(path: Path) -> None:
    """Force a file or a directory to the disk."""
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
        raise failed(verb, name, error) from error


def failed(verb: str, name: str, error: Exception) -> StorageError:
    """Return the failure of the store as one that names the object."""
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    failure = StorageError(f"cannot {verb} '{name}': {reason}")
    failure.kind = ErrorKind.STORAGE
    return failure

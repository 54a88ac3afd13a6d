"""Arrays in files that are mapped into memory: written once, named last, checked once per boot.

A file is never written in place: its bytes go to a name of their own, are forced to the disk, and
only then a small note with their size and checksum is put beside them under the name that is
looked for. What has no note, another size or another checksum is as good as missing, and is
removed. Removing is unlinking: who has mapped a file keeps it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import secrets
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.base.budget import checkpoint
from omnigraph.base.metrics import METRICS

log = logging.getLogger(__name__)

FORMAT = 1
_NOTE, _DATA = ".json", ".data"
_ALIGNED = 64
_PIECE = 1 << 24
_DTYPES = frozenset({"bool", "float32", "float64", "int32", "int64", "uint32"})
_BOOT = Path("/proc/sys/kernel/random/boot_id")

FAULTS = METRICS.counter(
    "omnigraph_cache_faults_total", "Derived files that could not be used or written.", "why"
)

Numbers = npt.NDArray[Any]
Arrays = Mapping[str, Numbers]


@dataclass(frozen=True, slots=True)
class Found:
    """A whole, checked file, mapped; `said` is what its writer said of it."""

    buffer: pa.Buffer
    said: Mapping[str, Any]


class _UnusableError(Exception):
    """A file is not what its note says."""


def write_arrays(folder: Path, name: str, arrays: Arrays, said: Mapping[str, Any]) -> None:
    """Write plain arrays as one file.

    Raises:
        OSError: there is no room for it, say.
    """
    places: dict[str, list[Any]] = {}
    at = 0
    for key, array in arrays.items():
        places[key] = [at, str(array.dtype), list(array.shape)]
        at += -(-array.nbytes // _ALIGNED) * _ALIGNED

    def write(out: _Summing) -> None:
        for array in arrays.values():
            data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            out.write(data)
            out.write(bytes(-len(data) % _ALIGNED))

    _write(folder, name, write, {**said, "arrays": places})


def read_arrays(folder: Path, name: str) -> tuple[dict[str, Numbers], Mapping[str, Any]] | None:
    """Return the arrays of a file without reading them, and what was said of it; None is a miss."""
    found = _find(folder, name)
    if found is None:
        return None
    arrays: dict[str, Numbers] = {}
    try:
        for key, (at, dtype, shape) in found.said["arrays"].items():
            if dtype not in _DTYPES or at < 0 or any(side < 0 for side in shape):
                raise ValueError(f"{dtype} {shape}")
            flat = np.frombuffer(found.buffer, dtype, math.prod(shape), at)
            arrays[key] = flat.reshape(shape)
    except (KeyError, TypeError, ValueError) as error:
        _drop(folder, name, f"unreadable: {error}")
        return None
    return arrays, found.said


def held_bytes(*arrays: Numbers | None) -> int:
    """Return the memory that arrays hold; those of a file hold none."""
    return sum(one.nbytes for one in arrays if one is not None and not _is_of_a_file(one))


def _is_of_a_file(array: Numbers) -> bool:
    behind: object = array
    while isinstance(behind, np.ndarray):
        behind = behind.base
    return isinstance(behind, pa.Buffer)


def write_column(folder: Path, name: str, column: pa.Array, said: Mapping[str, Any]) -> None:
    """Write one Arrow array as one file; see `write_arrays`."""

    def write(out: _Summing) -> None:
        schema = pa.schema([pa.field("values", column.type)])
        with pa.ipc.new_file(pa.PythonFile(out, "w"), schema) as writer:
            writer.write_batch(pa.record_batch([column], schema=schema))

    _write(folder, name, write, {**said, "rows": len(column)})


def read_column(folder: Path, name: str) -> tuple[pa.Array, Mapping[str, Any]] | None:
    """Return an Arrow array without reading it, and what was said of it; None is a miss."""
    found = _find(folder, name)
    if found is None:
        return None
    try:
        batch = pa.ipc.open_file(pa.BufferReader(found.buffer)).get_batch(0)
        column = batch.column(0)
        column.validate()
        if len(column) != found.said["rows"]:
            raise ValueError(f"{len(column)} rows")
    except (pa.ArrowInvalid, KeyError, ValueError, OSError) as error:
        _drop(folder, name, f"unreadable: {error}")
        return None
    return column, found.said


def is_there(folder: Path, name: str) -> bool:
    """Whether a file was written under a name, whatever has become of it."""
    return (folder / f"{name}{_NOTE}").exists()


def faults_of(folder: Path, name: str) -> str | None:
    """Return what is wrong with a file, read from end to end; None if nothing is."""
    try:
        _mapped(folder, name, again=True)
    except (_UnusableError, OSError, ValueError, KeyError, TypeError) as error:
        return str(error)
    return None


def names_in(folder: Path) -> list[str]:
    """Return the names of all files of a folder."""
    names = (one.name for one in entries_of(folder))
    return sorted(
        name.removesuffix(_NOTE) for name in names if name.endswith(_NOTE) and name[0] != "."
    )


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Return what lies in a folder; nothing if another process has just removed it."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


class _Summing:
    """A file that adds up what is written to it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.size = self.sum = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it, asking now and then whether to go on."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE):
            checkpoint("writing derived files")
            piece = view[start : start + _PIECE]
            self._out.write(piece)
            self.sum = zlib.crc32(piece, self.sum)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        """Return how much was written."""
        return self.size

    def flush(self) -> None:
        """Do nothing; the end is flushed."""

    def close(self) -> None:
        """Do nothing; the file belongs to who opened it."""


def _write(
    folder: Path, name: str, write: Callable[[_Summing], None], said: Mapping[str, Any]
) -> None:
    token = secrets.token_hex(8)
    data, draft = folder / f"{name}.{token}{_DATA}", folder / f".{name}.{token}"
    try:
        with os.fdopen(_created(data), "wb") as out:
            summing = _Summing(out)
            write(summing)
            out.flush()
            os.fsync(out.fileno())
        note = {
            "format": FORMAT,
            "file": data.name,
            "size": summing.size,
            "crc32": summing.sum,
            "said": dict(said),
        }
        with os.fdopen(_created(draft), "wb") as out:
            out.write(json.dumps(note).encode())
            out.flush()
            os.fsync(out.fileno())
        (folder / _checked(data.name)).touch(0o600)
        draft.rename(folder / f"{name}{_NOTE}")
    except BaseException:
        for left in (data, draft, folder / _checked(data.name)):
            left.unlink(missing_ok=True)
        raise


def _created(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)


def _find(folder: Path, name: str) -> Found | None:
    try:
        return _mapped(folder, name, again=False)
    except FileNotFoundError:
        named = _file_of(folder / f"{name}{_NOTE}")  # which others may have written anew meanwhile
        if named is not None and not (folder / named).exists():
            _drop(folder, name, "its bytes are gone")
        return None
    except (_UnusableError, OSError, ValueError, KeyError, TypeError) as error:
        _drop(folder, name, str(error))
        return None


def _mapped(folder: Path, name: str, *, again: bool) -> Found:
    note = json.loads((folder / f"{name}{_NOTE}").read_bytes())
    if note["format"] != FORMAT:
        raise _UnusableError(f"it has format {note['format']}")
    path = folder / note["file"]
    if path.parent != folder:
        raise _UnusableError("it names a file elsewhere")
    found = os.lstat(path)
    if not os.path.isfile(path) or os.path.islink(path) or found.st_uid != os.geteuid():  # noqa: PTH113, PTH114
        raise _UnusableError("it is not a file of this user")
    if found.st_size != note["size"]:
        raise _UnusableError(f"it has {found.st_size} bytes, not {note['size']}")
    with pa.memory_map(str(path)) as source:
        buffer = source.read_buffer()
    checked = folder / _checked(path.name)
    if again or not checked.exists():
        if _sum_of(buffer) != note["crc32"]:
            raise _UnusableError("its checksum is another one")
        _note_checked(checked)
    return Found(buffer, note["said"])


def _note_checked(marker: Path) -> None:
    """Remember that a file is whole; where that cannot be written it is looked at again."""
    try:
        marker.touch(0o600)
    except OSError as error:
        FAULTS.add(1, "not written")
        log.info("%s cannot be noted as checked: %s", marker.name, error)


def _sum_of(buffer: pa.Buffer) -> int:
    view, total = memoryview(buffer), 0
    for start in range(0, len(view), _PIECE):
        checkpoint("checking derived files")
        total = zlib.crc32(view[start : start + _PIECE], total)
    return total


def _drop(folder: Path, name: str, why: str) -> None:
    """Take away what cannot be used, so that it is made anew."""
    FAULTS.add(1, "unusable")
    log.warning("derived file %s in %s is not used: %s", name, folder, why)
    try:
        remove(folder, name)
    except OSError as error:
        log.warning("it cannot be removed either: %s", error)


def remove(folder: Path, name: str) -> None:
    """Unlink a file; those that are gone already are fine."""
    (folder / f"{name}{_NOTE}").unlink(missing_ok=True)
    for one in entries_of(folder):
        if one.name.startswith(f"{name}.") and one.name.endswith(_DATA):
            (folder / one.name).unlink(missing_ok=True)
            (folder / _checked(one.name)).unlink(missing_ok=True)


def sweep(folder: Path, older_than_s: float) -> None:
    """Unlink what no note names: of writers that died, and of times before the machine was started.

    Args:
        folder: where files are.
        older_than_s: a writer may be at work on whatever is younger.
    """
    named = {_file_of(folder / f"{name}{_NOTE}") for name in names_in(folder)}
    alive = named | {f"{name}{_NOTE}" for name in names_in(folder)}
    alive |= {_checked(name) for name in named if name is not None}
    for one in entries_of(folder):
        is_ours = one.name.endswith(_DATA) or one.name.startswith(".")
        if not is_ours or one.name in alive or one.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(FileNotFoundError):  # another process sweeps, too
            if time.time() - one.stat(follow_symlinks=False).st_mtime > older_than_s:
                (folder / one.name).unlink()


def _file_of(note: Path) -> str | None:
    try:
        return str(json.loads(note.read_bytes())["file"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _checked(data: str) -> str:
    """Return the name of the empty file that says: looked at since the machine was started."""
    return f".{data}.{_boot()}"


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"process-{os.getpid()}-{math.floor(os.times().elapsed)}"

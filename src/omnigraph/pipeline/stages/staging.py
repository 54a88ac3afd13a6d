"""The folder a load works in: below the graph's own staging area, gone when the load is over.

A load that is killed leaves its folder; cleanup removes it by age. Every process that takes part
must see the folder, and its files are read back by memory mapping, so it lies in a file system:
beside the graph, or, for graphs in an object store, where the caller says.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.pipeline.inputs.rows import Kind
from omnigraph.pipeline.model import StagingError
from omnigraph.storage.files import layout

if TYPE_CHECKING:  # tasks use this module too, and must not load the storage engine
    from omnigraph.storage.store import GraphStore


@contextlib.contextmanager
def staging_folder(
    store: GraphStore, operation_id: str, elsewhere: Path | None = None
) -> Iterator[Path]:
    """Make the folder of one load and remove it afterwards, whatever happens."""
    kernel = store.kernel
    if elsewhere is not None:
        folder = elsewhere.absolute() / operation_id
    elif kernel.root.is_local:
        folder = kernel.objects.path(f"{layout.STAGING_DIR}/{operation_id}").absolute()
    else:
        folder = Path(tempfile.gettempdir()) / f"omnigraph-load-{operation_id}"
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Spill:
    """Rows of one type from one task, on disk."""

    table_key: str
    path: Path
    rows: int
    bytes: int
    generated_ids: bool
    """Whether every id was made here, so that none can exist already."""

    def read(self) -> pa.Table:
        """Return the rows, mapped rather than read."""
        with pa.memory_map(str(self.path)) as source:
            return pa.ipc.open_file(source).read_all()


class SpillWriter:
    """Writes the rows of one task, one file per type.

    File names are new for every attempt: a task that runs twice never touches what its first
    run wrote, and only files that a finished task reports are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._attempt = uuid.uuid4().hex
        self._open: dict[str, _File] = {}

    def write(self, kind: Kind, rows: pa.Table, *, generated_ids: bool) -> None:
        """Add rows of one type.

        Raises:
            StagingError: the disk does not take them.
        """
        found = self._open.get(kind.table_key)
        with disk_errors(self._folder):
            if found is None:
                stem = f"{self._attempt}.{len(self._open)}"
                found = _File(self._folder / stem, rows.schema)
                self._open[kind.table_key] = found
            found.write(rows)
        found.generated_ids &= generated_ids

    def close(self) -> tuple[Spill, ...]:
        """Finish the files and return them."""
        with disk_errors(self._folder):
            return tuple(file.close(key) for key, file in self._open.items())


class _File:
    """The open file of one type."""

    def __init__(self, stem: Path, schema: pa.Schema) -> None:
        self.generated_ids = True
        self._path = stem.with_name(f"{stem.name}.arrow")
        self._rows = pa.ipc.new_file(self._path, schema)
        self._count = 0

    def write(self, rows: pa.Table) -> None:
        self._rows.write_table(rows)
        self._count += len(rows)

    def close(self, key: str) -> Spill:
        self._rows.close()
        size = self._path.stat().st_size
        return Spill(key, self._path, self._count, size, self.generated_ids)


@contextlib.contextmanager
def disk_errors(folder: Path | str) -> Iterator[None]:
    """Tell in our words what a disk does not take; what is told already stays as it is.

    Raises:
        StagingError: a file below the folder cannot be written or read back.
    """
    try:
        yield
    except OmniGraphError:
        raise
    except OSError as error:
        raise StagingError(
            f"cannot write to {folder}: {error}", hint="is the disk full, or not writable?"
        ) from error

"""The folder a load works in: below the graph's own staging area, gone when the load is over.

A load that is killed leaves its folder; cleanup removes it by age. Graphs in an object store stage
on the local disk, because the files are read back by memory mapping.
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

from omnigraph.pipeline.rows import Kind
from omnigraph.storage import layout

if TYPE_CHECKING:  # tasks use this module too, and must not load the storage engine
    from omnigraph.storage.store import GraphStore


@contextlib.contextmanager
def staging_folder(store: GraphStore, operation_id: str) -> Iterator[Path]:
    """Make the folder of one load and remove it afterwards, whatever happens."""
    kernel = store.kernel
    if kernel.root.is_local:
        folder = kernel.objects.path(f"{layout.STAGING_DIR}/{operation_id}")
        folder.mkdir(parents=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-load-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Spill:
    """Rows of one type from one task, on disk."""

    table_key: str
    path: Path
    rows: int
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
        self._open: dict[str, tuple[Path, pa.ipc.RecordBatchFileWriter]] = {}
        self._rows: dict[str, int] = {}
        self._given_ids: set[str] = set()

    def write(self, kind: Kind, rows: pa.Table, *, generated_ids: bool) -> None:
        """Add rows of one type."""
        key = kind.table_key
        if not generated_ids:
            self._given_ids.add(key)
        if key not in self._open:
            path = self._folder / f"{self._attempt}.{len(self._open)}.arrow"
            self._open[key] = (path, pa.ipc.new_file(path, rows.schema))
        self._open[key][1].write_table(rows)
        self._rows[key] = self._rows.get(key, 0) + len(rows)

    def close(self) -> tuple[Spill, ...]:
        """Finish the files and return them."""
        for _, writer in self._open.values():
            writer.close()
        return tuple(
            Spill(key, path, self._rows[key], key not in self._given_ids)
            for key, (path, _) in self._open.items()
        )

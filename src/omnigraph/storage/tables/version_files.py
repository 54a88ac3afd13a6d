"""The files that one version of a dataset rests on, and the rows that each of them answers for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lance.blob import BlobType

from omnigraph.storage.files import layout
from omnigraph.storage.tables.deletions import base_home
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One file of a version."""

    name: str
    """Relative to the graph."""
    rows: int
    """Rows that have a value in it; of a deletion file those it hides; 0 of an index."""
    index: str | None = None
    """Which index it is of; rows are right without it."""


def version_files(tables: Tables, handle: Handle) -> Iterator[VersionFile]:
    """Yield what a version is read from, but for its manifest; blobs and indexes cost a listing."""
    with lance_errors(f"listing the files of {handle}"):
        parts = [part.metadata for part in handle.dataset.get_fragments()]
        segments = [
            (index.name, part)
            for index in handle.dataset.describe_indices()
            for part in index.segments
        ]
        blobs = any(isinstance(column.type, BlobType) for column in handle.dataset.schema)
    for part in parts:
        for file in part.files:
            name = f"{base_home(handle, file.base_id)}/{layout.DATA_DIR}/{file.path}"
            yield VersionFile(name, part.num_rows)
            if blobs:
                beside = tables.objects.list(name.removesuffix(".lance"))
                yield from (VersionFile(info.name, part.num_rows) for info in beside)
        gone = part.deletion_file
        if gone is not None:
            name = f"{base_home(handle, gone.base_id)}/{gone.path(part.id)}"
            yield VersionFile(name, gone.num_deleted_rows)
    for index, segment in segments:
        folder = f"{base_home(handle, segment.base_id)}/{layout.INDICES_DIR}/{segment.uuid}"
        yield from (VersionFile(info.name, 0, index) for info in tables.objects.list(folder))

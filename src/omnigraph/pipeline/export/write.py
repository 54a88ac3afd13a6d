"""A graph, or some of its tables, written out again: JSON lines or Parquet.

Tables come in the order of their keys and rows in the order of their ids, so equal graphs give
equal bytes, whatever happened to their files. Memory stays flat: each table is first copied to a
temporary file, then read back in order, piece by piece.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.api.words import ExportFormat
from omnigraph.api.writes import ExportResult, TableWritten
from omnigraph.base.arguments import names_argument, text_argument
from omnigraph.base.budget import NUMBER_BYTES, checkpoint
from omnigraph.base.calls import Watch
from omnigraph.compiler.catalog.model import DST, ID, SRC, Catalog, EdgeType
from omnigraph.errors import BadRequestError, NotFoundError, OmniGraphError
from omnigraph.pipeline.export.json_text import joined, json_texts, labelled, quoted
from omnigraph.pipeline.inputs.plain_lines import compression_of, is_device
from omnigraph.pipeline.inputs.rows import Kind
from omnigraph.pipeline.model import UnwritableError
from omnigraph.pipeline.stages.staging import disk_errors
from omnigraph.storage.manifest.snapshot import Snapshot

_CHUNK_ROWS = 65_536
_STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables of one snapshot to write out, sorted by key."""

    snapshot: Snapshot
    catalog: Catalog
    keys: tuple[str, ...]
    ids_of: Callable[[str], pa.Array] | None = None
    """The ids of the rows that are to be seen, by table key; None is all of them."""

    def rows(self, key: str) -> Iterator[pa.Table]:
        """Yield the rows of a table by id, in chunks of a fixed size."""
        if self.ids_of is None:
            return ordered_rows(self.snapshot, key)
        return ordered_rows(self.snapshot, key, self.ids_of(key))

    def count(self, key: str) -> int:
        """Return how many rows of a table there are to be seen."""
        if self.ids_of is None:
            return self.snapshot.table(key).row_count
        return len(self.ids_of(key))


def select(
    snapshot: Snapshot, catalog: Catalog, types: Sequence[str], tables: Sequence[str]
) -> Selection:
    """Return the tables of the named types and the named tables; all if none is named.

    The name of both a node and an edge type means both of them.

    Raises:
        NotFoundError: the schema knows no such type or table.
    """
    names_argument(types, "types")
    names_argument(tables, "tables")
    kinds: list[Kind] = [*catalog.nodes.values(), *catalog.edges.values()]
    known, names = {kind.table_key for kind in kinds}, {kind.name for kind in kinds}
    chosen: set[str] = set()
    for name in types:
        found = catalog.types_named(name)
        if not found:
            raise NotFoundError(
                f"unknown export type '{name}'", hint=f"types: {', '.join(sorted(names))}"
            )
        chosen |= {kind.table_key for kind in found}
    for key in tables:
        if key not in known:
            raise NotFoundError(
                f"unknown export table '{key}'", hint=f"tables: {', '.join(sorted(known))}"
            )
        chosen.add(key)
    return Selection(snapshot, catalog, tuple(sorted(chosen or known)))


def export_lines(selection: Selection) -> Iterator[bytes]:
    """Yield JSON lines that load back to the same rows, in pieces of many lines."""
    for key in selection.keys:
        kind = selection.catalog.type_named(key)
        for rows in selection.rows(key):
            yield _lines(kind, rows)


def export_to(
    selection: Selection, target: str | Path | IO[bytes], file_format: ExportFormat
) -> ExportResult:
    """Write the tables to a file, a stream or, as Parquet, into a folder.

    Raises:
        BadRequestError: Parquet files need a folder.
        UnwritableError: the target cannot be written; no half of a file is left there.
    """
    snapshot = selection.snapshot
    counts = tuple(TableWritten(key, selection.count(key)) for key in selection.keys)
    with Watch(snapshot.kernel.clock).job("export") as seen:
        if file_format == "parquet":
            _write_parquet(selection, _folder(target))
        else:
            with _opened(target) as out:
                for piece in export_lines(selection):
                    out.write(piece)
        seen.rows = sum(table.rows for table in counts)
    return ExportResult(str(snapshot.branch), str(snapshot.commit_id), counts)


def ordered_rows(snapshot: Snapshot, key: str, only: pa.Array | None = None) -> Iterator[pa.Table]:
    """Yield all rows of a table, or those of some ids, by id, in chunks of a fixed size."""
    if not snapshot.table(key).row_count:
        return
    with (
        disk_errors("the temporary folder"),
        tempfile.TemporaryDirectory(prefix="omnigraph-export-") as folder,
    ):
        path = str(Path(folder) / "rows.arrow")
        reader = snapshot.open(key)
        with pa.ipc.new_file(path, reader.schema) as writer:
            for batch in reader.batches():
                kept = batch if only is None else batch.filter(pc.is_in(batch[ID], value_set=only))
                writer.write_batch(kept)
        with pa.memory_map(path) as source:
            rows = pa.ipc.open_file(source).read_all()
            checkpoint("export", 2 * rows[ID].nbytes + len(rows) * NUMBER_BYTES)
            order = _order(rows[ID])
            for start in range(0, len(rows), _CHUNK_ROWS):
                # Rows, and the text they become.
                checkpoint("export", 3 * rows.nbytes * _CHUNK_ROWS // max(len(rows), _CHUNK_ROWS))
                if order is None:
                    yield rows.slice(start, _CHUNK_ROWS)
                else:
                    yield rows.take(pa.array(order[start : start + _CHUNK_ROWS]))


def _order(ids: pa.ChunkedArray) -> np.ndarray | None:
    """Return the positions by ascending id, or None if that is how they lie."""
    listed = ids.combine_chunks()
    if pc.all(pc.less(listed[:-1], listed[1:])).as_py() is not False:
        return None
    return np.asarray(pc.sort_indices(listed))


def _lines(kind: Kind, rows: pa.Table) -> bytes:
    """Return rows as lines: with their ids and nulls, since an exported row is the whole row."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    parts = [] if ID in kind.properties else [labelled(ID, quoted(columns[ID]))]
    parts += [
        labelled(name, json_texts(columns[name], prop.type))
        for name, prop in kind.properties.items()
    ]
    data = pc.utf8_slice_codeunits(joined(parts), 1) if parts else ""
    if isinstance(kind, EdgeType):
        ends = (
            f'{{"edge":"{kind.name}","from":',
            quoted(columns[SRC]),
            ',"to":',
            quoted(columns[DST]),
        )
        text = joined([*ends, ',"data":{', data, "}}\n"])
    else:
        text = joined([f'{{"type":"{kind.name}","data":{{', data, "}}\n"])
    return _bytes(text)


def _bytes(texts: pa.StringArray) -> bytes:
    """Return texts one after another; they already lie like that."""
    offsets, values = texts.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)
    start, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return bytes(values.slice(int(start), int(end - start)))


@contextlib.contextmanager
def _opened(target: str | Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a path for writing; it appears only when everything is in it."""
    if not isinstance(target, str | Path):
        what = type(target).__name__
        if not hasattr(target, "write") or issubclass(type(target), io.TextIOBase):
            raise BadRequestError(f"cannot export to a {what}", hint="open the file with 'wb'")
        yield target
        return
    if str(target) == _STDOUT:
        yield sys.stdout.buffer
        return
    path = _path(target)
    if not path.name:
        raise BadRequestError(f"'{path}' is a folder", hint="name a file in it")
    if is_device(path):
        with _directly(path) as device:
            yield device
        return
    with (
        _unfinished(path) as draft,
        pa.output_stream(str(draft), compression=compression_of(path)) as out,
    ):
        yield out


@contextlib.contextmanager
def _directly(path: Path) -> Iterator[IO[bytes]]:
    """Open a pipe or device: nothing may take its place."""
    try:
        with path.open("wb") as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableError(f"cannot write '{path}': {error.strerror or error}") from error


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Give a place to write to that becomes `path` if all goes well, and is gone otherwise."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        yield draft
        draft.replace(path)
    except OmniGraphError:
        raise
    except OSError as error:
        raise UnwritableError(f"cannot write '{path}': {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # where nothing could be written, nothing is
            draft.unlink()


def _path(target: str | Path) -> Path:
    """Return a path that can be handed on to Arrow, which knows no other bytes than text."""
    return Path(text_argument(str(target), "the path of an export"))


def _folder(target: str | Path | IO[bytes]) -> Path:
    if not isinstance(target, str | Path) or str(target) == _STDOUT:
        raise BadRequestError("Parquet files cannot go into a stream", hint="name a folder")
    folder = _path(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(f"cannot make the folder '{folder}': {error.strerror}") from error
    return folder


def _write_parquet(selection: Selection, folder: Path) -> None:
    """Write one file per type, named after it; a time of day needs a type that keeps it.

    Where a node and an edge type share a name, the files are `node.Name` and `edge.Name`.
    """
    for key in selection.keys:
        schema = _parquet_schema(selection.snapshot.open(key).schema)
        word = selection.catalog.short_name(selection.catalog.type_named(key))
        path = folder / f"{word.replace(':', '.')}.parquet"
        with _unfinished(path) as draft, pq.ParquetWriter(draft, schema) as writer:
            for rows in selection.rows(key):
                arrays = [_moments(rows[name].combine_chunks()) for name in schema.names]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _parquet_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field(one.name, _moments(pa.array([], one.type)).type, one.nullable) for one in schema]
    )


def _moments(values: pa.Array) -> pa.Array:
    if pa.types.is_date64(values.type):
        return values.view(pa.int64()).cast(pa.timestamp("ms", "UTC"))
    if pa.types.is_list(values.type) and pa.types.is_date64(values.type.value_type):
        items = _moments(values.values)
        return pa.ListArray.from_arrays(values.offsets, items, mask=values.is_null())
    return values

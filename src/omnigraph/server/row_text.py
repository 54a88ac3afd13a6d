"""Rows as JSON text, made column by column, and as Arrow streams.

The text says what `QueryResult.to_json_rows` says; a test compares the two. Columns of lists and
other shapes that Arrow cannot write as text are written value by value.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.query import MAX_SAFE_INTEGER, QueryResult
from omnigraph.pipeline.export.json_text import joined, quoted

_WHOLE = r"^-?\d+$"


def ndjson(batch: pa.RecordBatch | pa.Table, *, js_safe: bool = False) -> bytes:
    """Return rows as one JSON object per line."""
    return _bytes(_objects(batch, "}\n", js_safe=js_safe)) if len(batch) else b""


def json_items(batch: pa.RecordBatch | pa.Table, *, js_safe: bool = False) -> bytes:
    """Return rows as the objects of a JSON array, with a comma behind each."""
    return _bytes(_objects(batch, "},", js_safe=js_safe)) if len(batch) else b""


def _objects(batch: pa.RecordBatch | pa.Table, end: str, *, js_safe: bool) -> pa.StringArray:
    parts: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        label = orjson.dumps(name).decode()
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        parts += [f"{',' if parts else '{'}{label}:", _texts(whole, js_safe=js_safe)]
    return joined([*parts, end])


def _texts(values: pa.Array, *, js_safe: bool) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        found = quoted(values)
    elif pa.types.is_boolean(kind):
        found = values.cast(pa.string())
    elif pa.types.is_integer(kind):
        found = values.cast(pa.string())
        if js_safe:
            beyond = (
                pc.or_(pc.greater(values, MAX_SAFE_INTEGER), pc.less(values, -MAX_SAFE_INTEGER))
                if pa.types.is_signed_integer(kind)
                else pc.greater(values, MAX_SAFE_INTEGER)
            )
            found = pc.if_else(beyond, _between('"', found, '"'), found)
    elif pa.types.is_floating(kind):
        found = _floats(values)
    elif pa.types.is_date32(kind):
        found = _between('"', values.cast(pa.string()), '"')
    elif pa.types.is_date64(kind):
        moments = values.view(pa.int64()).cast(pa.timestamp("ms"))
        found = _between('"', pc.strftime(moments, "%Y-%m-%dT%H:%M:%S"), 'Z"')
    else:
        found = _one_by_one(values, js_safe=js_safe)
    return pc.fill_null(found, "null")


def _floats(values: pa.Array) -> pa.Array:
    numbers = values.cast(pa.float64())
    shown = numbers.cast(pa.string())
    # Without a point it would be read as an integer, and a zero would lose its sign.
    shown = pc.if_else(pc.match_substring_regex(shown, _WHOLE), _between("", shown, ".0"), shown)
    shown = pc.if_else(pc.is_nan(numbers), '"NaN"', shown)
    endless = pc.if_else(pc.greater(numbers, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(numbers), endless, shown)


def _one_by_one(values: pa.Array, *, js_safe: bool) -> pa.Array:
    rows = QueryResult(pa.table({"one": values})).to_json_rows(js_safe=js_safe)
    return pa.array([orjson.dumps(row["one"]).decode() for row in rows], pa.string())


def _between(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _bytes(texts: pa.StringArray) -> bytes:
    """Return texts one after another; they already lie like that."""
    offsets, values = texts.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)
    start, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return bytes(values.slice(int(start), int(end - start)))


def arrow_pieces(
    batches: Iterable[pa.RecordBatch], metadata: dict[str, str], *, packed: bool
) -> Generator[bytes, None, None]:
    """Yield an Arrow IPC stream, batch by batch; there is at least one batch."""
    sink = _Sink()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if packed else None)
    writer = None
    for batch in batches:
        if writer is None:
            schema = batch.schema.with_metadata(metadata)
            writer = pa.ipc.new_stream(sink, schema, options=options)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
        yield sink.taken()


class _Sink(io.RawIOBase):
    """Collects what is written until somebody takes it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """Tell Arrow that this is written to."""
        return True

    def write(self, data: object) -> int:
        """Keep a piece."""
        piece = bytes(memoryview(data))  # type: ignore[arg-type] # Arrow passes buffers
        self._pieces.append(piece)
        return len(piece)

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

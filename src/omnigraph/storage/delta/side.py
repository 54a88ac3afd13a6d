"""One side of a comparison: its candidates, read under the names the result has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.storage.tables.differ import SIZE, Candidates, blob_columns, read_blobs
from omnigraph.storage.tables.scan import ROW_ADDRESS
from omnigraph.storage.tables.widen import widened

ID = "id"


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """One column: its name in results, and what it is called on each side.

    A side that does not have it says None. A column that is new is null before. One that is gone
    is shown in images from before, and its loss alone makes no row differ: that is a change of
    the schema, not of rows.
    """

    name: str
    before: str | None
    after: str | None
    kind: pa.DataType | None = None
    """Its type in results, if neither side need have it: then both show it."""
    absent: pa.Scalar | None = None
    """What it is on a side that does not have it; null if None."""


@dataclass(frozen=True, slots=True)
class Side:
    """The candidates of one side; None if it does not have the table."""

    candidates: Candidates | None
    stored: tuple[tuple[str, str | None, pa.DataType], ...]
    """Per column its name in results, its name here, and its type; a blob is its size."""
    absent: Mapping[str, pa.Scalar]
    """What columns are that it does not have, where that is not null."""
    has_blobs: bool
    """Whether any column of either side holds blobs: then rows carry their address."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of what is read."""
        fields = [pa.field(name, kind) for name, _, kind in self.stored]
        fields += [pa.field(ROW_ADDRESS, pa.uint64())] if self.has_blobs else []
        return pa.schema(fields)

    @property
    def blobs(self) -> tuple[str, ...]:
        """Return the columns that hold blobs."""
        return tuple(name for name, _, kind in self.stored if kind == SIZE)

    def part(self, number: int, of: int) -> Side:
        """Return one of several parts of it, each of other candidates."""
        if self.candidates is None:
            return self
        return replace(self, candidates=self.candidates.part(number, of))

    def read(self) -> Iterator[pa.Table]:
        """Yield the candidates, in no order."""
        if self.candidates is None:
            return
        schema = self.schema
        wanted = [there for _, there, _ in self.stored if there is not None]
        for rows in self.candidates.read(wanted):
            columns = [
                self._missing(name, kind, len(rows))
                if there is None
                else widened(rows[there], kind)  # nothing to do, unless the other side is wider
                for name, there, kind in self.stored
            ]
            if self.has_blobs:
                known = ROW_ADDRESS in rows.column_names
                columns.append(rows[ROW_ADDRESS] if known else pa.nulls(len(rows), pa.uint64()))
            yield pa.Table.from_arrays(columns, schema=schema)

    def _missing(self, name: str, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
        if (value := self.absent.get(name)) is not None:
            return pa.chunked_array([pa.repeat(value, rows)], kind)
        return pa.chunked_array([pa.nulls(rows, kind)])

    def ids(self) -> pa.Array:
        """Return the ids of the candidates."""
        chunks = list(self.some_ids())
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())

    def some_ids(self) -> Iterator[pa.Array]:
        """Yield the ids of the candidates piece by piece."""
        if self.candidates is not None:
            here = next(there for name, there, _ in self.stored if name == ID)
            assert here is not None, "every table has ids"
            for rows in self.candidates.read([here]):
                yield from rows[here].chunks

    def bytes_of(self, name: str, addresses: pa.Array) -> pa.Array:
        """Return the blobs of a column by the addresses of their rows."""
        here = next(there for column, there, _ in self.stored if column == name)
        if self.candidates is None or here is None:
            return pa.nulls(len(addresses), pa.large_binary())
        return read_blobs(self.candidates.handle, here, addresses)

    def with_bytes(self, rows: pa.Table) -> pa.Table:
        """Return rows of this side with the bytes in place of the size of every blob."""
        for name in self.blobs:
            read = self.bytes_of(name, rows[ROW_ADDRESS].combine_chunks())
            rows = rows.set_column(rows.schema.get_field_index(name), name, read)
        return rows


def two_sides(
    before: Candidates | None, after: Candidates | None, pairs: Sequence[ColumnPair]
) -> tuple[Side, Side]:
    """Return both sides under the names of the pairs."""
    old = _types(before, [pair.before for pair in pairs])
    new = _types(after, [pair.after for pair in pairs])
    has_blobs = SIZE in (*old, *new)
    earlier, later = [], []
    for pair, was, now in zip(pairs, old, new, strict=True):
        kind = pair.kind or was or now
        assert kind is not None, pair
        earlier.append((pair.name, pair.before if was else None, kind))
        if pair.after is not None or pair.kind is not None:
            later.append((pair.name, pair.after if now else None, pair.kind or now or kind))
    absent = {pair.name: pair.absent for pair in pairs if pair.absent is not None}
    return (
        Side(before, tuple(earlier), absent, has_blobs),
        Side(after, tuple(later), absent, has_blobs),
    )


def _types(side: Candidates | None, names: Sequence[str | None]) -> list[pa.DataType | None]:
    """Return how a side's columns are read; None for those it does not have."""
    if side is None:
        return [None] * len(names)
    schema = side.handle.dataset.schema
    blobs = set(blob_columns(side.handle, [name for name in names if name is not None]))
    return [
        None if name is None else SIZE if name in blobs else schema.field(name).type
        for name in names
    ]

"""A state seen under another schema: the same rows, by the names and with the columns it has there.

Types and properties are matched by id. A column that a state does not have is null in it, a type
that it does not have has no rows; what the other schema does not have is not seen. Nothing is
written: what a merge would find on its target is asked before the target has the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from omnigraph.api.history import TableNotFoundError
from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.arrow import arrow_schema, arrow_type
from omnigraph.compiler.catalog.model import EDGE_SYSTEM_COLUMNS, ID, Catalog, EdgeType, NodeType
from omnigraph.engine.schema.fill import default_scalar
from omnigraph.engine.schema.tables import GraphType, stored_properties, type_changes
from omnigraph.storage.delta.side import ColumnPair
from omnigraph.storage.files.records import Place, TableVersion
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.handle import Handle, empty_handle
from omnigraph.storage.tables.predicate import Predicate, renamed
from omnigraph.storage.tables.scan import ROW_ADDRESS, ROW_ID, Reader
from omnigraph.storage.tables.widen import widened


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is seen, and what it is called where it is stored, if it is."""

    name: str
    stored: str | None
    kind: pa.DataType
    absent: pa.Scalar | None = None
    """What it is where it is not stored; null if None."""


class Views:
    """States seen under one schema."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._columns: dict[Place, tuple[Column, ...]] = {}

    def of(self, state: Snapshot, own: Catalog) -> Snapshot:
        """Return a state under this schema; as it is, if that is its own."""
        tables: dict[TableKey, TableVersion] = {}
        missing: dict[TableKey, pa.Schema] = {}
        for change in type_changes(own, self.catalog):
            was, now = change.before, change.after
            if now is None:
                continue
            key = TableKey(now.table_key)
            if was is None:
                missing[key] = arrow_schema(now)
                continue
            table = state.table(was.table_key)
            tables[key] = table._replace(key=key)
            self._columns[table.place] = tuple(_columns(was, now))
        if own.schema_hash == self.catalog.schema_hash:
            return state
        seen = {key: self._columns[table.place] for key, table in tables.items()}
        plain = {one.name: getattr(state, one.name) for one in fields(Snapshot)}
        plain["tables"] = dict(sorted(tables.items()))
        return Aligned(**plain, columns=seen, missing=missing)

    def pairs(
        self, key: TableKey, before: TableVersion | None, after: TableVersion | None
    ) -> Sequence[ColumnPair]:
        """Return which column of one version of a table is which of another."""
        old, new = (
            {}
            if one is None
            else {column.name: column.stored for column in self._columns[one.place]}
            for one in (before, after)
        )
        kind = self.catalog.type_named(key)
        absent = _defaults(kind)
        return [
            ColumnPair(name, old.get(name), new.get(name), of, absent.get(name))
            for name, of in _seen(kind).items()
        ]

    def is_as_seen(self, table: TableVersion, handle: Handle) -> bool:
        """Whether a table has exactly the columns it is seen with, in their order."""
        columns = self._columns[table.place]
        stored = [column.stored for column in columns]
        own: list[str] = handle.dataset.schema.names
        return [column.name for column in columns] == stored == own


@dataclass(frozen=True, slots=True)
class Aligned(Snapshot):
    """A state under another schema."""

    columns: Mapping[TableKey, tuple[Column, ...]] = field(default_factory=dict)
    missing: Mapping[TableKey, pa.Schema] = field(default_factory=dict)
    """Tables the state does not have."""

    def table(self, key: str) -> TableVersion:
        """Return where the rows of a table are; nowhere, if the state has no such type."""
        if TableKey(key) in self.missing:
            return TableVersion(TableKey(key), "", 0, None, 0)
        found = self.tables.get(TableKey(key))
        if found is None:
            raise TableNotFoundError(f"there is no table '{key}' at commit {self.commit_id}")
        return found

    def open(self, key: str) -> Reader:
        """Return a reader of one table under its new names."""
        if (schema := self.missing.get(TableKey(key))) is not None:
            return Reader(empty_handle(key, schema))
        return AlignedReader(self.handle(key), self.columns[TableKey(key)])


@dataclass(frozen=True, slots=True)
class AlignedReader(Reader):
    """Reads a table under other names."""

    columns: tuple[Column, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Return the columns as they are seen."""
        return pa.schema([pa.field(one.name, one.kind) for one in self.columns])

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        **how: Any,  # noqa: ANN401 - what `Reader.scan` takes
    ) -> pa.Table:
        """Return rows as one Arrow table; see `Reader.scan`."""
        wanted = self._wanted(columns)
        stored = [one.stored for one in wanted if one.stored is not None]
        rows = Reader.scan(self, stored, self._where(where), **how)
        return self._seen(rows, wanted)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        **how: Any,  # noqa: ANN401 - what `Reader.batches` takes
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows batch by batch; see `Reader.batches`."""
        wanted = self._wanted(columns)
        stored = [one.stored for one in wanted if one.stored is not None]
        for batch in Reader.batches(self, stored, self._where(where), **how):
            yield from self._seen(pa.Table.from_batches([batch]), wanted).to_batches()

    def count(self, where: Predicate | None = None) -> int:
        """Return the number of rows."""
        return Reader.count(self, self._where(where))

    def _wanted(self, columns: Sequence[str] | None) -> list[Column]:
        known = {one.name: one for one in self.columns}
        return list(self.columns) if columns is None else [known[name] for name in columns]

    def _where(self, where: Predicate | None) -> Predicate | None:
        names = {one.name: one.stored for one in self.columns}
        return None if where is None else renamed(where, names)

    def _seen(self, rows: pa.Table, wanted: Sequence[Column]) -> pa.Table:
        arrays = [
            _missing(one, len(rows)) if one.stored is None else widened(rows[one.stored], one.kind)
            for one in wanted
        ]
        named = dict(zip([one.name for one in wanted], arrays, strict=True))
        extra = {name: rows[name] for name in (ROW_ID, ROW_ADDRESS) if name in rows.column_names}
        return pa.table(named | extra)


def _columns(was: GraphType, now: GraphType) -> Iterator[Column]:
    old, absent = stored_properties(was), _defaults(now)
    new = {prop.name: prop_id for prop_id, prop in stored_properties(now).items()}
    for name, kind in _seen(now).items():
        if name not in new:
            yield Column(name, name, kind)
        else:
            stored = old.get(new[name])
            yield Column(name, None if stored is None else stored.name, kind, absent.get(name))


def _defaults(kind: GraphType) -> dict[str, pa.Scalar]:
    known = ((name, default_scalar(prop)) for name, prop in kind.properties.items())
    return {name: value for name, value in known if value is not None}


def _missing(column: Column, rows: int) -> pa.ChunkedArray:
    if column.absent is None:
        return pa.chunked_array([pa.nulls(rows, column.kind)])
    return pa.chunked_array([pa.repeat(column.absent, rows)], column.kind)


def _seen(kind: NodeType | EdgeType) -> dict[str, pa.DataType]:
    system = EDGE_SYSTEM_COLUMNS if isinstance(kind, EdgeType) else (ID,)
    own = {prop.name: arrow_type(prop.type) for prop in stored_properties(kind).values()}
    return dict.fromkeys(system, pa.string()) | own

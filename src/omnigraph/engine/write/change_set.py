"""What a write does, as values: rows to put and ids to delete, per table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import Ints, one_array
from omnigraph.engine.write.ledger import EVERY_COLUMN, Ledger
from omnigraph.engine.write.violations import Broken, Cause

ID = "id"


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table's part: whole rows by id (each id once), and ids of rows to delete.

    `updates` tells which of the rows replace a committed row by intent: an `update` must not
    bring back a row that somebody else deleted meanwhile.
    """

    upserts: pa.Table | None = None
    deletes: pa.Array | None = None
    updates: bool = False
    inserts_new: bool = False
    """Whether every row is new by construction (generated ids)."""
    must_be_new: bool = False
    """Whether a row whose id is taken breaks a rule, instead of replacing that row."""
    replaces: bool = False
    """Whether the rows take the place of all committed ones."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        some = (self.upserts and len(self.upserts)) or (self.deletes and len(self.deletes))
        return not some and not self.replaces


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All tables that one commit changes."""

    tables: Mapping[str, TableChange] = field(default_factory=dict)
    cascaded_at: str | None = None
    """The commit at which every edge of the deleted nodes was found and deleted with them."""
    ledger: Ledger = field(default_factory=Ledger)
    """Which statement of a mutation did what."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return all(change.is_empty for change in self.tables.values())

    def upserts(self, key: str) -> pa.Table | None:
        """Return the rows put into a table, or None."""
        change = self.tables.get(key)
        return None if change is None or not change.upserts else change.upserts

    def replaces(self, key: str) -> bool:
        """Whether nothing of a table's committed rows stays."""
        change = self.tables.get(key)
        return change is not None and change.replaces

    def place_of(self, broken: Broken, number: int) -> str | None:
        """Return the statement that broke a rule, in words; None where none is known."""
        if broken.cause is not None:
            cause = broken.cause(number)
        else:
            rows = self.upserts(broken.table_key)
            assert rows is not None
            row = rows[ID].slice(int(broken.rows[number]), 1)
            cause = Cause(broken.table_key, one_array(row), broken.columns)
        statement = self.ledger.statement_of(cause)
        return None if statement is None else statement_place(statement)

    def removed(self, key: str) -> pa.Array:
        """Return the ids that are gone from a table's committed rows: deleted or replaced."""
        change = self.tables.get(key)
        parts = [] if change is None else [change.deletes, _ids(change.upserts)]
        known = [part for part in parts if part is not None]
        return pa.concat_arrays(known) if known else pa.array([], pa.string())


class Draft:
    """Collects a mutation's writes statement by statement; later statements see earlier ones.

    What a statement puts is only remembered; it is merged with what was put before once somebody
    asks for the rows, so that a thousand statements do not copy each other's rows.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {}
        self._deleted: dict[str, pa.Array] = {}
        self._updates: set[str] = set()
        self._keyed: set[str] = set()
        self._ledger = Ledger()
        self.statement = 0
        """The statement that is being carried out, from 1."""

    @property
    def place(self) -> str:
        """The statement that is being carried out, in words."""
        return statement_place(self.statement)

    def insert(self, key: str, rows: pa.Table, *, generated_ids: bool) -> None:
        """Add whole rows; a row with a known id replaces it, the last one wins."""
        self._put(key, rows, EVERY_COLUMN)
        if not generated_ids:
            self._keyed.add(key)

    def update(self, key: str, rows: pa.Table, columns: Collection[str]) -> None:
        """Add whole rows of which some columns have new values."""
        self._put(key, rows, frozenset(columns))
        self._updates.add(key)
        self._keyed.add(key)

    def _put(self, key: str, rows: pa.Table, columns: frozenset[str]) -> None:
        self._parts.setdefault(key, []).append(fillable(rows))
        self._ledger.put(key, self.statement, one_array(rows[ID]), columns)

    def delete(self, key: str, ids: pa.Array) -> int:
        """Mark committed rows as deleted; return how many were not marked before."""
        known = self._deleted.get(key)
        if known is not None:
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=known)))
            self._deleted[key] = pa.concat_arrays([known, ids])
        elif len(ids):
            self._deleted[key] = ids
        self._ledger.delete(key, self.statement, ids)
        return len(ids)

    def rows(self, key: str) -> pa.Table | None:
        """Return the rows put so far, each id once."""
        parts = self._parts.get(key)
        if parts is None:
            return None
        if len(parts) > 1:
            rows = pa.concat_tables(parts).combine_chunks()
            if key in self._keyed:
                rows = rows.take(pa.array(_last_of_each(one_array(rows[ID]))))
            parts[:] = [rows]
        return parts[0]

    def deleted(self, key: str) -> pa.Array | None:
        """Return the ids deleted so far."""
        return self._deleted.get(key)

    def change_set(self, cascaded_at: str) -> ChangeSet:
        """Return everything collected; edges were looked up at the given commit."""
        tables: dict[str, TableChange] = {}
        for key in sorted({*self._parts, *self._deleted}):
            rows = self.rows(key)
            tables[key] = TableChange(
                rows,
                self._deleted.get(key),
                key in self._updates,
                rows is not None and key not in self._keyed,
            )
        return ChangeSet(tables, cascaded_at, self._ledger)


def _last_of_each(ids: pa.Array) -> Ints:
    """Return where every id occurs last, in order."""
    codes = ids.dictionary_encode().indices.to_numpy()
    _, from_behind = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - from_behind)


def fillable(rows: pa.Table) -> pa.Table:
    """Return rows whose columns all take nulls: a required vector may still have to be made."""
    if all(field.nullable for field in rows.schema):
        return rows
    fields = [field.with_nullable(True) for field in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def statement_place(number: int) -> str:
    """Return how a statement of a mutation is named in messages."""
    return f"statement {number}"


def _ids(rows: pa.Table | None) -> pa.Array | None:
    if rows is None:
        return None
    return one_array(rows[ID])

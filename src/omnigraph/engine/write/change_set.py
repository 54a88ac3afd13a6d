"""What a write does, as values: rows to put and ids to delete, per table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import Ints, one_array
from omnigraph.engine.read.compare import mask_of

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
    statements: Ints | None = None
    """Which statement of a mutation made each of the rows, from 1; a load knows lines instead."""

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
    only_statement: bool = False
    """Whether one statement of a mutation did all of it."""

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

    def place_of(self, key: str, row: int) -> str | None:
        """Return what made a row of a table; -1 stands for none of them."""
        change = self.tables.get(key)
        if row >= 0 and change is not None and change.statements is not None:
            return statement_place(int(change.statements[row]))
        return statement_place(1) if self.only_statement else None

    def removed(self, key: str) -> pa.Array:
        """Return the ids that are gone from a table's committed rows: deleted or replaced."""
        change = self.tables.get(key)
        parts = [] if change is None else [change.deletes, _ids(change.upserts)]
        known = [part for part in parts if part is not None]
        return pa.concat_arrays(known) if known else pa.array([], pa.string())


class Draft:
    """Collects a mutation's writes statement by statement; later statements see earlier ones."""

    def __init__(self) -> None:
        self._rows: dict[str, pa.Table] = {}
        self._deleted: dict[str, pa.Array] = {}
        self._updates: set[str] = set()
        self._keyed: set[str] = set()
        self._statements: dict[str, Ints] = {}
        self.statement = 0
        """The statement that is being carried out, from 1."""

    @property
    def place(self) -> str:
        """The statement that is being carried out, in words."""
        return statement_place(self.statement)

    def put(self, key: str, rows: pa.Table, *, updates: bool, generated_ids: bool) -> None:
        """Add whole rows; a row with a known id replaces it, the last one wins."""
        if not len(rows):
            return
        made_by = np.full(len(rows), self.statement)
        known = self._rows.get(key)
        if known is not None:
            stays = pc.invert(pc.is_in(known[ID], value_set=_ids(rows)))
            rows = pa.concat_tables([known.filter(stays), rows])
            made_by = np.concatenate([self._statements[key][mask_of(stays)], made_by])
        self._rows[key] = rows
        self._statements[key] = made_by
        if updates:
            self._updates.add(key)
        if updates or not generated_ids:
            self._keyed.add(key)

    def delete(self, key: str, ids: pa.Array) -> int:
        """Mark committed rows as deleted; return how many were not marked before."""
        known = self._deleted.get(key)
        if known is not None:
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=known)))
            self._deleted[key] = pa.concat_arrays([known, ids])
        elif len(ids):
            self._deleted[key] = ids
        return len(ids)

    def rows(self, key: str) -> pa.Table | None:
        """Return the rows put so far."""
        return self._rows.get(key)

    def deleted(self, key: str) -> pa.Array | None:
        """Return the ids deleted so far."""
        return self._deleted.get(key)

    def change_set(self, cascaded_at: str) -> ChangeSet:
        """Return everything collected; edges were looked up at the given commit."""
        keys = sorted({*self._rows, *self._deleted})
        return ChangeSet(
            {
                key: TableChange(
                    self._rows.get(key),
                    self._deleted.get(key),
                    key in self._updates,
                    key in self._rows and key not in self._keyed,
                    statements=self._statements.get(key),
                )
                for key in keys
            },
            cascaded_at,
            only_statement=self.statement == 1,
        )


def statement_place(number: int) -> str:
    """Return how a statement of a mutation is named in messages."""
    return f"statement {number}"


def _ids(rows: pa.Table | None) -> pa.Array | None:
    if rows is None:
        return None
    return one_array(rows[ID])

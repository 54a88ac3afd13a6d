"""Which statement of a mutation brought a broken rule about; a load knows lines instead.

Statements only note what they put and delete. Nothing is looked up until a rule is broken.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.image.arrays import Ints
from omnigraph.engine.write.violations import Cause

EVERY_COLUMN = frozenset({"*"})
"""What an insert gives values to: columns it does not name become null."""


class Ledger:
    """What each statement put and deleted, in order."""

    def __init__(self) -> None:
        self._puts: dict[str, list[tuple[int, pa.Array, frozenset[str]]]] = {}
        self._deletes: dict[str, list[tuple[int, pa.Array]]] = {}
        self._known: dict[tuple[str, tuple[str, ...]], tuple[pa.Array, Ints]] = {}

    def put(self, key: str, statement: int, ids: pa.Array, columns: frozenset[str]) -> None:
        """Note rows that a statement gave values in some columns."""
        self._puts.setdefault(key, []).append((statement, ids, columns))

    def delete(self, key: str, statement: int, ids: pa.Array) -> None:
        """Note rows that a statement deleted."""
        self._deletes.setdefault(key, []).append((statement, ids))

    def statement_of(self, cause: Cause) -> int | None:
        """Return the statement that wrote what broke a rule, or None if no statement did.

        A row stands for the statement that gave its columns their values last. Of several rows
        that came or went one after another, it is the one that tipped the balance.
        """
        ids, statements = self._written(cause.table_key, cause.columns)
        found = pc.index_in(cause.ids, value_set=ids).drop_null().to_numpy()
        if not len(found):
            return None
        return int(np.sort(statements[found])[min(cause.nth, len(found) - 1)])

    def _written(self, key: str, columns: tuple[str, ...]) -> tuple[pa.Array, Ints]:
        """Return ids and the statements that wrote these columns of them, the last ones first."""
        if (key, columns) not in self._known:
            wanted = EVERY_COLUMN.union(columns)
            notes = [
                (statement, ids)
                for statement, ids, written in self._puts.get(key, [])
                if written & wanted
            ]
            notes = [*self._deletes.get(key, []), *notes][::-1]
            ids = pa.concat_arrays([pa.array([], pa.string()), *(ids for _, ids in notes)])
            counts = [len(ids) for _, ids in notes]
            numbers = np.repeat(np.asarray([one for one, _ in notes], np.int64), counts)
            self._known[key, columns] = ids, numbers
        return self._known[key, columns]

"""What stands in the way of a merge, put into words only as far as somebody asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.api.merges import ConflictKind, MergeConflict, MergeConflictError
from omnigraph.api.query import QueryResult
from omnigraph.base.ids import TableKey
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.merge.images import ID, Images
from omnigraph.engine.merge.rows import RowConflicts
from omnigraph.storage.tables.equal import unequal

MAX_TOLD = 100


class Conflicts:
    """All conflicts of a merge, sorted by table and id; only those asked for become words."""

    def __init__(
        self, rows: Mapping[TableKey, RowConflicts], rules: Sequence[MergeConflict] = ()
    ) -> None:
        self._rows = rows
        self._rules = sorted(rules, key=lambda one: (one.table_key, one.row_id or "", one.message))
        self.total = sum(len(found) for found in rows.values()) + len(rules)

    def __iter__(self) -> Iterator[MergeConflict]:
        for key in sorted(self._rows):
            yield from told(key, self._rows[key])
        yield from self._rules

    def first(self, count: int) -> Iterator[MergeConflict]:
        """Yield the first of them."""
        yield from itertools.islice(self, count)

    def error(self) -> MergeConflictError:
        """Return the error that tells them."""
        return MergeConflictError(self.first(MAX_TOLD), self.total, self)


def told(key: str, rows: RowConflicts, at_once: int = 1_000) -> Iterator[MergeConflict]:
    """Yield the conflicts of a table's rows in words."""
    for start in range(0, len(rows.ids), at_once):
        ids = rows.ids.slice(start, at_once)
        base, ours, theirs = (_dicts(ids, side) for side in (rows.base, rows.ours, rows.theirs))
        unlike = differing_columns(ids, rows.ours, rows.theirs)
        unsettled = set(rows.unsettled.to_pylist())
        for number, row_id in enumerate(ids.to_pylist()):
            was = None if row_id in unsettled else base[number]
            kind = _kind(was, ours[number], theirs[number], known=row_id not in unsettled)
            columns = tuple(name for name, mask in unlike.items() if mask[number])
            message = _message(
                key, row_id, kind, columns, ours[number], known=row_id not in unsettled
            )
            yield MergeConflict(
                key, row_id, kind, message, was, ours[number], theirs[number], columns
            )


def differing_columns(ids: pa.Array, ours: Images, theirs: Images) -> dict[str, Mask]:
    """Return per column in which rows two sides differ; a row one of them lacks is in none."""
    here, there = ours.places(ids), theirs.places(ids)
    both = np.flatnonzero((here >= 0) & (there >= 0))
    found: dict[str, Mask] = {}
    for name in ours.rows.column_names:
        mask = np.zeros(len(ids), dtype=bool)
        if len(both) and name != ID:
            left = ours.rows[name].take(pa.array(here[both])).combine_chunks()
            right = theirs.rows[name].take(pa.array(there[both])).combine_chunks()
            mask[both] = unequal(_one(left), _one(right))
        found[name] = mask
    return found


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    return column


def _dicts(ids: pa.Array, side: Images) -> list[dict[str, Any] | None]:
    places = side.places(ids)
    there = np.flatnonzero(places >= 0)
    rows = QueryResult(side.rows.take(pa.array(places[there]))).to_json_rows()
    found: list[dict[str, Any] | None] = [None] * len(ids)
    for at, row in zip(there, rows, strict=True):
        found[int(at)] = row
    return found


def _kind(base: object, ours: object, theirs: object, *, known: bool) -> ConflictKind:
    if ours is None or theirs is None:
        return ConflictKind.DELETE_VS_UPDATE
    if base is None and known:
        return ConflictKind.DIVERGENT_INSERT
    return ConflictKind.DIVERGENT_UPDATE


def _message(
    key: str,
    row_id: str,
    kind: ConflictKind,
    columns: Sequence[str],
    ours: object,
    *,
    known: bool,
) -> str:
    match kind:
        case ConflictKind.DELETE_VS_UPDATE:
            which = (
                "deleted here and changed there"
                if ours is None
                else "changed here and deleted there"
            )
            text = f"{key} '{row_id}' was {which}"
        case ConflictKind.DIVERGENT_INSERT:
            text = (
                f"{key} '{row_id}' was inserted on both sides with different {', '.join(columns)}"
            )
        case _:
            text = f"{key} '{row_id}' was changed on both sides: {', '.join(columns)}"
    return text if known else f"{text} (earlier merges disagree about what it was)"

"""What differs between two states for somebody who sees some rows of each only.

A row that came into sight was inserted, as far as they can tell, and one that went out of it was
deleted. Most of that is in the rows that differ anyway; an edge, though, comes and goes with its
ends, and need not differ at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import checkpoint
from omnigraph.engine.changes.pairs import GraphType, State, TypePair
from omnigraph.engine.read.visible import VisibleImages
from omnigraph.storage.delta.confirm import Difference
from omnigraph.storage.delta.table import TableDelta, table_delta

_ID = "id"


@dataclass(frozen=True, slots=True)
class SeenStates:
    """What somebody sees of the states that are compared."""

    before: State
    after: State
    seen_before: VisibleImages
    seen_after: VisibleImages

    def pieces(
        self, pair: TypePair, delta: TableDelta, columns: Collection[str] | None
    ) -> Iterator[Difference]:
        """Yield what differs in one type as far as it is seen.

        Args:
            pair: the type.
            delta: between all of its rows.
            columns: those that are looked at; None is all.
        """
        old, new = _ids(self.seen_before, pair.before), _ids(self.seen_after, pair.after)
        found, states = delta.batches(columns), (self.before, self.after)
        if old is None and new is None:
            yield from found
            return
        known: list[pa.Array] = []
        parts: list[_Parts] = []
        for piece in found:
            parts.append(_seen(piece, old, new))
            known += [part[_ID].combine_chunks() for part in (piece.inserted, piece.after)]
            known.append(piece.deleted[_ID].combine_chunks())
        if pair.kind == "edge":
            parts.append(_come_and_gone(pair, states, (old, new), known, columns))
        yield from _together(parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Rows that differ, and for updated ones in which columns."""

    inserted: Sequence[pa.Table]
    deleted: Sequence[pa.Table]
    updated: Difference | None = None


def _ids(seen: VisibleImages, kind: GraphType | None) -> pa.Array | None:
    """Return the ids of what is seen of a type; None is everything there is."""
    if kind is None:
        return pa.array([], pa.string())
    return seen.ids_of(kind.table_key) if seen.hides_in(kind.table_key) else None


def _in(rows: pa.Table, ids: pa.Array | None) -> pa.ChunkedArray | pa.Array:
    if ids is None:
        return pa.array(np.ones(len(rows), dtype=bool))
    return pc.is_in(rows[_ID], value_set=ids)


def _seen(piece: Difference, old: pa.Array | None, new: pa.Array | None) -> _Parts:
    was, is_now = _in(piece.before, old), _in(piece.after, new)
    both = pc.and_(was, is_now)
    differing = piece.differing.filter(both.combine_chunks() if hasattr(both, "chunks") else both)
    updated = Difference(
        piece.inserted.slice(0, 0),
        piece.before.filter(both),
        piece.after.filter(both),
        piece.deleted.slice(0, 0),
        differing,
    )
    inserted = [
        piece.inserted.filter(_in(piece.inserted, new)),
        piece.after.filter(pc.and_not(is_now, was)),
    ]
    deleted = [
        piece.deleted.filter(_in(piece.deleted, old)),
        piece.before.filter(pc.and_not(was, is_now)),
    ]
    return _Parts(inserted, deleted, updated)


def _come_and_gone(
    pair: TypePair,
    states: tuple[State, State],
    seen: tuple[pa.Array | None, pa.Array | None],
    known: Sequence[pa.Array],
    columns: Collection[str] | None,
) -> _Parts:
    """Return the edges that are the same in both states, and seen in one of them."""
    found: list[list[pa.Table]] = []
    both = [
        _all_ids(state, kind) if ids is None else ids
        for state, kind, ids in zip(states, (pair.before, pair.after), seen, strict=True)
    ]
    told = pa.concat_arrays(known) if known else pa.array([], pa.string())
    for at, (state, kind) in enumerate(zip(states, (pair.before, pair.after), strict=True)):
        mine, other = both[at], both[1 - at]
        alone = mine.filter(pc.invert(pc.is_in(mine, value_set=other)))
        alone = alone.filter(pc.invert(pc.is_in(alone, value_set=told)))
        found.append(list(_rows(pair, state, kind, alone, columns, is_after=at == 1)))
    return _Parts(found[1], found[0])


def _all_ids(state: State, kind: GraphType | None) -> pa.Array:
    if kind is None:
        return pa.array([], pa.string())
    rows = state.snapshot.open(kind.table_key).scan([_ID])
    return rows[_ID].combine_chunks()


def _rows(
    pair: TypePair,
    state: State,
    kind: GraphType | None,
    ids: pa.Array,
    columns: Collection[str] | None,
    *,
    is_after: bool,
) -> Iterator[pa.Table]:
    """Yield rows of one state by their ids, with the columns of both."""
    if kind is None or not len(ids):
        return
    table = state.table(kind)
    sides = (None, table) if is_after else (table, None)
    delta = table_delta(state.snapshot.kernel, *sides, columns=pair.columns)
    for piece in delta.batches(columns):
        checkpoint("diff")
        rows = piece.inserted if is_after else piece.deleted
        yield rows.filter(pc.is_in(rows[_ID], value_set=ids))


def _together(parts: Sequence[_Parts]) -> Iterator[Difference]:
    """Yield everything as one piece, sorted by id."""
    inserted = [rows for one in parts for rows in one.inserted if len(rows)]
    deleted = [rows for one in parts for rows in one.deleted if len(rows)]
    updated = [one.updated for one in parts if one.updated is not None]
    some = [*inserted, *deleted, *(one.after for one in updated)]
    if not some:
        return
    schema = pa.unify_schemas([one.schema for one in some], promote_options="permissive")
    before = _stacked([one.before for one in updated], schema)
    order = pc.sort_indices(before[_ID])
    kinds = [one.differing for one in updated]
    differing = pa.concat_arrays(kinds) if kinds else pa.array([], pa.list_(pa.string()))
    yield Difference(
        _stacked(inserted, schema).sort_by(_ID),
        before.take(order),
        _stacked([one.after for one in updated], schema).take(order),
        _stacked(deleted, schema).sort_by(_ID),
        differing.take(order),
    )


def _stacked(parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    whole = pa.concat_tables([schema.empty_table(), *parts], promote_options="permissive")
    return whole.select(schema.names).cast(schema)

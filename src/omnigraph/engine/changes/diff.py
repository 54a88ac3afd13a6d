"""What differs between two states of a graph, type by type, sorted by table key and then id."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.changes import ChangedRows
from omnigraph.api.words import CHANGE_OPS, ChangeOp, EntityKind, Images
from omnigraph.engine.changes.pairs import State, TypePair, paired_types
from omnigraph.errors import NotFoundError
from omnigraph.storage.delta.confirm import Difference
from omnigraph.storage.delta.table import TableDelta, table_delta

_ENDS = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a diff is asked for."""

    types: tuple[str, ...] | None = None
    kinds: tuple[EntityKind, ...] | None = None
    ops: tuple[ChangeOp, ...] | None = None
    images: Images = "none"
    columns: tuple[str, ...] | None = None
    """Properties that are compared and shown; updates of others alone are left out."""


PiecesOf: TypeAlias = Callable[[TypePair, TableDelta, Collection[str] | None], Iterator[Difference]]
"""Yields what differs in one type, given its delta, if that alone does not say it."""


def diff(
    before: State, after: State, wanted: Wanted, pieces_of: PiecesOf | None = None
) -> Iterator[ChangedRows]:
    """Return, piece by piece, what must change in `before` to make it `after`.

    What cannot be asked for is refused at once; rows are compared as they are asked for.

    Args:
        before: the state to start from.
        after: the state to arrive at.
        wanted: what of the diff is asked for.
        pieces_of: how the rows of a type are compared; by their delta if not said.

    Raises:
        SnapshotExpiredError: rows of a state were cleaned up.
        NotFoundError: neither state has a type, or no type a column, that is asked for.
    """
    pairs = paired_types(before, after, wanted.types, wanted.kinds)
    _require_columns(pairs, wanted.columns)
    return itertools.chain.from_iterable(
        _of_type(pair, before, after, wanted, pieces_of) for pair in pairs
    )


def _of_type(
    pair: TypePair, before: State, after: State, wanted: Wanted, pieces_of: PiecesOf | None
) -> Iterator[ChangedRows]:
    delta = delta_of(pair, before, after)
    columns = None if wanted.columns is None else {*wanted.columns, *_ends(pair)}
    pieces = delta.batches(columns) if pieces_of is None else pieces_of(pair, delta, columns)
    for piece in pieces:
        rows = changed_rows(pair, piece, wanted)
        if len(rows):
            version = after.snapshot.manifest_version
            yield ChangedRows(pair.shown.table_key, pair.kind, pair.shown.name, version, rows)


def delta_of(pair: TypePair, before: State, after: State) -> TableDelta:
    """Return the delta of one type's tables."""
    kernel = after.snapshot.kernel
    old, new = before.table(pair.before), after.table(pair.after)
    return table_delta(kernel, old, new, columns=pair.columns)


def changed_rows(pair: TypePair, piece: Difference, wanted: Wanted) -> pa.Table:
    """Return a piece of a delta as rows of changes, see `ChangedRows`."""
    counts = [len(piece.inserted), len(piece.after), len(piece.deleted)]
    rows = {
        "op": pa.array(np.repeat(CHANGE_OPS, counts), pa.string()),
        "id": _stacked(piece, "id"),
        **{name: _stacked(piece, name) for name in _ends(pair)},
        "changed": _spread(piece.differing, counts),
    }
    if wanted.images == "both":
        rows["before"] = _image([None, piece.before, piece.deleted], counts)
    if wanted.images != "none":
        rows["after"] = _image([piece.inserted, piece.after, None], counts)
    table = pa.table(rows)
    if wanted.ops is not None:
        table = table.filter(pc.is_in(table["op"], value_set=pa.array(wanted.ops, pa.string())))
    return table.take(pc.sort_indices(table, [("id", "ascending"), ("op", "ascending")]))


def _ends(pair: TypePair) -> Sequence[str]:
    return _ENDS if pair.kind == "edge" else ()


def _stacked(piece: Difference, name: str) -> pa.ChunkedArray:
    parts = (piece.inserted, piece.after, piece.deleted)
    return pa.chunked_array([chunk for one in parts for chunk in one[name].chunks], pa.string())


def _spread(differing: pa.ListArray, counts: Sequence[int]) -> pa.ChunkedArray:
    """Return the names of differing columns for updates, null for the other rows."""
    inserted, _, deleted = counts
    kind = differing.type
    return pa.chunked_array([pa.nulls(inserted, kind), differing, pa.nulls(deleted, kind)], kind)


def _image(parts: Sequence[pa.Table | None], counts: Sequence[int]) -> pa.ChunkedArray:
    """Return whole rows as structs, null where a side has none."""
    kind = next(
        pa.struct([(one.name, one.type) for one in part.schema])
        for part in parts
        if part is not None
    )
    chunks = [
        chunk
        for part, count in zip(parts, counts, strict=True)
        for chunk in ([pa.nulls(count, kind)] if part is None else part.to_struct_array().chunks)
    ]
    return pa.chunked_array(
        [pa.array(one) if isinstance(one, list) else one for one in chunks], kind
    )


def _require_columns(pairs: Sequence[TypePair], columns: Collection[str] | None) -> None:
    known = {column.name for pair in pairs for column in pair.columns} | {"id"}
    for name in columns or ():
        if name not in known:
            raise NotFoundError(
                f"no type that is compared has a property '{name}'",
                hint=f"they have {', '.join(sorted(known))}",
            )

"""What one line did since it and another one last had everything in common, as a merge sees it.

After merges in both directions there are several states they have in common, and against any single
one of them a diff would show as done here what was done there. So rows in which these states differ
are compared with what they come to together, which is what a merge would compare them with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import TableKey
from omnigraph.engine.changes.pairs import TypePair
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.merge.base import Bases
from omnigraph.engine.merge.images import ID, Images, joined
from omnigraph.engine.merge.rows import first_images
from omnigraph.storage.delta.confirm import Difference, named
from omnigraph.storage.delta.table import TableDelta
from omnigraph.storage.tables.differ import plain_blobs, sized
from omnigraph.storage.tables.equal import cells_unequal


@dataclass(frozen=True, slots=True)
class SinceBases:
    """Compares a state with what several bases, all of one schema, come to together.

    A row of which nobody can say what its base was is compared with the first one.
    """

    bases: Bases

    def __call__(
        self, pair: TypePair, delta: TableDelta, columns: Collection[str] | None
    ) -> Iterator[Difference]:
        """Yield what differs, given the delta from the first base, in ascending ranges of ids."""
        key = TableKey(pair.shown.table_key)
        disputed = self.bases.disputed(key)
        pieces = delta.batches(columns)
        if not len(disputed):
            return pieces
        names = [one.name for one in delta.columns if columns is None or one.name in columns]
        here = self._disputed(key, delta, disputed, [name for name in names if name != ID])
        return _in_order((_without(piece, disputed) for piece in pieces), here)

    def _disputed(
        self, key: TableKey, delta: TableDelta, ids: pa.Array, names: Sequence[str]
    ) -> Difference | None:
        mine = joined(delta.batches(blobs=True), ids)
        changes = [*([] if mine is None else [mine]), *self.bases.changes_between(key, ids)]
        first = first_images(changes)
        if first is None:
            return None  # written again with the values they had
        based = self.bases.agreed(key, ids, first)
        unsettled = first.only(based.unsettled)
        before = based.images.without(based.unsettled).with_rows(unsettled.rows)
        return _between(ids, before, first if mine is None else first.after(mine), names)


def _between(ids: pa.Array, before: Images, after: Images, names: Sequence[str]) -> Difference:
    """Return how some rows differ between two states."""
    ids = ids.take(pc.sort_indices(ids))
    was, now = before.places(ids), after.places(ids)
    both = np.flatnonzero((was >= 0) & (now >= 0))
    old, new = before.rows.take(pa.array(was[both])), after.rows.take(pa.array(now[both]))
    cells = cells_unequal(old, new, names)
    rows = np.flatnonzero(cells.any(axis=1))
    return Difference(
        _shown(after.rows.take(pa.array(now[(was < 0) & (now >= 0)])), names),
        _shown(old.take(pa.array(rows)), names),
        _shown(new.take(pa.array(rows)), names),
        _shown(before.rows.take(pa.array(was[(was >= 0) & (now < 0)])), names),
        named(cells[rows], names),
    )


def _shown(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    rows = rows.select([ID, *names])
    return sized(rows, plain_blobs(rows))


def _in_order(pieces: Iterable[Difference], more: Difference | None) -> Iterator[Difference]:
    """Yield pieces with the rows of another one put where they belong."""
    for piece in pieces:
        last = max((one[ID][-1].as_py() for one in _parts(piece) if len(one)), default=None)
        if more is None or last is None:
            yield piece
            continue
        now, more = _cut(more, last)
        yield _together(piece, now)
    if more is not None and more.rows:
        yield more


def _cut(piece: Difference, last: str) -> tuple[Difference, Difference]:
    """Return the part of a piece up to an id, and the rest."""
    end = pa.scalar(last, pa.string())
    return (
        _picked(piece, lambda rows: pc.less_equal(one_array(rows[ID]), end)),
        _picked(piece, lambda rows: pc.greater(one_array(rows[ID]), end)),
    )


def _parts(piece: Difference) -> tuple[pa.Table, ...]:
    return piece.inserted, piece.after, piece.deleted


def _without(piece: Difference, ids: pa.Array) -> Difference:
    return _picked(piece, lambda rows: pc.invert(pc.is_in(one_array(rows[ID]), value_set=ids)))


def _picked(piece: Difference, wanted: Callable[[pa.Table], pa.Array]) -> Difference:
    updated = wanted(piece.after)
    return Difference(
        piece.inserted.filter(wanted(piece.inserted)),
        piece.before.filter(updated),
        piece.after.filter(updated),
        piece.deleted.filter(wanted(piece.deleted)),
        piece.differing.filter(updated),
    )


def _together(one: Difference, other: Difference) -> Difference:
    """Return two pieces about different rows as one, each part sorted by id."""
    differing = pa.concat_arrays([one.differing, other.differing])
    after = pa.concat_tables([one.after, other.after])
    order = pc.sort_indices(after[ID])
    return Difference(
        pa.concat_tables([one.inserted, other.inserted]).sort_by(ID),
        pa.concat_tables([one.before, other.before]).take(order),
        after.take(order),
        pa.concat_tables([one.deleted, other.deleted]).sort_by(ID),
        differing.take(order),
    )

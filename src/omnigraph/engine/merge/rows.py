"""The truth table of a three-way merge, for one table: whole rows, decided by id.

| base | theirs | ours | becomes |
|---|---|---|---|
| any | as the base | any | ours |
| any | changed | as the base | theirs |
| any | changed | the same change | ours |
| absent | inserted | inserted otherwise | DivergentInsert |
| there | deleted | updated, or the other way round | DeleteVsUpdate |
| there | updated | updated otherwise | DivergentUpdate |

Images of all three states are held only for rows that both sides touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.ids import TableKey
from omnigraph.engine.image.arrays import Mask, one_array
from omnigraph.engine.merge.base import Based, Bases
from omnigraph.engine.merge.images import ID, Images, changed_ids, joined, only, same
from omnigraph.storage.delta.confirm import Changed
from omnigraph.storage.delta.table import TableDelta
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.tables.differ import OwnFragment
from omnigraph.storage.tables.foreign import ForeignFragment

LINKED_FROM = 1 << 20
"""Bytes of a fragment from which on it is taken over as it is.

Below, writing its rows costs less than making sure that all of them are new; and many small
fragments would slow reads.
"""
_TRIED_FIRST = 64
_NOTHING = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class RowConflicts:
    """Rows both sides changed, each in its own way; sorted by id."""

    ids: pa.Array
    base: Images
    theirs: Images
    ours: Images
    unsettled: pa.Array
    """Ids without a base: several bases disagree about them."""

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, wanted: Mask) -> RowConflicts:
        """Return some of them."""
        ids = self.ids.filter(pa.array(wanted))
        return RowConflicts(ids, self.base, self.theirs, self.ours, self.unsettled)


def all_conflicts(parts: Sequence[RowConflicts]) -> RowConflicts | None:
    """Return conflicts of different rows as one; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    ids = pa.concat_arrays([one.ids for one in parts])
    return RowConflicts(
        ids.take(pc.sort_indices(ids)),
        _images([one.base for one in parts]),
        _images([one.theirs for one in parts]),
        _images([one.ours for one in parts]),
        pa.concat_arrays([one.unsettled for one in parts]),
    )


def _images(parts: Sequence[Images]) -> Images:
    return Images(pa.concat_tables([one.rows for one in parts]))


@dataclass(slots=True)
class TableMerge:
    """What a merge does to one table of the target."""

    key: TableKey
    inserted: list[pa.Table] = field(default_factory=list)
    updated: list[pa.Table] = field(default_factory=list)
    settled: list[pa.Table] = field(default_factory=list)
    """Rows that neither side has like this: put together from both, or given by hand."""
    deleted: list[pa.Array] = field(default_factory=list)
    before: list[pa.Table] = field(default_factory=list)
    """Ids and ends of updated and deleted rows, as they are on the target now."""
    conflicts: RowConflicts | None = None
    kept: list[pa.Table] = field(default_factory=list)
    """Rows in conflict that stay as they are on the target."""
    kept_away: list[pa.Array] = field(default_factory=list)
    """Ids in conflict that stay deleted on the target."""
    agreed: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """Ids that both sides changed in the same way: nothing to do, as long as that stays so."""
    pointer: TableVersion | None = None
    """Where the table is read from as a whole, instead of writing rows."""
    linked: tuple[OwnFragment, ...] = ()
    """Fragments of the source that are taken over as they are: all of their rows are new."""
    written: tuple[ForeignFragment, ...] = ()
    """Fragments with rows that come, or come to be otherwise, where those are many."""
    elsewhere: list[Changed] = field(default_factory=list)
    """What a pointer or fragments change: columns by which rows can be in the way."""

    def take(self, changed: Changed) -> None:
        """Do on the target what a change of the source says."""
        if len(changed.inserted):
            self.inserted.append(changed.inserted)
        if len(changed.after):
            self.before.append(ends_of(changed.before))
            self.updated.append(changed.after)
        if len(changed.deleted):
            self.before.append(ends_of(changed.deleted))
            self.deleted.append(one_array(changed.deleted[ID]))

    def replace(self, ids: pa.Array, theirs: Images, ours: Images) -> None:
        """Make some rows of the target what they are on the other side, or not there."""
        put, known = theirs.only(ids).rows, ours.only(ids)
        ids = one_array(put[ID])
        is_known = pa.array(known.has(ids))
        update = put.filter(is_known)
        self.take(
            Changed(
                put.filter(pc.invert(is_known)),
                known.only(one_array(update[ID])).rows,
                update,
                known.without(ids).rows,
            )
        )

    def put_together(self, rows: pa.Table, ours: Images) -> None:
        """Put rows that neither side has like this."""
        self.settled.append(rows)
        self.before.append(ends_of(ours.only(one_array(rows[ID])).rows))

    def keep(self, ids: pa.Array, ours: Images) -> None:
        """Leave some rows in conflict as the target has them."""
        self.kept.append(ours.only(ids).rows)
        self.kept_away.append(ids.filter(pa.array(~ours.has(ids))))

    @property
    def upserts(self) -> pa.Table | None:
        """Return the rows to write."""
        parts = [*self.inserted, *self.updated, *self.settled]
        return pa.concat_tables(parts) if parts else None

    @property
    def only_inserts(self) -> bool:
        """Whether every row to write is new on the target and nothing else happens."""
        others = self.updated or self.settled or self.deleted or self.elsewhere
        return bool(self.inserted) and not others

    @property
    def is_empty(self) -> bool:
        """Whether the table stays as it is."""
        rows = self.inserted or self.updated or self.deleted or self.settled or self.kept
        return not rows and self.pointer is None and not self.elsewhere

    def put_columns(self, names: Sequence[str]) -> pa.Table | None:
        """Return columns of the rows that come, or come to be otherwise."""
        parts = [*self.inserted, *self.updated, *self.settled]
        for one in self.elsewhere:
            parts += filter(len, (one.inserted, one.after))
        chosen = [rows.select(names) for rows in parts]
        return pa.concat_tables(chosen) if chosen else None

    @property
    def deletes(self) -> pa.Array:
        """Return the ids of the rows that go."""
        parts = [pa.array([], pa.string()), *self.deleted]
        return pa.concat_arrays([*parts, *(one_array(one.deleted[ID]) for one in self.elsewhere)])

    @property
    def own_deletes(self) -> pa.Array:
        """Return the ids of the rows to remove; those that fragments replace go, too."""
        replaced = (one_array(one.after[ID]) for one in self.elsewhere if self.pointer is None)
        return pa.concat_arrays([self.deletes, *replaced])

    @property
    def replaced(self) -> list[pa.Table]:
        """Return ids and ends of rows of the target that do not stay as they are."""
        parts = list(self.before)
        for one in self.elsewhere:
            parts += [ends_of(rows) for rows in (one.before, one.deleted) if len(rows)]
        return parts

    @property
    def decided(self) -> pa.Array:
        """Return the ids of which something was decided by what the target had."""
        put = self.put_columns([ID])
        parts = [*([] if put is None else [put]), *self.kept]
        ids = [one_array(rows[ID]) for rows in parts]
        return pa.concat_arrays([self.deletes, *ids, *self.kept_away, self.agreed])

    @property
    def counts(self) -> dict[str, int]:
        """Return how many rows come, change and go."""
        inserted, updated = map(_rows, (self.inserted, [*self.updated, *self.settled]))
        inserted += sum(len(one.inserted) for one in self.elsewhere)
        updated += sum(len(one.after) for one in self.elsewhere)
        return {"inserted": inserted, "updated": updated, "deleted": len(self.deletes)}


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(map(len, tables))


def ends_of(rows: pa.Table) -> pa.Table:
    """Return ids, and of edges the nodes they lead from and to."""
    return rows.select([name for name in (ID, "src", "dst") if name in rows.column_names])


InRanges: TypeAlias = Callable[
    [TableMerge, TableDelta, TableDelta, Collection[int], pa.Array], bool
]
"""Merges a table that does not fit into memory, but for some ids; tells if that was so."""


def merge_rows(
    key: TableKey,
    bases: Bases,
    theirs: TableVersion | None,
    ours: TableVersion | None,
    *,
    by_link: Sequence[str] | None = None,
    in_ranges: InRanges | None = None,
) -> TableMerge:
    """Return what the changes of `theirs` since the bases do to `ours`, and what conflicts.

    Args:
        key: of the table.
        bases: what both sides began from.
        theirs: the table on the side that is merged in.
        ours: the table on the side it is merged into.
        by_link: that whole fragments of new rows may be taken over by link, and then the columns
            by which their rows can be in the way of others.
        in_ranges: how it is done where too much may differ to be held at once.
    """
    found = TableMerge(key)
    delta, other = bases.delta(key, theirs), bases.delta(key, ours)
    disputed = bases.disputed(key)
    if delta.is_empty_at_list_level and not len(disputed):
        return found
    if by_link is not None and not len(disputed):
        _link(found, delta, other, by_link)
    without = [fragment.fragment_id for fragment in found.linked]
    is_done = in_ranges is not None and in_ranges(found, delta, other, without, disputed)
    shared = disputed if is_done else pa.concat_arrays([other.touched().ids, disputed])
    pieces = delta.batches(blobs=True, without=without) if len(shared) or not is_done else ()
    aside: list[Changed] = []
    for piece in pieces:
        both = only(piece, shared)
        aside += [both] if both.rows else []
        if not is_done:
            found.take(only(piece, shared, inverted=True) if both.rows else piece)
    contested = pc.unique(pa.concat_arrays([disputed, *map(changed_ids, aside)]))
    if len(contested):
        ours_too = joined(other.batches(blobs=True), contested)
        decide(found, contested, joined(aside), ours_too, bases, disputed)
    return found


def _link(found: TableMerge, delta: TableDelta, other: TableDelta, columns: Sequence[str]) -> None:
    """Set aside large fragments of the source of which no row is known anywhere else.

    A row of the base is either unchanged on the source, and then in no fragment of its own, or
    among those that its other fragments replace or lack.
    """
    large = [part for part in delta.own_fragments() if part.bytes >= LINKED_FROM]
    if not large:
        return
    replaced = delta.touched(without=[part.fragment_id for part in large]).before
    known = pa.concat_arrays([replaced, other.touched().ids])

    def is_new(part: OwnFragment) -> bool:
        ids = delta.ids_of([part.fragment_id])
        few = ids.slice(0, _TRIED_FIRST)  # usually all of them are new, or none
        if pc.any(pc.is_in(known, value_set=few)).as_py():
            return False
        return not pc.any(pc.is_in(ids, value_set=known)).as_py()

    found.linked = tuple(part for part in large if is_new(part))
    if found.linked:
        rows = delta.rows_of([part.fragment_id for part in found.linked], columns)
        nothing = rows.slice(0, 0)
        found.elsewhere.append(Changed(rows, nothing, nothing, nothing))


def decide(
    found: TableMerge,
    ids: pa.Array,
    mine: Changed | None,
    ours: Changed | None,
    bases: Bases | None = None,
    disputed: pa.Array = _NOTHING,
) -> None:
    """Apply the truth table to rows of which all three images are needed.

    Args:
        found: what is known of the table; what is decided is added.
        ids: of the rows.
        mine: what the side that is merged in did to them.
        ours: what the other side did to them.
        bases: what both sides began from, for rows in dispute.
        disputed: the ids of those.
    """
    first = _first(bases, found.key, disputed, mine, ours)
    if first is None:
        return  # written again with the values they had, by both
    theirs_now = first if mine is None else first.after(mine)
    ours_now = first if ours is None else first.after(ours)
    based = Based(first, ids[:0])
    if bases is not None and len(disputed):
        based = bases.agreed(found.key, ids, first)
    nowhere = np.asarray(pc.is_in(ids, value_set=based.unsettled))
    same_sides = same(ids, theirs_now, ours_now)
    untouched = same(ids, theirs_now, based.images) & ~nowhere
    found.agreed = pa.concat_arrays([found.agreed, ids.filter(pa.array(same_sides & ~untouched))])
    takes = same(ids, ours_now, based.images) & ~nowhere & ~same_sides & ~untouched
    found.replace(ids.filter(pa.array(takes)), theirs_now, ours_now)
    conflicting = ids.filter(pa.array(~(same_sides | untouched | takes)))
    if len(conflicting):
        conflicting = conflicting.take(pc.sort_indices(conflicting))
        more = RowConflicts(conflicting, based.images, theirs_now, ours_now, based.unsettled)
        known = [] if found.conflicts is None else [found.conflicts]
        found.conflicts = all_conflicts([*known, more])


def _first(
    bases: Bases | None,
    key: TableKey,
    disputed: pa.Array,
    mine: Changed | None,
    ours: Changed | None,
) -> Images | None:
    changes = [change for change in (mine, ours) if change is not None]
    if bases is not None and len(disputed):
        changes += bases.changes_between(key, disputed)
    return first_images(changes)


def first_images(changes: Sequence[Changed]) -> Images | None:
    """Return the rows that changed, as they are at the first base, from what changed since."""
    if not changes:
        return None
    known = Images(changes[0].before.slice(0, 0))
    for change in changes:
        known = known.with_rows(pa.concat_tables([change.before, change.deleted]))
    return known

"""One table at one version, resident: shared base columns and a small overlay of changes.

A base is read once; later versions share it and differ in their overlay: added rows, patched rows,
dead rows. Nothing here is ever changed in place, so readers of an older version keep theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.base.budget import NUMBER_BYTES, checkpoint, keep, waited
from omnigraph.engine.image.arrays import Ints, Mask, one_array
from omnigraph.engine.image.columns import Column, Patch, dense_ranks, no_patch
from omnigraph.engine.image.ids import MISSING, IdIndex, build_ids
from omnigraph.engine.image.shelf import ShelvedBase

ID = "id"
_LOOKUP = "\0ids"
"""Stands for the id lookup among the names of columns."""
FOLD_SHARE = 0.05
FOLD_FLOOR = 4_096
_ADDED_ID_BYTES = 150
"""What a Python dict takes for one id, about."""

ColumnLoader = Callable[[Sequence[str]], pa.Table]


class BaseTable:
    """Columns of a table at the version it was first read at, loaded on first use.

    `load` must return the same rows in the same order on every call.
    """

    def __init__(self, rows: int, load: ColumnLoader, shelved: ShelvedBase | None = None) -> None:
        self.rows = rows
        self.shelved = shelved
        """What is kept of these rows on disk, if anything may be."""
        self.grew = False
        """Whether something was read or made since that was last kept."""
        self._load = load
        self._arrays: dict[str, pa.Array] = {}
        self._mapped: set[str] = set()
        self._ids: IdIndex | None = None
        self._lock = threading.Lock()

    def arrays(self, names: Sequence[str]) -> list[pa.Array]:
        """Return whole columns; the missing ones are read in one scan."""
        if any(name not in self._arrays for name in names):
            with waited(self._lock, "reading a table"):
                missing = [name for name in names if not self._is_at_hand(name)]
                if missing:
                    table = self._load(missing)
                    assert table.num_rows == self.rows, "the base changed under its image"
                    # A column in pieces is there twice while they are put together.
                    pieces = [table[name] for name in missing if table[name].num_chunks > 1]
                    checkpoint("reading a table", sum(column.nbytes for column in pieces))
                    self._arrays |= {name: one_array(table.column(name)) for name in missing}
                    self.grew = True
        return [self._arrays[name] for name in names]

    def has(self, name: str) -> bool:
        """Whether a column can be had without reading the table."""
        if name in self._arrays:
            return True
        return self.shelved is not None and self.shelved.has_column(name)

    def _is_at_hand(self, name: str) -> bool:
        """Whether a column is here, or is by now because it was mapped."""
        if name in self._arrays:
            return True
        found = None if self.shelved is None else self.shelved.column(name)
        if found is None:
            return False
        self._mapped.add(name)
        self._arrays = {**self._arrays, name: found}
        return True

    @property
    def ids(self) -> IdIndex:
        """The id lookup of the base rows."""
        if self._ids is None:
            ids = self.arrays([ID])[0]
            with waited(self._lock, "reading ids"):
                if self._ids is None:
                    self._ids = self._kept_ids(ids) or build_ids(ids)
                    self.grew = self.grew or _LOOKUP not in self._mapped
        return self._ids

    def _kept_ids(self, ids: pa.StringArray) -> IdIndex | None:
        found = None if self.shelved is None else self.shelved.ids(ids)
        if found is not None:
            self._mapped.add(_LOOKUP)
        return found

    def keep(self) -> None:
        """Put on disk what is here and is not there yet."""
        if self.shelved is None:
            return
        self.grew = False
        for name, values in list(self._arrays.items()):
            if name not in self._mapped:
                self.shelved.keep_column(name, values)
        if self._ids is not None and _LOOKUP not in self._mapped:
            self.shelved.keep_ids(self._ids)

    @property
    def nbytes(self) -> int:
        """Memory held by what is loaded; files that are mapped hold none."""
        arrays = list(self._arrays.items())
        held = sum(int(array.nbytes) for name, array in arrays if name not in self._mapped)
        made = None if _LOOKUP in self._mapped else self._ids
        return held + (0 if made is None else made.nbytes)


@dataclass(frozen=True, slots=True)
class Renamed:
    """What columns are called in a base that was read under another schema."""

    names: Mapping[str, str | None]
    """The names a base has, by the names now; None where it has no such column: all is null."""
    kinds: Mapping[str, pa.DataType]

    def over(self, earlier: Renamed | None) -> Renamed:
        """Return this for a base whose columns were called otherwise already."""
        if earlier is None:
            return self
        kept = {now: None if was is None else earlier.names[was] for now, was in self.names.items()}
        return Renamed(kept, self.kinds)


@dataclass(frozen=True, eq=False)
class TableImage:
    """A base and its overlay. `dead` marks positions whose row is gone.

    Two images of one version may number its rows differently, so each is only itself: what is
    made of an image belongs to that image, not to the version.
    """

    base: BaseTable
    patch: Patch
    overlay: pa.Table | None = None
    dead: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _added: dict[str, int] = field(default_factory=dict, repr=False)
    renamed: Renamed | None = None
    """Set if the base was read when the table had other columns."""
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)
    _codes: dict[str, Ints] = field(default_factory=dict, repr=False)

    @property
    def positions(self) -> int:
        """Number of positions, dead ones included."""
        return self.patch.rows

    @property
    def rows(self) -> int:
        """Number of live rows."""
        return self.patch.rows - len(self.dead)

    @cached_property
    def live(self) -> Mask | None:
        """Which positions hold a row; None when all do."""
        if not len(self.dead):
            return None
        mask = np.ones(self.patch.rows, dtype=bool)
        mask[self.dead] = False
        return mask

    @cached_property
    def live_positions(self) -> Ints:
        """The positions of all rows, ascending."""
        if self.live is None:
            return np.arange(self.patch.rows)
        return np.flatnonzero(self.live)

    @cached_property
    def id_order(self) -> Ints:
        """The rank of every position's id among all ids; costs a sort of the table once."""
        keep("order", self.positions * NUMBER_BYTES)
        return dense_ranks(self.column(ID).full)

    @property
    def nbytes(self) -> int:
        """Memory held beside the base: the overlay, and what queries derived from this version."""
        held = 0 if self.overlay is None else int(self.overlay.nbytes)
        held += _ADDED_ID_BYTES * len(self._added) + self.dead.nbytes
        held += sum(column.derived_nbytes for column in list(self._columns.values()))
        held += sum(codes.nbytes for codes in list(self._codes.values()))
        derived = (vars(self).get(name) for name in ("live", "live_positions", "id_order"))
        return held + sum(int(array.nbytes) for array in derived if array is not None)

    def missing(self, names: Iterable[str]) -> int:
        """Return how many values of the base would have to be read for some columns."""
        known = names if self.renamed is None else map(self.renamed.names.get, names)
        return self.base.rows * sum(one is not None and not self.base.has(one) for one in known)

    def column(self, name: str) -> Column:
        """Return a property's values by position."""
        found = self._columns.get(name)
        if found is None:
            overlay = None if self.overlay is None else one_array(self.overlay.column(name))
            found = Column(self.base_array(name), self.patch, overlay)
            self._columns[name] = found
        return found

    def added_values(self, name: str, positions: Ints) -> pa.Array:
        """Return values of rows that came behind the base, without a look at the base."""
        assert self.overlay is not None, "nothing was added"
        at = positions - self.patch.base_rows + len(self.patch.updated)
        return one_array(self.overlay.column(name)).take(pa.array(at))

    def base_array(self, name: str) -> pa.Array:
        """Return a column of the base by the name it has now."""
        if self.renamed is None:
            return self.base.arrays([name])[0]
        stored = self.renamed.names[name]
        if stored is None:
            return pa.nulls(self.base.rows, self.renamed.kinds[name])
        return self.base.arrays([stored])[0]

    def base_key(self, name: str) -> object:
        """Return what tells a column of the base from all others it has, or is said to have."""
        if self.renamed is None:
            return name
        stored = self.renamed.names[name]
        return (name, str(self.renamed.kinds[name])) if stored is None else stored

    def under(self, renamed: Renamed) -> TableImage:
        """Return the same rows under columns that are called otherwise, came or went."""
        overlay = self.overlay
        if overlay is not None:
            overlay = pa.table(
                {
                    now: pa.nulls(len(overlay), renamed.kinds[now]) if was is None else overlay[was]
                    for now, was in renamed.names.items()
                }
            )
        known = renamed.over(self.renamed)
        return TableImage(self.base, self.patch, overlay, self.dead, self._added, known)

    def sort_codes(self, name: str) -> Ints:
        """Return, by position, integers that sort like a column; kept for the next query."""
        found = self._codes.get(name)
        if found is None:
            keep("order", self.positions * NUMBER_BYTES)
            found = self._codes.setdefault(name, dense_ranks(self.column(name).full))
        return found

    def find(self, wanted: str) -> int:
        """Return the position of an id, or -1 when no live row has it."""
        position = self._position(wanted)
        if position == MISSING or self.live is None or self.live[position]:
            return position
        return MISSING

    def find_many(self, wanted: pa.Array) -> Ints:
        """Return the positions of many ids, -1 where no live row has it."""
        positions = self.base.ids.find_many(wanted)
        if self._added:
            for at, one in enumerate(wanted.to_pylist()):
                positions[at] = self._added.get(one, positions[at])
        if self.live is not None:
            gone = (positions >= 0) & ~self.live[positions]
            positions = np.where(gone, MISSING, positions)
        return positions

    def _position(self, wanted: str) -> int:
        """Return the position that belongs to an id, whether its row lives or not."""
        position = self._added.get(wanted, MISSING)
        return self.base.ids.find(wanted) if position == MISSING else position

    @property
    def wants_folding(self) -> bool:
        """Whether the overlay has grown so large that reading a new base is cheaper."""
        changed = len(self.dead) + (0 if self.overlay is None else self.overlay.num_rows)
        return changed > self._most_changes

    def is_outgrown_by(self, changes: int) -> bool:
        """Whether so many changed rows alone make reading a new base cheaper."""
        return changes > self._most_changes

    @property
    def _most_changes(self) -> float:
        return max(FOLD_FLOOR, FOLD_SHARE * self.base.rows)

    def with_changes(
        self,
        upserts: pa.Table | None,
        deleted: Sequence[str],
        *,
        in_place: bool = True,
        fresh: int = 0,
    ) -> TableImage:
        """Return the image of a later version.

        Args:
            upserts: whole rows, one per id, that were added or changed.
            deleted: ids of rows that are gone; unknown ones are ignored.
            in_place: a changed row keeps its position; otherwise it dies and gets a new one.
            fresh: so many of the first rows have ids that no row ever had, so nobody looks: the
                lookup of a large table takes seconds to make.
        """
        gone = [self._position(one) for one in deleted]
        back: list[int] = []
        kept = self._overlay_by_position()
        added = dict(self._added)
        total = self.patch.rows
        for row, one in enumerate(upserts.column(ID).to_pylist() if upserts is not None else ()):
            position = MISSING if row < fresh else self._position(one)
            if in_place and position != MISSING:
                # An id that comes back gets its old position: what points there stays true.
                back.append(position)
            else:
                gone.append(position)
                position, total = total, total + 1
                added[one] = position
            kept[position] = (1, row)
        dead = np.union1d(self.dead, np.asarray(gone, np.int64))
        dead = np.setdiff1d(dead, np.asarray([*back, MISSING], np.int64))
        return self._rebuilt(upserts, kept, added, dead, total)

    def _overlay_by_position(self) -> dict[int, tuple[int, int]]:
        """Return position → (0, overlay row) for everything the overlay holds now."""
        if self.overlay is None:
            return {}
        updated = self.patch.updated.tolist()
        fresh = range(self.patch.base_rows, self.patch.rows)
        return {position: (0, row) for row, position in enumerate([*updated, *fresh])}

    def _rebuilt(
        self,
        upserts: pa.Table | None,
        kept: dict[int, tuple[int, int]],
        added: dict[str, int],
        dead: Ints,
        total: int,
    ) -> TableImage:
        if not kept:
            return TableImage(self.base, self.patch, None, dead, added, self.renamed)
        order = sorted(kept)
        old_rows = 0 if self.overlay is None else self.overlay.num_rows
        rows = [row if part == 0 else old_rows + row for part, row in (kept[at] for at in order)]
        parts = [part for part in (self.overlay, upserts) if part is not None]
        # `permissive` would hide a schema change; the image must be rebuilt for one.
        overlay = pa.concat_tables(parts).take(pa.array(rows, pa.int64()))
        base_rows = self.patch.base_rows
        updated = np.asarray([at for at in order if at < base_rows], np.int64)
        patch = Patch(base_rows, updated, total - base_rows)
        return TableImage(self.base, patch, overlay, dead, added, self.renamed)


def fresh_image(rows: int, load: ColumnLoader, shelved: ShelvedBase | None = None) -> TableImage:
    """Return the image of a table as it is at the version `load` reads."""
    return TableImage(BaseTable(rows, load, shelved), no_patch(rows))

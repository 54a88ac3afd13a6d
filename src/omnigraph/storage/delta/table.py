"""The delta of two versions of one table: found by fragment lists, confirmed by content.

It compares states, not histories. So it is right after restores, overwrites, compactions and index
builds, across forks, siblings and names that were used again, and in both directions. Its cost
follows the rows in fragments that only one side has, never the size of the table.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.delta.confirm import Comparison, Difference
from omnigraph.storage.delta.side import ID, ColumnPair, Side, two_sides
from omnigraph.storage.delta.sorted_spill import Spill, SpilledRows, boundaries, spilled
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.kernel import Kernel
from omnigraph.storage.tables.differ import (
    Candidates,
    OwnFragment,
    all_rows,
    compare_fragments,
)

MEMORY = 64 << 20
"""Bytes of candidates, of both sides together, that are compared in memory."""
_RANGES_OF_MEMORY = 4
"""Ranges of ids are made so small that so many of them fit: they are not all of one size."""
_ID_PAIR = ColumnPair(ID, ID, ID)


@dataclass(frozen=True, slots=True)
class Touched:
    """Ids of rows that may differ; some may have been written again with the values they had."""

    before: pa.Array
    """Of rows of the earlier side that the later one has not, or maybe not as they are."""
    after: pa.Array
    """Of rows of the later side that the earlier one has not, or maybe not as they are."""

    @property
    def ids(self) -> pa.Array:
        """Return all of them, each once."""
        return pc.unique(pa.concat_arrays([self.before, self.after]))

    @property
    def deleted(self) -> pa.Array:
        """Return the ids that the later side does not have, which is certain."""
        return self.before.filter(pc.invert(pc.is_in(self.before, value_set=self.after)))


@dataclass(frozen=True, slots=True)
class SidePart:
    """Some of the candidates of one side: 0 is the earlier one, 1 the later one."""

    side: int
    number: int
    of: int


class TableDelta:
    """What must change in one version of a table to make it another; see `table_delta`."""

    def __init__(
        self,
        kernel: Kernel,
        before: Candidates | None,
        after: Candidates | None,
        columns: Sequence[ColumnPair] | None,
        memory: int,
    ) -> None:
        self._kernel = kernel
        self._before, self._after = before, after
        self._memory = memory
        pairs = _by_name(before, after) if columns is None else columns
        self.columns = (_ID_PAIR, *(pair for pair in pairs if pair.name != ID))

    @property
    def is_empty_at_list_level(self) -> bool:
        """Whether the fragment lists alone prove that no row differs."""
        return self.candidates == (0, 0)

    @property
    def candidates(self) -> tuple[int, int]:
        """Return how many rows of each side may differ, from metadata alone."""
        before, after = self._before, self._after
        return (0 if before is None else before.rows, 0 if after is None else after.rows)

    def own_fragments(self) -> tuple[OwnFragment, ...]:
        """Return the fragments of the later side that the earlier one has not, if they are whole.

        A merge may take the files of one over by link instead of writing its rows, once it knows
        that all ids in it are new where it is going; see `ids_of`.
        """
        return () if self._after is None else self._after.own_fragments()

    def rows_of(self, fragment_ids: Collection[int], columns: Collection[str]) -> pa.Table:
        """Return columns of all rows of some of the `own_fragments`, by their names in results."""
        chosen = [pair for pair in self.columns if pair.name in columns]
        assert self._after is not None, "a side without the table has no fragments"
        side = two_sides(None, self._after.only(fragment_ids), chosen)[1]
        return pa.concat_tables([side.schema.empty_table(), *side.read()])

    def ids_of(self, fragment_ids: Collection[int]) -> pa.Array:
        """Return the ids of all rows of some of the `own_fragments`."""
        if self._after is None:
            return pa.array([], pa.string())
        return self._side(self._after.only(fragment_ids)).ids()

    def touched(self, *, without: Collection[int] = ()) -> Touched:
        """Return the ids of rows that may differ; reads ids alone and confirms nothing.

        Args:
            without: ids of `own_fragments` to leave out.
        """
        if self.is_empty_at_list_level:
            return Touched(pa.array([], pa.string()), pa.array([], pa.string()))
        before, after = self._sides(self.columns, without)
        return Touched(before.ids(), after.ids())

    def batches(
        self,
        columns: Collection[str] | None = None,
        *,
        blobs: bool = False,
        without: Collection[int] = (),
    ) -> Iterator[Difference]:
        """Yield the rows that differ, with their images, in ascending ranges of ids.

        Up to `MEMORY` bytes of candidates are compared in memory, more of them through files
        below `__staging`, range by range; leaving the iterator early leaves no files behind.

        Args:
            columns: the columns, by their names in results, to compare and to return; the others
                are not read. `id` always is.
            blobs: return the bytes of blobs; otherwise a blob is a struct of its `size`.
            without: ids of `own_fragments` to leave out, whose rows are all known to be new.
        """
        if self.is_empty_at_list_level:
            return
        chosen = [
            pair
            for pair in self.columns
            if columns is None or pair.name in columns or pair.name == ID
        ]
        comparison = Comparison(*self._sides(chosen, without))
        for piece in self._pieces(comparison):
            if piece.rows and blobs:
                yield from comparison.with_bytes(piece)
            elif piece.rows:
                yield comparison.finished(piece)

    def sizes(self, *, without: Collection[int] = ()) -> tuple[int, int]:
        """Return about how many bytes the candidates of each side are, from the first few rows."""
        if self.is_empty_at_list_level:
            return 0, 0
        before, after = self._sides(self.columns, without)
        return _size(before), _size(after)

    def stored_bytes(self, *, without: Collection[int] = ()) -> float:
        """Return about how many bytes of files the candidates of both sides are, from metadata."""
        after = None if self._after is None else self._after.without(without)
        return sum(one.stored_bytes for one in (self._before, after) if one is not None)

    def some_ids(self, *, without: Collection[int] = ()) -> Iterator[pa.Array]:
        """Yield the ids of the candidates of both sides, piece by piece."""
        if not self.is_empty_at_list_level:
            for side in self._sides(self.columns, without):
                yield from side.some_ids()

    def spill(
        self,
        part: SidePart,
        file: Path,
        cuts: pa.Array,
        run_bytes: int,
        *,
        without: Collection[int] = (),
    ) -> SpilledRows:
        """Write some candidates of one side to a file, cut into ranges of ids."""
        side = self._sides(self.columns, without)[part.side].part(part.number, part.of)
        return spilled(file, side.schema, cuts, run_bytes, side.read())

    def compared(
        self,
        before: Sequence[SpilledRows],
        after: Sequence[SpilledRows],
        number: int,
        *,
        without: Collection[int] = (),
    ) -> Iterator[Difference]:
        """Yield what differs in one range of ids of what was spilled, with the bytes of blobs."""
        if self.is_empty_at_list_level:
            return
        comparison = Comparison(*self._sides(self.columns, without))
        sides = ((comparison.before, before), (comparison.after, after))
        old, new = (_table(side, [one.range(number) for one in files]) for side, files in sides)
        piece = comparison.confirm(old, new)
        if piece.rows:
            yield from comparison.with_bytes(piece)

    def _sides(
        self, pairs: Sequence[ColumnPair], without: Collection[int] = ()
    ) -> tuple[Side, Side]:
        after = None if self._after is None else self._after.without(without)
        return two_sides(self._before, after, pairs)

    def _side(self, after: Candidates) -> Side:
        return two_sides(None, after, self.columns)[1]

    def _pieces(self, comparison: Comparison) -> Iterator[Difference]:
        """Yield what differs, range by range; one range if all fits into memory."""
        before, after = comparison.before, comparison.after
        old, new = before.read(), after.read()
        some_old, all_old = _read_until(old, self._memory)
        left = self._memory - sum(rows.nbytes for rows in some_old)
        some_new, all_new = _read_until(new, left) if all_old else ([], False)
        if all_old and all_new:
            yield comparison.confirm(_table(before, some_old), _table(after, some_new))
            return
        old, new = itertools.chain(some_old, old), itertools.chain(some_new, new)
        with self._spill(comparison, [*some_old, *some_new]) as spill:
            some_old, some_new = [], []
            earlier = spill.side("before.arrow", before.schema, old)
            later = spill.side("after.arrow", after.schema, new)
            yield from _ranges(comparison, spill, earlier, later)

    def _spill(self, comparison: Comparison, known: Sequence[pa.Table]) -> Spill:
        """Return where both sides go, cut so that a range of both fits into memory."""
        rows = sum(len(one) for one in known)
        width = sum(one.nbytes for one in known) / max(rows, 1)
        ranges = 1 + int(width * sum(self.candidates) * _RANGES_OF_MEMORY / self._memory)
        samples = itertools.chain(comparison.before.some_ids(), comparison.after.some_ids())
        run = max(self._memory // _RANGES_OF_MEMORY, 1)
        return Spill(_scratch_folder(self._kernel), boundaries(samples, ranges), run)


def table_delta(
    kernel: Kernel,
    before: TableVersion | None,
    after: TableVersion | None,
    *,
    columns: Sequence[ColumnPair] | None = None,
    memory: int = MEMORY,
) -> TableDelta:
    """Return what must change in `before` to make it `after`; either may not be there.

    Opens both versions and compares their fragment lists; rows are read when they are asked for.
    Versions of two datasets (a table that was dropped and made again) differ in all rows that are
    not equal by content, id by id.

    Args:
        kernel: of the graph both belong to.
        before: the version to start from.
        after: the version to arrive at.
        columns: which column of one side is which of the other, by what the schemas of both
            sides say; by name if not given. Never by what Lance numbers them: two lineages give
            one number to different columns. Whether `id` is among them makes no difference.
        memory: bytes of candidates that are compared in memory.

    Raises:
        SnapshotExpiredError: the rows of a side were cleaned up.
    """
    old, new = _candidates(kernel, before, after)
    counters = kernel.counters
    for side in (old, new):
        if side is not None:
            counters.add("delta_fragments", side.fragments)
            counters.add("delta_rows", side.rows)
    return TableDelta(kernel, old, new, columns, memory)


def _candidates(
    kernel: Kernel, before: TableVersion | None, after: TableVersion | None
) -> tuple[Candidates | None, Candidates | None]:
    if before is not None and after is not None and before.place == after.place:
        return None, None
    old = None if before is None else kernel.tables.open(*before.place)
    new = None if after is None else kernel.tables.open(*after.place)
    if old is not None and new is not None and old.location == new.location:
        return compare_fragments(kernel.tables, old, new)
    return (
        None if old is None else all_rows(old),
        None if new is None else all_rows(new),
    )


def _by_name(before: Candidates | None, after: Candidates | None) -> Iterator[ColumnPair]:
    """Yield pairs of columns that are called the same."""
    old = [] if before is None else before.handle.dataset.schema.names
    new = [] if after is None else after.handle.dataset.schema.names
    for name in dict.fromkeys([*new, *old]):
        yield ColumnPair(name, name if name in old else None, name if name in new else None)


def _read_until(pieces: Iterator[pa.Table], memory: int) -> tuple[list[pa.Table], bool]:
    """Return pieces of no more than some bytes, but for the last, and whether that was all."""
    held: list[pa.Table] = []
    for piece in pieces:
        held.append(piece)
        memory -= piece.nbytes
        if memory < 0:
            return held, False
    return held, True


def _table(side: Side, pieces: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(pieces) if pieces else side.schema.empty_table()


def _size(side: Side) -> int:
    first = next(side.read(), None)
    if first is None or side.candidates is None:
        return 0
    return int(first.nbytes / len(first) * side.candidates.rows)


def _ranges(
    comparison: Comparison, spill: Spill, before: SpilledRows, after: SpilledRows
) -> Iterator[Difference]:
    for number in range(spill.ranges):
        yield comparison.confirm(before.range(number), after.range(number))


def _scratch_folder(kernel: Kernel) -> Path:
    """Return a folder for rows that do not fit into memory: on the disk of the graph if we may."""
    if kernel.root.is_local and kernel.store_clock.may_write:
        return kernel.objects.path(layout.staging(kernel.new_operation_id()))
    return Path(tempfile.mkdtemp(prefix="omnigraph-delta-"))

"""What the first stage left behind: rows of every type in files, and where each came from.

Rows are mapped, never held; one row is found by its number, which also tells its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.query import QueryResult
from omnigraph.compiler.catalog.model import ID, Catalog
from omnigraph.engine.image.arrays import Mask, members
from omnigraph.engine.write.validate import key_columns
from omnigraph.errors import InternalError
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import AT
from omnigraph.pipeline.inputs.sources import LinesSource, Source
from omnigraph.pipeline.stages.staging import Spill
from omnigraph.pipeline.stages.tasks import ROW_BITS, Parsed, Task

Gone = Mapping[str, Ints]
"""Numbers of rows that are left out, ascending, by table."""
NONE: Ints = np.empty(0, np.int64)
# Text beyond this is addressed with 64 bits; Arrow's usual offsets end at twice as much.
_LARGE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Places:
    """Turns the number of a row into words: which input, which line."""

    sources: Sequence[Source]
    tasks: Sequence[Task]
    first: Sequence[int]
    """How many lines of the same source come before each task."""

    def of(self, at: int) -> str:
        """Return the place of a row by its `AT` value."""
        number, row = at >> ROW_BITS, at & ((1 << ROW_BITS) - 1)
        source = self.sources[self.tasks[number].source]
        if isinstance(source, LinesSource):
            return f"{source.name}:{self.first[number] + row}"
        return f"{source.name}: row {row}"


def places_of(sources: Sequence[Source], tasks: Sequence[Task], parsed: Sequence[Parsed]) -> Places:
    """Return the places of all rows; the lines of earlier tasks of a file come first."""
    first = [0] * len(tasks)
    for before, task in pairwise(tasks):
        if before.source == task.source:
            first[task.number] = first[before.number] + parsed[before.number].lines
    return Places(sources, tasks, first)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Every sound row of a load, by table; ascending by number within each."""

    catalog: Catalog
    spills: Mapping[str, tuple[Spill, ...]]
    places: Places

    @property
    def keys(self) -> list[str]:
        """The tables that get rows."""
        return sorted(self.spills)

    def count(self, key: str, gone: Gone | None = None) -> int:
        """Return how many rows a table gets."""
        left_out = 0 if gone is None else len(gone.get(key, NONE))
        return sum(spill.rows for spill in self.spills.get(key, ())) - left_out

    def generated(self, key: str) -> bool:
        """Whether the load itself made every id of a table, so that none can exist already."""
        return all(spill.generated_ids for spill in self.spills[key])

    def rows(self, key: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a table, mapped, with their numbers."""
        return pa.concat_tables(self.pieces(key, columns))

    def pieces(self, key: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of a table file by file."""
        for spill in self.spills.get(key, ()):
            rows = spill.read()
            if len(rows) != spill.rows:
                raise InternalError(f"{spill.path} holds {len(rows)} rows, not {spill.rows}")
            yield rows if columns is None else rows.select([*columns, AT])

    def key_rows(self, key: str, gone: Gone) -> pa.Table:
        """Return the key columns of the rows that stay."""
        rows = without(self.rows(key, key_columns(self.catalog.type_named(key))), gone.get(key))
        return _wide(rows)

    def find(self, key: str, at: int) -> dict[str, Any]:
        """Return the key cells of one row by its number."""
        number = at >> ROW_BITS
        columns = key_columns(self.catalog.type_named(key))
        for rows in self.pieces(key, columns):
            numbers = rows[AT].to_numpy()
            if not len(numbers) or numbers[0] >> ROW_BITS != number:
                continue
            row = int(np.searchsorted(numbers, at))
            # Datetimes with their time of day, which Arrow's date64 forgets.
            return QueryResult(rows.slice(row, 1)).to_dicts()[0]
        raise InternalError(f"no row {at} of {key} was spilled")

    def where(self, key: str, column: str, values: pa.Array, gone: Gone) -> pa.Table:
        """Return the key columns of rows that stay and have one of some values."""
        columns = key_columns(self.catalog.type_named(key))
        parts = [
            without(rows.filter(pc.is_in(rows[column], value_set=values)), gone.get(key))
            for rows in self.pieces(key, columns)
        ]
        return pa.concat_tables(parts)

    def has(self, key: str, values: pa.Array, gone: Gone) -> Mask:
        """Return which of some ids belong to rows that stay."""
        found = np.zeros(len(values), dtype=bool)
        for rows in self.pieces(key, [ID]):
            kept = without(rows, gone.get(key))
            found |= np.asarray(pc.is_in(values, value_set=kept[ID]), dtype=bool)
        return found


def loaded_rows(catalog: Catalog, parsed: Iterable[Parsed], places: Places) -> Loaded:
    """Return what all tasks spilled, by table."""
    spills: dict[str, list[Spill]] = {}
    for spill in (spill for one in parsed for spill in one.spills):
        spills.setdefault(spill.table_key, []).append(spill)
    return Loaded(catalog, {key: tuple(found) for key, found in spills.items()}, places)


def without(rows: pa.Table, gone: Ints | None) -> pa.Table:
    """Return rows without those of some numbers."""
    if gone is None or not len(gone):
        return rows
    return rows.filter(pa.array(~members(rows[AT].to_numpy(), gone)))


def joined(gone: Gone, more: Gone) -> dict[str, Ints]:
    """Return the rows that either leaves out."""
    return {key: np.union1d(gone.get(key, NONE), more.get(key, NONE)) for key in {*gone, *more}}


def _wide(rows: pa.Table) -> pa.Table:
    """Give columns with very much text offsets that can count it."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) and rows[at].nbytes > _LARGE_BYTES:
            rows = rows.set_column(at, field.name, rows[at].cast(pa.large_string()))
    return rows

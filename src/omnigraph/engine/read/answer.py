"""What the executor returns: the columns of a result."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.query.typed import Column
from omnigraph.engine.image.arrays import Ints


@dataclass(frozen=True, slots=True)
class Answer:
    """The columns of a result, one array each."""

    names: tuple[str, ...]
    arrays: tuple[pa.Array, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.arrays[0])

    def slice(self, start: int, length: int) -> Answer:
        """Return some rows that follow each other."""
        return Answer(self.names, tuple(array.slice(start, length) for array in self.arrays))

    def take(self, which: Ints) -> Answer:
        """Return the given rows, in their order."""
        kept = pa.array(which)
        return Answer(self.names, tuple(array.take(kept) for array in self.arrays))

    def to_table(self) -> pa.Table:
        """Return the answer as an Arrow table."""
        return pa.Table.from_arrays(list(self.arrays), names=list(self.names))


def named(columns: tuple[Column, ...], arrays: list[pa.Array]) -> Answer:
    """Return arrays under their names; without rows, of the type the query declares."""
    typed = arrays if len(arrays[0]) else list(map(_typed, columns, arrays))
    return Answer(tuple(column.name for column in columns), tuple(typed))


def _typed(column: Column, array: pa.Array) -> pa.Array:
    return array.cast(arrow_type(column.type)) if pa.types.is_null(array.type) else array

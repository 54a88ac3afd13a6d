"""What the executor returns: the columns of a result."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


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

    def to_table(self) -> pa.Table:
        """Return the answer as an Arrow table."""
        return pa.Table.from_arrays(list(self.arrays), names=list(self.names))

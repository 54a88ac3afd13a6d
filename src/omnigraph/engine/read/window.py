"""Which of the ordered rows are returned: what `limit` and `offset` say."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.engine.image.arrays import Ints


@dataclass(frozen=True, slots=True)
class Window:
    """Which of the ordered rows are returned."""

    offset: int
    limit: int | None

    @property
    def end(self) -> int | None:
        """How many rows from the top can matter; None is all."""
        return None if self.limit is None else self.offset + self.limit

    def of(self, order: Ints) -> Ints:
        """Return the part of an ordering that is returned."""
        return order[self.offset : self.end]

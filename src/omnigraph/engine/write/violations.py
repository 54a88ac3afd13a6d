"""What a broken rule looks like: one value for every rule and every write path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.api.violations import Rule, Violation
from omnigraph.engine.image.arrays import Ints
from omnigraph.errors import IntegrityError

MAX_REPORTED = 100


@dataclass(frozen=True, slots=True)
class Cause:
    """Rows of one table that came or went, of which the `nth` by time broke a rule."""

    table_key: str
    ids: pa.Array
    columns: tuple[str, ...]
    """What the rule looks at."""
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """One rule that rows of one table break, before anybody asks to be told of each.

    A million bad rows are an array of numbers; only those that are shown become words.
    """

    rule: Rule
    table_key: str
    rows: Ints
    """Which new row breaks it each time, by position; -1 where none of them is to blame."""
    tell: Callable[[int], Violation]
    """Gives the violation of `rows[i]` for `i`."""
    columns: tuple[str, ...] = ()
    """What the rule looks at."""
    cause: Callable[[int], Cause] | None = None
    """Gives what broke the rule where that is not `rows[i]` by itself."""

    def __iter__(self) -> Iterator[Violation]:
        return map(self.tell, range(len(self.rows)))


class ConstraintError(IntegrityError):
    """Data breaks rules of the schema; nothing was written.

    `violations` holds the first of them (100 unless more were asked for), `total` counts all.
    """

    def __init__(self, violations: Sequence[Violation], total: int | None = None) -> None:
        self.violations = tuple(violations)
        self.total = total if total is not None else len(violations)
        more = self.total - 1
        text = str(self.violations[0]) + (f" (and {more} more)" if more else "")
        super().__init__(text)


class Violations:
    """Collects broken rules, keeping the first ones and counting all."""

    def __init__(self, limit: int = MAX_REPORTED) -> None:
        self.limit = limit
        self.items: list[Violation] = []
        self.total = 0

    @property
    def room(self) -> int:
        """How many more will be kept."""
        return max(self.limit - len(self.items), 0)

    def add(self, violation: Violation) -> None:
        """Keep a violation."""
        self.total += 1
        if len(self.items) < self.limit:
            self.items.append(violation)

    def extend(self, violations: Iterable[Violation]) -> None:
        """Keep several violations."""
        for violation in violations:
            self.add(violation)

    def report(self, broken: Broken, place_of: Callable[[Broken, int], str | None]) -> None:
        """Put into words, with their places, what there is room for; count the rest."""
        shown = min(self.room, len(broken.rows))
        for number in range(shown):
            self.add(replace(broken.tell(number), place=place_of(broken, number)))
        self.total += len(broken.rows) - shown

    def raise_if_any(self) -> None:
        """Raise `ConstraintError` with everything collected."""
        if self.items:
            raise ConstraintError(self.items, self.total)

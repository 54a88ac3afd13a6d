"""Which rows somebody may see: what a policy says of types and rows, for whoever reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.errors import DeniedError


class RowRulesError(DeniedError):
    """Somebody who sees only some rows asked for what needs to see all of them."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} needs to see every row, and the policy shows you some only",
            hint="ask somebody whose rules name no types",
        )


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rows that are shown, type by type; what is not shown is as if it were not there."""

    shown: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names of types, sorted, each with conditions on `$n` of which one has to hold; no condition
    is every row. A type that is missing is hidden."""

    @classmethod
    def of(cls, shown: Mapping[str, frozenset[str] | None]) -> RowRules:
        """Return rules from conditions by type; None is every row."""
        return cls(tuple((name, tuple(sorted(shown[name] or ()))) for name in sorted(shown)))

    @property
    def digest(self) -> str:
        """What two rules have in common exactly if they show the same."""
        return hashlib.sha256(json.dumps(self.shown).encode()).hexdigest()

    def conditions(self, type_name: str) -> tuple[str, ...] | None:
        """Return the conditions of a type, none for every row; None if it is hidden."""
        return dict(self.shown).get(type_name)

    def within(self, other: RowRules | None) -> RowRules:
        """Return rules that show what both show.

        Rules are alternatives of alternatives, so what two of them have in common cannot be said
        by a third one unless they agree on a type; where they do not, it is hidden.
        """
        if other is None or other == self:
            return self
        ours, theirs = dict(self.shown), dict(other.shown)
        both: dict[str, frozenset[str] | None] = {}
        for name in ours.keys() & theirs.keys():
            if ours[name] == theirs[name] or not theirs[name]:
                both[name] = frozenset(ours[name]) or None
            elif not ours[name]:
                both[name] = frozenset(theirs[name])
        return RowRules.of(both)

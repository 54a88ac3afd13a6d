"""What is said of a policy: whether it can be put in force, does what is expected, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from omnigraph.api.wire import Shape, Wire


@dataclass(frozen=True, slots=True)
class PolicyChecked(Shape):
    """A policy that can be put in force."""

    policy: str
    """Its file."""
    actors: int
    rules: int
    warnings: tuple[str, ...] = ()
    """What it allows, and probably is not meant to."""
    cedar: Annotated[str | None, Wire(omit_empty=True)] = None
    """The same rules in Cedar, where they were asked for."""


@dataclass(frozen=True, slots=True)
class PolicyMismatch(Shape):
    """A case that is decided otherwise than expected."""

    id: str
    expected: bool
    allowed: bool
    message: str

    def __str__(self) -> str:
        words = ("deny", "allow")
        return (
            f"{self.id}: expected {words[self.expected].capitalize()} but got {words[self.allowed]}"
        )


@dataclass(frozen=True, slots=True)
class PolicyTested(Shape):
    """What became of the cases of a policy."""

    policy: str
    tests: str
    cases: int
    failed: tuple[PolicyMismatch, ...] = ()

    def _derived(self) -> dict[str, Any]:
        return {"status": "error" if self.failed else "ok"}


@dataclass(frozen=True, slots=True)
class PolicyExplained(Shape):
    """One decision, and the rule it follows from."""

    decision: str
    actor: str
    action: str
    branch: str | None
    target_branch: str | None
    matched_rule: str | None
    message: str
    hint: str | None = None

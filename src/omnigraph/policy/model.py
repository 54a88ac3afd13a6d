"""A policy as a value: groups of actors, protected branches, rules that allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.api.access import Action

ROW_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY})
"""Which show rows, so that a rule may name some of them."""
BRANCH_ACTIONS = frozenset({*ROW_ACTIONS, Action.CHANGE})
"""Judged by the branch they are about."""
TARGET_ACTIONS = frozenset(
    {
        Action.SCHEMA_APPLY,
        Action.BRANCH_CREATE,
        Action.BRANCH_DELETE,
        Action.BRANCH_MERGE,
        Action.RUN_PUBLISH,
        Action.RUN_ABORT,
    }
)
"""Judged by the branch they end up on."""


class Scope(StrEnum):
    """Which branches a rule is about; all but `any` need a branch to be named."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows the actors of a group some actions, on some branches."""

    id: str
    group: str
    actions: tuple[Action, ...]
    branch_scope: Scope | None = None
    target_scope: Scope | None = None
    types: tuple[str, ...] = ()
    """The types whose rows are shown; none is all of them."""
    where: str | None = None
    """What a row `$n` of these types has to be like to be shown."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything is denied that no rule allows."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    check_source: bool = False
    """Whether making or merging a branch also needs `read` on where it comes from."""

    @property
    def actors(self) -> tuple[str, ...]:
        """Everybody in some group, sorted."""
        return tuple(sorted({actor for members in self.groups.values() for actor in members}))

    def warnings(self) -> tuple[str, ...]:
        """Return what is allowed to be written, and is probably not meant."""
        found = [
            f"rule '{rule.id}' has no scope: it allows {', '.join(rule.actions)} on every branch"
            for rule in self.rules
            if rule.branch_scope is None
            and rule.target_scope is None
            and set(rule.actions) != {Action.ADMIN}
        ]
        if self.protected and not self.check_source and self._some_may_copy():
            found.append(
                "whoever may create or merge unprotected branches can copy a protected branch "
                "there and read it; `check_source: true` asks for read on the source, too"
            )
        for rule in self.rules:
            shown = [other for other in self.rules if other.group == rule.group and not other.types]
            if rule.types and any(ROW_ACTIONS & set(other.actions) for other in shown):
                found.append(
                    f"rule '{rule.id}' shows some rows, and rule '{shown[0].id}' shows its group "
                    "every row wherever both hold"
                )
        used = {rule.group for rule in self.rules}
        found += [f"group '{name}' is in no rule" for name in sorted(self.groups.keys() - used)]
        return tuple(found)

    def _some_may_copy(self) -> bool:
        copying = {Action.BRANCH_CREATE, Action.BRANCH_MERGE}
        return any(
            copying & set(rule.actions) and rule.target_scope is not Scope.PROTECTED
            for rule in self.rules
        )

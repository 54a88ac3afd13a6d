"""The judge of every request: what Cedar would say, in a look-up and two comparisons."""

from __future__ import annotations

from omnigraph.api.access import AccessDecision, AccessRequest, Action
from omnigraph.api.visibility import RowRules
from omnigraph.base.ids import BranchName
from omnigraph.policy.model import Policy, Rule, Scope


class Judge:
    """A policy made ready; immutable, so every thread may ask it. Fulfils `AccessPolicy`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._known = frozenset(policy.actors)
        self._hides_rows = any(rule.types for rule in policy.rules)
        self._grants: dict[tuple[str, Action], list[tuple[Scope, Scope, str]]] = {}
        self._rows: dict[tuple[str, Action], list[Rule]] = {}
        for rule in sorted(policy.rules, key=lambda one: one.id):
            scopes = (rule.branch_scope or Scope.ANY, rule.target_scope or Scope.ANY, rule.id)
            for action in rule.actions:
                for actor in policy.groups[rule.group]:
                    self._grants.setdefault((actor, action), []).append(scopes)
                    self._rows.setdefault((actor, action), []).append(rule)

    @property
    def hides_rows(self) -> bool:
        """Whether any rule names types."""
        return self._hides_rows

    @property
    def check_source(self) -> bool:
        """Whether making or merging a branch also needs `read` on where it comes from."""
        return self.policy.check_source

    def rows(self, actor: str, action: Action, branch: BranchName | None) -> RowRules | None:
        """Return which rows an actor who may do something there sees; None is all of them."""
        shown: dict[str, frozenset[str] | None] = {}
        for rule in self._rows.get((actor, action), ()):
            if not self._fits(rule.branch_scope or Scope.ANY, branch):
                continue
            if not rule.types:
                return None
            for name in rule.types:
                known = shown.get(name, frozenset())
                if rule.where is None or known is None:
                    shown[name] = None
                else:
                    shown[name] = known | {rule.where}
        return RowRules.of(shown) if shown else None

    def grants_any(self, actor: str, action: Action) -> bool:
        """Tell whether any rule allows an actor an action at all."""
        return (actor, action) in self._grants

    def decide(self, request: AccessRequest) -> AccessDecision:
        """Judge one request; the smallest id among the rules that allow it is told."""
        actor, action = request.actor, request.action
        for branch, target, rule in self._grants.get((actor, action), ()):
            if self._fits(branch, request.branch) and self._fits(target, request.target_branch):
                text = f"policy allowed action '{action}' for actor '{actor}'"
                return AccessDecision(True, text, rule)
        if actor not in self._known:
            text = f"policy denied action '{action}' for unknown actor '{actor}'"
            return AccessDecision(False, text)
        return AccessDecision(False, denial(request))

    def _fits(self, scope: Scope, branch: str | None) -> bool:
        if scope is Scope.ANY:
            return True
        return branch is not None and (branch in self.policy.protected) is (
            scope is Scope.PROTECTED
        )


def denial(request: AccessRequest) -> str:
    """Return what a refused request is told."""
    on = "" if request.branch is None else f" on branch '{request.branch}'"
    to = "" if request.target_branch is None else f" targeting branch '{request.target_branch}'"
    return f"policy denied action '{request.action}'{on}{to} for actor '{request.actor}'"

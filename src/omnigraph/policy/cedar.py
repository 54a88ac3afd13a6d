"""The same policy in Cedar: as text for people, and judged by Cedar itself.

Needs the library of the `server` extra, and only where a policy is loaded, checked or explained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.api.access import AccessDecision, AccessPolicy, AccessRequest, Action
from omnigraph.base.extras import load_extra
from omnigraph.base.ids import BranchName
from omnigraph.errors import InternalError
from omnigraph.policy.decide import denial
from omnigraph.policy.model import Policy, Rule, Scope

if TYPE_CHECKING:
    import cedarpy

_BRANCHES = (("branch", "branch"), ("target_branch", "target_branch"))
_FLAGS = {"has_branch", "has_target_branch", "branch_is_protected", "target_branch_is_protected"}


class CedarError(InternalError):
    """Cedar refuses what this package says in its words, or judges otherwise."""


def cedar_text(policy: Policy, repo: str) -> str:
    """Return one `permit` per rule and action, in the order they are numbered by."""
    return "\n\n".join(text for _, text in _permits(policy, repo))


def _permits(policy: Policy, repo: str) -> Iterator[tuple[str, str]]:
    for rule in policy.rules:
        for action in rule.actions:
            name = f"{rule.id}:{action}"
            yield (
                rule.id,
                f"@id({_literal(name)})\n{_rows(rule)}permit (\n"
                f"  principal in Omnigraph::Group::{_literal(rule.group)},\n"
                f"  action == Omnigraph::Action::{_literal(action)},\n"
                f"  resource == Omnigraph::Repo::{_literal(repo)}\n"
                f") when {{ {_condition(rule)} }};",
            )


def _rows(rule: Rule) -> str:
    """Return as notes which rows a rule shows: Cedar decides on requests, not on rows."""
    types = f"@types({_literal(', '.join(rule.types))})\n" if rule.types else ""
    return types + ("" if rule.where is None else f"@where({_literal(rule.where)})\n")


def _condition(rule: Rule) -> str:
    parts = []
    for scope, name in ((rule.branch_scope, "branch"), (rule.target_scope, "target_branch")):
        if scope is Scope.PROTECTED:
            parts.append(f"context.has_{name} && context.{name}_is_protected")
        elif scope is Scope.UNPROTECTED:
            parts.append(f"context.has_{name} && !context.{name}_is_protected")
    return " && ".join(parts) or "true"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def schema() -> dict[str, Any]:
    """Return what policies may be about, as Cedar checks them."""
    context = {
        name: {"type": "Boolean" if name in _FLAGS else "String", "required": True}
        for name in sorted({*_FLAGS, "branch", "target_branch"})
    }
    applies = {
        "principalTypes": ["Actor"],
        "resourceTypes": ["Repo"],
        "context": {"type": "Record", "attributes": context},
    }
    return {
        "Omnigraph": {
            "entityTypes": {"Actor": {"memberOfTypes": ["Group"]}, "Group": {}, "Repo": {}},
            "actions": {str(action): {"appliesTo": applies} for action in Action},
        }
    }


def entities(policy: Policy, repo: str) -> list[dict[str, Any]]:
    """Return the actors with their groups, and the graph."""

    def entity(kind: str, name: str, parents: Sequence[str] = ()) -> dict[str, Any]:
        above = [{"type": "Omnigraph::Group", "id": one} for one in parents]
        return {"uid": {"type": f"Omnigraph::{kind}", "id": name}, "attrs": {}, "parents": above}

    groups = policy.groups
    return [
        entity("Repo", repo),
        *(entity("Group", name) for name in groups),
        *(
            entity("Actor", actor, [name for name, members in groups.items() if actor in members])
            for actor in policy.actors
        ),
    ]


class CedarJudge:
    """Cedar's own answers to the same questions."""

    def __init__(self, policy: Policy, repo: str) -> None:
        """Make the policy ready.

        Raises:
            MissingExtraError: Cedar is not installed.
            CedarError: Cedar refuses the policy.
        """
        self._cedar: Any = load_extra("cedarpy", "server", "a policy")
        self._policy, self._repo = policy, repo
        text = cedar_text(policy, repo)
        checked = self._cedar.validate_policies(text, schema())
        if not checked.validation_passed:
            raise CedarError(f"policy: Cedar refuses it: {checked.errors[0]}")
        self._rules = [rule for rule, _ in _permits(policy, repo)]
        self._policies = self._cedar.PolicySet.from_str(text)
        self._entities = self._cedar.Entities.from_json_str(json.dumps(entities(policy, repo)))
        self._known = frozenset(policy.actors)

    def decide(self, requests: Sequence[AccessRequest]) -> list[AccessDecision]:
        """Judge many requests.

        Raises:
            CedarError: one could not be judged.
        """
        asked = [self._request(one) for one in requests]
        answers = self._cedar.is_authorized_batch(asked, self._policies, self._entities)
        return [self._decision(one, told) for one, told in zip(requests, answers, strict=True)]

    def _request(self, request: AccessRequest) -> dict[str, Any]:
        branch, target = request.branch, request.target_branch
        return {
            "principal": f"Omnigraph::Actor::{_literal(request.actor)}",
            "action": f"Omnigraph::Action::{_literal(request.action)}",
            "resource": f"Omnigraph::Repo::{_literal(self._repo)}",
            "context": {
                "has_branch": branch is not None,
                "branch": branch or "",
                "has_target_branch": target is not None,
                "target_branch": target or "",
                "branch_is_protected": branch in self._policy.protected,
                "target_branch_is_protected": target in self._policy.protected,
            },
        }

    def _decision(self, request: AccessRequest, told: cedarpy.AuthzResult) -> AccessDecision:
        if told.diagnostics.errors:
            raise CedarError(f"policy: {told.diagnostics.errors[0]}")
        if request.actor not in self._known:  # Cedar knows nobody who is in no group
            text = f"policy denied action '{request.action}' for unknown actor '{request.actor}'"
            return AccessDecision(False, text)
        if not told.allowed:
            return AccessDecision(False, denial(request))
        # Cedar names policies by their number.
        rules = [self._rules[int(one.removeprefix("policy"))] for one in told.diagnostics.reasons]
        text = f"policy allowed action '{request.action}' for actor '{request.actor}'"
        return AccessDecision(True, text, min(rules))


def require_agreement(policy: Policy, judge: AccessPolicy, repo: str) -> None:
    """Return only if Cedar says the same as our judge, to everything that can be told apart.

    A rule looks at a branch in one way: whether there is one, and whether it is protected. So every
    actor, action and pair of such branches is every request there is.

    Raises:
        CedarError: they differ somewhere, which is a defect of this package.
    """
    protected = sorted(policy.protected)[:1]
    free = "unprotected"
    while free in policy.protected:
        free += "-"
    branches = [None, BranchName(free), *map(BranchName, protected)]
    actors = [*policy.actors, "\N{NO ENTRY SIGN} nobody"]
    asked = [
        AccessRequest(actor, action, branch, target)
        for actor in actors
        for action in Action
        for branch in branches
        for target in branches
    ]
    for request, theirs in zip(asked, CedarJudge(policy, repo).decide(asked), strict=True):
        ours = judge.decide(request)
        if ours != theirs:
            raise CedarError(
                f"policy: Cedar says {theirs.message!r}, this package says {ours.message!r}",
                hint="report this; the policy is not put in force",
            )

"""Requests with the answers somebody expects, so that a change of the rules can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnigraph.api.access import AccessRequest
from omnigraph.api.policies import PolicyMismatch
from omnigraph.base.ids import BranchName
from omnigraph.compiler.source import Source
from omnigraph.config.document import Document, Section
from omnigraph.errors import BadRequestError
from omnigraph.policy.cedar import CedarJudge
from omnigraph.policy.model import Policy
from omnigraph.policy.read import action_of

SIBLING = "policy.tests.yaml"
"""Where the cases are unless something else is said: beside the policy."""
_ANSWERS = ("allow", "deny")


@dataclass(frozen=True, slots=True)
class Case:
    """One request and whether it is expected to be allowed."""

    id: str
    request: AccessRequest
    allowed: bool


def cases_path(policy: Path, given: Path | None) -> Path:
    """Return the file of the cases of a policy."""
    return given or policy.with_name(SIBLING)


def read_cases(source: Source) -> tuple[Case, ...]:
    """Return what a file of cases says.

    Raises:
        ConfigError: it says something that cannot be; with the place.
    """
    root = Document(source).root()
    if root.text("version") != "1":
        raise root.refuse("policy test version must be 1", "version", "write `version: 1`")
    found: list[Case] = []
    for section in root.items("cases"):
        case = _case(section)
        if any(case.id == other.id for other in found):
            raise section.refuse(f"duplicate policy test case id '{case.id}'", "id")
        found.append(case)
    root.close()
    return tuple(found)


def _case(section: Section) -> Case:
    case_id = section.filled("id", "policy test case ids must not be blank")
    blank = f"policy test case '{case_id}' must not use a blank actor"
    actor = section.filled("actor", blank)
    try:
        action = action_of(section.required("action"))
    except BadRequestError as error:
        raise section.refuse(error.message, "action", error.hint) from None
    branch, target = section.text("branch"), section.text("target_branch")
    expected = section.required_choice("expect", _ANSWERS)
    section.close()
    request = AccessRequest(
        actor,
        action,
        None if branch is None else BranchName(branch.strip()),
        None if target is None else BranchName(target.strip()),
    )
    return Case(case_id, request, expected == "allow")


def run_cases(policy: Policy, cases: Sequence[Case], repo: str) -> tuple[PolicyMismatch, ...]:
    """Return the cases that Cedar answers otherwise than expected."""
    decided = CedarJudge(policy, repo).decide([case.request for case in cases])
    return tuple(
        PolicyMismatch(case.id, case.allowed, found.allowed, found.message)
        for case, found in zip(cases, decided, strict=True)
        if found.allowed is not case.allowed
    )

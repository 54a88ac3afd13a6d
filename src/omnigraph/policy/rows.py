"""What rules on rows mean for whoever does something: which rows there are for them, and where."""

from __future__ import annotations

import logging

from omnigraph.api.access import AccessPolicy, AccessRequest, Action
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.base.ids import BranchName
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.read.visible import compile_condition
from omnigraph.errors import OmniGraphError
from omnigraph.policy.model import ROW_ACTIONS, Policy

log = logging.getLogger("omnigraph.policy")

_OF_NO_ROWS = frozenset(
    {Action.ADMIN, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.RUN_ABORT}
)
"""Upkeep is of the graph as a whole; the others move no row and tell of none."""


def rows_for(
    policy: AccessPolicy, actor: str, action: Action, branch: BranchName | None
) -> RowRules | None:
    """Return which rows of a branch there are for what an actor is about to do; None is all.

    What writes tells of rows, too, by what it refuses: it is done by who may read them.
    """
    if branch is None or action in _OF_NO_ROWS or not policy.hides_rows:
        return None
    return policy.rows(actor, action if action in ROW_ACTIONS else Action.READ, branch)


def check_conditions(policy: Policy, catalog: Catalog) -> None:
    """Say loudly which rules show nothing under a schema: what they mean to show is hidden."""
    for rule in policy.rules:
        for name in rule.types:
            kinds = catalog.types_named(name)
            if not kinds:
                log.error("policy: rule '%s' names type '%s', which is not there", rule.id, name)
            for kind in kinds if rule.where is not None else ():
                try:
                    compile_condition(catalog, kind.table_key, rule.where or "")
                except OmniGraphError as error:
                    told = (rule.id, kind.name, error.message)
                    log.error("policy: rule '%s' hides every %s: %s", *told)


def require_same_rows(
    policy: AccessPolicy, actor: str, source: BranchName, target: BranchName
) -> None:
    """Return only if an actor would see no more of a branch's rows on another one.

    Raises:
        RowRulesError: they would.
    """
    if not policy.hides_rows:
        return
    for action in sorted(ROW_ACTIONS):
        if not policy.decide(AccessRequest(actor, action, target)).allowed:
            continue
        hidden = policy.rows(actor, action, source)
        if hidden is not None and hidden != policy.rows(actor, action, target):
            raise RowRulesError(f"making '{target}' of '{source}'")

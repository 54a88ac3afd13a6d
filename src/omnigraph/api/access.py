"""Who may do what: the question a surface asks before it acts, and the answer it is given."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from omnigraph.api.visibility import RowRules
from omnigraph.base.ids import BranchName


class Action(StrEnum):
    """What a rule can allow."""

    READ = "read"
    EXPORT = "export"
    INVOKE_QUERY = "invoke_query"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    RUN_PUBLISH = "run_publish"
    RUN_ABORT = "run_abort"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One thing somebody wants to do; branch names are canonical before they come here."""

    actor: str
    action: Action
    branch: BranchName | None = None
    target_branch: BranchName | None = None


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether it is allowed, in words that can be shown, and the rule that says so."""

    allowed: bool
    message: str
    matched_rule: str | None = None


class AccessPolicy(Protocol):
    """What a surface needs of a policy."""

    @property
    def check_source(self) -> bool:
        """Whether making or merging a branch also needs `read` on where it comes from."""
        ...

    @property
    def hides_rows(self) -> bool:
        """Whether any rule names types: if none does, everybody sees every row."""
        ...

    def rows(self, actor: str, action: Action, branch: BranchName | None) -> RowRules | None:
        """Return which rows an actor who may do something there sees; None is all of them."""
        ...

    def decide(self, request: AccessRequest) -> AccessDecision:
        """Judge one request; pure, and cheap enough for every request."""
        ...

    def grants_any(self, actor: str, action: Action) -> bool:
        """Tell whether any rule allows an actor an action at all.

        If none does, a surface refuses before it looks anything up: who may read nothing must not
        learn what exists.
        """
        ...

"""What an agent may do beside what a policy says: read, and write below its own name only."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.api.access import AccessDecision, AccessPolicy, AccessRequest, Action
from omnigraph.api.visibility import RowRules
from omnigraph.base.ids import BranchName
from omnigraph.errors import BadRequestError
from omnigraph.storage.files.layout import parse_branch

FOLDER = "agents"
_READS = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY})
_WRITES = frozenset({Action.CHANGE, Action.BRANCH_CREATE, Action.BRANCH_MERGE})


def home_of(actor: str) -> str:
    """Return what the names of an agent's branches begin with.

    Raises:
        BadRequestError: they could not, or would be those of another agent, too.
    """
    if "/" in actor:
        raise BadRequestError(
            f"'{actor}' cannot have branches of its own", hint="name an actor without a slash"
        )
    parse_branch(f"{FOLDER}/{actor}/x", operation="an agent")
    return f"{FOLDER}/{actor}/"


@dataclass(frozen=True, slots=True)
class OwnBranches:
    """An agent reads what it may and writes to branches of its own; a policy may allow less.

    A merge into another branch is for a policy to allow: without one, nobody said that an agent
    may do what people review.
    """

    home: str
    policy: AccessPolicy | None = None
    read_only: bool = False
    judged_elsewhere: bool = False
    """Whether a server has a policy of its own, which decides what is let through here."""

    @property
    def check_source(self) -> bool:
        """Whether making or merging a branch also needs `read` on where it comes from."""
        return self.policy is not None and self.policy.check_source

    @property
    def hides_rows(self) -> bool:
        """Whether any rule names types."""
        return self.policy is not None and self.policy.hides_rows

    @property
    def may_merge(self) -> bool:
        """Whether anything could allow a merge into a branch of somebody else."""
        return (self.policy is not None or self.judged_elsewhere) and not self.read_only

    def rows(self, actor: str, action: Action, branch: BranchName | None) -> RowRules | None:
        """Return which rows an actor who may do something there sees; None is all of them."""
        return None if self.policy is None else self.policy.rows(actor, action, branch)

    def decide(self, request: AccessRequest) -> AccessDecision:
        """Judge one request: by what agents may do at all, and then by the policy."""
        refusal = self._refusal(request)
        if refusal is not None:
            return AccessDecision(False, refusal)
        if self.policy is None:
            return AccessDecision(True, "agents may do this")
        return self.policy.decide(request)

    def grants_any(self, actor: str, action: Action) -> bool:
        """Tell whether an actor may do something anywhere."""
        known = action in _READS or (action in _WRITES and not self.read_only)
        return known and (self.policy is None or self.policy.grants_any(actor, action))

    def _refusal(self, request: AccessRequest) -> str | None:
        action, branch, target = request.action, request.branch, request.target_branch
        if action in _READS:
            return None
        if self.read_only:
            return f"action '{action}' is refused: these tools only read"
        own = f"agents write to branches below '{self.home}' only: call start_work first"
        match action:
            case Action.CHANGE:
                return None if self._is_own(branch) else own
            case Action.BRANCH_CREATE:
                return None if self._is_own(target) else own
            case Action.BRANCH_MERGE:
                if self._is_own(target) or (self.may_merge and self._is_own(branch)):
                    return None
                return f"agents do not merge into '{target}': a person does, after a review"
            case _:
                return f"agents may not do '{action}'"

    def _is_own(self, branch: BranchName | None) -> bool:
        return branch is not None and branch.startswith(self.home)

"""A graph for one actor under a policy: what a graph can be asked, and nothing beside it.

Fulfils the protocols of `api.protocols`; what they lack cannot be reached through a guard. Every
call is judged before it looks anything up or does anything, and is done in the actor's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, Unpack

from omnigraph.api.access import AccessPolicy, Action
from omnigraph.api.changes import ChangeGroup, Diff, EntityBlame, EntityHistory
from omnigraph.api.keywords import (
    CleanupKeywords,
    DiffKeywords,
    FeedKeywords,
    IngestKeywords,
    ReplayKeywords,
    SchemaApplyKeywords,
)
from omnigraph.api.merges import ChangeApplied
from omnigraph.api.protocols import AnyGraph, Reads, Text
from omnigraph.api.schemas import SchemaApplied, SchemaDiff, SchemaHistory
from omnigraph.api.texts import SchemaPlan
from omnigraph.api.upkeep import (
    CleanupStats,
    DiskUse,
    Finding,
    LockHolder,
    TableRepair,
)
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.api.writes import LoadResult
from omnigraph.errors import BadRequestError
from omnigraph.policy.access import Gate
from omnigraph.policy.guarded_branch import GuardedBranch, GuardedReads
from omnigraph.policy.guarded_history import (
    GuardedBranches,
    GuardedCommits,
    GuardedTags,
)
from omnigraph.policy.guarded_queries import GuardedQueries
from omnigraph.storage.files.layout import parse_branch

_ON_BRANCHES = (Action.READ, Action.EXPORT, Action.CHANGE)


class GuardedGraph(GuardedBranch):
    """A whole graph for one actor. Closing it leaves the graph itself open."""

    def __init__(
        self, graph: AnyGraph, policy: AccessPolicy, actor: str, *, named: bool = True
    ) -> None:
        """Guard a graph.

        Args:
            graph: what is asked.
            policy: who may do what.
            actor: who asks.
            named: whether it is asked in their name; a server knows who asks by itself.
        """
        gate = Gate(graph.as_actor(actor) if named else graph, policy, actor)
        # A view of main, which takes no `branch` or `at` beside what is judged here.
        super().__init__(gate, DEFAULT_BRANCH, gate.graph.branch(DEFAULT_BRANCH))
        self.__gate: Gate | None = gate

    def __repr__(self) -> str:
        return "GuardedGraph(closed)" if self.__gate is None else f"GuardedGraph({self.actor!r})"

    @property
    def _gate(self) -> Gate:
        if self.__gate is None:
            raise BadRequestError("this graph is closed", hint="ask for another guard")
        return self.__gate

    def _for(self, action: Action) -> Reads:
        assert self._gate is not None
        return super()._for(action)

    @property
    def actor(self) -> str:
        """In whose name everything is done."""
        return self._gate.actor

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._gate.graph.uri

    @property
    def branches(self) -> GuardedBranches:
        """The branches of the graph."""
        return GuardedBranches(self._gate)

    @property
    def commits(self) -> GuardedCommits:
        """The commits of the graph."""
        return GuardedCommits(self._gate)

    @property
    def tags(self) -> GuardedTags:
        """The tags of the graph."""
        return GuardedTags(self._gate)

    @property
    def queries(self) -> GuardedQueries:
        """The stored queries of the graph."""
        return GuardedQueries(self._gate)

    def branch(self, name: str) -> GuardedBranch:
        """Return a branch, to be read and written as far as the policy goes."""
        gate = self._gate
        if not any(gate.policy.grants_any(self.actor, one) for one in _ON_BRANCHES):
            gate.pass_(Action.READ, branch=name)
        return GuardedBranch(gate, parse_branch(name), gate.graph.branch(name))

    def at(self, moment: Moment, *, branch: str = "main") -> GuardedReads:
        """Return the graph as it was: at a commit, or at a version of a branch."""
        gate = self._gate
        gate.pass_moment(moment, branch=branch)

        whole = gate.graph.at(moment, branch=branch)

        def judge(action: Action) -> Reads:
            gate.pass_moment(moment, action, branch=branch)
            seen = gate.seen(action, moment, branch=branch)
            return whole if seen is gate.graph else seen.at(moment, branch=branch)

        return GuardedReads(judge)

    def as_actor(self, actor: str) -> Self:
        """Refuse: a guard speaks for one actor only.

        Raises:
            BadRequestError: it is another one.
        """
        if actor != self.actor:
            raise BadRequestError(f"this graph is used by '{self.actor}', not by '{actor}'")
        return self

    def ingest(
        self,
        data: Any,  # noqa: ANN401 - files, tables or bytes; who loads says which
        *,
        branch: str,
        source: str = "main",
        mode: str = "merge",
        **how: Unpack[IngestKeywords],
    ) -> LoadResult:
        """Load into a branch, creating it first if it does not exist."""
        gate = self._gate
        gate.pass_(Action.CHANGE, branch=branch)
        if parse_branch(branch) not in gate.graph.branches.list():
            gate.pass_(Action.BRANCH_CREATE, branch=source, target=branch)
            gate.pass_source(source, branch)
            seen = gate.seen(Action.CHANGE, source)
        else:
            seen = gate.seen(Action.CHANGE, branch)
        return seen.ingest(data, branch=branch, source=source, mode=mode, **how)

    # What changed.

    def diff(self, a: Moment, b: Moment | None = None, **how: Unpack[DiffKeywords]) -> Diff:
        """Return what must change in state `a` to make it state `b`."""
        for moment in (a,) if b is None else (a, b):
            self._gate.pass_moment(moment)
        both = (a,) if b is None else (a, b)
        return self._gate.seen(Action.READ, *both).diff(a, b, **how)

    def changes(self, branch: str = "main", **how: Unpack[FeedKeywords]) -> Iterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first."""
        self._gate.pass_(Action.READ, branch=branch)
        return self._gate.seen(Action.READ, branch).changes(branch, **how)

    def cursor(self, branch: str = "main", *, at: str | None = None) -> str:
        """Return where the feed of a branch goes on."""
        self._gate.pass_(Action.READ, branch=branch)
        return self._gate.graph.cursor(branch, at=at)

    def entity_history(
        self, table_key: str, entity_id: str, *, branch: str = "main", limit: int | None = None
    ) -> EntityHistory:
        """Return the commits that changed one node or edge."""
        self._gate.pass_(Action.READ, branch=branch)
        graph = self._gate.seen(Action.READ, branch)
        return graph.entity_history(table_key, entity_id, branch=branch, limit=limit)

    def blame(self, table_key: str, entity_id: str, *, branch: str = "main") -> EntityBlame:
        """Return which commit gave each property its value."""
        self._gate.pass_(Action.READ, branch=branch)
        return self._gate.seen(Action.READ, branch).blame(table_key, entity_id, branch=branch)

    def revert(self, commit: str, **how: Unpack[ReplayKeywords]) -> ChangeApplied:
        """Undo what a commit changed, as a new commit."""
        return self._replaying(commit, how).revert(commit, **how)

    def cherry_pick(self, commit: str, **how: Unpack[ReplayKeywords]) -> ChangeApplied:
        """Repeat on a branch what a commit changed elsewhere."""
        return self._replaying(commit, how).cherry_pick(commit, **how)

    def _replaying(self, commit: str, how: ReplayKeywords) -> AnyGraph:
        """Judge that a commit's rows are taken to a branch."""
        self._gate.pass_(Action.CHANGE, branch=how.get("branch", DEFAULT_BRANCH))
        self._gate.pass_moment(commit)
        return self._gate.seen(Action.CHANGE, how.get("branch", DEFAULT_BRANCH), commit)

    # The schema.

    @property
    def schema(self) -> str:
        """The accepted schema text."""
        self._gate.pass_(Action.READ)
        return self._gate.graph.schema

    def plan_schema(
        self, schema: Text, *, allow_data_loss: bool = False, branch: str = "main"
    ) -> SchemaPlan:
        """Return the steps from the schema of a branch to a new one."""
        self._gate.pass_(Action.READ, branch=branch)
        graph = self._gate.graph
        return graph.plan_schema(schema, allow_data_loss=allow_data_loss, branch=branch)

    def apply_schema(self, schema: Text, **how: Unpack[SchemaApplyKeywords]) -> SchemaApplied:
        """Make a text the schema of a branch."""
        branch = how.get("branch", DEFAULT_BRANCH)
        self._gate.pass_(Action.SCHEMA_APPLY, target=branch)
        return self._gate.seen(Action.SCHEMA_APPLY, branch).apply_schema(schema, **how)

    def diff_schema(self, a: Moment | Text, b: Moment | Text) -> SchemaDiff:
        """Return the steps from one schema to another."""
        for side in (a, b):
            if isinstance(side, int) or (isinstance(side, str) and not _is_schema(side)):
                self._gate.pass_moment(side)
        return self._gate.graph.diff_schema(a, b)

    def schema_history(self, branch: str = "main") -> SchemaHistory:
        """Return the commits of a branch that changed its schema."""
        self._gate.pass_(Action.READ, branch=branch)
        return self._gate.graph.schema_history(branch)

    # The graph as a whole.

    def verify(self, *, deep: bool = False) -> list[Finding]:
        """Check the graph against its own rules; `deep` compares the bytes of every file."""
        return self._administered().verify(deep=deep)

    def repair(
        self, branch: str | None = None, *, confirm: bool = False, force: bool = False
    ) -> list[TableRepair]:
        """Show what other tools did to the files of the graph, and settle it if told to."""
        return self._administered().repair(branch, confirm=confirm, force=force)

    def cleanup(self, **what: Unpack[CleanupKeywords]) -> list[CleanupStats]:
        """Remove old versions and what dead writes and deleted branches left; or tell of them."""
        return self._administered().cleanup(**what)

    def locks(self) -> list[LockHolder]:
        """Return every lock that is held now."""
        return self._administered().locks()

    def break_lock(self, name: str) -> LockHolder | None:
        """Take a lock away from a writer that is gone."""
        return self._administered().break_lock(name)

    def disk_usage(self) -> list[DiskUse]:
        """Return the bytes that every branch of every dataset takes."""
        return self._administered().disk_usage()

    def _administered(self) -> AnyGraph:
        self._gate.pass_(Action.ADMIN)
        return self._gate.graph

    def close(self) -> None:
        """Let go of the graph, which stays open for others."""
        self.__gate = None


def _is_schema(text: str) -> bool:
    """Whether a word is a schema or the path of one, and no state of the graph."""
    return "{" in text or text.rstrip().endswith(".pg")


if TYPE_CHECKING:

    def _fulfilled(graph: GuardedGraph) -> AnyGraph:
        """Let the type checker compare what a guard can do with what surfaces may ask."""
        return graph

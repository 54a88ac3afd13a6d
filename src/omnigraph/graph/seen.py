"""A graph of which somebody sees some rows only: what is hidden is as if it had never been there.

Everything that can be asked through it is said here; what is not said needs to see every row, and
is refused. Names of types, branches, tags and commits are no rows: that there is a schema, and that
something was written, is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Never, Unpack, cast

from omnigraph.api.changes import Diff
from omnigraph.api.history import BranchCreated, BranchDeleted, GraphSnapshot
from omnigraph.api.keywords import DiffKeywords
from omnigraph.api.protocols import AnyGraph, Text
from omnigraph.api.query import QueryResult
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.api.words import DEFAULT_BRANCH, Moment
from omnigraph.api.writes import MutationResult
from omnigraph.base.arguments import text_argument
from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir.ops import Delete, InsertEdge, MutationIr, Update
from omnigraph.config.texts import read_query
from omnigraph.engine.read.reader import GraphReader
from omnigraph.engine.read.visible import VisibleImages, compile_rules
from omnigraph.errors import NotFoundError
from omnigraph.graph.changes import GraphChanges
from omnigraph.graph.history import Branches
from omnigraph.graph.state import GraphState
from omnigraph.graph.stored import GraphQueries
from omnigraph.graph.view import GraphView
from omnigraph.storage.files.layout import MAIN
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Snapshot

if TYPE_CHECKING:
    from omnigraph.graph.algorithms import Algorithms
    from omnigraph.graph.graph import Graph
    from omnigraph.pipeline.export.write import Selection


class SeenView(GraphView):
    """One state of a graph, with the rows that rules show of it."""

    __slots__ = ("_heads", "_rules")

    def __init__(
        self,
        state: GraphState,
        take: Callable[[], Snapshot],
        rules: RowRules,
        *,
        is_past: bool,
    ) -> None:
        super().__init__(state, take)
        self._rules = rules
        self._heads = partial(heads_of, state) if is_past else None

    @property
    def _reader(self) -> GraphReader:
        return self._state.reader.under(self._rules, self._heads)

    def _seen(self, snapshot: Snapshot) -> VisibleImages:
        return self._reader.visible(snapshot)

    def snapshot(self) -> GraphSnapshot:
        """Return every table at its version, with the number of visible rows."""
        return self._counted(self._take())

    def _counted(self, snapshot: Snapshot) -> GraphSnapshot:
        seen = self._seen(snapshot)
        found = GraphView(self._state, lambda: snapshot).snapshot()
        return replace(
            found,
            tables=tuple(
                replace(one, row_count=seen.rows_of(one.table_key)) for one in found.tables
            ),
        )

    def read_blob(self, type_name: str, id: str, prop: str) -> bytes | None:
        """Return the bytes of one Blob of a visible node or edge."""
        snapshot = self._take()
        kinds = self._state.catalog(snapshot).types_named(text_argument(type_name, "a type"))
        seen = self._seen(snapshot)
        shown = any(seen.has(kind.table_key, text_argument(id, "an id")) for kind in kinds)
        if kinds and not shown:
            raise NotFoundError(f"there is no {type_name} '{id}'", hint="ids are case-sensitive")
        return GraphView(self._state, lambda: snapshot).read_blob(type_name, id, prop)

    def entity_rows(self, table_key: str, entity_id: str) -> QueryResult:
        """Return one visible node or edge as a result of one row, or of none."""
        snapshot = self._take()
        snapshot.table(table_key)  # which has to exist, whoever asks
        seen = self._seen(snapshot).has(table_key, text_argument(entity_id, "an id"))
        found = GraphView(self._state, lambda: snapshot).entity_rows(table_key, entity_id)
        return found if seen else QueryResult(found.table.slice(0, 0))

    def _selection(self, types: Sequence[str], tables: Sequence[str]) -> Selection:
        snapshot = self._take()
        seen = self._seen(snapshot)
        chosen = GraphView(self._state, lambda: snapshot)._selection(types, tables)
        return replace(chosen, ids_of=seen.ids_of)

    def _begin_write(self, *_: object) -> Never:
        """Refuse: a value of every node would come of the visible ones."""
        raise RowRulesError("writing what an algorithm finds")

    def spark_query(self, *_: object, **__: object) -> Never:
        """Refuse: workers read the tables themselves."""
        raise RowRulesError("a query on Spark")

    def spark(self, *_: object) -> Never:
        """Refuse: workers read the tables themselves."""
        raise RowRulesError("reading with Spark")


class SeenBranch(SeenView):
    """A branch as it is whenever something is asked; written as far as every row is seen."""

    __slots__ = ("_graph", "_name")

    def __init__(self, graph: SeenGraph, state: GraphState, name: str, rules: RowRules) -> None:
        super().__init__(state, partial(state.snapshot, name), rules, is_past=False)
        self._graph, self._name = graph, name

    def mutate(self, *given: Any, **how: Any) -> MutationResult:  # noqa: ANN401 - as of a graph
        """Run a mutation if every row it can touch is visible."""
        return self._graph.mutate(*given, branch=self._name, **how)

    def __getattr__(self, name: str) -> Never:
        if name.startswith("_"):
            raise AttributeError(name)
        raise RowRulesError(_called(name))


def heads_of(state: GraphState, past: Snapshot) -> tuple[Snapshot, ...]:
    """Return the newest states of the branches that a state of the past belongs to.

    Of a branch that is gone nothing is newer but main.
    """
    found: dict[str, Snapshot] = {}
    for name in dict.fromkeys((state.store.commit(past.commit_id).branch, past.branch)):
        try:
            found[name] = state.store.snapshot(name)
        except BranchNotFoundError:
            found[MAIN] = state.store.snapshot(MAIN)
    return tuple(found.values())


class SeenBranches:
    """The branches of a graph, for who sees some rows only: whole rows go from none to another."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    def list(self) -> list[str]:
        """Return the names of all branches, main first, then sorted."""
        return self._branches.list()

    def create(self, name: str, *, source: str = "main", at: str | None = None) -> BranchCreated:
        """Create a branch; whoever lets it be made knows that its rows are seen as those here."""
        return self._branches.create(name, source=source, at=at)

    def delete(self, name: str) -> BranchDeleted:
        """Delete a branch."""
        return self._branches.delete(name)

    def __getattr__(self, name: str) -> Never:
        raise RowRulesError(_called(name))


_OPEN = frozenset(
    {"uri", "schema", "plan_schema", "diff_schema", "schema_history", "commits", "tags", "cursor"}
)
"""What tells of no row."""


def _viewed(method: str) -> Callable[..., Any]:
    def call(
        self: Any,  # noqa: ANN401 - a `SeenGraph`, which is defined below
        *given: object,
        branch: str = DEFAULT_BRANCH,
        at: str | int | None = None,
        **how: object,
    ) -> Any:  # noqa: ANN401 - what the view returns
        return getattr(self._view(branch, at), method)(*given, **how)

    call.__name__ = method
    call.__doc__ = f"See `GraphView.{method}`."
    return call


class SeenGraph:
    """A graph under rules; fulfils what surfaces ask of a graph as far as rules let it."""

    def __init__(self, graph: Graph, state: GraphState, rules: RowRules) -> None:
        self._graph, self._state, self._rules = graph, state, rules
        self.branches = SeenBranches(graph.branches)
        # It has what calling a query takes, and refuses the rest.
        self.queries = GraphQueries(cast("AnyGraph", self), state.stored)

    def __repr__(self) -> str:
        return f"SeenGraph({self._state.described()})"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the graph has there
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _OPEN:
            return getattr(self._graph, name)
        raise RowRulesError(_called(name))

    def _view(self, branch: str, at: str | int | None) -> SeenView:
        return SeenView(
            self._state,
            partial(self._state.snapshot, text_argument(branch, "the branch"), at),
            self._rules,
            is_past=at is not None,
        )

    def branch(self, name: str) -> SeenBranch:
        """Return a branch, to be read as it is at every call."""
        self._state.snapshot(name)
        return SeenBranch(self, self._state, name, self._rules)

    def at(self, moment: str | int, *, branch: str = DEFAULT_BRANCH) -> SeenView:
        """Return the graph as it was: at a commit id, or at a version of a branch."""
        snapshot = self._state.snapshot(branch, moment)
        return SeenView(self._state, lambda: snapshot, self._rules, is_past=True)

    def snapshot(
        self, branch: str = DEFAULT_BRANCH, *, at: str | int | None = None
    ) -> GraphSnapshot:
        """Return every table at its version, with the number of visible rows."""
        return self._view(branch, at).snapshot()

    @property
    def algorithms(self) -> Algorithms:
        """What can be computed over the visible part of main; see `GraphView.algorithms`."""
        return self._view(DEFAULT_BRANCH, None).algorithms

    query = _viewed("query")
    query_at_hand = _viewed("query_at_hand")
    stream = _viewed("stream")
    profile = _viewed("profile")
    explain = _viewed("explain")
    picture = _viewed("picture")
    show = _viewed("show")
    read_blob = _viewed("read_blob")
    entity = _viewed("entity")
    entity_rows = _viewed("entity_rows")
    export = _viewed("export")
    iter_export = _viewed("iter_export")

    def diff(self, a: Moment, b: Moment | None = None, **how: Unpack[DiffKeywords]) -> Diff:
        """Return what must change in state `a` to make it state `b`, as far as both are seen."""
        reader = self._state.reader.under(self._rules, partial(heads_of, self._state))
        return GraphChanges(self._state, reader.visible).diff(a, b, **how)

    def mutate(
        self,
        source: Text,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = DEFAULT_BRANCH,
        **how: Any,  # noqa: ANN401 - as of the graph
    ) -> MutationResult:
        """Run a mutation if every row it can touch is visible.

        Raises:
            RowRulesError: it touches types of which some rows are hidden.
        """
        snapshot = self._state.snapshot(branch)
        catalog = self._state.catalog(snapshot)
        compiled = compile_query(catalog, read_query(source, params), name)
        rules = compile_rules(self._rules, catalog)
        if isinstance(compiled.ir, MutationIr):
            hidden = sorted(
                key for key in _touched(compiled.ir, catalog) if rules.covers(key, catalog)
            )
            if hidden:
                raise RowRulesError(f"writing {', '.join(hidden)}")
        return self._graph.mutate(source, name, params, branch=branch, **how)


def _touched(ir: MutationIr, catalog: Catalog) -> Iterator[str]:
    """Yield the tables a mutation looks at or changes; a node takes its edges along."""
    for statement in ir.statements:
        name = statement.type_name
        is_edge = isinstance(statement, InsertEdge) or (
            isinstance(statement, Update | Delete) and statement.is_edge
        )
        yield edge_key(name) if is_edge else node_key(name)
        if isinstance(statement, Delete) and not is_edge:
            for edge in catalog.edges.values():
                if name in (edge.from_type, edge.to_type):
                    yield edge.table_key


def _called(name: str) -> str:
    """Return what a message calls something a graph can be asked."""
    return f"`{name}`"

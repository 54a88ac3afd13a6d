"""What changed: between two states, commit by commit, and for one node or edge."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omnigraph.api.changes import (
    ChangedRows,
    ChangeGroup,
    Diff,
    EntityBlame,
    EntityHistory,
    EntityVersion,
    PropertyBlame,
)
from omnigraph.api.query import QueryResult
from omnigraph.api.visibility import RowRulesError
from omnigraph.api.words import (
    CHANGE_OPS,
    ENTITY_KINDS,
    IMAGES,
    ChangeOp,
    EntityKind,
    Images,
    Moment,
)
from omnigraph.base.arguments import names_argument, text_argument, word_argument
from omnigraph.base.budget import Limits
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.changes.diff import Wanted, diff
from omnigraph.engine.changes.entity import Past, Step, blame
from omnigraph.engine.changes.feed import Bounds, Feed, parse_cursor
from omnigraph.engine.changes.pairs import State
from omnigraph.engine.changes.seen import SeenStates
from omnigraph.engine.contract import steps_between
from omnigraph.engine.merge.base import Bases
from omnigraph.engine.merge.review import SinceBases
from omnigraph.engine.merge.schemas import have_one_schema
from omnigraph.engine.read.visible import VisibleImages
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from omnigraph.graph.history import graph_commit
from omnigraph.graph.requests import check_limit
from omnigraph.graph.state import GraphState, cancel_argument
from omnigraph.storage.files.layout import MAIN
from omnigraph.storage.manifest.line import Line
from omnigraph.storage.manifest.snapshot import BranchNotFoundError, Snapshot
from omnigraph.storage.store import GraphStore

_POLL_S = 0.25
_SINCE_BASE = "..."
Word = TypeVar("Word", bound=str)


def resolve_state(store: GraphStore, place: Moment) -> Snapshot:
    """Return the state that is meant by a branch, a commit id, or a version.

    A branch counts before a commit. A number is a version of main; `name@12` one of a branch.

    Raises:
        NotFoundError: there is no such branch, commit or version.
    """
    return _resolved(store, place)[0]


def judged_state(store: GraphStore, place: Moment) -> tuple[Snapshot, str]:
    """Return a state, and the branch whose readers may read it: the named one, or the commit's own.

    Many branches may hold a commit, and a state only says by which of them it was found: that is
    chance, and nothing to judge by.

    Raises:
        NotFoundError: there is no such branch, commit or version.
    """
    found, by_commit = _resolved(store, place)
    return found, store.commit(found.commit_id).branch if by_commit else found.branch


def _resolved(store: GraphStore, place: Moment) -> tuple[Snapshot, bool]:
    """Return the state that is meant, and whether a commit id or a tag names it."""
    if isinstance(place, int) and not isinstance(place, bool):
        return store.snapshot_at(version=place), False
    text = text_argument(place, "a state of the graph")
    branch, at, version = text.partition("@")
    if at and version.isdecimal():
        return store.snapshot_at(version=int(version), branch=branch), False
    try:
        return store.snapshot(text), False
    except BranchNotFoundError:
        if text.isdecimal():
            return store.snapshot_at(version=int(text)), False
    try:
        return store.snapshot_at(commit_id=text), True
    except NotFoundError:
        raise NotFoundError(
            f"there is no branch or commit '{text}'", hint="list the branches, or their commits"
        ) from None


@dataclass(frozen=True, slots=True)
class Sides:
    """The states of a diff."""

    before: Snapshot
    """Where it starts from; of several bases the first."""
    after: Snapshot
    judged_by: tuple[str, ...]
    """The branches whose readers may see it; see `judged_state`."""
    names: tuple[str, ...]
    """What names the same states for ever: two commits, or one text about both lines."""
    bases: Bases | None = None
    """What both lines have in common, if that is more than one state."""


def sides_of(store: GraphStore, a: Moment, b: Moment | None) -> Sides:
    """Return the states of a diff; `main...review` is from where both began to `review`.

    Raises:
        NotFoundError: there is no such state, or both have nothing in common.
        ConflictError: they have states of different schemas in common.
    """
    if b is not None:
        (before, first), (after, last) = judged_state(store, a), judged_state(store, b)
        return Sides(before, after, (first, last), (before.commit_id, after.commit_id))
    if not isinstance(a, str) or _SINCE_BASE not in a:
        raise BadRequestError(
            "a diff is of two states", hint="name two, or 'main...review' from their merge base"
        )
    (ours, _), (theirs, last) = (judged_state(store, one) for one in a.split(_SINCE_BASE, 1))
    commits, parents = store.merge_bases(ours, theirs)
    if not commits:
        raise NotFoundError(f"the states of '{a}' have nothing in common", hint="name two states")
    began = [judged_state(store, one) for one in commits]
    judged_by = (*(branch for _, branch in began), last)
    if len(commits) == 1:
        return Sides(began[0][0], theirs, judged_by, (commits[0], theirs.commit_id))
    if not have_one_schema(theirs, *(state for state, _ in began)):
        raise ConflictError(
            f"the states of '{a}' have several states in common, of different schemas",
            hint=f"name two states: one of {', '.join(commits)}, and '{a.split(_SINCE_BASE)[1]}'",
        )
    bases = Bases(commits, parents, lambda commit: store.snapshot_at(commit_id=commit))
    between = (f"{ours.commit_id}{_SINCE_BASE}{theirs.commit_id}",)
    return Sides(began[0][0], theirs, judged_by, between, bases)


class GraphChanges:
    """Diffs, the change feed, and the history of single nodes and edges."""

    def __init__(
        self, state: GraphState, seen: Callable[[Snapshot], VisibleImages] | None = None
    ) -> None:
        """Compare states of a graph; with `seen`, of what it returns of each."""
        self._state, self._seen = state, seen

    def diff(
        self,
        a: Moment,
        b: Moment | None = None,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[EntityKind] | None = None,
        ops: Sequence[ChangeOp] | None = None,
        images: Images = "none",
        columns: Sequence[str] | None = None,
        limits: Limits | None = None,
    ) -> Diff:
        """Return what must change in state `a` to make it state `b`.

        Types and properties are matched by their ids, so that a rename changes nothing; rows are
        compared by content, so that compaction and writing the same again change nothing.

        Args:
            a: a branch, a commit id, a version of main, `branch@version`; or alone
                `main...review`: from the merge base of both to `review`.
            b: the other state.
            types: only these types: a name, or `node:` or `edge:` and a name.
            kinds: only `node`, or only `edge`.
            ops: only some of `insert`, `update`, `delete`.
            images: whether changes come with their values `after`, `both` before and after, or not.
            columns: properties to compare and show; what differs in none of them is left out.
            limits: time, row and memory limits of each time the diff is gone through.

        Raises:
            NotFoundError: a state, type or property does not exist.
        """
        sides = sides_of(self._state.store, a, b)
        before, after = (
            State(one, self._state.catalog(one)) for one in (sides.before, sides.after)
        )
        since = None if sides.bases is None else SinceBases(sides.bases)
        wanted = _wanted(types, kinds, ops, images, columns)
        first, last = before.snapshot, after.snapshot
        branch = last.branch if last.branch == first.branch or last.branch != MAIN else first.branch
        diff(before, after, wanted)  # what is wrong with a request is told at once
        if self._seen is not None and since is not None:
            raise RowRulesError("a diff since several merge bases")
        look = self._seen

        def pieces() -> Iterator[ChangedRows]:
            if look is None:
                return diff(before, after, wanted, since)
            seen = SeenStates(before, after, look(first), look(last))
            return diff(before, after, wanted, seen.pieces)

        def begin() -> Iterator[ChangedRows]:
            return self._state.job_budget(limits).over(_later(pieces))

        return Diff((first.manifest_version, last.manifest_version, branch), begin)

    def changes(
        self,
        branch: str = "main",
        *,
        since: str | None = None,
        types: Sequence[str] | None = None,
        kinds: Sequence[EntityKind] | None = None,
        ops: Sequence[ChangeOp] | None = None,
        images: Images = "after",
        columns: Sequence[str] | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        follow: bool = False,
        cancel: threading.Event | None = None,
    ) -> Iterator[ChangeGroup]:
        """Yield what every commit did to a branch, oldest first, each in one group or several.

        A merge shows what it did to this branch; maintenance shows nothing. Store what a group says
        together with its cursor, in one transaction: then nothing counts twice or is lost, whenever
        the consumer dies.

        Args:
            branch: the branch to follow.
            since: the cursor of the last group that was dealt with; from the first commit on if
                None.
            types: see `diff`.
            kinds: see `diff`.
            ops: see `diff`.
            images: see `diff`.
            columns: see `diff`.
            max_rows: changes that one group holds at most; a larger commit comes in parts.
            max_bytes: about the bytes of JSON that the changes of one group make at most.
            follow: wait for further commits instead of ending.
            cancel: when another thread sets it, waiting ends.

        Raises:
            FeedResetError: it cannot go on from the cursor; it says from where it can.
            BadRequestError: the cursor is not one of this feed.
        """
        wanted = _wanted(types, kinds, ops, images, columns)
        bounds = Bounds(max_rows, max_bytes)
        stopped = cancel_argument(cancel) or threading.Event()
        start = None if since is None else parse_cursor(since)
        feed = self._feed(self._state.store.line(branch), wanted, bounds)
        feed.check(start)
        return self._follow(branch, feed, since, stopped, follow=follow)

    def cursor(self, branch: str = "main", *, at: str | None = None) -> str:
        """Return where the feed of a branch goes on after what it is now, or was at a commit.

        Raises:
            NotFoundError: the commit is not on the line of the branch.
        """
        if at is not None:
            text_argument(at, "a commit id")
        feed = self._feed(self._state.store.line(branch), Wanted(), Bounds())
        return feed.after(at).text()

    def entity_history(
        self, table_key: str, entity_id: str, *, branch: str = "main", limit: int | None = None
    ) -> EntityHistory:
        """Return the commits of a branch that changed one node or edge, newest first.

        The cost is that of its changes, not of the length of the history.

        Args:
            table_key: `node:<Type>` or `edge:<Type>`, as the type is called now.
            entity_id: the id of the node or edge.
            branch: the branch to look back from.
            limit: how many at most.

        Raises:
            SnapshotExpiredError: states to look at were cleaned up.
        """
        check_limit(limit)
        most = None if limit is None else min(limit, sys.maxsize)
        steps = itertools.islice(self._past(table_key, entity_id, branch).steps(), most)
        return EntityHistory(table_key, entity_id, tuple(map(_version, steps)))

    def blame(self, table_key: str, entity_id: str, *, branch: str = "main") -> EntityBlame:
        """Return, for every property of a node or edge, which commit gave it its value.

        Raises:
            NotFoundError: it is not there now.
        """
        row, found = blame(self._past(table_key, entity_id, branch))
        (values,) = QueryResult(row).to_json_rows()
        told = (
            PropertyBlame(one.name, values[one.name], graph_commit(one.commit)) for one in found
        )
        return EntityBlame(table_key, entity_id, tuple(told))

    def _past(self, table_key: str, entity_id: str, branch: str) -> Past:
        text_argument(entity_id, "an id")
        text_argument(table_key, "the key of a table")
        line = self._state.store.line(branch)

        def catalog_at(sequence: int) -> Catalog:
            return self._state.catalogs.stated(self._state.store.kernel, line.files_after(sequence))

        return Past(line, catalog_at, table_key, entity_id)

    def _feed(self, line: Line, wanted: Wanted, bounds: Bounds) -> Feed:
        store = self._state.store
        return Feed(
            line,
            self._state.catalog,
            lambda before, after: steps_between(store, before, after),
            graph_commit,
            wanted,
            bounds,
        )

    def _follow(
        self,
        branch: str,
        feed: Feed,
        since: str | None,
        cancel: threading.Event,
        *,
        follow: bool,
    ) -> Iterator[ChangeGroup]:
        while True:
            for group in feed.groups(None if since is None else parse_cursor(since)):
                yield group
                since = group.cursor
            if not follow or not self._moves_on(branch, feed.line, cancel):
                return
            feed = self._feed(self._state.store.line(branch), feed.wanted, feed.bounds)

    def _moves_on(self, branch: str, line: Line, cancel: threading.Event) -> bool:
        """Wait until a branch is somewhere else; return False if nobody wants to wait on."""
        while not cancel.is_set():
            if self._state.store.snapshot(branch).commit_id != line.head.commit_id:
                return True
            cancel.wait(_POLL_S)
        return False


def _later(begin: Callable[[], Iterator[ChangedRows]]) -> Iterator[ChangedRows]:
    """Yield what an iterator does, which is made when the first is asked for."""
    yield from begin()


def _version(step: Step) -> EntityVersion:
    before, after = (
        None if one is None else QueryResult(one).to_json_rows()[0]
        for one in (step.before, step.after)
    )
    return EntityVersion(graph_commit(step.commit), step.op, step.changed, before, after)


def _wanted(
    types: Sequence[str] | None,
    kinds: Sequence[EntityKind] | None,
    ops: Sequence[ChangeOp] | None,
    images: Images,
    columns: Sequence[str] | None,
) -> Wanted:
    return Wanted(
        _texts(types, "types"),
        _words(kinds, ENTITY_KINDS, "kinds"),
        _words(ops, CHANGE_OPS, "ops"),
        word_argument(images, IMAGES, "images"),
        _texts(columns, "columns"),
    )


def _texts(given: Sequence[str] | None, what: str) -> tuple[str, ...] | None:
    return None if given is None else names_argument(given, what)


def _words(
    given: Sequence[Word] | None, known: tuple[Word, ...], what: str
) -> tuple[Word, ...] | None:
    texts = _texts(given, what)
    return None if texts is None else tuple(word_argument(one, known, what) for one in texts)

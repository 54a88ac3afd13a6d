"""The change feed: what every commit did to the line of a branch, in order, from a cursor on.

A commit is compared with the state right before it on the line, so compaction neither costs nor
shows, and a merge shows what it did to this line. A cursor names a commit and a place in it; it
says where to go on and holds nothing, so it survives everything but the loss of what it points at.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import orjson

from omnigraph.api.changes import ChangeGroup, EntityChange
from omnigraph.api.history import GraphCommit
from omnigraph.api.texts import SchemaStep
from omnigraph.base.arguments import count_argument
from omnigraph.base.hashing import fnv1a64_hex
from omnigraph.compiler.catalog.model import Catalog
from omnigraph.engine.changes.diff import Wanted, diff
from omnigraph.engine.changes.pairs import State
from omnigraph.errors import BadRequestError, ConflictError, NotFoundError
from omnigraph.storage.files.records import Commit
from omnigraph.storage.manifest.line import Line
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.failures import SnapshotExpiredError


class FeedResetError(ConflictError):
    """A feed cannot go on from a cursor: take a whole state and go on from there.

    Attributes:
        reason: `expired`, `branch_replaced` or `not_on_branch`.
        resume_at: the commit whose state to take whole.
        cursor: where to go on after having done so.
    """

    def __init__(self, reason: str, why: str, head: Cursor) -> None:
        self.reason = reason
        self.resume_at = head.commit
        self.cursor = head.text()
        super().__init__(
            f"the feed of '{head.branch}' cannot go on: {why}",
            hint=f"read the state of commit {head.commit} and go on from cursor {self.cursor}",
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a feed: after a commit, or after a change in it."""

    graph: str
    branch: str
    incarnation: str
    commit: str
    told: int | None = None
    """How many changes of the commit were told; None if all were."""
    asked: str = ""
    """What was asked for, of whose changes these are so many."""

    def text(self) -> str:
        """Return the cursor as it is handed out; what is in it is nobody's business."""
        facts = [self.graph, self.branch, self.incarnation, self.commit, self.told, self.asked]
        return base64.urlsafe_b64encode(orjson.dumps(facts)).decode().rstrip("=")


def parse_cursor(text: object) -> Cursor:
    """Return a cursor that was handed out.

    Raises:
        BadRequestError: it is none.
    """
    try:
        if not isinstance(text, str):
            raise ValueError(type(text).__name__)
        facts = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(facts, list) or not all(isinstance(one, str) for one in facts[:4]):
            raise ValueError("no cursor")
        return Cursor(*facts)
    except (ValueError, TypeError, binascii.Error) as error:
        raise BadRequestError(
            "that is no cursor of a feed", hint="pass one that the feed gave, unchanged"
        ) from error


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one group tells at most; it always tells something."""

    max_rows: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that allow nothing."""
        for name in ("max_rows", "max_bytes"):
            value = getattr(self, name)
            if value is not None:
                count_argument(value, name)


@dataclass(frozen=True, slots=True)
class Feed:
    """The feed of one branch as of one head."""

    line: Line
    catalog_of: Callable[[Snapshot], Catalog]
    steps_between: Callable[[Snapshot | None, Snapshot], tuple[SchemaStep, ...]]
    told: Callable[[Commit], GraphCommit]
    """How a commit is shown."""
    wanted: Wanted
    bounds: Bounds

    def after(self, commit_id: str | None = None) -> Cursor:
        """Return the place after a commit, the newest one if none is named.

        Raises:
            NotFoundError: it is not on the line.
        """
        if commit_id is None:
            return self._after(self.line.commits[-1])
        found = self.line.find(commit_id)
        if found is None:
            branch = self.line.head.branch
            raise NotFoundError(
                f"commit '{commit_id}' is not on the line of '{branch}'",
                hint="list the commits of the branch",
            )
        return self._after(found)

    def check(self, since: Cursor | None) -> None:
        """Return if the feed can begin after a cursor, as far as that is known before reading.

        Raises:
            FeedResetError: it cannot go on from there.
            BadRequestError: the cursor is of another feed.
        """
        self._start(since)

    def groups(self, since: Cursor | None) -> Iterator[ChangeGroup]:
        """Yield every logical commit after a cursor, in one group or several.

        Raises:
            FeedResetError: it cannot go on from there.
        """
        first = self._start(since)
        before: Snapshot | None = None
        for commit, state in self.line.snapshots(first - 1):
            if commit.sequence >= first and commit.kind == "logical":
                begun = since is not None and since.commit == commit.id
                told = since.told if since is not None and begun else None
                yield from self._of_commit(commit, before, state, told or 0)
            before = state

    def _start(self, since: Cursor | None) -> int:
        """Return the sequence of the first commit that is not told as a whole."""
        if since is None:
            return 0
        here = self.after()
        if since.graph != here.graph or since.branch != here.branch:
            raise BadRequestError(
                f"the cursor is of another feed: branch '{since.branch}'",
                hint="pass the branch it was made for, and the graph",
            )
        if since.incarnation != here.incarnation:
            raise FeedResetError("branch_replaced", "the branch was deleted and made anew", here)
        if since.told is not None and since.asked != self._asked:
            raise BadRequestError(
                "the cursor is in the middle of a commit that was asked for otherwise",
                hint="ask for the same types, operations and columns until the commit is complete",
            )
        found = self.line.find(since.commit)
        if found is None:
            why = f"commit {since.commit} is not on its line"
            raise FeedResetError("not_on_branch", why, here)
        return found.sequence + (since.told is None)

    def _of_commit(
        self, commit: Commit, before: Snapshot | None, after: Snapshot, told: int
    ) -> Iterator[ChangeGroup]:
        """Yield what a commit did, but for the changes that were told already."""
        steps = () if told else self.steps_between(before, after)
        whole = ChangeGroup(self.told(commit), self._after(commit).text(), True, steps)
        changes = itertools.islice(self._changes(before, after), told, None)
        try:
            yield from self._parts(commit, changes, whole, told)
        except SnapshotExpiredError as error:
            why = f"rows around commit {commit.id} were cleaned up"
            raise FeedResetError("expired", why, self.after()) from error

    def _parts(
        self, commit: Commit, changes: Iterator[EntityChange], whole: ChangeGroup, told: int
    ) -> Iterator[ChangeGroup]:
        """Yield a commit cut at the bounds; the last part says that it is the last."""
        held: list[EntityChange] = []
        nbytes = 0
        for one in changes:
            if held and self._is_full(len(held), nbytes):
                told += len(held)
                here = replace(self._after(commit), told=told, asked=self._asked).text()
                yield replace(whole, cursor=here, complete=False, changes=tuple(held))
                whole = replace(whole, schema_steps=())
                held, nbytes = [], 0
            held.append(one)
            if self.bounds.max_bytes is not None:
                nbytes += len(orjson.dumps(one.to_json_value()))
        yield replace(whole, changes=tuple(held))

    def _is_full(self, rows: int, nbytes: int) -> bool:
        most = self.bounds
        return (most.max_rows is not None and rows >= most.max_rows) or (
            most.max_bytes is not None and nbytes >= most.max_bytes
        )

    def _changes(self, before: Snapshot | None, after: Snapshot) -> Iterator[EntityChange]:
        now = State(after, self.catalog_of(after))
        empty = replace(after, tables={})
        was = State(before or empty, now.catalog if before is None else self.catalog_of(before))
        pieces = diff(was, now, self.wanted)
        return itertools.chain.from_iterable(piece.changes() for piece in pieces)

    @property
    def _asked(self) -> str:
        wanted = self.wanted
        return fnv1a64_hex(repr((wanted.types, wanted.kinds, wanted.ops, wanted.columns)))

    def _after(self, commit: Commit) -> Cursor:
        head, kernel = self.line.head, self.line.kernel
        incarnation = fnv1a64_hex(head.incarnation) if head.incarnation else ""
        return Cursor(kernel.identity.uuid, head.branch, incarnation, commit.id)

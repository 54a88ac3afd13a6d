"""The life of one node or edge, from its newest state back, and where its values are from.

A row knows at which version of its table it was last written. So from a state one can jump right
behind the write before it, and the cost is that of the row's changes, not of the branch's commits.
The jump stays in one lineage, and never passes over what another tool did to the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.api.words import ChangeOp
from omnigraph.base.ids import TableKey
from omnigraph.compiler.catalog.model import ID, Catalog, EdgeType, NodeType
from omnigraph.engine.changes.pairs import TypePair
from omnigraph.engine.image.blobs import described
from omnigraph.errors import NotFoundError
from omnigraph.storage.files.records import TAKEN_OVER, Commit
from omnigraph.storage.manifest.line import Line, TableMove
from omnigraph.storage.tables.equal import cells_unequal
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.one_row import Found, find_earlier, find_row
from omnigraph.storage.tables.widen import widened


@dataclass(frozen=True, slots=True)
class Step:
    """One commit that changed an entity, and its images before and after, as tables of one row."""

    commit: Commit
    op: ChangeOp
    changed: tuple[str, ...]
    before: pa.Table | None
    after: pa.Table | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The entity at one move of its table; without a row it was not there."""

    at: int
    kind: NodeType | EdgeType | None
    handle: Handle
    found: Found | None

    @property
    def row(self) -> pa.Table | None:
        return None if self.found is None else self.found.row


class Past:
    """Follows one entity back along a line."""

    def __init__(
        self, line: Line, catalog_at: Callable[[int], Catalog], table_key: str, entity_id: str
    ) -> None:
        self._line = line
        self._catalog_at = catalog_at
        self._id = entity_id
        newest = len(line.commits) - 1
        kind = catalog_at(newest).type_named(table_key)
        self._type_id = kind.type_id
        self._is_edge = isinstance(kind, EdgeType)
        self._names = {prop.prop_id: name for name, prop in kind.properties.items()}
        table = line.head.tables.get(TableKey(kind.table_key))
        self._moves = [] if table is None else line.moves_of(table.location)
        self._barriers = [
            at for at, move in enumerate(self._moves) if TAKEN_OVER in _facts(move.commit)
        ]

    def now(self) -> pa.Table | None:
        """Return the entity as it is, as a table of one row; None if it is not there."""
        row = self._look(0).row if self._moves else None
        return None if row is None else described(row)

    def steps(self) -> Iterator[Step]:
        """Yield what changed the entity, newest first; nothing if it never was.

        Raises:
            SnapshotExpiredError: the versions to look at were cleaned up.
        """
        if not self._moves:
            return
        seen = self._look(0)
        while True:
            back = self._behind(seen)
            if back >= len(self._moves):
                if seen.row is not None:
                    yield self._step(None, seen, len(self._moves) - 1)
                return
            before = self._look(back, seen)
            if before.row is not None or seen.row is not None:
                step = self._step(before, seen, back - 1)
                if step.op != "update" or step.changed:
                    yield step
            seen = before

    def _look(self, at: int, later: _Seen | None = None) -> _Seen:
        move = self._moves[at]
        tables = self._line.kernel.tables
        handle = tables.open(*move.table.place)
        if later is None:
            found = find_row(handle, ID, self._id)
        else:
            found = find_earlier(tables, handle, later.handle, ID, self._id, later.found)
        return _Seen(at, self._kind_at(move), handle, found)

    def _kind_at(self, move: TableMove) -> NodeType | EdgeType | None:
        catalog = self._catalog_at(move.commit.sequence)
        types = catalog.edges if self._is_edge else catalog.nodes
        return next((one for one in types.values() if one.type_id == self._type_id), None)

    def _behind(self, seen: _Seen) -> int:
        """Return the newest older move at which the entity may have been otherwise."""
        at = seen.at + 1
        if seen.found is None:
            return at  # of rows that are not there nothing is known
        here = self._moves[seen.at].table
        barrier = next((one for one in self._barriers if one >= seen.at), len(self._moves))
        while at < len(self._moves) and at <= barrier:
            table = self._moves[at].table
            if table.branch != here.branch or table.version < seen.found.written_at:
                break
            at += 1
        return at

    def _step(self, before: _Seen | None, after: _Seen, at: int) -> Step:
        """Return what the commit of a move did, which is the first to have the later image."""
        commit = self._moves[at].commit
        now = None if after.row is None else described(after.row)
        if before is None or before.row is None:
            return Step(commit, "insert", (), None, now)
        was = described(before.row)
        if after.row is None:
            return Step(commit, "delete", (), was, None)
        return Step(commit, "update", self._changed(before, after), was, now)

    def _changed(self, before: _Seen, after: _Seen) -> tuple[str, ...]:
        """Return the columns whose values differ, by the names they have now."""
        assert before.row is not None
        assert after.row is not None
        changed = []
        for pair in TypePair(before.kind, after.kind).columns:
            if pair.after is None:
                continue
            now = after.row[pair.after]
            was = _null_like(now) if pair.before is None else before.row[pair.before]
            if pair.kind is not None:  # a wider type since: the same value is no change
                was, now = widened(was, pair.kind), widened(now, pair.kind)
            if cells_unequal(pa.table({"": was}), pa.table({"": now}), [""]).any():
                changed.append(self._name_now(after.kind, pair.after))
        return tuple(changed)

    def _name_now(self, kind: NodeType | EdgeType | None, name: str) -> str:
        prop = None if kind is None else kind.properties.get(name)
        return name if prop is None else self._names.get(prop.prop_id, name)


def _null_like(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(len(column), column.type)])


def _facts(commit: Commit) -> Mapping[str, object]:
    return commit.result if isinstance(commit.result, dict) else {}


@dataclass(frozen=True, slots=True)
class Blame:
    """The commit that gave a property the value it has."""

    name: str
    commit: Commit


def blame(past: Past) -> tuple[pa.Table, list[Blame]]:
    """Return the entity as it is, and per property where its value is from.

    Raises:
        NotFoundError: it is not there.
    """
    row = past.now()
    if row is None:
        raise NotFoundError("there is no such node or edge now", hint="its history may tell why")
    found: dict[str, Commit] = {}
    for step in past.steps():
        # What nothing changed since, its insert brought, or the schema.
        for name in row.column_names if step.op == "insert" else step.changed:
            found.setdefault(name, step.commit)
        if step.op == "insert" or len(found) == len(row.column_names):
            break
    return row, [Blame(name, found[name]) for name in row.column_names if name in found]

"""What changed: between two states of a graph, commit by commit, and to one node or edge.

JSON has the names of a change set: changes sorted by table key, then id. Images have the values
that queries return, in Python and in JSON; a Blob is its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.history import GraphCommit
from omnigraph.api.notebook import SHOWN_ROWS, count_note, table_html
from omnigraph.api.query import QueryResult
from omnigraph.api.texts import SchemaStep
from omnigraph.api.wire import Shape, Wire
from omnigraph.api.words import CHANGE_OPS, ChangeOp, EntityKind

Row: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class Endpoints(Shape):
    """The ids of the nodes an edge joins."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True)
class EntityChange(Shape):
    """One node or edge that was inserted, updated or deleted."""

    table_key: str
    kind: EntityKind
    type_name: str
    id: str
    op: ChangeOp
    manifest_version: int
    """Of the state in which it is so."""
    endpoints: Annotated[Endpoints | None, Wire(omit_empty=True)] = None
    """Of an edge; of a deleted one, those it had."""
    changed: Annotated[tuple[str, ...], Wire(omit_empty=True)] = ()
    """Of an update the properties whose values differ."""
    before: Annotated[Mapping[str, Any] | None, Wire(omit_empty=True)] = None
    after: Annotated[Mapping[str, Any] | None, Wire(omit_empty=True)] = None


@dataclass(frozen=True, slots=True)
class ChangeStats(Shape):
    """How much changed."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    types_affected: tuple[str, ...] = ()
    """Names of types, sorted."""

    @property
    def total(self) -> int:
        """How many nodes and edges changed."""
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class ChangeSet(Shape):
    """All that changed between two states."""

    from_version: int
    to_version: int
    branch: Annotated[str | None, Wire(omit_empty=True)]
    changes: tuple[EntityChange, ...]
    stats: ChangeStats


@dataclass(frozen=True, slots=True)
class TypeSummary(Shape):
    """How many nodes or edges of one type changed."""

    table_key: str
    inserts: int
    updates: int
    deletes: int


@dataclass(frozen=True, slots=True)
class ChangeSummary(Shape):
    """How much changed between two states, type by type."""

    from_version: int
    to_version: int
    branch: Annotated[str | None, Wire(omit_empty=True)]
    types: tuple[TypeSummary, ...]
    stats: ChangeStats


@dataclass(frozen=True, slots=True)
class ChangeGroup(Shape):
    """What one commit did to the line of its branch, or a part of it.

    Whoever has stored what the group says, and its cursor with it, goes on after it: nothing is
    told twice, nothing is left out.
    """

    commit: GraphCommit
    cursor: str
    """Where to go on after this group."""
    complete: bool
    """Whether this is all of the commit, or the last part of it."""
    schema_steps: Annotated[tuple[SchemaStep, ...], Wire(omit_empty=True)] = ()
    """What the commit did to the schema; in its first part."""
    changes: tuple[EntityChange, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityVersion(Shape):
    """One commit that changed a node or edge, and what became of it."""

    commit: GraphCommit
    op: ChangeOp
    changed: tuple[str, ...] = ()
    """Of an update the properties whose values differ."""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EntityHistory(Shape):
    """The life of one node or edge, newest first."""

    table_key: str
    id: str
    versions: tuple[EntityVersion, ...]


@dataclass(frozen=True, slots=True)
class PropertyBlame(Shape):
    """Which commit gave a property the value it has."""

    name: str
    value: Any
    commit: GraphCommit


@dataclass(frozen=True, slots=True)
class EntityBlame(Shape):
    """Where every value of one node or edge is from."""

    table_key: str
    id: str
    properties: tuple[PropertyBlame, ...]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Some nodes or edges of one type that changed, sorted by id.

    `rows` has the columns `op`, `id`, of edges `src` and `dst`, `changed` (a list of names), and as
    far as images were asked for the structs `before` and `after`.
    """

    table_key: str
    kind: EntityKind
    type_name: str
    manifest_version: int
    rows: pa.Table

    def count(self, op: ChangeOp) -> int:
        """Return how many were inserted, updated or deleted."""
        return int(pc.sum(pc.equal(self.rows["op"], op)).as_py() or 0)

    def changes(self, *, json: bool = True) -> Iterator[EntityChange]:
        """Yield the changes one by one; images hold what JSON, or else what Python calls them."""
        rows = self.rows
        plain = rows.select(["op", "id", "changed"]).to_pylist()
        ends = rows.select(["src", "dst"]).to_pylist() if self.kind == "edge" else None
        before, after = (_images(rows, name, json=json) for name in ("before", "after"))
        for at, row in enumerate(plain):
            yield EntityChange(
                self.table_key,
                self.kind,
                self.type_name,
                row["id"],
                row["op"],
                self.manifest_version,
                None if ends is None else Endpoints(**ends[at]),
                tuple(row["changed"] or ()),
                before[at],
                after[at],
            )


class Diff:
    """What changed between two states, sorted by table key, then id.

    Nothing is computed before it is asked for, and every question computes anew, so that no diff is
    too large: iterate over it, or take it as a whole.
    """

    def __init__(
        self,
        origin: tuple[int, int, str | None],
        start: Callable[[], Iterator[ChangedRows]],
    ) -> None:
        self.from_version, self.to_version, self.branch = origin
        self._start = start

    def __iter__(self) -> Iterator[EntityChange]:
        for piece in self._start():
            yield from piece.changes()

    def pieces(self) -> Iterator[ChangedRows]:
        """Yield the changes as Arrow tables, each of one type."""
        return self._start()

    def to_arrow(self) -> pa.Table:
        """Return all changes as one table.

        `before` and `after` are structs of the properties of all types that changed; properties of
        one name but different kinds in two types are called `Type.name`.
        """
        pieces = list(self._start())
        names = _image_names(pieces)
        return pa.concat_tables(
            [_NO_CHANGES, *(_widened(one, names) for one in pieces)], promote_options="default"
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return all changes as dicts of Python values."""
        return [one.to_json_value() for piece in self._start() for one in piece.changes(json=False)]

    def change_set(self) -> ChangeSet:
        """Return all changes as one value, ready for JSON."""
        changes = tuple(self)
        return ChangeSet(
            self.from_version, self.to_version, self.branch, changes, stats_of(changes)
        )

    def summary(self) -> ChangeSummary:
        """Return how many nodes and edges of every type changed."""
        found: dict[str, list[int]] = {}
        types: set[str] = set()
        for piece in self._start():
            counts = found.setdefault(piece.table_key, [0, 0, 0])
            types.add(piece.type_name)
            for at, op in enumerate(CHANGE_OPS):
                counts[at] += piece.count(op)
        listed = tuple(TypeSummary(key, *counts) for key, counts in found.items())
        inserts, updates, deletes = (
            sum(counts[at] for counts in found.values()) for at in range(len(CHANGE_OPS))
        )
        stats = ChangeStats(inserts, updates, deletes, tuple(sorted(types)))
        return ChangeSummary(self.from_version, self.to_version, self.branch, listed, stats)

    def __repr__(self) -> str:
        where = "" if self.branch is None else f" of '{self.branch}'"
        return f"Diff(version {self.from_version} to {self.to_version}{where})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks, cut after 50 changes."""
        total = 0
        shown: list[EntityChange] = []
        for piece in self._start():
            if len(shown) < SHOWN_ROWS:
                shown += list(piece.changes())[: SHOWN_ROWS - len(shown)]
            total += len(piece.rows)
        rows = [list(_cells(one)) for one in shown]
        return table_html(
            ("", "type", "id", "changes"), rows, count_note(total, len(rows), "changes")
        )


def stats_of(changes: Iterable[EntityChange]) -> ChangeStats:
    """Return how many changes there are of each kind."""
    counts = dict.fromkeys(CHANGE_OPS, 0)
    types = set()
    for one in changes:
        counts[one.op] += 1
        types.add(one.type_name)
    return ChangeStats(counts["insert"], counts["update"], counts["delete"], tuple(sorted(types)))


def values_changed(change: EntityChange | EntityVersion) -> Iterator[tuple[str, object, object]]:
    """Yield name, value before and value after of what a change says of properties."""
    before, after = change.before or {}, change.after or {}
    names = change.changed if change.op == "update" else tuple(after or before)
    for name in names:
        yield name, before.get(name), after.get(name)


def _cells(change: EntityChange) -> tuple[str, str, str, str]:
    sign = {"insert": "+", "update": "~", "delete": "-"}[change.op]
    if change.before is None and change.after is None:
        told = ", ".join(change.changed)
    else:
        told = ", ".join(_value_text(change, *one) for one in values_changed(change))
    return sign, change.type_name, change.id, told


def _value_text(change: EntityChange, name: str, before: object, after: object) -> str:
    if change.op == "update" and change.before is not None:
        return f"{name}: {before!r} → {after!r}"
    return f"{name}: {(before if change.op == 'delete' else after)!r}"


_NO_CHANGES = pa.table(
    {
        "table_key": pa.array([], pa.string()),
        "kind": pa.array([], pa.string()),
        "type_name": pa.array([], pa.string()),
        "op": pa.array([], pa.string()),
        "id": pa.array([], pa.string()),
        "src": pa.array([], pa.string()),
        "dst": pa.array([], pa.string()),
        "changed": pa.array([], pa.list_(pa.string())),
    }
)


@dataclass(slots=True)
class _ImageNames:
    """The fields of `before` and `after` when types are shown together."""

    fields: dict[str, pa.DataType] = field(default_factory=dict)
    clashing: set[str] = field(default_factory=set)

    def of(self, piece: ChangedRows, name: str) -> str:
        return f"{piece.type_name}.{name}" if name in self.clashing else name


def _image_names(pieces: Iterable[ChangedRows]) -> _ImageNames:
    found = _ImageNames()
    seen: dict[str, pa.DataType] = {}
    listed = [
        (piece, image.name, image.type)
        for piece in pieces
        for side in ("before", "after")
        if side in piece.rows.column_names
        for image in piece.rows.schema.field(side).type
    ]
    for _, name, kind in listed:
        if seen.setdefault(name, kind) != kind:
            found.clashing.add(name)
    for piece, name, kind in listed:
        found.fields[found.of(piece, name)] = kind
    return found


def _widened(piece: ChangedRows, names: _ImageNames) -> pa.Table:
    """Return the rows of a piece with the columns that all pieces have together."""
    rows, count = piece.rows, len(piece.rows)
    told = {"table_key": piece.table_key, "kind": piece.kind, "type_name": piece.type_name}
    columns: dict[str, Any] = {
        name: pa.repeat(pa.scalar(value, pa.string()), count) for name, value in told.items()
    }
    for name in ("op", "id", "src", "dst", "changed"):
        has = name in rows.column_names
        columns[name] = rows[name] if has else pa.nulls(count, pa.string())
    for side in ("before", "after"):
        if side in rows.column_names:
            columns[side] = _image_of_all(piece, rows[side].combine_chunks(), names)
    return pa.table(columns)


def _image_of_all(piece: ChangedRows, images: pa.StructArray, names: _ImageNames) -> pa.StructArray:
    own = {names.of(piece, one.name): images.field(at) for at, one in enumerate(images.type)}
    filled = [
        own[name] if name in own else pa.nulls(len(images), kind)
        for name, kind in names.fields.items()
    ]
    fields = [pa.field(name, kind) for name, kind in names.fields.items()]
    return pa.StructArray.from_arrays(filled, fields=fields, mask=images.is_null())


def _images(rows: pa.Table, side: str, *, json: bool) -> list[dict[str, Any] | None]:
    if side not in rows.column_names:
        return [None] * len(rows)
    images = rows[side].combine_chunks()
    result = QueryResult(pa.Table.from_struct_array(images))
    values = result.to_json_rows() if json else result.to_dicts()
    there = images.is_valid().to_pylist()
    return [one if valid else None for one, valid in zip(values, there, strict=True)]

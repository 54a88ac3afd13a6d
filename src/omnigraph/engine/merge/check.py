"""Rules that only both sides together break; each side by itself is sound.

So a broken rule takes one fact from each side, and only those are looked at: what the merge puts
and removes, beside what the other side did since the base. Nothing that neither side touched is
read, but for the number of edges of sources to which both gave some, or from which they took, and
for the unique values of rows that were put together from both sides or given by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.merges import ConflictKind, MergeConflict
from omnigraph.api.violations import Rule, Violation
from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.merge.images import ID, columns_of
from omnigraph.engine.merge.rows import TableMerge
from omnigraph.engine.write.cardinality import broken_cardinality
from omnigraph.engine.write.change_set import ChangeSet, TableChange
from omnigraph.engine.write.columns import all_valid, minus, tuple_codes
from omnigraph.engine.write.validate import (
    broken_uniqueness,
    key_columns,
    left_alone,
    no_such_end,
    not_unique,
)
from omnigraph.engine.write.values import broken_values
from omnigraph.storage.delta.confirm import Changed
from omnigraph.storage.manifest.snapshot import Snapshot

Kind = NodeType | EdgeType
OtherSide = Callable[[str], "Other"]
KIND_OF_RULE = {
    Rule.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    Rule.ENDPOINT: ConflictKind.ORPHAN_EDGE,
    Rule.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
}
"""What a broken rule is called as a conflict; the others are about values."""


@dataclass(frozen=True, slots=True)
class Other:
    """What the target did to a table since the base: columns by which rows can be in the way."""

    put: pa.Table
    before: pa.Table
    """The rows it replaced or removed, as they were."""
    deleted: pa.Array

    @classmethod
    def of(cls, changed: Changed | None, columns: list[str]) -> Other:
        """Return it from what differs."""
        if changed is None:
            nothing = pa.table({name: pa.array([], pa.string()) for name in columns})
            return cls(nothing, nothing, pa.array([], pa.string()))
        parts = columns_of(changed, columns)
        return cls(
            pa.concat_tables([parts.inserted, parts.after]),
            pa.concat_tables([parts.before, parts.deleted]),
            one_array(parts.deleted[ID]),
        )

    def with_rows(self, now: pa.Table, ids: pa.Array, images: Sequence[Changed]) -> Other:
        """Return it with more rows that it may have changed: as they are, and as they once were."""
        known = pc.is_in(self.put[ID], value_set=ids)
        put = self.put.filter(pc.invert(known))
        now = pa.table(
            {name: now[name] for name in put.column_names}
        )  # stored ones may be required
        once = [
            rows for one in images for rows in (one.inserted, one.before, one.after, one.deleted)
        ]
        before = [rows for rows in (self.before, *once) if len(rows)]
        absent = minus(ids, one_array(now[ID]))
        return Other(
            pa.concat_tables([put, now]) if len(put) else now,
            pa.concat_tables(before) if before else self.before,
            pc.unique(pa.concat_arrays([self.deleted, absent])),
        )


def broken_together(
    tables: Mapping[TableKey, TableMerge], other: OtherSide, ours: Snapshot, catalog: Catalog
) -> Iterator[MergeConflict]:
    """Yield the rules a merge would break on the target.

    Args:
        tables: what the merge does, by table key.
        other: tells what the target did to a table since the base.
        ours: the target as it is.
        catalog: the schema of both.
    """
    sides = _Sides(tables, other)
    kinds: list[Kind] = [*catalog.nodes.values(), *catalog.edges.values()]
    for kind in kinds:
        table = tables.get(TableKey(kind.table_key))
        if table is not None:
            yield from _values(kind, table)
            yield from _uniqueness(kind, table, sides, ours)
        if isinstance(kind, EdgeType):
            yield from _ends(kind, sides)
            yield from _cardinality(kind, sides, ours)


class _Sides:
    """What both sides did to every table, each looked up once."""

    def __init__(self, tables: Mapping[TableKey, TableMerge], other: OtherSide) -> None:
        self._tables = tables
        self._ask = other
        self._known: dict[str, Other] = {}

    def put(self, key: str, columns: list[str]) -> pa.Table | None:
        """Return columns of the rows the merge puts into a table."""
        table = self._tables.get(TableKey(key))
        return None if table is None else table.put_columns(columns)

    def settled(self, key: str, columns: list[str]) -> list[pa.Table]:
        """Return columns of the rows that were put together: an end may be of either side."""
        table = self._tables.get(TableKey(key))
        return [] if table is None else [rows.select(columns) for rows in table.settled]

    def before(self, key: str) -> list[pa.Table]:
        """Return ids and ends of rows the merge replaces or removes, as they are on the target."""
        table = self._tables.get(TableKey(key))
        return [] if table is None else table.replaced

    def deleted(self, key: str) -> pa.Array:
        """Return the ids the merge removes."""
        table = self._tables.get(TableKey(key))
        return pa.array([], pa.string()) if table is None else table.deletes

    def gone(self, key: str) -> pa.Array:
        """Return the ids of committed rows that the merge replaces or removes."""
        parts = [one_array(rows[ID]) for rows in self.before(key)]
        return pa.concat_arrays([self.deleted(key), *parts])

    def other(self, key: str) -> Other:
        """Return what the target did to a table."""
        if key not in self._known:
            there, table = self._ask(key), self._tables.get(TableKey(key))
            if table is not None and table.kept:
                # The source may have relied on changing them.
                names = there.put.column_names
                rows = pa.concat_tables([one.select(names) for one in table.kept])
                others = pc.invert(pc.is_in(there.put[ID], value_set=one_array(rows[ID])))
                away = pa.concat_arrays([there.deleted, *table.kept_away])
                left = there.put.filter(others)
                put = pa.concat_tables([left, rows]) if len(left) else rows
                there = replace(there, put=put, deleted=pc.unique(away))
            self._known[key] = there
        return self._known[key]


def _values(kind: Kind, table: TableMerge) -> Iterator[MergeConflict]:
    """A row that was put together, or given by hand, breaks a rule by itself."""
    for rows in table.settled:
        for broken in broken_values(kind, rows):
            for violation in broken:
                yield _conflict(
                    kind, replace(violation, row_id=None), ConflictKind.VALUE_CONSTRAINT_VIOLATION
                )


def _uniqueness(
    kind: Kind, table: TableMerge, sides: _Sides, ours: Snapshot
) -> Iterator[MergeConflict]:
    """Both sides put a row with the same values, under different ids.

    A row that was put together is a fact of neither side: it is compared with all that stay, too.
    """
    names = key_columns(kind)
    put = table.put_columns(names) if kind.unique else None
    if put is None or not len(put):
        return
    theirs = sides.other(kind.table_key).put
    theirs = theirs.filter(pc.invert(pc.is_in(theirs[ID], value_set=sides.gone(kind.table_key))))
    if not table.settled:
        yield from _agreeing(kind, put, theirs)
        return
    settled = pa.concat_tables([rows.select(names) for rows in table.settled])
    whole = put.filter(pc.invert(pc.is_in(put[ID], value_set=one_array(settled[ID]))))
    yield from _agreeing(kind, whole, theirs)
    yield from _agreeing(kind, settled, whole)
    changes = ChangeSet({kind.table_key: TableChange(put, table.deletes)})
    for broken in broken_uniqueness(kind, settled, changes, ours):
        for violation in broken:
            yield _conflict(kind, violation)


def _agreeing(kind: Kind, mine: pa.Table, theirs: pa.Table) -> Iterator[MergeConflict]:
    """Yield the rows of one table that have the values of another row in the other one."""
    for columns in kind.unique if len(theirs) else ():
        one = mine.filter(all_valid(mine, columns))
        two = theirs.filter(all_valid(theirs, columns))
        codes = tuple_codes([one, two], columns)
        here, there = codes[: len(one)], codes[len(one) :]
        if not len(there):
            continue
        order = np.argsort(there, kind="stable")
        found = np.minimum(np.searchsorted(there[order], here), len(there) - 1)
        at = np.flatnonzero(there[order][found] == here)
        ids, others = one_array(one[ID]), one_array(two[ID])
        for row in at:
            mate = others[int(order[found[row]])].as_py()
            if mate != ids[int(row)].as_py():
                values = [one[name][int(row)].as_py() for name in columns]
                told = not_unique(kind.name, columns, values, ids[int(row)].as_py(), mate)
                yield _conflict(kind, told)


def _ends(edge: EdgeType, sides: _Sides) -> Iterator[MergeConflict]:
    """One side put an edge, the other deleted a node it leads from or to."""
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        key = node_key(node)
        put = sides.put(edge.table_key, [ID, end])
        lost = minus(sides.other(key).deleted, _ids(sides.put(key, [ID])))
        if put is not None and len(put) and len(lost):
            for row in _leading_to(put, end, lost):
                yield _conflict(edge, no_such_end(edge.name, end, node, row[ID], row[end]))
        removed = sides.deleted(key)
        if len(removed):
            theirs = sides.other(edge.table_key).put
            stay = pc.invert(pc.is_in(theirs[ID], value_set=sides.gone(edge.table_key)))
            left = [
                theirs.filter(stay).select([ID, end]),
                *sides.settled(edge.table_key, [ID, end]),
            ]
            for row in _leading_to(pa.concat_tables(left), end, removed):
                yield _conflict(edge, left_alone(edge.name, end, row[ID], row[end], "deleted"))


def _leading_to(rows: pa.Table, end: str, nodes: pa.Array) -> list[dict[str, str]]:
    found = rows.filter(pc.is_in(one_array(rows[end]), value_set=nodes)).select([ID, end])
    told: list[dict[str, str]] = found.sort_by(ID).to_pylist()
    return told


def _ids(rows: pa.Table | None) -> pa.Array:
    return pa.array([], pa.string()) if rows is None else one_array(rows[ID])


def _cardinality(edge: EdgeType, sides: _Sides, ours: Snapshot) -> Iterator[MergeConflict]:
    """Both sides gave edges to one source, or took some: only then can the number be wrong."""
    if edge.cardinality.min == 0 and edge.cardinality.max is None:
        return
    put = sides.put(edge.table_key, [ID, "src"])
    before = sides.before(edge.table_key)
    mine = [one_array(rows["src"]) for rows in (*([] if put is None else [put]), *before)]
    if not mine:
        return
    there = sides.other(edge.table_key)
    theirs = pa.concat_arrays([one_array(there.put["src"]), one_array(there.before["src"])])
    both = pc.unique(pa.concat_arrays(mine))
    both = both.filter(pc.is_in(both, value_set=theirs))
    if not len(both):
        return
    upserts = None if put is None else put.filter(pc.is_in(put["src"], value_set=both))
    moved = [rows.filter(pc.is_in(rows["src"], value_set=both)) for rows in before]
    gone = [minus(one_array(rows[ID]), _ids(upserts)) for rows in moved]
    change = TableChange(
        upserts if upserts is not None and len(upserts) else None,
        pa.concat_arrays(gone) if gone else None,
    )
    for broken in broken_cardinality(edge, ChangeSet({edge.table_key: change}), ours):
        for violation in broken:
            if violation.value in set(both.to_pylist()):
                yield _conflict(edge, violation)


def _conflict(kind: Kind, violation: Violation, type_: ConflictKind | None = None) -> MergeConflict:
    return MergeConflict(
        kind.table_key,
        None if violation.rule is Rule.CARDINALITY else violation.row_id,
        type_ or KIND_OF_RULE[violation.rule],
        violation.message,
    )

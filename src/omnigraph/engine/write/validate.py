"""Every rule of the schema, against a change set and the snapshot it goes on top of.

The one validator of all write paths. Cost follows the change set: committed rows are asked for by
key, never scanned without one. Null is exempt from value rules and from uniqueness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.types import INTEGERS, Scalar
from omnigraph.engine.image.arrays import Ints, one_array
from omnigraph.engine.read.compare import mask_of
from omnigraph.engine.write.cardinality import broken_cardinality
from omnigraph.engine.write.change_set import ID, ChangeSet
from omnigraph.engine.write.columns import (
    KEYS_WORTH_ASKING,
    all_valid,
    are_distinct,
    chunks,
    in_words,
    minus,
    tuple_codes,
    value_at,
)
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Broken, Cause, Violations
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in
from omnigraph.storage.tables.scan import IN_LIST_LIMIT


def validate(changes: ChangeSet, snapshot: Snapshot, catalog: Catalog) -> None:
    """Return only if the graph stays sound with these changes.

    Raises:
        ConstraintError: with the first 100 violations of all tables.
    """
    found = Violations()
    for broken in find_broken(changes, snapshot, catalog):
        found.report(broken, changes.place_of)
    found.raise_if_any()


def find_violations(
    changes: ChangeSet, snapshot: Snapshot, catalog: Catalog
) -> Iterator[Violation]:
    """Yield every rule these changes break, table by table, row by row."""
    for broken in find_broken(changes, snapshot, catalog):
        yield from broken


def find_broken(
    changes: ChangeSet, snapshot: Snapshot, catalog: Catalog, *, values_are_checked: bool = False
) -> Iterator[Broken]:
    """Yield every rule these changes break, table by table.

    With `values_are_checked` the rules a row can break by itself are left out; the rows then need
    no other columns than `key_columns`.
    """
    _look_up(changes, snapshot, catalog)
    for node in catalog.nodes.values():
        rows = changes.upserts(node.table_key)
        if rows is not None:
            if not values_are_checked:
                yield from broken_values(node, rows)
            yield from _already_there(node, rows, changes, snapshot)
            yield from broken_uniqueness(node, rows, changes, snapshot)
    for edge in catalog.edges.values():
        rows = changes.upserts(edge.table_key)
        if rows is not None:
            if not values_are_checked:
                yield from broken_values(edge, rows)
            yield from _already_there(edge, rows, changes, snapshot)
            yield from _endpoints(edge, rows, changes, snapshot)
            yield from broken_uniqueness(edge, rows, changes, snapshot)
        yield from broken_cardinality(edge, changes, snapshot)
        yield from _left_dangling(edge, changes, snapshot)


def _look_up(changes: ChangeSet, snapshot: Snapshot, catalog: Catalog) -> None:
    """Ask each node table once for all the rows that a small write will want to know about."""
    asked: dict[str, list[pa.Array]] = {}
    for edge in catalog.edges.values():
        rows = changes.upserts(edge.table_key)
        if rows is not None:
            for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
                asked.setdefault(node_key(node), []).append(one_array(rows[end]))
    for key, ends in asked.items():
        rows = changes.upserts(key)
        ids = ends if rows is None else [*ends, one_array(rows[ID])]
        if (
            sum(map(len, ids)) <= IN_LIST_LIMIT
            and snapshot.table(key).row_count
            and not changes.replaces(key)
        ):
            snapshot.open(key).locate(pc.unique(pa.concat_arrays(ids)))


def key_columns(kind: NodeType | EdgeType) -> list[str]:
    """Return the columns by which rows of a type can be in each other's way."""
    ends = ["src", "dst"] if isinstance(kind, EdgeType) else []
    return list(dict.fromkeys([ID, *ends, *(name for group in kind.unique for name in group)]))


def _already_there(
    kind: NodeType | EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
    """A row that must be new has the id of a committed one."""
    if (
        not changes.tables[kind.table_key].must_be_new
        or not snapshot.table(kind.table_key).row_count
    ):
        return
    ids = one_array(rows[ID])
    taken = one_array(snapshot.open(kind.table_key).locate(ids)[ID])
    at = np.flatnonzero(mask_of(pc.is_in(ids, value_set=taken.cast(ids.type))))
    if len(at):
        yield Broken(
            Rule.KEY,
            kind.table_key,
            at,
            lambda number: already_there(kind.name, ids[int(at[number])].as_py()),
        )


def already_there(type_name: str, row_id: str) -> Violation:
    """Return what to say of a row that must be new and is not."""
    text = f"{type_name} '{row_id}' exists already"
    return Violation(Rule.KEY, type_name, text, ID, row_id, row_id)


def broken_uniqueness(
    kind: NodeType | EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
    """Yield the rows that have unique values of each other, or of a committed row that stays."""
    for columns in kind.unique:
        valid = all_valid(rows, columns)
        at = np.flatnonzero(mask_of(one_array(valid)))
        whole = rows if len(at) == len(rows) else rows.filter(valid)
        yield from _repeated(kind, columns, whole, at)
        yield from _taken(kind, columns, whole, at, changes, snapshot)


def _repeated(
    kind: NodeType | EdgeType, columns: tuple[str, ...], rows: pa.Table, at: Ints
) -> Iterator[Broken]:
    """Two of the new rows agree."""
    if len(columns) == 1 and are_distinct(rows[columns[0]]):
        return
    codes = tuple_codes([rows], columns)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(codes)))

    def tell(number: int) -> Violation:
        row = int(again[number])
        other = rows[ID][int(first[inverse[row]])].as_py()
        return _not_unique(kind.name, columns, rows, row, other)

    if len(again):
        yield Broken(Rule.UNIQUE, kind.table_key, at[again], tell, columns)


def _taken(
    kind: NodeType | EdgeType,
    columns: tuple[str, ...],
    rows: pa.Table,
    at: Ints,
    changes: ChangeSet,
    snapshot: Snapshot,
) -> Iterator[Broken]:
    """A new row agrees with a committed one that stays."""
    if not len(rows) or changes.replaces(kind.table_key):
        return
    if not snapshot.table(kind.table_key).row_count:
        return
    candidates = _candidates(kind, columns, rows, snapshot)
    gone = pc.is_in(candidates[ID], value_set=changes.removed(kind.table_key))
    committed = candidates.filter(pc.invert(gone))
    committed = committed.filter(all_valid(committed, columns))
    if not len(committed):
        return
    codes = tuple_codes([rows, committed], columns)
    mine, theirs = codes[: len(rows)], codes[len(rows) :]
    order = np.argsort(theirs, kind="stable")
    found = np.minimum(np.searchsorted(theirs[order], mine), len(theirs) - 1)
    same = np.flatnonzero(theirs[order][found] == mine)

    def tell(number: int) -> Violation:
        row = int(same[number])
        other = committed[ID][int(order[found[row]])].as_py()
        return _not_unique(kind.name, columns, rows, row, other)

    if len(same):
        yield Broken(Rule.UNIQUE, kind.table_key, at[same], tell, columns)


def _candidates(
    kind: NodeType | EdgeType, columns: tuple[str, ...], rows: pa.Table, snapshot: Snapshot
) -> pa.Table:
    """Return committed rows that may agree: asked for by a column storage compares exactly."""
    reader = snapshot.open(kind.table_key)
    probe = next((name for name in columns if _is_exact(kind, name)), None)
    if probe is None:
        return reader.scan([ID, *columns])
    wanted = pc.unique(one_array(rows[probe]))
    if len(wanted) > KEYS_WORTH_ASKING:
        return reader.scan([ID, *columns])
    parts = [reader.scan([ID, *columns], is_in(probe, part)) for part in chunks(wanted)]
    return pa.concat_tables(parts)


def _is_exact(kind: NodeType | EdgeType, column: str) -> bool:
    prop = kind.properties.get(column)
    exact = INTEGERS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE}
    return prop is None or (prop.type.scalar in exact and not prop.type.is_list)


def _not_unique(
    type_name: str, columns: tuple[str, ...], rows: pa.Table, at: int, other: str
) -> Violation:
    values = [value_at(one_array(rows[name]), at) for name in columns]
    return not_unique(type_name, columns, values, rows[ID][at].as_py(), other)


def not_unique(
    type_name: str, columns: Sequence[str], values: Sequence[Any], row_id: str, other: str
) -> Violation:
    """Return what to say of a row with the values of another one."""
    shown = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    value = values[0] if len(values) == 1 else tuple(values)
    said = ", ".join(in_words(one) for one in values)
    said = said if len(values) == 1 else f"({said})"
    text = f"@unique violation on {type_name}.{shown}: {said} is also the value of '{other}'"
    return Violation(Rule.UNIQUE, type_name, text, shown, row_id, value)


def _endpoints(
    edge: EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        wanted = one_array(rows[end])
        missing = _missing(node_key(node), wanted, changes, snapshot)
        if len(missing):
            yield _broken_ends(edge, end, node, rows, wanted, missing)


def _broken_ends(
    edge: EdgeType, end: str, node: str, rows: pa.Table, wanted: pa.Array, missing: pa.Array
) -> Broken:
    at = np.flatnonzero(mask_of(pc.is_in(wanted, value_set=missing)))

    def tell(number: int) -> Violation:
        row = int(at[number])
        return no_such_end(edge.name, end, node, rows[ID][row].as_py(), wanted[row].as_py())

    return Broken(Rule.ENDPOINT, edge.table_key, at, tell, (end,))


def no_such_end(edge: str, end: str, node: str, row_id: str, value: str) -> Violation:
    """Return what to say of an edge without its node."""
    text = f"{edge}: {end} '{value}' not found in {node}"
    return Violation(Rule.ENDPOINT, edge, text, end, row_id, value)


def _missing(key: str, wanted: pa.Array, changes: ChangeSet, snapshot: Snapshot) -> pa.Array:
    """Return which of the wanted ids do not exist once the changes are made."""
    change = changes.tables.get(key)
    if change is not None and change.upserts is not None:
        wanted = minus(wanted, one_array(change.upserts[ID]))
    wanted = pc.unique(wanted)
    if not len(wanted) or not snapshot.table(key).row_count or changes.replaces(key):
        return wanted
    gone = wanted.slice(0, 0)
    if change is not None and change.deletes is not None:
        gone = wanted.filter(pc.is_in(wanted, value_set=change.deletes))
        wanted = minus(wanted, change.deletes)
    committed = one_array(snapshot.open(key).locate(wanted)[ID])
    return pa.concat_arrays([gone, minus(wanted, committed)])


def _left_dangling(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Broken]:
    """An edge that stays must not lose an end to a deleted node."""
    cascaded = changes.cascaded_at == snapshot.commit_id
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        change = changes.tables.get(node_key(node))
        if change is not None and change.replaces:
            yield from _left_by_replacement(edge, end, node, changes, snapshot)
            continue
        if cascaded or change is None or change.deletes is None or not len(change.deletes):
            continue
        reader = snapshot.open(edge.table_key)
        for part in chunks(change.deletes):
            rows = reader.scan([ID, end], is_in(end, part))
            gone = pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))
            yield from _left(edge, end, node, rows.filter(pc.invert(gone)), "deleted")


def _left_by_replacement(
    edge: EdgeType, end: str, node: str, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
    """An edge that stays must find its end among the rows that replace the nodes."""
    if changes.replaces(edge.table_key) or not snapshot.table(edge.table_key).row_count:
        return
    rows = snapshot.open(edge.table_key).scan([ID, end])
    rows = rows.filter(pc.invert(pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))))
    new = changes.upserts(node_key(node))
    known = pa.array([], pa.string()) if new is None else one_array(new[ID])
    lost = rows.filter(pc.invert(pc.is_in(one_array(rows[end]), value_set=known)))
    yield from _left(edge, end, node, lost, "replaced away")


def _left(edge: EdgeType, end: str, node: str, rows: pa.Table, how: str) -> Iterator[Broken]:
    def tell(number: int) -> Violation:
        row = rows.slice(number, 1).to_pylist()[0]
        return left_alone(edge.name, end, row[ID], row[end], how)

    def cause(number: int) -> Cause:
        return Cause(node_key(node), one_array(rows[end].slice(number, 1)), (ID,))

    if len(rows):
        nobody = np.full(len(rows), -1)
        yield Broken(Rule.ENDPOINT, edge.table_key, nobody, tell, cause=cause)


def left_alone(edge: str, end: str, row_id: str, value: str, how: str) -> Violation:
    """Return what to say of a committed edge whose node goes away."""
    text = f"{edge}: {end} '{value}' is {how}, but an edge to it remains"
    return Violation(Rule.ENDPOINT, edge, text, end, row_id, value)

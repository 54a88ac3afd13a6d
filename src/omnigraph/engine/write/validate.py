"""Every rule of the schema, against a change set and the snapshot it goes on top of.

The one validator of all write paths. Cost follows the change set: committed rows are asked for by
key, never scanned without one. Null is exempt from value rules and from uniqueness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.types import INTEGERS, Scalar
from omnigraph.engine.image.arrays import Ints, one_array
from omnigraph.engine.read.compare import mask_of
from omnigraph.engine.write.change_set import ID, ChangeSet
from omnigraph.engine.write.columns import (
    KEYS_AT_ONCE,
    all_valid,
    are_distinct,
    chunks,
    in_words,
    joined,
    tuple_codes,
    value_at,
)
from omnigraph.engine.write.values import broken_values
from omnigraph.engine.write.violations import Broken, Rule, Violation, Violations
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in
from omnigraph.storage.tables.scan import IN_LIST_LIMIT

# Beyond this many keys one pass over the columns beats asking for them.
_KEYS_WORTH_ASKING = 4 * KEYS_AT_ONCE


def validate(changes: ChangeSet, snapshot: Snapshot, catalog: Catalog) -> None:
    """Return only if the graph stays sound with these changes.

    Raises:
        ConstraintError: with the first 100 violations of all tables.
    """
    found = Violations()
    for broken in find_broken(changes, snapshot, catalog):
        found.report(broken, partial(changes.place_of, broken.table_key))
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
            yield from _uniqueness(node, rows, changes, snapshot)
    for edge in catalog.edges.values():
        rows = changes.upserts(edge.table_key)
        if rows is not None:
            if not values_are_checked:
                yield from broken_values(edge, rows)
            yield from _already_there(edge, rows, changes, snapshot)
            yield from _endpoints(edge, rows, changes, snapshot)
            yield from _uniqueness(edge, rows, changes, snapshot)
        yield from _cardinality(edge, changes, snapshot)
        yield from _left_dangling(edge, changes, snapshot)


def _look_up(changes: ChangeSet, snapshot: Snapshot, catalog: Catalog) -> None:
    """Ask each node table once for all the rows that a small write will want to know about."""
    asked: dict[str, list[pa.Array]] = {}
    for edge in catalog.edges.values():
        rows = changes.upserts(edge.table_key)
        if rows is not None:
            for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
                asked.setdefault(f"node:{node}", []).append(one_array(rows[end]))
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


def _uniqueness(
    kind: NodeType | EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
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
        yield Broken(Rule.UNIQUE, kind.table_key, at[again], tell)


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
        yield Broken(Rule.UNIQUE, kind.table_key, at[same], tell)


def _candidates(
    kind: NodeType | EdgeType, columns: tuple[str, ...], rows: pa.Table, snapshot: Snapshot
) -> pa.Table:
    """Return committed rows that may agree: asked for by a column storage compares exactly."""
    reader = snapshot.open(kind.table_key)
    probe = next((name for name in columns if _is_exact(kind, name)), None)
    if probe is None:
        return reader.scan([ID, *columns])
    wanted = pc.unique(one_array(rows[probe]))
    if len(wanted) > _KEYS_WORTH_ASKING:
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
        missing = _missing(f"node:{node}", wanted, changes, snapshot)
        if len(missing):
            yield _broken_ends(edge, end, node, rows, wanted, missing)


def _broken_ends(
    edge: EdgeType, end: str, node: str, rows: pa.Table, wanted: pa.Array, missing: pa.Array
) -> Broken:
    at = np.flatnonzero(mask_of(pc.is_in(wanted, value_set=missing)))

    def tell(number: int) -> Violation:
        row = int(at[number])
        return no_such_end(edge.name, end, node, rows[ID][row].as_py(), wanted[row].as_py())

    return Broken(Rule.ENDPOINT, edge.table_key, at, tell)


def no_such_end(edge: str, end: str, node: str, row_id: str, value: str) -> Violation:
    """Return what to say of an edge without its node."""
    text = f"{edge}: {end} '{value}' not found in {node}"
    return Violation(Rule.ENDPOINT, edge, text, end, row_id, value)


def _missing(key: str, wanted: pa.Array, changes: ChangeSet, snapshot: Snapshot) -> pa.Array:
    """Return which of the wanted ids do not exist once the changes are made."""
    change = changes.tables.get(key)
    if change is not None and change.upserts is not None:
        wanted = _minus(wanted, one_array(change.upserts[ID]))
    wanted = pc.unique(wanted)
    if not len(wanted) or not snapshot.table(key).row_count or changes.replaces(key):
        return wanted
    gone = wanted.slice(0, 0)
    if change is not None and change.deletes is not None:
        gone = wanted.filter(pc.is_in(wanted, value_set=change.deletes))
        wanted = _minus(wanted, change.deletes)
    committed = one_array(snapshot.open(key).locate(wanted)[ID])
    return pa.concat_arrays([gone, _minus(wanted, committed)])


def _minus(values: pa.Array, others: pa.Array) -> pa.Array:
    return values.filter(pc.invert(pc.is_in(values, value_set=others)))


def _cardinality(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Broken]:
    """Count the edges of every source whose edges change; a source without edges is fine."""
    change = changes.tables.get(edge.table_key)
    low, high = edge.cardinality.min, edge.cardinality.max
    if change is None or change.is_empty or (low == 0 and high is None):
        return
    touched = _touched_sources(edge, changes, snapshot)
    gone_nodes = changes.tables.get(f"node:{edge.from_type}")
    if gone_nodes is not None and gone_nodes.deletes is not None:
        touched = touched.filter(pc.invert(pc.is_in(touched, value_set=gone_nodes.deletes)))
    if not len(touched):
        return
    found = _edges_of(edge, touched, changes, snapshot)
    gone = pc.is_in(found[ID], value_set=changes.removed(edge.table_key))
    sources = [one_array(found.filter(pc.invert(gone))["src"])]
    if change.upserts is not None:
        sources.append(one_array(change.upserts["src"]))
    counts = _counts(joined(sources), one_array(found["src"]))
    wrong = counts.filter(pc.is_in(counts["source"], value_set=touched))
    wrong = wrong.filter(_outside(wrong["edges"], low, high)).sort_by("source")
    if not len(wrong):
        return
    at = _first_edges(change.upserts, one_array(wrong["source"]))

    def tell(number: int) -> Violation:
        row = wrong.slice(number, 1).to_pylist()[0]
        return wrong_count(edge, row["source"], row["edges"])

    yield Broken(Rule.CARDINALITY, edge.table_key, at, tell)


def _first_edges(rows: pa.Table | None, sources: pa.Array) -> Ints:
    """Return the position of the first new edge of every source, -1 where there is none."""
    if rows is None:
        return np.full(len(sources), -1)
    found = pc.index_in(sources, value_set=one_array(rows["src"]))
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def wrong_count(edge: EdgeType, source: str, number: int) -> Violation:
    """Return what to say of a source with too many or too few edges."""
    low, high = edge.cardinality.min, edge.cardinality.max
    bound = f"max {high}" if high is not None and number > high else f"min {low}"
    text = f"@card violation on edge {edge.name}: source '{source}' has {number} edges ({bound})"
    return Violation(Rule.CARDINALITY, edge.name, text, "src", None, source)


def _counts(sources: pa.Array, before: pa.Array) -> pa.Table:
    """Return the number of edges per source, also of those that had some and have none left."""
    counted = pc.value_counts(sources)
    lost = _minus(pc.unique(before), counted.field("values"))
    numbers = pa.concat_arrays([counted.field("counts"), pa.array([0] * len(lost), pa.int64())])
    return pa.table({"source": joined([counted.field("values"), lost]), "edges": numbers})


def _outside(numbers: pa.ChunkedArray, low: int, high: int | None) -> pa.ChunkedArray:
    few = pc.less(numbers, low)
    return few if high is None else pc.or_(few, pc.greater(numbers, high))


def _edges_of(
    edge: EdgeType, sources: pa.Array, changes: ChangeSet, snapshot: Snapshot
) -> pa.Table:
    """Return id and source of the committed edges of some nodes."""
    reader = snapshot.open(edge.table_key)
    if changes.replaces(edge.table_key):
        return reader.scan([ID, "src"], limit=0)
    if len(sources) > _KEYS_WORTH_ASKING:
        rows = reader.scan([ID, "src"])
        return rows.filter(pc.is_in(rows["src"], value_set=sources))
    parts = [reader.scan([ID, "src"], is_in("src", part)) for part in chunks(sources)]
    return pa.concat_tables(parts)


def _touched_sources(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> pa.Array:
    """Return the nodes that get or lose edges; a replaced edge may have led from another node."""
    change = changes.tables[edge.table_key]
    parts = [] if change.upserts is None else [one_array(change.upserts["src"])]
    removed = change.deletes if change.inserts_new else changes.removed(edge.table_key)
    if removed is not None and len(removed) and not change.replaces:
        parts.append(one_array(snapshot.open(edge.table_key).by_ids(removed, ["src"])["src"]))
    return pc.unique(joined(parts)) if parts else pa.array([], pa.string())


def _left_dangling(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Broken]:
    """An edge that stays must not lose an end to a deleted node."""
    cascaded = changes.cascaded_at == snapshot.commit_id
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        change = changes.tables.get(f"node:{node}")
        if change is not None and change.replaces:
            yield from _left_by_replacement(edge, end, node, changes, snapshot)
            continue
        if cascaded or change is None or change.deletes is None or not len(change.deletes):
            continue
        reader = snapshot.open(edge.table_key)
        for part in chunks(change.deletes):
            rows = reader.scan([ID, end], is_in(end, part))
            gone = pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))
            yield from _left(edge, end, rows.filter(pc.invert(gone)), "deleted")


def _left_by_replacement(
    edge: EdgeType, end: str, node: str, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Broken]:
    """An edge that stays must find its end among the rows that replace the nodes."""
    if changes.replaces(edge.table_key) or not snapshot.table(edge.table_key).row_count:
        return
    rows = snapshot.open(edge.table_key).scan([ID, end])
    rows = rows.filter(pc.invert(pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))))
    new = changes.upserts(f"node:{node}")
    known = pa.array([], pa.string()) if new is None else one_array(new[ID])
    lost = rows.filter(pc.invert(pc.is_in(one_array(rows[end]), value_set=known)))
    yield from _left(edge, end, lost, "replaced away")


def _left(edge: EdgeType, end: str, rows: pa.Table, how: str) -> Iterator[Broken]:
    def tell(number: int) -> Violation:
        row = rows.slice(number, 1).to_pylist()[0]
        return left_alone(edge.name, end, row[ID], row[end], how)

    if len(rows):
        yield Broken(Rule.ENDPOINT, edge.table_key, np.full(len(rows), -1), tell)


def left_alone(edge: str, end: str, row_id: str, value: str, how: str) -> Violation:
    """Return what to say of a committed edge whose node goes away."""
    text = f"{edge}: {end} '{value}' is {how}, but an edge to it remains"
    return Violation(Rule.ENDPOINT, edge, text, end, row_id, value)

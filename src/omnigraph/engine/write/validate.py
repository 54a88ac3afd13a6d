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

from omnigraph.compiler.catalog.model import Catalog, Check, EdgeType, NodeType, Range
from omnigraph.compiler.query.ast import CompareOp
from omnigraph.compiler.types import INTEGERS, PropType, Scalar
from omnigraph.engine.image.arrays import one_array
from omnigraph.engine.image.columns import dense_ranks
from omnigraph.engine.read.compare import compare_value, mask_of
from omnigraph.engine.write.change_set import ID, ChangeSet
from omnigraph.engine.write.violations import Rule, Violation, Violations
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in

_KEYS_AT_ONCE = 8_192
# Beyond this many keys one pass over the columns beats asking for them.
_KEYS_WORTH_ASKING = 4 * _KEYS_AT_ONCE


def validate(changes: ChangeSet, snapshot: Snapshot, catalog: Catalog) -> None:
    """Return only if the graph stays sound with these changes.

    Raises:
        ConstraintError: with the first 100 violations of all tables.
    """
    found = Violations()
    found.extend(find_violations(changes, snapshot, catalog))
    found.raise_if_any()


def find_violations(
    changes: ChangeSet, snapshot: Snapshot, catalog: Catalog
) -> Iterator[Violation]:
    """Yield every rule these changes break, table by table."""
    for node in catalog.nodes.values():
        rows = changes.upserts(node.table_key)
        if rows is not None:
            yield from _values(node, rows)
            yield from _already_there(node, rows, changes, snapshot)
            yield from _uniqueness(node, rows, changes, snapshot)
    for edge in catalog.edges.values():
        rows = changes.upserts(edge.table_key)
        if rows is not None:
            yield from _values(edge, rows)
            yield from _already_there(edge, rows, changes, snapshot)
            yield from _endpoints(edge, rows, changes, snapshot)
            yield from _uniqueness(edge, rows, changes, snapshot)
        yield from _cardinality(edge, changes, snapshot)
        yield from _left_dangling(edge, changes, snapshot)


# Rules of one row


def _values(kind: NodeType | EdgeType, rows: pa.Table) -> Iterator[Violation]:
    for name, prop in kind.properties.items():
        if not prop.type.nullable and rows[name].null_count:
            yield from _required(kind.name, name, rows)
        if prop.type.enum_values is not None:
            yield from _enum(kind.name, name, prop.type, rows)
        if prop.type.scalar in (Scalar.F32, Scalar.F64, Scalar.VECTOR):
            yield from _finite(kind.name, name, prop.type, rows)
    if isinstance(kind, NodeType):
        for limit in kind.ranges:
            yield from _range(kind.name, limit, rows)
        for check in kind.checks:
            yield from _check(kind.name, check, rows)


def _required(type_name: str, prop: str, rows: pa.Table) -> Iterator[Violation]:
    for at in np.flatnonzero(mask_of(pc.is_null(one_array(rows[prop])))):
        text = f"{type_name}.{prop}: null in a required property"
        yield _violation(Rule.REQUIRED, type_name, prop, rows, int(at), None, text)


def _enum(type_name: str, prop: str, kind: PropType, rows: pa.Table) -> Iterator[Violation]:
    allowed = pa.array(kind.enum_values, pa.string())
    values = one_array(rows[prop])
    bad = mask_of(pc.and_(pc.is_valid(values), pc.invert(pc.is_in(values, value_set=allowed))))
    expected = ", ".join(kind.enum_values or ())
    for at in np.flatnonzero(bad):
        value = values[int(at)].as_py()
        text = f"invalid enum value '{value}' for {type_name}.{prop} (expected: {expected})"
        yield _violation(Rule.ENUM, type_name, prop, rows, int(at), value, text)


def _finite(type_name: str, prop: str, kind: PropType, rows: pa.Table) -> Iterator[Violation]:
    values = one_array(rows[prop])
    if kind.scalar is Scalar.VECTOR or kind.is_list:
        flat = values.flatten()
        if not len(flat) or pc.all(pc.is_finite(flat)).as_py() is not False:
            return
        bad = np.asarray([_has_odd(one) for one in values.to_pylist()])
    else:
        bad = mask_of(pc.invert(pc.is_finite(values)))
    for at in np.flatnonzero(bad):
        text = f"{type_name}.{prop}: not a finite number"
        yield _violation(Rule.TYPE, type_name, prop, rows, int(at), None, text)


def _has_odd(values: Sequence[float | None] | None) -> bool:
    return values is not None and any(v is not None and not np.isfinite(v) for v in values)


def _range(type_name: str, limit: Range, rows: pa.Table) -> Iterator[Violation]:
    values = one_array(rows[limit.prop])
    sides = (
        (limit.min, CompareOp.LT, "< min"),
        (limit.max, CompareOp.GT, "> max"),
    )
    for bound, outside, words in sides:
        if bound is None:
            continue
        for at in np.flatnonzero(compare_value(values, outside, bound)):
            value = values[int(at)].as_py()
            text = f"@range violation on {type_name}.{limit.prop}: value {value} {words} {bound}"
            yield _violation(Rule.RANGE, type_name, limit.prop, rows, int(at), value, text)


def _check(type_name: str, check: Check, rows: pa.Table) -> Iterator[Violation]:
    values = one_array(rows[check.prop])
    plain = values.flatten() if pa.types.is_list(values.type) else values
    owners = (
        pc.list_parent_indices(values).to_numpy() if plain is not values else np.arange(len(values))
    )
    matches = pc.match_substring_regex(plain, check.pattern)
    for at in np.flatnonzero(mask_of(pc.invert(matches))):
        value = plain[int(at)].as_py()
        text = (
            f"@check violation on {type_name}.{check.prop}: "
            f"value '{value}' does not match pattern '{check.pattern}'"
        )
        yield _violation(Rule.CHECK, type_name, check.prop, rows, int(owners[at]), value, text)


# Rules across rows


def _already_there(
    kind: NodeType | EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Violation]:
    """A row that must be new has the id of a committed one."""
    if (
        not changes.tables[kind.table_key].must_be_new
        or not snapshot.table(kind.table_key).row_count
    ):
        return
    ids = one_array(rows[ID])
    taken = one_array(snapshot.open(kind.table_key).by_ids(ids, [ID])[ID])
    if not len(taken):
        return
    for at in np.flatnonzero(mask_of(pc.is_in(ids, value_set=taken))):
        text = f"{kind.name} '{ids[int(at)].as_py()}' exists already"
        yield _violation(Rule.KEY, kind.name, ID, rows, int(at), ids[int(at)].as_py(), text)


def _uniqueness(
    kind: NodeType | EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Violation]:
    for columns in kind.unique:
        whole = rows.filter(_all_valid(rows, columns))
        yield from _repeated(kind.name, columns, whole)
        yield from _taken(kind, columns, whole, changes, snapshot)


def _repeated(type_name: str, columns: tuple[str, ...], rows: pa.Table) -> Iterator[Violation]:
    """Two of the new rows agree."""
    if len(columns) == 1 and _are_distinct(rows[columns[0]]):
        return
    codes = _tuple_codes([rows], columns)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    for at in np.flatnonzero(first[inverse] != np.arange(len(codes))):
        other = rows[ID][int(first[inverse[at]])].as_py()
        yield _unique_violation(type_name, columns, rows, int(at), other)


def _taken(
    kind: NodeType | EdgeType,
    columns: tuple[str, ...],
    rows: pa.Table,
    changes: ChangeSet,
    snapshot: Snapshot,
) -> Iterator[Violation]:
    """A new row agrees with a committed one that stays."""
    if not len(rows) or changes.replaces(kind.table_key):
        return
    if not snapshot.table(kind.table_key).row_count:
        return
    candidates = _candidates(kind, columns, rows, snapshot)
    gone = pc.is_in(candidates[ID], value_set=changes.removed(kind.table_key))
    committed = candidates.filter(pc.invert(gone))
    committed = committed.filter(_all_valid(committed, columns))
    if not len(committed):
        return
    codes = _tuple_codes([rows, committed], columns)
    mine, theirs = codes[: len(rows)], codes[len(rows) :]
    order = np.argsort(theirs, kind="stable")
    at = np.minimum(np.searchsorted(theirs[order], mine), len(theirs) - 1)
    for row in np.flatnonzero(theirs[order][at] == mine):
        other = committed[ID][int(order[at[row]])].as_py()
        yield _unique_violation(kind.name, columns, rows, int(row), other)


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
    parts = [reader.scan([ID, *columns], is_in(probe, part)) for part in _chunks(wanted)]
    return pa.concat_tables(parts)


def _is_exact(kind: NodeType | EdgeType, column: str) -> bool:
    prop = kind.properties.get(column)
    exact = INTEGERS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE}
    return prop is None or (prop.type.scalar in exact and not prop.type.is_list)


def _unique_violation(
    type_name: str, columns: tuple[str, ...], rows: pa.Table, at: int, other: str
) -> Violation:
    shown = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
    values = [rows[name][at].as_py() for name in columns]
    value = values[0] if len(values) == 1 else tuple(values)
    text = f"@unique violation on {type_name}.{shown}: {value!r} is also the value of '{other}'"
    return _violation(Rule.UNIQUE, type_name, shown, rows, at, value, text)


def _endpoints(
    edge: EdgeType, rows: pa.Table, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Violation]:
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        wanted = one_array(rows[end])
        missing = _missing(f"node:{node}", pc.unique(wanted), changes, snapshot)
        if not len(missing):
            continue
        for at in np.flatnonzero(mask_of(pc.is_in(wanted, value_set=missing))):
            value = wanted[int(at)].as_py()
            text = f"{edge.name}: {end} '{value}' not found in {node}"
            yield _violation(Rule.ENDPOINT, edge.name, end, rows, int(at), value, text)


def _missing(key: str, wanted: pa.Array, changes: ChangeSet, snapshot: Snapshot) -> pa.Array:
    """Return which of the wanted ids do not exist once the changes are made."""
    change = changes.tables.get(key)
    if change is not None and change.upserts is not None:
        wanted = _minus(wanted, one_array(change.upserts[ID]))
    if not len(wanted) or not snapshot.table(key).row_count or changes.replaces(key):
        return wanted
    gone = wanted.slice(0, 0)
    if change is not None and change.deletes is not None:
        gone = wanted.filter(pc.is_in(wanted, value_set=change.deletes))
        wanted = _minus(wanted, change.deletes)
    committed = one_array(snapshot.open(key).by_ids(wanted, [ID])[ID])
    return pa.concat_arrays([gone, _minus(wanted, committed)])


def _minus(values: pa.Array, others: pa.Array) -> pa.Array:
    return values.filter(pc.invert(pc.is_in(values, value_set=others)))


def _cardinality(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Violation]:
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
    counts = _counts(pa.concat_arrays(sources), one_array(found["src"]))
    wrong = counts.filter(pc.is_in(counts["source"], value_set=touched))
    wrong = wrong.filter(_outside(wrong["edges"], low, high)).sort_by("source")
    for source, number in zip(
        *(wrong[name].to_pylist() for name in wrong.schema.names), strict=True
    ):
        bound = f"max {high}" if high is not None and number > high else f"min {low}"
        text = (
            f"@card violation on edge {edge.name}: source '{source}' has {number} edges ({bound})"
        )
        yield Violation(Rule.CARDINALITY, edge.name, text, "src", None, source)


def _counts(sources: pa.Array, before: pa.Array) -> pa.Table:
    """Return the number of edges per source, also of those that had some and have none left."""
    counted = pc.value_counts(sources)
    lost = _minus(pc.unique(before), counted.field("values"))
    numbers = pa.concat_arrays([counted.field("counts"), pa.array([0] * len(lost), pa.int64())])
    return pa.table({"source": pa.concat_arrays([counted.field("values"), lost]), "edges": numbers})


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
    parts = [reader.scan([ID, "src"], is_in("src", part)) for part in _chunks(sources)]
    return pa.concat_tables(parts)


def _touched_sources(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> pa.Array:
    change = changes.tables[edge.table_key]
    parts = [] if change.upserts is None else [one_array(change.upserts["src"])]
    removed = changes.removed(edge.table_key)
    if len(removed) and not (change.inserts_new or change.replaces):
        parts.append(one_array(snapshot.open(edge.table_key).by_ids(removed, ["src"])["src"]))
    return pc.unique(pa.concat_arrays(parts)) if parts else pa.array([], pa.string())


def _left_dangling(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Violation]:
    """An edge that stays must not lose an end to a deleted node."""
    for end, node in (("src", edge.from_type), ("dst", edge.to_type)):
        change = changes.tables.get(f"node:{node}")
        if change is not None and change.replaces:
            yield from _left_by_replacement(edge, end, node, changes, snapshot)
            continue
        if change is None or change.deletes is None or not len(change.deletes):
            continue
        reader = snapshot.open(edge.table_key)
        for part in _chunks(change.deletes):
            rows = reader.scan([ID, end], is_in(end, part))
            gone = pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))
            rows = rows.filter(pc.invert(gone))
            for at in range(len(rows)):
                value = rows[end][at].as_py()
                text = f"{edge.name}: {end} '{value}' is deleted, but an edge to it remains"
                yield _violation(Rule.ENDPOINT, edge.name, end, rows, at, value, text)


def _left_by_replacement(
    edge: EdgeType, end: str, node: str, changes: ChangeSet, snapshot: Snapshot
) -> Iterator[Violation]:
    """An edge that stays must find its end among the rows that replace the nodes."""
    if changes.replaces(edge.table_key) or not snapshot.table(edge.table_key).row_count:
        return
    rows = snapshot.open(edge.table_key).scan([ID, end])
    rows = rows.filter(pc.invert(pc.is_in(rows[ID], value_set=changes.removed(edge.table_key))))
    new = changes.upserts(f"node:{node}")
    known = pa.array([], pa.string()) if new is None else one_array(new[ID])
    for at in np.flatnonzero(~mask_of(pc.is_in(one_array(rows[end]), value_set=known))):
        value = rows[end][int(at)].as_py()
        text = f"{edge.name}: {end} '{value}' is replaced away, but an edge to it remains"
        yield _violation(Rule.ENDPOINT, edge.name, end, rows, int(at), value, text)


# Pieces


def _are_distinct(values: pa.ChunkedArray) -> bool:
    """Whether no two values are equal; false also where only a closer look can tell."""
    if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return False
    return bool(pc.count_distinct(values, mode="all").as_py() == len(values))


def _tuple_codes(tables: list[pa.Table], columns: tuple[str, ...]) -> Any:  # noqa: ANN401 - int array
    """Return one integer per row over all tables; equal for equal value tuples."""
    whole = pa.concat_tables([table.select(list(columns)) for table in tables])
    codes = np.zeros(len(whole), np.int64)
    for name in columns:
        fresh = dense_ranks(one_array(whole[name]))
        width = int(fresh.max()) + 1 if len(fresh) else 1
        _, codes = np.unique(codes * width + fresh, return_inverse=True)
    return codes


def _all_valid(rows: pa.Table, columns: tuple[str, ...]) -> pa.ChunkedArray:
    valid = pc.is_valid(rows[columns[0]])
    for name in columns[1:]:
        valid = pc.and_(valid, pc.is_valid(rows[name]))
    return valid


def _chunks(values: pa.Array) -> Iterator[list[Any]]:
    for start in range(0, len(values), _KEYS_AT_ONCE):
        yield list(values.slice(start, _KEYS_AT_ONCE).to_pylist())


def _violation(
    rule: Rule, type_name: str, prop: str, rows: pa.Table, at: int, value: object, text: str
) -> Violation:
    return Violation(rule, type_name, text, prop, rows[ID][at].as_py(), value)

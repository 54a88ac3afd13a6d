"""How many edges of a type a source has, once the changes are made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.base.table_keys import node_key
from omnigraph.compiler.catalog.model import EdgeType
from omnigraph.engine.image.arrays import Ints, one_array
from omnigraph.engine.write.change_set import ID, ChangeSet
from omnigraph.engine.write.columns import KEYS_WORTH_ASKING, chunks, joined, minus
from omnigraph.engine.write.violations import Broken, Cause
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.predicate import is_in


def broken_cardinality(edge: EdgeType, changes: ChangeSet, snapshot: Snapshot) -> Iterator[Broken]:
    """Count the edges of every source whose edges change; a source without edges is fine."""
    change = changes.tables.get(edge.table_key)
    low, high = edge.cardinality.min, edge.cardinality.max
    if change is None or change.is_empty or (low == 0 and high is None):
        return
    touched = _touched_sources(edge, changes, snapshot)
    gone_nodes = changes.tables.get(node_key(edge.from_type))
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

    def cause(number: int) -> Cause:
        row = wrong.slice(number, 1).to_pylist()[0]
        return _tipping(edge, row["source"], row["edges"], found, changes)

    yield Broken(Rule.CARDINALITY, edge.table_key, at, tell, cause=cause)


def _tipping(
    edge: EdgeType, source: str, number: int, committed: pa.Table, changes: ChangeSet
) -> Cause:
    """Return the edges that came or went, and the first with which their number was wrong."""
    low, high = edge.cardinality.min, edge.cardinality.max
    before = _ids_from(committed, source)
    rows = changes.upserts(edge.table_key)
    after = before.slice(0, 0) if rows is None else _ids_from(rows, source)
    if number < low:
        gone = before.filter(pc.is_in(before, value_set=changes.removed(edge.table_key)))
        gone = minus(gone, after)
        if len(gone):
            return Cause(edge.table_key, gone, ("src",), number + len(gone) - low)
    new = minus(after, before)
    too_many = high is not None and number > high
    return Cause(edge.table_key, new, ("src",), (high or 0) - number + len(new) if too_many else 0)


def _ids_from(edges: pa.Table, source: str) -> pa.Array:
    return one_array(edges.filter(pc.equal(edges["src"], source))[ID])


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
    lost = minus(pc.unique(before), counted.field("values"))
    numbers = pa.concat_arrays([counted.field("counts"), pa.array([0] * len(lost), pa.int64())])
    return pa.table({"source": joined([counted.field("values"), lost]), "edges": numbers})


def _outside(numbers: pa.ChunkedArray, low: int, high: int | None) -> pa.ChunkedArray:
    few = pc.less(numbers, low)
    return few if high is None else pc.or_(few, pc.greater(numbers, high))


def _edges_of(
    edge: EdgeType, sources: pa.Array, changes: ChangeSet, snapshot: Snapshot
) -> pa.Table:
    """Return id and source of the committed edges of some nodes."""
    if changes.replaces(edge.table_key):
        return pa.table({name: pa.array([], pa.string()) for name in (ID, "src")})
    reader = snapshot.open(edge.table_key)
    if len(sources) > KEYS_WORTH_ASKING:
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

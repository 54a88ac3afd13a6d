"""Plans for a snapshot: compiled queries re-ordered by what is known of its tables.

Sizes are rounded to powers of two, so a plan is kept while the graph grows a little and is made
anew when it has become another graph. How many different values a column has is known from the
schema (keys, enums) or looked up in a few rows of a resident column. A plan decides cost only;
rows and order stay the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.ops import (
    Compare,
    Expand,
    Filter,
    NodeScan,
    Predicate,
    Prop,
    ReadIr,
    iter_ops,
)
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.types import Scalar
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.storage.snapshot import Snapshot

_CAPACITY = 1_024
_SAMPLE = 1_024

Column = tuple[str, str]
"""A table key and a property."""


def statistics_of(snapshot: Snapshot) -> Statistics:
    """Return the sizes of a snapshot's tables, rounded up to powers of two."""
    nodes: dict[str, int] = {}
    edges: dict[str, int] = {}
    for key, table in snapshot.tables.items():
        kind, _, name = key.partition(":")
        (nodes if kind == "node" else edges)[name] = _rounded(table.row_count)
    return Statistics(nodes, edges)


class Plans:
    """The plans in use, by query and by statistics; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: tuple[str, Statistics, int] | None = None
        self._epochs: dict[tuple[tuple[str, int], ...], int] = {}
        self._plans: OrderedDict[_Key, tuple[ReadIr, ReadIr]] = OrderedDict()

    def plan(
        self,
        ir: ReadIr,
        snapshot: Snapshot,
        catalog: Catalog,
        resident: SnapshotImages | None = None,
    ) -> ReadIr:
        """Return the query as it should run on this snapshot.

        Args:
            ir: the compiled query.
            snapshot: what it will read.
            catalog: the schema of the snapshot.
            resident: its tables, if the query will run on them; then their values count too.
        """
        statistics, epoch = self.statistics(ir, snapshot, catalog, resident)
        key = (id(ir), epoch, tuple(sorted(statistics.values.items())))
        with self._lock:
            known = self._plans.get(key)
            # The compiled query is kept beside its plan, so its identity cannot be reused.
            if known is not None and known[0] is ir:
                self._plans.move_to_end(key)
                return known[1]
        planned = optimize(ir, facts_of(catalog, statistics))
        assert isinstance(planned, ReadIr)
        with self._lock:
            self._plans[key] = (ir, planned)
            while len(self._plans) > _CAPACITY:
                self._plans.popitem(last=False)
        return planned

    def statistics(
        self, ir: ReadIr, snapshot: Snapshot, catalog: Catalog, resident: SnapshotImages | None
    ) -> tuple[Statistics, int]:
        """Return what is known of the tables a query reads, and a number for their sizes."""
        sizes, epoch = self._current(snapshot)
        values = {
            column: count
            for column in sorted(set(_compared(ir)))
            if (count := _values(column, sizes, catalog, resident)) is not None
        }
        return Statistics(sizes.nodes, sizes.edges, values), epoch

    def _current(self, snapshot: Snapshot) -> tuple[Statistics, int]:
        with self._lock:
            kept = self._sizes
        if kept is not None and kept[0] == snapshot.commit_id:
            return kept[1], kept[2]
        statistics = statistics_of(snapshot)
        sizes = (*sorted(statistics.nodes.items()), ("", 0), *sorted(statistics.edges.items()))
        with self._lock:
            epoch = self._epochs.setdefault(sizes, len(self._epochs))
            self._sizes = (snapshot.commit_id, statistics, epoch)
        return statistics, epoch


_Key = tuple[int, int, tuple[tuple[Column, int], ...]]


def _compared(ir: ReadIr) -> Iterator[Column]:
    """Yield the columns a query compares with something."""
    tables: dict[str, str] = {}
    predicates: list[Predicate] = []
    for op in iter_ops(ir.ops):
        match op:
            case NodeScan():
                tables[op.var] = f"node:{op.type_name}"
                predicates += op.filters
            case Expand():
                tables[op.dst] = f"node:{op.dst_type}"
                if op.edge_var is not None:
                    tables[op.edge_var] = f"edge:{op.edge}"
                predicates += (*op.dst_filters, *op.edge_filters)
            case Filter():
                predicates.append(op.predicate)
            case _:
                pass
    for predicate in predicates:
        if isinstance(predicate, Compare):
            for side in (predicate.left, predicate.right):
                if isinstance(side, Prop) and side.name != "id":
                    yield tables[side.var], side.name


def _values(
    column: Column, sizes: Statistics, catalog: Catalog, resident: SnapshotImages | None
) -> int | None:
    """Return how many different values a column has, rounded, or None when nobody knows."""
    table, name = column
    kind, _, type_name = table.partition(":")
    found: NodeType | EdgeType = (
        catalog.nodes[type_name] if kind == "node" else catalog.edges[type_name]
    )
    if name not in found.properties:
        return None  # an end of an edge
    if (name,) in found.unique or (isinstance(found, NodeType) and found.key == (name,)):
        return sizes.size_of(table)
    declared = found.properties[name].type
    if declared.is_list or declared.scalar in (Scalar.VECTOR, Scalar.BLOB):
        return None
    if declared.scalar is Scalar.BOOL:
        return 2
    if declared.enum_values is not None:
        return len(declared.enum_values)
    return None if resident is None else resident.values_of(table, name, _sampled)


def _sampled(values: pa.Array) -> int:
    """Estimate how many different values there are from rows at equal distances.

    Values seen once in the sample stand for many that were not seen; those seen more often are
    likely all there are.
    """
    size = len(values)
    if size <= _SAMPLE:
        return _rounded(len(values.unique()))
    sample = values.take(pa.array(np.linspace(0, size - 1, _SAMPLE).astype(np.int64)))
    counts = sample.value_counts().field("counts").to_numpy()
    once = int(np.count_nonzero(counts == 1))
    return _rounded(int(np.sqrt(size / _SAMPLE) * once) + len(counts) - once)


def _rounded(count: int) -> int:
    return 1 << count.bit_length()

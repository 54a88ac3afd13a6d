"""Plans for a snapshot: compiled queries re-ordered by what is known of its tables.

Sizes are rounded to powers of two, so a plan is kept while the graph grows a little and is made
anew when it has become another graph. How many different values a column has is known from the
schema (keys, enums) or looked up in a few rows of a resident column. A plan decides cost only;
rows and order stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.base.ids import TableKey
from omnigraph.base.metrics import METRICS
from omnigraph.base.recent import Recent
from omnigraph.base.table_keys import is_node_key, type_of
from omnigraph.compiler.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.compiler.compile import CompiledQuery
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.ir.optimize import COST, rewrite
from omnigraph.compiler.ir.reads import Column, Reads
from omnigraph.compiler.types import Scalar
from omnigraph.engine.read.prepare import Prepared, prepare
from omnigraph.storage.manifest.snapshot import Snapshot

PLANS = METRICS.counter(
    "omnigraph_plan_cache_total", "Plans asked for, by whether one was kept.", "result"
)

_CAPACITY = 1_024
_SAMPLE = 1_024


class Resident(Protocol):
    """What tables that are in memory can say of their values."""

    def rows_of(self, key: str) -> int:
        """Return how many rows a table has."""
        ...

    def values_of(self, key: str, prop: str, count: Callable[[pa.Array], int]) -> int:
        """Return how many different values a column has."""
        ...


def statistics_of(snapshot: Snapshot) -> Statistics:
    """Return the sizes of a snapshot's tables, rounded up to powers of two."""
    return _sizes(tuple(snapshot.tables), lambda key: snapshot.table(key).row_count)


def _sizes(tables: tuple[TableKey, ...], rows_of: Callable[[str], int]) -> Statistics:
    nodes: dict[str, int] = {}
    edges: dict[str, int] = {}
    for key in tables:
        kind = nodes if is_node_key(key) else edges
        kind[type_of(key)] = _rounded(rows_of(key))
    return Statistics(nodes, edges)


class Planned(NamedTuple):
    """A query ready to run on a snapshot, and what was known of the data when it was planned."""

    prepared: Prepared
    statistics: Statistics


class Plans:
    """The plans in use, by query and by statistics; thread-safe."""

    def __init__(self) -> None:
        self._plans: Recent[_Key, Planned] = Recent(_CAPACITY)

    def plan(
        self,
        compiled: CompiledQuery,
        snapshot: Snapshot,
        catalog: Catalog,
        resident: Resident | None = None,
    ) -> Planned:
        """Return the query as it should run on this snapshot.

        Args:
            compiled: a read.
            snapshot: what it will read.
            catalog: the schema of the snapshot.
            resident: its tables, if the query will run on them; then their values count too.
        """
        reads = compiled.reads
        statistics = _statistics(reads, snapshot, catalog, resident)
        sizes = (*statistics.nodes.values(), *statistics.edges.values())
        key = (compiled, sizes, tuple(statistics.values.items()))
        known = self._plans.find(key)
        PLANS.add(1, "miss" if known is None else "hit")
        if known is None:
            ir = rewrite(compiled.ir, facts_of(catalog, statistics), COST)
            assert isinstance(ir, ReadIr)
            known = self._plans.keep(key, Planned(prepare(ir, reads.texts), statistics))
        return known


_Key = tuple[CompiledQuery, tuple[int, ...], tuple[tuple[tuple[str, str], int], ...]]
"""Sizes are those of the tables the query reads, in their order."""


def _statistics(
    reads: Reads, snapshot: Snapshot, catalog: Catalog, resident: Resident | None
) -> Statistics:
    """Return what is known of the tables a query reads."""
    tables = reads.tables
    if resident is None:
        sizes = _sizes(tables, lambda key: snapshot.table(key).row_count)
    else:
        sizes = _sizes(tables, resident.rows_of)
    values: dict[tuple[str, str], int] = {
        column: count
        for column in reads.compared
        if (count := _values(column, sizes, catalog, resident)) is not None
    }
    return Statistics(sizes.nodes, sizes.edges, values)


def _values(
    column: Column, sizes: Statistics, catalog: Catalog, resident: Resident | None
) -> int | None:
    """Return how many different values a column has, rounded, or None when nobody knows."""
    table, name = column
    kinds: Mapping[str, NodeType | EdgeType] = (
        catalog.nodes if is_node_key(table) else catalog.edges
    )
    found = kinds[type_of(table)]
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

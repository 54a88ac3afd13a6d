"""Plans for a snapshot: compiled queries re-ordered by the sizes of its tables.

Sizes are rounded to powers of two, so a plan is kept while the graph grows a little and is made
anew when it has become another graph. A plan decides cost only; rows and order stay the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.ir.facts import Statistics, facts_of
from omnigraph.compiler.ir.ops import ReadIr
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.storage.snapshot import Snapshot

_CAPACITY = 1_024


def statistics_of(snapshot: Snapshot) -> Statistics:
    """Return the sizes of a snapshot's tables, rounded up to powers of two."""
    nodes: dict[str, int] = {}
    edges: dict[str, int] = {}
    for key, table in snapshot.tables.items():
        kind, _, name = key.partition(":")
        (nodes if kind == "node" else edges)[name] = 1 << table.row_count.bit_length()
    return Statistics(nodes, edges)


class Plans:
    """The plans in use, by query and by sizes; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: tuple[str, Statistics, int] | None = None
        self._epochs: dict[tuple[tuple[str, int], ...], int] = {}
        self._plans: OrderedDict[tuple[int, int], tuple[ReadIr, ReadIr]] = OrderedDict()

    def plan(self, ir: ReadIr, snapshot: Snapshot, catalog: Catalog) -> ReadIr:
        """Return the query as it should run on this snapshot."""
        statistics, epoch = self._current(snapshot)
        key = (id(ir), epoch)
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

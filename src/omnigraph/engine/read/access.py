"""How the operators of a plan get at their rows, and how many are expected: for people.

On resident tables: by id, by column, by adjacency. On cold ones: by storage, through an index where
one covers the table, else by a scan that the filter is pushed into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.catalog.model import DST, SRC
from omnigraph.compiler.ir.estimate import estimated_rows
from omnigraph.compiler.ir.facts import Statistics
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Bm25,
    Compare,
    Direction,
    Expand,
    Filter,
    Join,
    Nearest,
    NodeScan,
    Op,
    Predicate,
    Prop,
    Rrf,
    iter_ops,
)
from omnigraph.compiler.operations import CompareOp
from omnigraph.engine.read.led import is_led
from omnigraph.engine.read.membership import has_text_index
from omnigraph.engine.read.membership import looked_up as text_filter
from omnigraph.engine.read.prepare import Prepared
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.index import IndexInfo, list_indexes, vector_partitions

_SORTED = frozenset(
    {CompareOp.EQ, CompareOp.IN, CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE}
)


@dataclass(frozen=True, slots=True)
class Expected:
    """How an operator gets at its rows, and how many are likely to be there after it."""

    access: str
    rows: float

    def __str__(self) -> str:
        return f"{self.access}, about {self.rows:.0f} row{'' if round(self.rows) == 1 else 's'}"


def expectations(
    plan: Prepared, snapshot: Snapshot, statistics: Statistics, *, resident: bool
) -> list[Expected]:
    """Return what to expect of every operator, those inside negations right after their own."""
    led = None if resident or not is_led(plan.ir) else plan.ir.ranking
    access = _Access(snapshot, resident, {}, None if led is None else led.score)
    ops = list(iter_ops(plan.ir.ops))
    found = [Expected(access.of(op), 0.0) for op in ops]
    if resident and plan.is_led:
        found[0] = Expected("best first", 0.0)
    rows = estimated_rows(plan.ir.ops, statistics)
    return [Expected(one.access, count) for one, count in zip(found, rows, strict=True)]


@dataclass(frozen=True, slots=True)
class _Access:
    snapshot: Snapshot
    resident: bool
    _indexes: dict[str, Sequence[IndexInfo]]
    led: Bm25 | Nearest | Rrf | None = None
    """What a vector index may lead, if one is there."""

    def of(self, op: Op) -> str:
        match op:
            case NodeScan():
                return self._scan(op)
            case Expand():
                return self._step(op)
            case Join():
                return "by hash"
            case Filter() | AntiJoin():
                return "per row"
            case _:
                assert_never(op)

    def _scan(self, op: NodeScan) -> str:
        looked_up = [name for one in op.filters if (name := _column(one)) is not None]
        if self.resident:
            return "by id" if _by_id(op.filters) else "by column" if op.filters else "whole table"
        if isinstance(self.led, Nearest):
            handle = self.snapshot.handle(node_key(op.type_name))
            if vector_partitions(handle, self.led.target.name) is not None:
                return f"vector index on {self.led.target.name}, approximate"
        match = text_filter(op)
        if match is not None and has_text_index(self.snapshot, node_key(op.type_name), match):
            return f"text index on {match.target.name}"
        covered = [name for name in looked_up if self._covered(node_key(op.type_name), name)]
        if covered:
            return f"index on {', '.join(covered)}"
        return "filtered scan" if looked_up else "scan"

    def _step(self, op: Expand) -> str:
        if self.resident:
            return f"adjacency {op.direction}"
        ends = {Direction.OUT: (SRC,), Direction.IN: (DST,), Direction.BOTH: (SRC, DST)}
        near = ends[op.direction]
        covered = all(self._covered(edge_key(op.edge), end) for end in near)
        return f"{'index on' if covered else 'scan by'} {', '.join(near)}"

    def _covered(self, key: str, column: str) -> bool:
        known = self._indexes.get(key)
        if known is None:
            known = self._indexes[key] = list_indexes(self.snapshot.handle(key))
        return _knows_all(known, column)


def is_covered(snapshot: Snapshot, key: str, column: str) -> bool:
    """Whether a sorted index knows every row of a table by a column."""
    return _knows_all(list_indexes(snapshot.handle(key)), column)


def _knows_all(indexes: Sequence[IndexInfo], column: str) -> bool:
    return any(
        one.columns == (column,) and one.kind.upper() == "BTREE" and not one.unindexed_rows
        for one in indexes
    )


def _column(predicate: Predicate) -> str | None:
    """Return the column a sorted index could answer for."""
    match predicate:
        case Compare(left=Prop(name=name), op=op) if op in _SORTED:
            return name
        case _:
            return None


def _by_id(filters: Sequence[Predicate]) -> bool:
    return any(
        isinstance(one, Compare) and one.op is CompareOp.EQ and _column(one) == "id"
        for one in filters
    )

"""Rankings that a vector index may lead: the rows of a cold table that are worth looking at.

Only where a query says `approximate`. An index decides which rows are looked at, never what is said
of them: distances are computed here, and their order is ours. What the index may have left out is
all that is not exact, so wherever it cannot lead, the exact way is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.compile import BoundQuery
from omnigraph.compiler.ir.ops import Nearest, NodeScan, ReadIr
from omnigraph.engine.read.evaluate import value_of
from omnigraph.engine.read.pushdown import pushdown
from omnigraph.storage.manifest.snapshot import Snapshot
from omnigraph.storage.tables.index import vector_partitions
from omnigraph.storage.tables.predicate import Predicate

_SPARE = 32
"""So many more than asked for are looked at: distances of the index are less precise than ours."""
PROBED = 1 / 4
FEWEST_PROBED = 24
"""How much of an index is looked at: a quarter of its parts, at least so many."""


@dataclass(frozen=True, slots=True)
class Led:
    """A ranking, and how many rows it may return."""

    score: Nearest
    query: npt.NDArray[np.float32]
    wanted: int


def is_led(ir: ReadIr) -> bool:
    """Whether a query is one that an index may lead: one kind of nodes, ranked, nothing else."""
    ranking = ir.ranking
    if ranking is None or not isinstance(ranking.score, Nearest) or not ranking.score.approximate:
        return False
    alone = len(ir.ops) == 1 and isinstance(ir.ops[0], NodeScan)
    return alone and ranking.best_first and not (ir.is_aggregate or ir.distinct)


def led_by_index(ir: ReadIr, bound: BoundQuery) -> Led | None:
    """Return what an index may lead in a query, if it may."""
    if not is_led(ir) or bound.limit is None:
        return None
    assert ir.ranking is not None
    score = ir.ranking.score
    assert isinstance(score, Nearest)
    query = value_of(score.query, bound.params)
    if query is None:
        return None
    return Led(score, np.asarray(query, np.float32), bound.limit + bound.offset)


def led_rows(
    snapshot: Snapshot,
    key: str,
    op: NodeScan,
    led: Led,
    where: Predicate | None,
    columns: Sequence[str],
) -> pa.Table | None:
    """Return the rows an index leads to, or None where it cannot.

    That is without an index, with a filter that storage does not know, and when it finds fewer rows
    than are wanted while there may be more.
    """
    if any(pushdown([one], lambda _: 0) is None for one in op.filters):
        return None
    handle = snapshot.handle(key)
    partitions = vector_partitions(handle, led.score.target.name)
    if partitions is None:
        return None
    asked = led.wanted + _SPARE
    rows = snapshot.open(key).scan(
        [*columns, "_distance"],
        where,
        nearest={
            "column": led.score.target.name,
            "q": led.query,
            "k": asked,
            "metric": "cosine",
            "nprobes": max(FEWEST_PROBED, round(partitions * PROBED)),
        },
    )
    return rows.drop_columns("_distance") if len(rows) >= led.wanted else None

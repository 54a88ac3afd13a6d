"""Inside `not`: walk from the outer row to a node instead of scanning for it and comparing.

`scan c, expand p to t, t.id = c.id` becomes `expand p to c` with the filters of the scan. An
anti-join only asks whether a row exists, so neither order nor multiplicity can change.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Expand,
    Filter,
    Ir,
    NodeScan,
    Op,
    ReadIr,
    predicate_vars,
)
from omnigraph.compiler.ir.pattern import closed_end


def reach_negated(ir: Ir, facts: Facts) -> Ir:  # noqa: ARG001 - every rule has this signature
    """Return the IR whose anti-joins start from their row wherever they can."""
    if not isinstance(ir, ReadIr):
        return ir
    return replace(ir, ops=_inside(ir.ops))


def _inside(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    return tuple(
        replace(op, inner=_inside(_fuse(op.inner))) if isinstance(op, AntiJoin) else op
        for op in ops
    )


def _fuse(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    scans = {op.var: op for op in ops if isinstance(op, NodeScan)}
    for at, (expand, closing) in enumerate(pairwise(ops)):
        scan = scans.get(closed_end(expand, closing) or "")
        if scan is None:
            continue
        assert isinstance(expand, Expand)
        before = [op for op in ops[:at] if op is not scan]
        if not _bound_without(before, expand.src, scan.var):
            continue
        reached = replace(expand, dst=scan.var, dst_filters=scan.filters)
        return _fuse((*before, reached, *ops[at + 2 :]))
    return ops


def _bound_without(before: list[Op], src: str, scanned: str) -> bool:
    """Whether everything in front of the walk, its start included, works without the scan."""
    return src != scanned and not any(
        (isinstance(op, Expand) and op.src == scanned)
        or (isinstance(op, Filter) and scanned in predicate_vars(op.predicate))
        for op in before
    )

"""Joins become products again, so that a plan can be made anew from one that was made before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import AntiJoin, Filter, Ir, Join, Op, ReadIr
from omnigraph.compiler.ir.pattern import walk_end


def part_joins(ir: Ir, facts: Facts) -> Ir:  # noqa: ARG001 - every rule has this signature
    """Return the IR without joins: products, and filters behind them."""
    return replace(ir, ops=_parted(ir.ops)) if isinstance(ir, ReadIr) else ir


def _parted(ops: Sequence[Op]) -> tuple[Op, ...]:
    end = walk_end(ops)
    walk: list[Op] = []
    filters: list[Op] = []
    for op in ops[:end]:
        if isinstance(op, Join):
            walk += op.inner
            filters += (Filter(one) for one in op.on)
        else:
            walk.append(op)
    rest = (
        replace(op, inner=_parted(op.inner)) if isinstance(op, AntiJoin) else op for op in ops[end:]
    )
    return (*walk, *filters, *rest)

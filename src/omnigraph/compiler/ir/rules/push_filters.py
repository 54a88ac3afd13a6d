"""A filter of one variable moves into the operator that introduces the variable.

Fewer rows are then expanded and ranked. Filters of two variables stay where both are bound.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Expand,
    Filter,
    Ir,
    Join,
    NodeScan,
    Op,
    Predicate,
    ReadIr,
    bound_by,
    predicate_vars,
)


def push_filters(ir: Ir, facts: Facts) -> Ir:  # noqa: ARG001 - every rule has this signature
    """Return the IR with every single-variable filter at its source."""
    if not isinstance(ir, ReadIr):
        return ir
    return replace(ir, ops=_push(ir.ops))


def _push(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    introduced = {var: at for at, op in enumerate(ops) for var in bound_by(op)}
    moved: dict[int, list[tuple[str, Predicate]]] = {}
    kept: list[int] = []
    for at, op in enumerate(ops):
        if isinstance(op, Filter):
            variables = predicate_vars(op.predicate)
            source = introduced.get(min(variables)) if len(variables) == 1 else None
            if source is not None:
                moved.setdefault(source, []).append((min(variables), op.predicate))
                continue
        kept.append(at)
    return tuple(_with_filters(ops[at], moved.get(at, [])) for at in kept)


def _with_filters(op: Op, moved: list[tuple[str, Predicate]]) -> Op:
    match op:
        case NodeScan():
            return replace(op, filters=(*op.filters, *(p for _, p in moved))) if moved else op
        case Expand():
            if not moved:
                return op
            on_edge = tuple(p for var, p in moved if var == op.edge_var)
            on_node = tuple(p for var, p in moved if var == op.dst)
            return replace(
                op,
                dst_filters=op.dst_filters + on_node,
                edge_filters=op.edge_filters + on_edge,
            )
        case AntiJoin():
            return replace(op, inner=_push(op.inner))
        case Filter() | Join():  # joins are made when filters are where they belong
            return op

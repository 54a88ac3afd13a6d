"""A key of one string is the id: results and orders read the id instead, which is always at hand.

Conditions keep the name of the property; `key_lookup` turns those it can into lookups.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.compiler.ir.facts import Facts
from omnigraph.compiler.ir.ops import Aggregate, Expand, Ir, NodeScan, Prop, ReadIr
from omnigraph.compiler.query.typed import ID_TYPE, Expr
from omnigraph.compiler.types import Scalar


def key_is_id(ir: Ir, facts: Facts) -> Ir:
    """Return the IR whose columns and order keys name the id of a node instead of its key."""
    if not isinstance(ir, ReadIr):
        return ir
    keys = _key_props(ir, facts)
    if not keys:
        return ir
    columns = tuple(replace(column, expr=_swap(column.expr, keys)) for column in ir.columns)
    order = tuple(replace(key, expr=_swap(key.expr, keys)) for key in ir.order)
    return replace(ir, columns=columns, order=order)


def _key_props(ir: ReadIr, facts: Facts) -> set[tuple[str, str]]:
    """Return the properties, by variable, that hold what the id holds."""
    types = {op.var: op.type_name for op in ir.ops if isinstance(op, NodeScan)}
    types |= {op.dst: op.dst_type for op in ir.ops if isinstance(op, Expand)}
    return {
        (var, name)
        for var, type_name in types.items()
        for name, kind in facts.keys.get(type_name, ())[:1]
        if len(facts.keys[type_name]) == 1 and kind.scalar is Scalar.STRING and not kind.is_list
    }


def _swap(expr: Expr, keys: set[tuple[str, str]]) -> Expr:
    match expr:
        case Prop(var=var, name=name) if (var, name) in keys:
            return Prop(var, "id", ID_TYPE)
        case Aggregate(arg=Prop(var=var, name=name)) if (var, name) in keys:
            return replace(expr, arg=Prop(var, "id", ID_TYPE))
        case _:
            return expr

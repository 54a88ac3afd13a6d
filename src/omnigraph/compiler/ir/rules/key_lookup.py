"""Equality with every column of a key is equality with the id, which is a lookup.

Only where the text of the id is exact: strings, booleans, whole numbers, dates and times. Float
keys stay filters, because a number can equal a stored one without having its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.compiler.ir.facts import Facts, KeyColumns
from omnigraph.compiler.ir.key_id import key_id
from omnigraph.compiler.ir.ops import (
    ROW,
    AntiJoin,
    Compare,
    Delete,
    Expand,
    Filter,
    Ir,
    Join,
    KeyId,
    Literal,
    NodeScan,
    Op,
    Param,
    Predicate,
    Prop,
    ReadIr,
    Statement,
    Update,
)
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query.typed import ID_TYPE
from omnigraph.compiler.types import INTEGERS, PropType, Scalar

_EXACT = frozenset({Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME}) | INTEGERS


def key_lookup(ir: Ir, facts: Facts) -> Ir:
    """Return the IR with key equalities as id equalities."""
    if not facts.keys:
        return ir
    if isinstance(ir, ReadIr):
        return replace(ir, ops=_rewrite_ops(ir.ops, facts))
    return replace(ir, statements=tuple(_statement(one, facts) for one in ir.statements))


def _rewrite_ops(ops: tuple[Op, ...], facts: Facts) -> tuple[Op, ...]:
    return tuple(_op(op, facts) for op in ops)


def _op(op: Op, facts: Facts) -> Op:
    match op:
        case NodeScan():
            filters = _rewrite(op.filters, op.var, facts.keys.get(op.type_name, ()))
            return op if filters is op.filters else replace(op, filters=filters)
        case Expand():
            filters = _rewrite(op.dst_filters, op.dst, facts.keys.get(op.dst_type, ()))
            return op if filters is op.dst_filters else replace(op, dst_filters=filters)
        case AntiJoin():
            return replace(op, inner=_rewrite_ops(op.inner, facts))
        case Filter() | Join():
            return op


def _statement(statement: Statement, facts: Facts) -> Statement:
    if not isinstance(statement, Update | Delete) or statement.is_edge:
        return statement
    key = facts.keys.get(statement.type_name, ())
    return replace(statement, where=_rewrite(statement.where, ROW, key))


def _rewrite(filters: tuple[Predicate, ...], var: str, key: KeyColumns) -> tuple[Predicate, ...]:
    """Replace one equality per key column by one id equality; anything else stays."""
    if not key or not filters or key[0][0] == "id":
        return filters
    used: list[Predicate] = []
    parts: list[Literal | Param] = []
    for name, kind in key:
        found = _equality(filters, var, name, kind)
        if found is None:
            return filters
        used.append(found[0])
        parts.append(found[1])
    lookup = Compare(Prop(var, "id", ID_TYPE), CompareOp.EQ, _id_of(parts, key))
    return (lookup, *(predicate for predicate in filters if not _is_one_of(predicate, used)))


def _equality(
    filters: Iterable[Predicate], var: str, name: str, kind: PropType
) -> tuple[Predicate, Literal | Param] | None:
    """Return the first equality of a column with a constant whose text is that of the column."""
    for predicate in filters:
        if not isinstance(predicate, Compare) or predicate.op is not CompareOp.EQ:
            continue
        for column, value in (
            (predicate.left, predicate.right),
            (predicate.right, predicate.left),
        ):
            if (
                isinstance(column, Prop)
                and (column.var, column.name) == (var, name)
                and isinstance(value, Literal | Param)
                and _same_text(kind, value.type)
            ):
                return predicate, value
    return None


def _same_text(column: PropType, value: PropType) -> bool:
    if column.scalar not in _EXACT:
        return False
    return column.scalar is value.scalar or (column.scalar in INTEGERS and value.scalar in INTEGERS)


def _id_of(parts: list[Literal | Param], key: KeyColumns) -> Literal | Param | KeyId:
    if len(parts) == 1 and key[0][1].scalar is Scalar.STRING:
        return parts[0]
    constants = [part.value for part in parts if isinstance(part, Literal)]
    if len(constants) < len(parts):
        return KeyId(tuple(parts))
    scalars = [value for value in constants if not isinstance(value, tuple)]
    typed_parts = [(value, kind) for value, (_, kind) in zip(scalars, key, strict=True)]
    return Literal(key_id(typed_parts), ID_TYPE)


def _is_one_of(predicate: Predicate, used: list[Predicate]) -> bool:
    return any(predicate is one for one in used)

"""Filters that storage can answer exactly as we would: a superset of rows, cheaply.

Whatever is pushed down is evaluated again on what comes back; a predicate that storage might see
differently (narrow floats, times of day, lists) is simply not pushed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query.typed import Compare, IsNull, KeyId, Literal, Param, Predicate, Prop
from omnigraph.compiler.types import INTEGERS, Scalar
from omnigraph.storage.tables import predicate as stored

Constant = Literal | Param | KeyId
ValueOf = Callable[[Constant], Any]

_EPOCH = dt.date(1970, 1, 1)
_FLIPPED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.LT: CompareOp.GT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GT: CompareOp.LT,
    CompareOp.GE: CompareOp.LE,
}


def pushdown(predicates: Sequence[Predicate], value_of: ValueOf) -> stored.Predicate | None:
    """Return a storage filter that keeps at least the rows all predicates keep, or None."""
    parts = [part for one in predicates if (part := _one(one, value_of)) is not None]
    return stored.AllOf(tuple(parts)) if parts else None


def _one(predicate: Predicate, value_of: ValueOf) -> stored.Predicate | None:
    match predicate:
        case Compare(Prop() as prop, op, right) if isinstance(right, Constant):
            return _compare(prop, op, value_of(right))
        case Compare(left, op, Prop() as prop) if isinstance(left, Constant) and op in _FLIPPED:
            return _compare(prop, _FLIPPED[op], value_of(left))
        case IsNull(Prop() as prop, negated):
            test = stored.IsNull(prop.name)
            return stored.Not(test) if negated else test
        case _:
            return None


def _compare(prop: Prop, op: CompareOp, value: Any) -> stored.Predicate | None:  # noqa: ANN401 - any literal
    if prop.type.is_list or value is None:
        return None
    if op is CompareOp.IN:
        fitted = [_literal(prop.type.scalar, one) for one in value]
        known = [one for one in fitted if one is not None]
        return stored.is_in(prop.name, known) if len(known) == len(fitted) else None
    one_value = _literal(prop.type.scalar, value)
    if op not in _FLIPPED or one_value is None:
        return None
    return stored.Compare(prop.name, op.value, one_value)  # type: ignore[arg-type] # same spellings


def _literal(scalar: Scalar, value: Any) -> stored.Value | None:  # noqa: ANN401 - any literal
    """Return a value storage compares exactly as we do, or None."""
    if scalar is Scalar.STRING and isinstance(value, str):
        return value
    if scalar is Scalar.BOOL and isinstance(value, bool):
        return value
    if scalar in INTEGERS and isinstance(value, int) and -(2**31) <= value < 2**31:
        return value
    if scalar is Scalar.DATE and isinstance(value, int) and abs(value) < 300_000:
        return _EPOCH + dt.timedelta(days=value)
    return None

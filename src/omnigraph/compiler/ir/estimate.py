"""How many rows operators are likely to make, from what is known of the data.

Estimates choose plans and are shown to people; they never decide an answer. What is not known is
guessed by the shape of the predicate alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from omnigraph.base.table_keys import type_of
from omnigraph.compiler.ir.facts import Statistics
from omnigraph.compiler.ir.ops import (
    AntiJoin,
    Compare,
    Direction,
    Expand,
    Filter,
    IsNull,
    Join,
    Literal,
    NodeScan,
    Op,
    Predicate,
    Prop,
    TextMatch,
    expr_vars,
)
from omnigraph.compiler.ir.reads import bindings
from omnigraph.compiler.operations import CompareOp

_GUESSES = {CompareOp.EQ: 0.1, CompareOp.IN: 0.2, CompareOp.NE: 0.9, CompareOp.CONTAINS: 0.2}
_RANGE = 0.3
_TEXT = 0.1
_NULL = 0.1
_NEGATION = 0.5
_LISTED = 3
"""How many values a list that is a parameter is taken to have."""

Tables = Mapping[str, str]
"""The table behind every variable."""


def selectivity(filters: Sequence[Predicate], tables: Tables, statistics: Statistics) -> float:
    """Return the share of rows likely to pass every filter."""
    share = 1.0
    for predicate in filters:
        share *= _share(predicate, tables, statistics)
    return share


def _share(predicate: Predicate, tables: Tables, statistics: Statistics) -> float:
    match predicate:
        case IsNull():
            return 1.0 - _NULL if predicate.negated else _NULL
        case Compare(left=TextMatch()):
            return _TEXT
        case Compare():
            return _compared(predicate, tables, statistics)
        case _:
            assert_never(predicate)


def _compared(predicate: Compare, tables: Tables, statistics: Statistics) -> float:
    prop = next((one for one in (predicate.left, predicate.right) if isinstance(one, Prop)), None)
    guess = _GUESSES.get(predicate.op, _RANGE)
    if prop is None or prop.type.is_list or prop.var not in tables:
        return guess
    values = statistics.values_of(tables[prop.var], prop.name)
    if values is None:
        return guess
    one = 1.0 / max(values, 1)
    match predicate.op:
        case CompareOp.EQ:
            return one
        case CompareOp.NE:
            return 1.0 - one
        case CompareOp.IN:
            right = predicate.right
            known = isinstance(right, Literal) and isinstance(right.value, tuple)
            listed = len(right.value) if known else _LISTED  # type: ignore[union-attr, arg-type] # a tuple literal
            return min(1.0, listed * one)
        case _:
            return guess


def scanned(op: NodeScan, statistics: Statistics) -> float:
    """Return how many nodes a scan is likely to find."""
    size = statistics.nodes.get(op.type_name, 0)
    return size * selectivity(op.filters, dict(bindings(op)), statistics)


def reached(
    edge: str,
    direction: Direction,
    starts: str,
    ends: str,
    hops: tuple[int, int],
    statistics: Statistics,
) -> float:
    """Return how many nodes of type `ends` one node of type `starts` is likely to reach."""
    degree = statistics.edges.get(edge, 0) / max(1, statistics.nodes.get(starts, 0))
    if direction is Direction.BOTH:
        degree *= 2
    return _walked(degree, hops, float(max(1, statistics.nodes.get(ends, 0))))


def _walked(degree: float, hops: tuple[int, int], most: float) -> float:
    """Return the sum of `degree**hop` over the hops, at most `most`, whatever the bounds are."""
    first, count = hops[0], hops[1] - hops[0] + 1
    if degree <= 0.0:
        return 0.0
    if degree == 1.0:
        return min(float(count), most)
    grows = math.log(degree)
    # In logarithms, where nothing overflows: what is beyond `most` need not be known.
    if hops[1] * grows > math.log(most):
        return most
    if count == 1:
        return float(degree**first)
    share = math.expm1(count * grows) / math.expm1(grows)
    return min(math.exp(first * grows) * share, most)


def estimated_rows(ops: Sequence[Op], statistics: Statistics) -> list[float]:
    """Return the rows likely to be there after each operator, those inside negations included."""
    return list(_estimates(ops, {}, 1.0, statistics))


def _estimates(
    ops: Sequence[Op], tables: dict[str, str], rows: float, statistics: Statistics
) -> Iterator[float]:
    for op in ops:
        inner: list[float] = []
        match op:
            case NodeScan():
                tables |= bindings(op)
                rows *= scanned(op, statistics)
            case Expand():
                rows *= _step(op, tables, statistics)
            case Filter():
                rows *= _filtered(op.predicate, tables, statistics)
            case Join():
                inner = list(_estimates(op.inner, tables, 1.0, statistics))
                rows *= inner[-1]
                for one in op.on:
                    rows *= _filtered(one, tables, statistics)
            case AntiJoin():
                inner = list(_estimates(op.inner, dict(tables), rows, statistics))
                rows *= _NEGATION
            case _:
                assert_never(op)
        yield rows
        yield from inner


def _step(op: Expand, tables: dict[str, str], statistics: Statistics) -> float:
    start = type_of(tables[op.src])
    hops = (op.min_hops, op.max_hops)
    found = reached(op.edge, op.direction, start, op.dst_type, hops, statistics)
    tables |= bindings(op)
    found *= selectivity(op.dst_filters, tables, statistics)
    if op.edge_var is not None:
        found *= selectivity(op.edge_filters, tables, statistics)
    return found


def _filtered(predicate: Predicate, tables: Tables, statistics: Statistics) -> float:
    """Return the share that passes; two ids of one table are equal once in its size."""
    match predicate:
        case Compare(Prop(left, "id"), CompareOp.EQ, Prop(right, "id")):
            size = statistics.nodes.get(type_of(tables.get(left, "")))
            return (
                1.0 / max(1, size) if size is not None and left != right else _GUESSES[CompareOp.EQ]
            )
        case Compare(Prop() as left, CompareOp.EQ, Prop() as right) if left.var != right.var:
            sides = [(tables[one.var], one.name) for one in (left, right) if one.var in tables]
            known = [count for side in sides if (count := statistics.values_of(*side)) is not None]
            return 1.0 / max(known) if any(known) else _GUESSES[CompareOp.EQ]
        case Compare(left=left, right=right) if len(expr_vars(left) | expr_vars(right)) > 1:
            return _GUESSES.get(predicate.op, _RANGE)
        case _:
            return selectivity((predicate,), tables, statistics)

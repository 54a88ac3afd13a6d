"""Operators: what to do with rows, as immutable values that are valid by construction.

Expressions are those of `query.typed`. An IR holds names and values only: no text, no AST, no
catalog, so it can be cached, compared and sent anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import assert_never

from omnigraph.compiler.query.typed import (
    ROW,
    Aggregate,
    Bm25,
    Column,
    Compare,
    Delete,
    Direction,
    Expr,
    InsertEdge,
    InsertNode,
    IsNull,
    KeyId,
    Literal,
    Nearest,
    OrderKey,
    Param,
    Predicate,
    Prop,
    Ranking,
    RowCount,
    Rrf,
    Statement,
    TextMatch,
    Update,
)
from omnigraph.errors import InternalError

TEMP_PREFIX = "~"
"""First character of variables no text can name: anonymous ends and closing steps."""


@dataclass(frozen=True, slots=True)
class NodeScan:
    """All nodes of a type that pass every filter; beside other rows, their product."""

    var: str
    type_name: str
    filters: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        _require_single(self.filters, self.var)


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow one edge type from `src` to `dst`, `min_hops..max_hops` times.

    Without an edge variable every source row yields each destination once; with one it yields a
    row per edge.
    """

    src: str
    dst: str
    edge: str
    direction: Direction
    dst_type: str
    min_hops: int = 1
    max_hops: int = 1
    edge_var: str | None = None
    dst_filters: tuple[Predicate, ...] = ()
    edge_filters: tuple[Predicate, ...] = ()

    def __post_init__(self) -> None:
        _require(self.src != self.dst, "an expand introduces its destination")
        _require(1 <= self.min_hops <= self.max_hops, "hops are 1 <= min <= max")
        _require(self.edge_var is None or self.max_hops == 1, "an edge variable is one hop")
        _require(self.edge_var is not None or not self.edge_filters, "no edge variable to filter")
        _require_single(self.dst_filters, self.dst)
        if self.edge_var is not None:
            _require_single(self.edge_filters, self.edge_var)


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the rows for which the predicate is true."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep the rows for which the inner operators, started from that row, yield nothing.

    Without inner operators the row itself is a match, so none is kept.
    """

    outer: tuple[str, ...]
    inner: tuple[Op, ...]

    def __post_init__(self) -> None:
        _require(bool(self.outer), "an anti-join is tied to its row by a variable")


@dataclass(frozen=True, slots=True)
class Join:
    """Every row with each of the rows the inner operators make by themselves, where all are equal.

    Each equality is between a property of a variable bound inside and one bound before.
    """

    inner: tuple[Op, ...]
    on: tuple[Compare, ...]

    def __post_init__(self) -> None:
        _require(bool(self.on), "a join has an equality")
        inside = check_ops(self.inner, frozenset())
        for one in self.on:
            sides = (one.left, one.right)
            _require(all(isinstance(side, Prop) for side in sides), "a join compares properties")
            _require(len(predicate_vars(one) & inside) == 1, "a join connects inside and outside")


Op = NodeScan | Expand | Filter | AntiJoin | Join


@dataclass(frozen=True, slots=True)
class ReadIr:
    """A read: rows, then ranking or order, then offset and limit, then columns.

    Without order keys rows come by the ids of `variables` in that order, groups by their key.
    Equal keys are settled by the ids of all variables in the order of their names.
    """

    name: str
    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    variables: tuple[str, ...]
    columns: tuple[Column, ...]
    distinct: bool = False
    ranking: Ranking | None = None
    order: tuple[OrderKey, ...] = ()
    limit: RowCount | None = None
    offset: RowCount | None = None

    def __post_init__(self) -> None:
        known = check_ops(self.ops, frozenset())
        used = {name for column in self.columns for name in expr_vars(column.expr)}
        used |= {name for key in self.order for name in expr_vars(key.expr)}
        if self.ranking is not None:
            used.add(self.ranking.score.var)
        _require_known(used | set(self.variables), known)

    @property
    def is_aggregate(self) -> bool:
        """Whether rows are grouped by the columns that are not aggregates."""
        return any(isinstance(column.expr, Aggregate) for column in self.columns)


@dataclass(frozen=True, slots=True)
class MutationIr:
    """Statements that take effect together, in order."""

    name: str
    params: tuple[Param, ...]
    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        _require(bool(self.statements), "a mutation has a statement")


Ir = ReadIr | MutationIr


def check_ops(ops: Iterable[Op], outer: Set[str]) -> Set[str]:
    """Return the variables bound after the operators; each is bound before it is used."""
    bound = set(outer)
    for op in ops:
        match op:
            case NodeScan():
                _require_new((op.var,), bound)
                bound.add(op.var)
            case Expand():
                _require_known((op.src,), bound)
                _require_new(bound_by(op), bound)
                bound.update(bound_by(op))
            case Filter():
                _require_known(predicate_vars(op.predicate), bound)
            case AntiJoin():
                _require_known(op.outer, bound)
                check_ops(op.inner, bound)
            case Join():
                own = bound_by(op)
                _require_new(own, bound)
                for one in op.on:
                    _require_known(predicate_vars(one) - set(own), bound)
                bound.update(own)
            case _:
                assert_never(op)
    return bound


def bound_by(op: Op) -> tuple[str, ...]:
    """Return the variables an operator binds for those behind it."""
    match op:
        case NodeScan():
            return (op.var,)
        case Expand():
            return (op.dst,) if op.edge_var is None else (op.dst, op.edge_var)
        case Join():
            return tuple(name for one in op.inner for name in bound_by(one))
        case Filter() | AntiJoin():
            return ()
        case _:
            assert_never(op)


def predicate_vars(predicate: Predicate) -> frozenset[str]:
    """Return the variables a predicate looks at."""
    match predicate:
        case Compare():
            return expr_vars(predicate.left) | expr_vars(predicate.right)
        case IsNull():
            return expr_vars(predicate.operand)
        case _:
            assert_never(predicate)


def expr_vars(expr: Expr) -> frozenset[str]:
    """Return the variables an expression looks at."""
    match expr:
        case Literal() | Param() | KeyId():
            return frozenset()
        case Prop():
            return frozenset({expr.var})
        case TextMatch() | Nearest() | Bm25():
            return frozenset({expr.target.var})
        case Rrf():
            return frozenset({expr.first.var, expr.second.var})
        case Aggregate():
            return frozenset() if expr.arg is None else expr_vars(expr.arg)
        case _:
            assert_never(expr)


def iter_ops(ops: Iterable[Op]) -> Iterator[Op]:
    """Yield operators depth first, those inside joins and anti-joins included."""
    for op in ops:
        yield op
        if isinstance(op, AntiJoin | Join):
            yield from iter_ops(op.inner)


def iter_exprs(ir: ReadIr) -> Iterator[Expr]:
    """Yield every expression a read evaluates: of its predicates, ranking, order and columns."""
    for op in iter_ops(ir.ops):
        match op:
            case NodeScan():
                yield from _operands(op.filters)
            case Expand():
                yield from _operands((*op.dst_filters, *op.edge_filters))
            case Filter():
                yield from operands(op.predicate)
            case Join():
                yield from _operands(op.on)
            case AntiJoin():
                pass
    if ir.ranking is not None:
        yield ir.ranking.score
    yield from (key.expr for key in ir.order)
    yield from (column.expr for column in ir.columns)


def _operands(predicates: Iterable[Predicate]) -> Iterator[Expr]:
    for predicate in predicates:
        yield from operands(predicate)


def operands(predicate: Predicate) -> Iterator[Expr]:
    """Yield the expressions a predicate compares."""
    match predicate:
        case Compare():
            yield predicate.left
            yield predicate.right
        case IsNull():
            yield predicate.operand


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise InternalError(f"invalid IR: {rule}")


def _require_known(names: Iterable[str], bound: Set[str]) -> None:
    missing = [name for name in names if name not in bound]
    _require(not missing, f"{missing} used before they are bound")


def _require_new(names: Iterable[str], bound: Set[str]) -> None:
    again = [name for name in names if name in bound]
    _require(not again, f"{again} bound twice")


def _require_single(filters: tuple[Predicate, ...], var: str) -> None:
    for predicate in filters:
        _require(predicate_vars(predicate) <= {var}, f"a filter of {var} looks elsewhere")


__all__ = [
    "ROW",
    "TEMP_PREFIX",
    "Aggregate",
    "AntiJoin",
    "Bm25",
    "Column",
    "Compare",
    "Delete",
    "Direction",
    "Expand",
    "Expr",
    "Filter",
    "InsertEdge",
    "InsertNode",
    "Ir",
    "IsNull",
    "Join",
    "KeyId",
    "Literal",
    "MutationIr",
    "Nearest",
    "NodeScan",
    "Op",
    "OrderKey",
    "Param",
    "Predicate",
    "Prop",
    "Ranking",
    "ReadIr",
    "RowCount",
    "Rrf",
    "Statement",
    "TextMatch",
    "Update",
    "bound_by",
    "check_ops",
    "expr_vars",
    "iter_exprs",
    "iter_ops",
    "operands",
    "predicate_vars",
]

"""What a read touches, whatever order its operators run in: derived once, from the IR alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.base.ids import TableKey
from omnigraph.base.table_keys import edge_key, node_key
from omnigraph.compiler.ir.ops import (
    Aggregate,
    AntiJoin,
    Compare,
    Expand,
    Expr,
    Filter,
    Join,
    Nearest,
    NodeScan,
    Op,
    Predicate,
    Prop,
    ReadIr,
    Rrf,
    TextMatch,
    iter_exprs,
    iter_ops,
)
from omnigraph.compiler.types import Scalar

Column = tuple[TableKey, str]
"""A table and a property."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Tables, columns and operands of a query.

    Two negations may each have a variable of one name, so a name stands for every table it is
    bound to anywhere; a column too many costs little.
    """

    columns: Mapping[TableKey, frozenset[str]] = field(default_factory=dict)
    """The properties it may look at, per table it reads; ids always."""
    compared: tuple[Column, ...] = ()
    """Columns whose values it compares with something, in order."""
    texts: tuple[Nearest, ...] = ()
    """Distances to a text that is yet to become a vector, in order of appearance."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The node type behind every variable that a distance may be taken of."""

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The tables it reads, sorted."""
        return tuple(self.columns)


NOTHING = Reads()


def bindings(op: Op) -> tuple[tuple[str, TableKey], ...]:
    """Return the variables an operator binds itself, each with its table."""
    match op:
        case NodeScan():
            return ((op.var, node_key(op.type_name)),)
        case Expand(edge_var=None):
            return ((op.dst, node_key(op.dst_type)),)
        case Expand():
            assert op.edge_var is not None
            return (op.dst, node_key(op.dst_type)), (op.edge_var, edge_key(op.edge))
        case Filter() | AntiJoin() | Join():
            return ()
        case _:
            assert_never(op)


def bound_tables(ops: Iterable[Op]) -> dict[str, TableKey]:
    """Return the table behind every variable that is bound after some operators.

    What an anti-join binds stays inside it.
    """
    found: dict[str, TableKey] = {}
    for op in ops:
        found |= bound_tables(op.inner) if isinstance(op, Join) else dict(bindings(op))
    return found


def reads_of(ir: ReadIr) -> Reads:
    """Return what a read touches."""
    tables: dict[str, dict[TableKey, None]] = {}
    columns: dict[TableKey, set[str]] = {}
    for op in iter_ops(ir.ops):
        if isinstance(op, Expand):
            columns.setdefault(edge_key(op.edge), set())
        for var, key in bindings(op):
            tables.setdefault(var, {})[key] = None
            columns.setdefault(key, set()).add("id")
    for prop in map(_property, iter_exprs(ir)):
        if prop is not None:
            for key in tables[prop.var]:
                columns[key].add(prop.name)
    compared = dict.fromkeys((key, prop.name) for prop in _compared(ir) for key in tables[prop.var])
    texts = dict.fromkeys(one for expr in iter_exprs(ir) for one in _texts(expr))
    nodes = {one.var: _node_behind(ir, one.var) for one in texts}
    ordered = {key: frozenset(columns[key]) for key in sorted(columns)}
    return Reads(ordered, tuple(sorted(compared)), tuple(texts), nodes)


def _node_behind(ir: ReadIr, var: str) -> str:
    return next(
        op.type_name if isinstance(op, NodeScan) else op.dst_type
        for op in iter_ops(ir.ops)
        if (isinstance(op, NodeScan) and op.var == var)
        or (isinstance(op, Expand) and op.dst == var)
    )


def _property(expr: Expr) -> Prop | None:
    """Return the property an expression looks at; there is at most one."""
    match expr:
        case Prop():
            return expr
        case TextMatch() | Nearest():
            return expr.target
        case Aggregate():
            return None if expr.arg is None else _property(expr.arg)
        case _:
            return None


def _compared(ir: ReadIr) -> Iterator[Prop]:
    """Yield the properties, ids apart, that are compared with something."""
    predicates: list[Predicate] = []
    for op in iter_ops(ir.ops):
        match op:
            case NodeScan():
                predicates += op.filters
            case Expand():
                predicates += (*op.dst_filters, *op.edge_filters)
            case Filter():
                predicates.append(op.predicate)
            case Join():
                predicates += op.on
            case AntiJoin():
                pass
            case _:
                assert_never(op)
    for predicate in predicates:
        if isinstance(predicate, Compare):
            for side in (predicate.left, predicate.right):
                if isinstance(side, Prop) and side.name != "id":
                    yield side


def _texts(expr: Expr) -> Iterator[Nearest]:
    match expr:
        case Nearest() if expr.query.type.scalar is Scalar.STRING:
            yield expr
        case Rrf():
            yield from (*_texts(expr.first), *_texts(expr.second))
        case Aggregate() if expr.arg is not None:
            yield from _texts(expr.arg)
        case _:
            pass

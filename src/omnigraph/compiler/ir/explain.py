"""The canonical text of an IR: one line per operator, stable, for people and golden cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from omnigraph.compiler.ir.ops import (
    ROW,
    Aggregate,
    AntiJoin,
    Bm25,
    Column,
    Compare,
    Delete,
    Direction,
    Expand,
    Expr,
    Filter,
    InsertEdge,
    InsertNode,
    Ir,
    IsNull,
    Join,
    KeyId,
    Literal,
    MutationIr,
    Nearest,
    NodeScan,
    Op,
    Param,
    Predicate,
    Prop,
    ReadIr,
    RowCount,
    Rrf,
    Statement,
    TextMatch,
    Update,
)
from omnigraph.compiler.query.literals import show_date, show_datetime
from omnigraph.compiler.query.typed import NOW_PARAM, Assignment, LiteralValue
from omnigraph.compiler.syntax import quote
from omnigraph.compiler.types import Scalar

_MAX_ITEMS = 8
_MAX_WIDTH = 80


def explain_query(ir: Ir, notes: Sequence[str] = ()) -> str:
    """Return the text of an IR, with a final newline.

    Args:
        ir: what to show.
        notes: what to say behind every operator, those inside anti-joins right after their own.
    """
    params = ", ".join(f"${param.name}: {param.type}" for param in ir.params)
    match ir:
        case ReadIr():
            lines = [f"read {ir.name}({params})", *_indent(_read_lines(ir, notes))]
        case MutationIr():
            statements = [_statement(statement) for statement in ir.statements]
            lines = [f"mutation {ir.name}({params})", *_indent(statements)]
        case _:
            assert_never(ir)
    return "".join(f"{line}\n" for line in lines)


def _read_lines(ir: ReadIr, notes: Sequence[str]) -> Iterator[str]:
    lines = list(explain_ops(ir.ops))
    yield from _beside(lines, notes) if notes else lines
    distinct = "distinct " if ir.distinct else ""
    keys = [f"{explain_expr(key.expr)}{' desc' if key.descending else ''}" for key in ir.order]
    if ir.is_aggregate:
        groups = [column for column in ir.columns if not isinstance(column.expr, Aggregate)]
        yield f"group by {', '.join(explain_expr(column.expr) for column in groups) or 'all'}"
    if ir.ranking is not None:
        worst = "" if ir.ranking.best_first else " worst first"
        yield f"rank {ir.ranking.score.var} by {explain_expr(ir.ranking.score)}{worst}"
    if keys:
        yield f"order {', '.join(keys)}"
    elif ir.ranking is None and not ir.is_aggregate:
        yield f"order ids of {', '.join(ir.variables)}"
    if ir.offset is not None:
        yield f"offset {_row_count(ir.offset)}"
    if ir.limit is not None:
        yield f"limit {_row_count(ir.limit)}"
    yield f"return {distinct}{', '.join(_column(column) for column in ir.columns)}"


def _beside(lines: Sequence[str], notes: Sequence[str]) -> Iterator[str]:
    """Put the notes in one column behind the lines."""
    width = min(max(len(line) for line in lines), _MAX_WIDTH)
    return (f"{line:{width}}  | {note}" for line, note in zip(lines, notes, strict=True))


def explain_ops(ops: Iterable[Op]) -> Iterator[str]:
    """Yield the lines of a pipeline; what is inside a join or an anti-join is indented."""
    for op in ops:
        match op:
            case NodeScan():
                yield f"scan {op.var}: {op.type_name}{_filters(op.filters)}"
            case Expand():
                yield _expand(op)
            case Filter():
                yield f"filter {explain_predicate(op.predicate)}"
            case Join():
                yield f"join on {' and '.join(explain_predicate(one) for one in op.on)}"
                yield from _indent(explain_ops(op.inner))
            case AntiJoin():
                yield f"anti-join on {', '.join(op.outer)}"
                yield from _indent(explain_ops(op.inner))
            case _:
                assert_never(op)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _expand(op: Expand) -> str:
    hops = "" if (op.min_hops, op.max_hops) == (1, 1) else f"{{{op.min_hops},{op.max_hops}}}"
    name = op.edge if op.edge_var is None else f"{op.edge_var}:{op.edge}"
    inside = f"{name}{hops}{_filters(op.edge_filters)}"
    arrow = {
        Direction.OUT: f"-[{inside}]->",
        Direction.IN: f"<-[{inside}]-",
        Direction.BOTH: f"-[{inside}]-",
    }[op.direction]
    return f"expand {op.src} {arrow} {op.dst}: {op.dst_type}{_filters(op.dst_filters)}"


def _filters(filters: Sequence[Predicate]) -> str:
    if not filters:
        return ""
    return f" where {' and '.join(explain_predicate(predicate) for predicate in filters)}"


def explain_predicate(predicate: Predicate) -> str:
    """Return the text of a predicate."""
    match predicate:
        case Compare():
            return f"{explain_expr(predicate.left)} {predicate.op} {explain_expr(predicate.right)}"
        case IsNull():
            return f"{explain_expr(predicate.operand)} is {'not ' if predicate.negated else ''}null"
        case _:
            assert_never(predicate)


def explain_expr(expr: Expr) -> str:
    """Return the text of an expression."""
    match expr:
        case Literal():
            return _literal(expr)
        case Param():
            return "now()" if expr.name == NOW_PARAM else f"${expr.name}"
        case Prop():
            return expr.name if expr.var == ROW else f"{expr.var}.{expr.name}"
        case TextMatch():
            edits = "" if expr.max_edits is None else f", {explain_expr(expr.max_edits)}"
            return f"{expr.fn}({explain_expr(expr.target)}, {explain_expr(expr.query)}{edits})"
        case Nearest():
            how = ", approximate" if expr.approximate else ""
            return f"nearest({explain_expr(expr.target)}, {explain_expr(expr.query)}{how})"
        case Bm25():
            return f"bm25({explain_expr(expr.target)}, {explain_expr(expr.query)})"
        case Rrf():
            arms = f"{explain_expr(expr.first)}, {explain_expr(expr.second)}"
            return f"rrf({arms}, {explain_expr(expr.k)})"
        case Aggregate():
            distinct = "distinct " if expr.distinct else ""
            return f"{expr.fn}({distinct}{'*' if expr.arg is None else explain_expr(expr.arg)})"
        case KeyId():
            return f"key({', '.join(explain_expr(part) for part in expr.parts)})"
        case _:
            assert_never(expr)


def _literal(literal: Literal) -> str:
    if isinstance(literal.value, tuple):
        shown = [_scalar(item, literal.type.scalar) for item in literal.value[:_MAX_ITEMS]]
        more = [f"… {len(literal.value)} values"] if len(literal.value) > _MAX_ITEMS else []
        return f"[{', '.join([*shown, *more])}]"
    return _scalar(literal.value, literal.type.scalar)


def _scalar(value: LiteralValue, scalar: Scalar) -> str:
    match value:
        case str():
            return quote(value)
        case bool():
            return "true" if value else "false"
        case _ if scalar is Scalar.DATE:
            return f'date("{show_date(value)}")' if isinstance(value, int) else str(value)
        case _ if scalar is Scalar.DATETIME:
            return f'datetime("{show_datetime(value)}")' if isinstance(value, int) else str(value)
        case _:
            return str(value)


def _column(column: Column) -> str:
    text = explain_expr(column.expr)
    return text if text == column.name else f"{text} as {column.name}"


def _row_count(count: RowCount) -> str:
    return str(count) if isinstance(count, int) else f"${count.name}"


def _statement(statement: Statement) -> str:
    match statement:
        case InsertNode():
            return f"insert node {statement.type_name} {_assigned(statement.assignments)}"
        case InsertEdge():
            ends = f"{explain_expr(statement.src)} -> {explain_expr(statement.dst)}"
            rest = f" {_assigned(statement.assignments)}" if statement.assignments else ""
            return f"insert edge {statement.type_name} {ends}{rest}"
        case Update():
            kind = "edges" if statement.is_edge else "nodes"
            changes = _assigned((*statement.ends, *statement.assignments))
            return f"update {kind} {statement.type_name} {changes}{_filters(statement.where)}"
        case Delete():
            kind = "edges" if statement.is_edge else "nodes"
            return f"delete {kind} {statement.type_name}{_filters(statement.where)}"
        case _:
            assert_never(statement)


def _assigned(assignments: Sequence[Assignment]) -> str:
    return f"{{{', '.join(f'{one.prop}: {explain_expr(one.value)}' for one in assignments)}}}"

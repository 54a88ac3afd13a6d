"""Comparisons in `match`: which operands an operator takes, and what is never comparable."""

from __future__ import annotations

from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.check_expr import ExprChecker
from omnigraph.compiler.query.scope import Context, Unknown
from omnigraph.compiler.types import PropType, Scalar, compatible

_IDENTITY = frozenset({CompareOp.EQ, CompareOp.NE})


def check_filter(checker: ExprChecker, clause: ast.Filter) -> typed.Compare | None:
    """Return the comparison, or None when something about it was reported."""
    if checker.is_entity(clause.left) or checker.is_entity(clause.right):
        return _check_identity(checker, clause)
    left = _operand(checker, clause.left)
    right = _operand(checker, clause.right)
    if left is None or right is None:
        return None
    problem = comparison_problem(left, clause.op, right)
    if problem is not None:
        checker.ctx.report("T7", problem[0], clause.span, problem[1])
        return None
    note_enums(checker.ctx, left, clause.op, right)
    return typed.Compare(left, clause.op, right)


def note_enums(ctx: Context, left: typed.Scalarish, op: CompareOp, right: typed.Scalarish) -> None:
    """Remember which parameters have to be words of an enum for a comparison to mean something."""
    if op in _IDENTITY or op is CompareOp.IN:
        ctx.note_enum(left.type, right)
    if op in _IDENTITY:
        ctx.note_enum(right.type, left)


def check_null_test(checker: ExprChecker, clause: ast.NullTest) -> typed.IsNull | None:
    """Return the null test; nodes and edges are never null, blobs are not looked at."""
    if checker.is_entity(clause.operand):
        if checker.scalar(clause.operand) is not None:
            message = "a node or an edge is never null; test one of its properties"
            checker.ctx.report("T7", message, clause.span)
        return None
    operand = _operand(checker, clause.operand)
    if operand is None:
        return None
    if operand.type.scalar is Scalar.BLOB:
        checker.ctx.report("T24", "a Blob cannot be tested in `match`", clause.span)
        return None
    return typed.IsNull(operand, clause.negated)


def comparison_problem(
    left: typed.Scalarish, op: CompareOp, right: typed.Scalarish
) -> tuple[str, str | None] | None:
    """Return why two values cannot be compared, with a hint, or None when they can."""
    for side in (left, right):
        if side.type.scalar is Scalar.BLOB:
            return "a Blob cannot be compared", None
        if side.type.scalar is Scalar.VECTOR:
            return "vectors are compared with `nearest`, not with operators", None
    match op:
        case CompareOp.CONTAINS:
            return _contains_problem(left.type, right.type)
        case CompareOp.STARTS_WITH:
            if left.type.is_plain_string and right.type.is_plain_string:
                return None
            return f"`starts_with` compares Strings, not {left.type} and {right.type}", None
        case CompareOp.IN:
            return _in_problem(left, right)
        case _:
            return _plain_problem(left, op, right)


def _contains_problem(left: PropType, right: PropType) -> tuple[str, str | None] | None:
    if right.is_list:
        return "the right side of `contains` is one value, not a list", None
    if left.is_list:
        if compatible(left.item(), right):
            return None
        return f"`contains` looks for {left.item()} in {left}, not for {right}", None
    if left.is_plain_string:
        if right.is_plain_string:
            return None
        return f"`contains` looks for a String in a String, not for {right}", None
    return f"`contains` needs a list or a String on the left, not {left}", None


def _in_problem(left: typed.Scalarish, right: typed.Scalarish) -> tuple[str, str | None] | None:
    if not right.type.is_list or isinstance(right, typed.Prop):
        hint = "for the list of a node write `$x.list contains value`"
        return "the right side of `in` is a list literal or a list parameter", hint
    if left.type.is_list:
        return "the left side of `in` is one value, not a list", None
    empty = isinstance(right, typed.Literal) and right.value == ()
    if not empty and not compatible(left.type, right.type.item()):
        return f"cannot look for {left.type} in {right.type}", _text_hint(left.type, right.type)
    if isinstance(right, typed.Literal) and isinstance(right.value, tuple):
        return next(filter(None, (_enum_problem(left.type, item) for item in right.value)), None)
    return None


def _plain_problem(
    left: typed.Scalarish, op: CompareOp, right: typed.Scalarish
) -> tuple[str, str | None] | None:
    if left.type.is_list or right.type.is_list:
        return f"`{op}` compares single values, not lists", "use `contains` or `in`"
    if not compatible(left.type, right.type):
        return f"cannot compare {left.type} with {right.type}", _text_hint(left.type, right.type)
    if op in _IDENTITY:
        for side, other in ((left, right), (right, left)):
            if isinstance(other, typed.Literal):
                problem = _enum_problem(side.type, other.value)
                if problem is not None:
                    return problem
    return None


def _enum_problem(kind: PropType, value: typed.LiteralValue) -> tuple[str, str | None] | None:
    """A comparison with a word outside the enum would silently never (or always) hold."""
    if kind.enum_values is None or value in kind.enum_values:
        return None
    return f"'{value}' is not one of {kind.required()}", did_you_mean(str(value), kind.enum_values)


def _text_hint(left: PropType, right: PropType) -> str | None:
    scalars = {left.scalar, right.scalar}
    if scalars == {Scalar.DATE, Scalar.STRING}:
        return 'write dates as `date("2026-01-31")`'
    if scalars == {Scalar.DATETIME, Scalar.STRING}:
        return 'write times as `datetime("2026-01-31T12:00:00Z")`'
    return None


def _operand(checker: ExprChecker, expr: ast.Expr) -> typed.Scalarish | None:
    match expr:
        case ast.Aggregate():
            message = f"`{expr.fn}` is known only after `match`; it cannot be compared here"
            checker.ctx.report("T7", message, expr.span, "aggregate in `return`")
            return None
        case ast.Rrf():
            message = "`rrf` ranks the whole match, so it cannot decide what matches"
            checker.ctx.report("T21", message, expr.span, "use it in `return` or `order`")
            return None
        case _:
            return checker.scalar(expr)


def _check_identity(checker: ExprChecker, clause: ast.Filter) -> typed.Compare | None:
    """Compare two nodes, or two edges, of one type by id."""
    report = checker.ctx.report
    if not (checker.is_entity(clause.left) and checker.is_entity(clause.right)):
        sides = [checker.scalar(side) for side in (clause.left, clause.right)]
        if None not in sides:
            message = "comparisons need scalar operands, not a node or an edge with a value"
            report("T7", message, clause.span, "compare a property, for example `$p.id`")
        return None
    assert isinstance(clause.left, ast.Variable)
    assert isinstance(clause.right, ast.Variable)
    left, right = checker.scalar(clause.left), checker.scalar(clause.right)
    if left is None or right is None:
        return None
    kinds = [checker.scope.find(side.name) for side in (clause.left, clause.right)]
    if any(kind is None or isinstance(kind, Unknown) for kind in kinds):
        return None
    if kinds[0] is not kinds[1]:
        report("T7", "two variables of different types are never the same", clause.span)
        return None
    if clause.op not in _IDENTITY:
        report(
            "T7", f"nodes and edges have no order: `{clause.op}` needs scalar operands", clause.span
        )
        return None
    return typed.Compare(left, clause.op, right)

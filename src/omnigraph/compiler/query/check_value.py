"""Values against properties: inline matches, assignments and mutation predicates."""

from __future__ import annotations

from omnigraph.compiler.catalog.model import NodeType
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.operations import CompareOp
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.literals import (
    ListLiteralError,
    as_vector,
    conform,
    infer,
    is_vector_literal,
)
from omnigraph.compiler.query.scope import Context, column_type, property_hint
from omnigraph.compiler.types import PropType, Scalar, compatible


def check_inline_match(
    ctx: Context, var: str, kind: NodeType, item: ast.PropertyValue
) -> typed.Compare | None:
    """Return `property: value` as a predicate: equality, or membership for a list property."""
    found = column_type(kind, item.name)
    if found is None:
        message = f"{kind.name} has no property `{item.name}`"
        ctx.report("T2", message, item.span, property_hint(item.name, kind.properties))
        return None
    if found.scalar is Scalar.BLOB:
        ctx.report("T3", "a Blob cannot be matched", item.span)
        return None
    if found.scalar is Scalar.VECTOR:
        ctx.report("T3", "vectors are compared with `nearest`, not matched", item.span)
        return None
    value = resolve_value(ctx, item.value)
    if value is None:
        return None
    target = typed.Prop(var, item.name, found)
    wanted = found.item() if found.is_list else found
    if found.is_list and isinstance(value, typed.Literal) and value.type.is_list:
        message = f"`{item.name}` is a list: an inline match tests membership of one value"
        ctx.report("T3", message, item.span, "write one value, or one match per value")
        return None
    if not compatible(wanted, value.type):
        _mismatch(ctx, item, wanted, value, "holds" if found.is_list else "is")
        return None
    if isinstance(value, typed.Literal) and not _in_enum(ctx, wanted, value, item):
        return None
    ctx.note_enum(wanted, value)
    return typed.Compare(target, CompareOp.CONTAINS if found.is_list else CompareOp.EQ, value)


def check_assignment(
    ctx: Context, item: ast.PropertyValue, kind: PropType
) -> typed.Literal | typed.Param | None:
    """Return the value a property takes; a literal is checked down to its range."""
    literal = item.value
    if isinstance(literal, ast.Literal):
        return _assigned_literal(ctx, item, literal, kind)
    value = resolve_value(ctx, item.value)
    if value is None:
        return None
    if kind.scalar is Scalar.BLOB and value.type.is_plain_string:
        return value
    if not compatible(kind, value.type):
        _mismatch(ctx, item, kind, value)
        return None
    return value


def _assigned_literal(
    ctx: Context, item: ast.PropertyValue, literal: ast.Literal, kind: PropType
) -> typed.Literal | None:
    try:
        if kind.scalar is Scalar.VECTOR and is_vector_literal(literal):
            return as_vector(literal, kind.dim)
        value = infer(literal)
        if kind.scalar is Scalar.BLOB and value.type.is_plain_string:
            return value
        if kind.is_list and value.value == ():
            return typed.Literal((), kind.required())
        if not compatible(kind, value.type):
            _mismatch(ctx, item, kind, value)
            return None
        return conform(value, kind)
    except ListLiteralError as error:
        ctx.report("T27", str(error), literal.span)
    except ValueError as error:
        ctx.report("T3", f"`{item.name}`: {error}", item.span, _enum_hint(literal, kind))
    return None


def resolve_value(ctx: Context, value: ast.Value) -> typed.Literal | typed.Param | None:
    """Return a literal, a declared parameter or the time of the request."""
    match value:
        case ast.Now():
            return typed.Param(typed.NOW_PARAM, typed.NOW_TYPE)
        case ast.Literal():
            try:
                return infer(value)
            except ListLiteralError as error:
                ctx.report("T27", str(error), value.span)
            except ValueError as error:
                ctx.report("T3", str(error), value.span)
            return None
        case ast.Variable():
            param = ctx.params.get(value.name)
            if param is None and not ctx.is_param(value.name):
                message = f"`${value.name}` is not a declared parameter"
                hint = did_you_mean(f"${value.name}", [f"${name}" for name in ctx.params])
                hint = hint or f"declare it in the query header: `${value.name}: String`"
                ctx.report("T14", message, value.span, hint)
            return param


def _mismatch(
    ctx: Context,
    item: ast.PropertyValue,
    kind: PropType,
    value: typed.Literal | typed.Param,
    verb: str = "is",
) -> None:
    """Report a value of the wrong type: T3 for literals, T7 for parameters and `now()`."""
    hint = None
    match value:
        case typed.Literal():
            code, what = "T3", f"this is {value.type}"
            if value.type.is_plain_string and kind.scalar in (Scalar.DATE, Scalar.DATETIME):
                hint = f'write `{kind.scalar.lower()}("…")`'
        case typed.Param(name=typed.NOW_PARAM):
            code, what = "T7", "`now()` is DateTime"
        case typed.Param():
            code, what = "T7", f"parameter `${value.name}` is {value.type}"
    ctx.report(code, f"`{item.name}` {verb} {kind}, {what}", item.span, hint)


def _in_enum(ctx: Context, kind: PropType, value: typed.Literal, item: ast.PropertyValue) -> bool:
    if kind.enum_values is None or value.value in kind.enum_values:
        return True
    message = f"`{item.name}`: '{value.value}' is not one of {kind.required()}"
    ctx.report("T3", message, item.span, did_you_mean(str(value.value), kind.enum_values))
    return False


def _enum_hint(literal: ast.Literal, kind: PropType) -> str | None:
    if kind.enum_values is None or not isinstance(literal.value, str):
        return None
    return did_you_mean(literal.value, kind.enum_values)

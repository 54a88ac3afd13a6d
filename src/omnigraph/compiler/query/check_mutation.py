"""Insert, update and delete statements against the catalog."""

from __future__ import annotations

from typing import assert_never

from omnigraph.compiler.catalog.model import EdgeType, NodeType
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.check_filter import comparison_problem, note_enums
from omnigraph.compiler.query.check_value import check_assignment, resolve_value
from omnigraph.compiler.query.scope import Context, column_type, property_hint
from omnigraph.compiler.source import Span
from omnigraph.compiler.types import PropType, Scalar

_ENDS = {"from": "src", "to": "dst"}
"""How the text names the ends of an edge, and the columns they mean."""


def check_statement(ctx: Context, statement: ast.Statement) -> typed.Statement | None:
    """Return the checked statement; problems go to the context."""
    kind = _find_type(ctx, statement)
    if kind is None:
        return None
    match statement:
        case ast.Insert():
            return _insert(ctx, statement, kind)
        case ast.Update():
            return _update(ctx, statement, kind)
        case ast.Delete():
            where = _where(ctx, statement.where, kind)
            return typed.Delete(kind.name, isinstance(kind, EdgeType), where)
        case _:
            assert_never(statement)


def _find_type(ctx: Context, statement: ast.Statement) -> NodeType | EdgeType | None:
    name, catalog = statement.type_name, ctx.catalog
    found = catalog.nodes.get(name) or catalog.edges.get(name)
    if found is None:
        hint = did_you_mean(name, [*catalog.nodes, *catalog.edges])
        ctx.report("T10", f"unknown type `{name}`", statement.type_span, hint)
    return found


def _insert(
    ctx: Context, statement: ast.Insert, kind: NodeType | EdgeType
) -> typed.Statement | None:
    if not statement.assignments:
        ctx.report("T10", f"`insert {kind.name}` assigns nothing", statement.span)
        return None
    given = _distinct_names(ctx, statement.assignments)
    if isinstance(kind, NodeType):
        assigned = _assignments(ctx, given, kind)
        _check_required(ctx, statement, kind, given)
        return typed.InsertNode(kind.name, assigned)
    ends = {word: given.pop(word) for word in _ENDS if word in given}
    assigned = _assignments(ctx, given, kind)
    _check_required_edge(ctx, statement, kind, given.keys() | ends.keys())
    values = {word: check_assignment(ctx, item, typed.ID_TYPE) for word, item in ends.items()}
    src, dst = values.get("from"), values.get("to")
    if src is None or dst is None:
        return None
    return typed.InsertEdge(kind.name, src, dst, assigned)


def _update(ctx: Context, statement: ast.Update, kind: NodeType | EdgeType) -> typed.Update | None:
    if not statement.assignments:
        ctx.report("T10", f"`update {kind.name}` assigns nothing", statement.span)
    given = _distinct_names(ctx, statement.assignments)
    ends = _moved_ends(ctx, given) if isinstance(kind, EdgeType) else ()
    free = {name: item for name, item in given.items() if not _is_fixed(ctx, item, kind)}
    assigned = _assignments(ctx, free, kind)
    where = _where(ctx, statement.where, kind)
    return typed.Update(kind.name, isinstance(kind, EdgeType), assigned, where, ends)


def _moved_ends(ctx: Context, given: dict[str, ast.PropertyValue]) -> tuple[typed.Assignment, ...]:
    """Take the ends out of what is assigned: an edge may lead elsewhere and stay the edge it is."""
    moved: list[typed.Assignment] = []
    for word, column in _ENDS.items():
        item = given.pop(word, None)
        value = None if item is None else check_assignment(ctx, item, typed.ID_TYPE)
        if value is not None:
            moved.append(typed.Assignment(column, typed.ID_TYPE, value))
    return tuple(moved)


def _is_fixed(ctx: Context, item: ast.PropertyValue, kind: NodeType | EdgeType) -> bool:
    """Report and tell what makes a row the row it is: keys and ids do not change."""
    again = "delete and re-insert instead"
    if isinstance(kind, NodeType) and item.name in kind.key:
        ctx.report("T16", f"cannot update @key property '{item.name}' — {again}", item.span)
        return True
    if item.name == "id" and item.name not in kind.properties:
        ctx.report("T16", f"cannot update '{item.name}' of {kind.name} — {again}", item.span)
        return True
    return False


def _distinct_names(
    ctx: Context, items: tuple[ast.PropertyValue, ...]
) -> dict[str, ast.PropertyValue]:
    given: dict[str, ast.PropertyValue] = {}
    for item in items:
        if item.name in given:
            ctx.report("T13", f"`{item.name}` is assigned twice", item.span)
        given.setdefault(item.name, item)
    return given


def _assignments(
    ctx: Context, given: dict[str, ast.PropertyValue], kind: NodeType | EdgeType
) -> tuple[typed.Assignment, ...]:
    found: list[typed.Assignment] = []
    for name, item in given.items():
        prop = kind.properties.get(name)
        if prop is None:
            _unknown_property(ctx, name, item.span, kind)
            continue
        value = check_assignment(ctx, item, prop.type)
        if value is not None:
            found.append(typed.Assignment(name, prop.type, value))
    return tuple(found)


def _unknown_property(ctx: Context, name: str, span: Span, kind: NodeType | EdgeType) -> None:
    message = f"{kind.name} has no property `{name}`"
    hint = property_hint(name, kind.properties)
    if name in ("src", "dst") and isinstance(kind, EdgeType):
        word = "from" if name == "src" else "to"
        hint = f"write `{word}`"
    ctx.report("T11", message, span, hint)


def _check_required(
    ctx: Context, statement: ast.Insert, kind: NodeType, given: dict[str, ast.PropertyValue]
) -> None:
    for name, prop in kind.properties.items():
        if prop.type.nullable or name in given or prop.default is not None:
            continue
        embed = kind.embeds.get(name)
        if embed is None or embed.by_hand:
            ctx.report("T12", f"{kind.name} needs `{name}`", statement.span, f"add `{name}: …`")
        elif embed.source not in given:
            message = f"{kind.name} needs `{name}` or its source `{embed.source}`"
            ctx.report("T12", message, statement.span, f"add `{embed.source}: …`")


def _check_required_edge(
    ctx: Context, statement: ast.Insert, kind: EdgeType, given: set[str]
) -> None:
    for word, end in (("from", kind.from_type), ("to", kind.to_type)):
        if word not in given:
            message = f"{kind.name} needs `{word}`, the id of a {end}"
            ctx.report("T12", message, statement.span, f"add `{word}: …`")
    for name, prop in kind.properties.items():
        if not prop.type.nullable and name not in given and prop.default is None:
            ctx.report("T12", f"{kind.name} needs `{name}`", statement.span, f"add `{name}: …`")


# Predicates


def _where(
    ctx: Context, predicates: tuple[ast.Predicate, ...], kind: NodeType | EdgeType
) -> tuple[typed.Predicate, ...]:
    found = (_predicate(ctx, predicate, kind) for predicate in predicates)
    return tuple(predicate for predicate in found if predicate is not None)


def _predicate(
    ctx: Context, predicate: ast.Predicate, kind: NodeType | EdgeType
) -> typed.Predicate | None:
    target = _predicate_column(ctx, predicate, kind)
    if target is None:
        return None
    if isinstance(predicate, ast.PredicateNullTest):
        return typed.IsNull(target, predicate.negated)
    value = resolve_value(ctx, predicate.value)
    if value is None:
        return None
    problem = comparison_problem(target, predicate.op, value)
    if problem is not None:
        ctx.report("T7", problem[0], predicate.span, problem[1])
        return None
    note_enums(ctx, target, predicate.op, value)
    return typed.Compare(target, predicate.op, value)


def _predicate_column(
    ctx: Context, predicate: ast.Predicate, kind: NodeType | EdgeType
) -> typed.Prop | None:
    name = predicate.name
    if isinstance(kind, EdgeType) and name in _ENDS and name not in kind.properties:
        return typed.Prop(typed.ROW, _ENDS[name], typed.ID_TYPE)
    found: PropType | None = column_type(kind, name)
    if found is None or (name in ("src", "dst") and name not in kind.properties):
        _unknown_property(ctx, name, predicate.span, kind)
        return None
    if found.scalar is Scalar.BLOB:
        ctx.report("T11", f"`{name}` is a Blob and cannot be tested", predicate.span)
        return None
    return typed.Prop(typed.ROW, name, found)

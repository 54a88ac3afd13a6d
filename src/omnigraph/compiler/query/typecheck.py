"""The type checker: one query and a catalog to a typed query, or every problem with its place."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.compiler.catalog.model import Catalog
from omnigraph.compiler.diagnostics import DiagnosticList, did_you_mean
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.check_match import check_match, declared_variables
from omnigraph.compiler.query.check_mutation import check_statement
from omnigraph.compiler.query.check_return import check_return
from omnigraph.compiler.query.scope import Context
from omnigraph.compiler.source import Source
from omnigraph.compiler.types import MAX_VECTOR_DIM, PropType, Scalar

_SCALARS = {scalar.value: scalar for scalar in Scalar}


def typecheck(catalog: Catalog, source: Source, query: ast.Query) -> typed.TypedQuery:
    """Return what a query means.

    Raises:
        DiagnosticsError: every independent problem of the query, in source order.
    """
    findings = DiagnosticList(source)
    checked = check_query(catalog, query, findings)
    findings.raise_if_errors()
    return checked


def check_query(catalog: Catalog, query: ast.Query, findings: DiagnosticList) -> typed.TypedQuery:
    """Return what can be said of a query; it means something only if nothing was found."""
    ctx = Context(catalog, findings)
    params = _check_params(ctx, query)
    ctx.params = params
    ctx.broken_params = frozenset(param.name for param in query.params) - params.keys()
    match query.body:
        case ast.ReadBody() as body:
            clauses, scope = check_match(ctx, body.match)
            result = check_return(ctx, body, scope)
            return typed.TypedRead(
                query.name,
                _declared(ctx),
                clauses,
                declared_variables(body.match),
                result.columns,
                body.distinct,
                result.ranking,
                result.order,
                result.limit,
                result.offset,
            )
        case ast.MutationBody() as body:
            statements = [check_statement(ctx, statement) for statement in body.statements]
            kept = tuple(statement for statement in statements if statement is not None)
            return typed.TypedMutation(query.name, _declared(ctx), kept)


def _declared(ctx: Context) -> tuple[typed.Param, ...]:
    """Return the parameters as a caller has to fill them, once all of the query is known."""
    return tuple(
        replace(param, enums=tuple(ctx.enums.get(param.name, ()))) for param in ctx.params.values()
    )


def _check_params(ctx: Context, query: ast.Query) -> dict[str, typed.Param]:
    params: dict[str, typed.Param] = {}
    for param in query.params:
        if param.name in params:
            ctx.report("T26", f"parameter `${param.name}` is declared twice", param.span)
        elif param.name == typed.NOW_PARAM:
            message = f"`${param.name}` is reserved for `now()`"
            ctx.report("T26", message, param.span, "use another name")
        elif param.name == ast.ANONYMOUS:
            ctx.report("T26", "a parameter needs a name, `$_` is none", param.span)
        kind = _param_type(ctx, param)
        if kind is not None:
            params.setdefault(param.name, typed.Param(param.name, kind))
    return params


def _enum_type(ctx: Context, param: ast.Param) -> PropType | None:
    words = param.type.words
    for at, word in enumerate(words):
        if word in words[:at]:
            ctx.report("T26", f"`{word}` stands twice in the enum", param.span)
            return None
    return PropType(Scalar.STRING, nullable=param.type.nullable, enum_values=tuple(sorted(words)))


def _param_type(ctx: Context, param: ast.Param) -> PropType | None:
    written = param.type
    if written.words:
        return _enum_type(ctx, param)
    scalar = _SCALARS.get(written.name)
    if scalar is None:
        hint = did_you_mean(written.name, _SCALARS) or f"the types are {', '.join(_SCALARS)}"
        ctx.report("T26", f"unknown parameter type `{written.name}`", param.span, hint)
        return None
    if (scalar is Scalar.VECTOR) != (written.dim is not None):
        message = "a Vector has a width, and only a Vector does"
        ctx.report("T26", message, param.span, "write for example `Vector(256)`")
        return None
    if written.dim is not None and not 1 <= written.dim <= MAX_VECTOR_DIM:
        message = f"a Vector has 1 to {MAX_VECTOR_DIM} values, not {written.dim}"
        ctx.report("T26", message, param.span)
        return None
    if written.is_list and scalar in (Scalar.VECTOR, Scalar.BLOB):
        ctx.report("T26", f"there are no lists of {scalar}", param.span)
        return None
    return PropType(scalar, nullable=written.nullable, is_list=written.is_list, dim=written.dim)

"""`return`, `order`, `limit` and `offset`: columns, groups, ranking, sort keys."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.check_expr import ExprChecker
from omnigraph.compiler.query.scope import Context, Scope
from omnigraph.compiler.types import INTEGERS, Scalar


@dataclass(frozen=True, slots=True)
class Returned:
    """The checked second half of a read query."""

    columns: tuple[typed.Column, ...]
    ranking: typed.Ranking | None
    order: tuple[typed.OrderKey, ...]
    limit: typed.RowCount | None
    offset: typed.RowCount | None


def check_return(ctx: Context, body: ast.ReadBody, scope: Scope) -> Returned:
    """Check everything behind `match`; problems go to the context."""
    columns, aliases = _check_columns(ctx, body, scope)
    limit = _row_count(ctx, "limit", body.limit)
    offset = _row_count(ctx, "offset", body.offset)
    checker = _OrderChecker(ctx, scope, body, columns, aliases)
    keys = [checker.key(item) for item in body.order]
    _check_mixed_nearest(ctx, body)
    ranking = _ranking(body.order[0], keys[0]) if keys and keys[0] is not None else None
    rest = keys if ranking is None else keys[1:]
    order = tuple(key for key in rest if key is not None)
    return Returned(columns, ranking, order, limit, offset)


# Columns


def _check_columns(
    ctx: Context, body: ast.ReadBody, scope: Scope
) -> tuple[tuple[typed.Column, ...], dict[str, typed.Expr | None]]:
    aliases: dict[str, typed.Expr | None] = {}
    checker = ExprChecker(ctx, scope, aliases)
    grouped = is_grouped(body)
    columns: list[typed.Column] = []
    names: set[str] = set()
    for item in body.projections:
        found = checker.expr(item.expr)
        name = item.alias or column_name(item.expr)
        if name in names:
            message = f"two columns are called `{name}`"
            ctx.report("T28", message, item.span, "rename one: `… as other_name`")
        names.add(name)
        if item.alias is not None:
            aliases.setdefault(item.alias, found)
        if grouped:
            _check_group_key(ctx, item)
        if found is not None and _projectable(ctx, item, found, grouped or body.distinct):
            columns.append(typed.Column(name, found))
    return tuple(columns), aliases


def is_grouped(body: ast.ReadBody) -> bool:
    """Whether the query aggregates."""
    return any(isinstance(item.expr, ast.Aggregate) for item in body.projections)


def column_name(expr: ast.Expr) -> str:
    """Return the name of a column without an alias.

    `$p.age` is `p.age`, `$p` is `p`, `count($f)` is `count(f)`, a score is its function's name.
    """
    match expr:
        case ast.Property():
            return f"{expr.var}.{expr.name}"
        case ast.Variable() | ast.AliasRef():
            return expr.name
        case ast.Literal():
            return "literal"
        case ast.Now():
            return typed.NOW_PARAM
        case ast.Aggregate():
            inner = "*" if expr.arg is None else column_name(expr.arg)
            return f"{expr.fn}({'distinct ' if expr.distinct else ''}{inner})"
        case ast.TextMatch():
            return str(expr.fn)
        case ast.Nearest():
            return "nearest"
        case ast.Bm25():
            return "bm25"
        case ast.Rrf():
            return "rrf"


def _check_group_key(ctx: Context, item: ast.Projection) -> None:
    if isinstance(item.expr, ast.Aggregate | ast.Property | ast.Variable):
        return
    message = (
        "beside an aggregate only properties and variables can be returned: they are the group"
    )
    ctx.report("T9", message, item.expr.span)


def _projectable(ctx: Context, item: ast.Projection, expr: typed.Expr, compared: bool) -> bool:
    """A Blob comes back as a descriptor, so it can be listed but not compared or grouped."""
    if expr.type.scalar is not Scalar.BLOB:
        return True
    if isinstance(expr, typed.Prop) and not compared:
        return True
    message = "a Blob can be returned only as a plain property, without `distinct` or aggregates"
    ctx.report("T24", message, item.expr.span)
    return False


# Order


@dataclass(slots=True)
class _OrderChecker:
    ctx: Context
    scope: Scope
    body: ast.ReadBody
    columns: tuple[typed.Column, ...]
    aliases: dict[str, typed.Expr | None]

    def key(self, item: ast.Ordering) -> typed.OrderKey | None:
        """Return a sort key; an alias stands for the expression it names."""
        if isinstance(item.expr, ast.AliasRef) and item.expr.name not in self.aliases:
            self._unknown_alias(item.expr)
            return None
        expr = ExprChecker(self.ctx, self.scope, self.aliases).expr(item.expr)
        if expr is None or not self._sound(item, expr):
            return None
        return typed.OrderKey(expr, _descending(item, expr))

    def _unknown_alias(self, ref: ast.AliasRef) -> None:
        hint = did_you_mean(ref.name, self.aliases)
        if hint is None:
            plain = [c.name for c in self.columns if c.name.partition(".")[2] == ref.name]
            hint = f"did you mean `${plain[0]}`?" if plain else None
        self.ctx.report("T30", f"no projection is called `{ref.name}`", ref.span, hint)

    def _sound(self, item: ast.Ordering, expr: typed.Expr) -> bool:
        problem = self._problem(item, expr)
        if problem is None:
            return True
        self.ctx.report(problem[0], problem[1], item.span, problem[2])
        return False

    def _problem(self, item: ast.Ordering, expr: typed.Expr) -> tuple[str, str, str | None] | None:
        if expr.type.scalar is Scalar.BLOB:
            return "T24", "a Blob cannot be ordered", None
        if expr.type.is_list or expr.type.scalar is Scalar.VECTOR:
            return "T30", f"{expr.type} has no order", None
        if isinstance(expr, typed.Nearest | typed.Rrf) and self.body.limit is None:
            name = "nearest" if isinstance(expr, typed.Nearest) else "rrf"
            code = "T17" if name == "nearest" else "T21"
            return code, f"ordering by `{name}` needs a `limit`", "add `limit 10`"
        if isinstance(expr, typed.Nearest) and item.direction is ast.SortDirection.DESC:
            return "T18", "`nearest` orders the closest first and takes no `desc`", None
        # With a broken projection nobody knows what is returned; it was reported already.
        whole = len(self.columns) == len(self.body.projections)
        projected = not whole or any(column.expr == expr for column in self.columns)
        grouped = is_grouped(self.body)
        if self.body.distinct and not projected:
            return "T30", "with `distinct` an order key must be returned", "add it to `return`"
        if isinstance(expr, typed.Aggregate):
            return None if grouped else ("T30", "this query has no groups to aggregate", None)
        if grouped and not projected:
            return (
                "T30",
                "an aggregate query is ordered by its columns or by aggregates",
                "add the key to `return`",
            )
        return None


def _descending(item: ast.Ordering, expr: typed.Expr) -> bool:
    """Without a written direction a score comes best first, everything else ascending."""
    if item.direction is None:
        return isinstance(expr, typed.Bm25 | typed.Rrf)
    return item.direction is ast.SortDirection.DESC


def _ranking(item: ast.Ordering, key: typed.OrderKey) -> typed.Ranking | None:
    """Return the ranking when the first order key is a score."""
    match key.expr:
        case typed.Nearest():  # ascending distance is best first, and the only direction
            return typed.Ranking(key.expr)
        case typed.Bm25() | typed.Rrf():
            return typed.Ranking(key.expr, item.direction is not ast.SortDirection.ASC)
        case _:
            return None


def _check_mixed_nearest(ctx: Context, body: ast.ReadBody) -> None:
    if not any(isinstance(item.expr, ast.Nearest) for item in body.order):
        return
    for item in body.order:
        if isinstance(item.expr, ast.AliasRef):
            message = "`nearest` ordering cannot be mixed with an alias"
            ctx.report("T18", message, item.span, "order by the property itself")


# Row counts


def _row_count(ctx: Context, word: str, operand: ast.RowCount | None) -> typed.RowCount | None:
    match operand:
        case None:
            return None
        case ast.Literal(value=int(value)):
            if value < 0:
                ctx.report("T29", f"`{word}` cannot be negative", operand.span)
            return value
        case ast.Variable():
            param = ctx.params.get(operand.name)
            if param is None and not ctx.is_param(operand.name):
                hint = did_you_mean(operand.name, ctx.params)
                hint = hint or f"declare it: `${operand.name}: I64`"
                message = (
                    f"`{word}` needs a number or a parameter; `${operand.name}` is not declared"
                )
                ctx.report("T29", message, operand.span, hint)
            elif param and (param.type.scalar not in INTEGERS or param.type.is_list):
                message = f"`{word}` needs an integer, `${param.name}` is {param.type}"
                ctx.report("T29", message, operand.span)
            return param
        case _:
            raise AssertionError(operand)

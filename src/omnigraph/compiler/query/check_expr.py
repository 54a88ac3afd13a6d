"""Types of expressions and predicates; an expression that was reported comes back as None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.compiler.catalog.model import EdgeType
from omnigraph.compiler.diagnostics import did_you_mean
from omnigraph.compiler.operations import AggregateFn, TextFn
from omnigraph.compiler.query import ast, typed
from omnigraph.compiler.query.literals import ListLiteralError, as_vector, infer, is_vector_literal
from omnigraph.compiler.query.scope import (
    Context,
    Scope,
    Unknown,
    VarType,
    column_type,
    property_hint,
    variable_hint,
)
from omnigraph.compiler.source import Span
from omnigraph.compiler.types import INTEGERS, PropType, Scalar

DEFAULT_RRF_K = typed.Literal(60, PropType(Scalar.I64))
_ORDERED_AGGREGATES = frozenset({AggregateFn.MIN, AggregateFn.MAX})
_VALUE_AGGREGATES = frozenset(AggregateFn) - {AggregateFn.COUNT}


@dataclass(slots=True)
class ExprChecker:
    """Checks expressions of one clause list, or of `return` and `order` when aliases are given."""

    ctx: Context
    scope: Scope
    aliases: Mapping[str, typed.Expr | None] | None = None
    used: set[str] = field(default_factory=set)

    def expr(self, expr: ast.Expr) -> typed.Expr | None:
        """Return the typed expression, aggregates included."""
        match expr:
            case ast.Aggregate():
                return self.aggregate(expr)
            case ast.AliasRef():
                return self.alias(expr)
            case _:
                return self.scalar(expr)

    def scalar(self, expr: ast.Expr) -> typed.Scalarish | None:
        """Return the typed value of one row; aggregates are refused."""
        match expr:
            case ast.Literal():
                return self.literal(expr)
            case ast.Now():
                return typed.Param(typed.NOW_PARAM, typed.NOW_TYPE)
            case ast.Variable():
                return self.variable(expr)
            case ast.Property():
                return self.property(expr)
            case ast.TextMatch():
                return self.text(expr)
            case ast.Nearest():
                return self.nearest(expr)
            case ast.Bm25():
                return self.bm25(expr)
            case ast.Rrf():
                return self.rrf(expr)
            case ast.AliasRef():
                found = self.alias(expr)
                if isinstance(found, typed.Aggregate):
                    message = f"`{expr.name}` is an aggregate, which cannot stand here"
                    self.ctx.report("T8", message, expr.span)
                    return None
                return found
            case ast.Aggregate():
                self.ctx.report("T8", f"`{expr.fn}` cannot stand here", expr.span)
                return None
            case _:
                assert_never(expr)

    def literal(self, literal: ast.Literal) -> typed.Literal | None:
        """Return a literal with its own type."""
        try:
            return infer(literal)
        except ListLiteralError as error:
            self.ctx.report("T27", str(error), literal.span)
        except ValueError as error:
            self.ctx.report("T3", str(error), literal.span)
        return None

    def variable(self, var: ast.Variable) -> typed.Scalarish | None:
        """Return a parameter's value, or the id of a bound node or edge; parameters win."""
        param = self.ctx.params.get(var.name)
        if param is not None or var.name in self.ctx.broken_params:
            return param
        if self._resolve(var.name, var.span) is None:
            return None
        return typed.Prop(var.name, "id", typed.ID_TYPE)

    def is_entity(self, expr: ast.Expr) -> bool:
        """Whether an expression is a bare node or edge variable."""
        return isinstance(expr, ast.Variable) and not self.ctx.is_param(expr.name)

    def property(self, prop: ast.Property, code: str = "T6") -> typed.Prop | None:
        """Return a column of a bound variable."""
        kind = self._resolve(prop.var, prop.span, code)
        if kind is None or isinstance(kind, Unknown):
            return None
        found = column_type(kind, prop.name)
        if found is None:
            message = f"{kind.name} has no property `{prop.name}`"
            self.ctx.report(code, message, prop.span, property_hint(prop.name, kind.properties))
            return None
        return typed.Prop(prop.var, prop.name, found)

    def _resolve(self, name: str, span: Span, code: str = "T6") -> VarType | None:
        self.used.add(name)
        found = self.scope.find(name)
        if found is None:
            if name == ast.ANONYMOUS:
                hint = "give the variable a name to use it"
            else:
                hint = variable_hint(name, self.scope, self.ctx.params)
            self.ctx.report(code, f"variable `${name}` is not bound", span, hint)
        return found

    def alias(self, ref: ast.AliasRef) -> typed.Expr | None:
        """Return the expression an alias stands for."""
        if self.aliases is None:
            if ref.name == "null":
                hint = "write `is null` or `is not null`"
            elif ref.name in self.scope.types or ref.name in self.ctx.params:
                hint = f"did you mean `${ref.name}`?"
            else:
                hint = "strings stand in double quotes"
            message = f"`{ref.name}` is not a value; aliases are not visible in `match`"
            self.ctx.report("T7", message, ref.span, hint)
            return None
        if ref.name not in self.aliases:
            self._unknown_alias(ref, self.aliases)
            return None
        return self.aliases[ref.name]

    def _unknown_alias(self, ref: ast.AliasRef, aliases: Mapping[str, object]) -> None:
        hint = did_you_mean(ref.name, aliases)
        if hint is None and ref.name in self.scope.types:
            hint = f"did you mean `${ref.name}`?"
        self.ctx.report("T6", f"no projection is called `{ref.name}`", ref.span, hint)

    # Search functions

    def text(self, call: ast.TextMatch) -> typed.TextMatch | None:
        """Return a text test of a String property."""
        code = "T20" if call.fn is TextFn.MATCH_TEXT else "T19"
        target = self._text_target(call.fn, call.target, code)
        query = self._text_query(call.fn, call.query, code)
        edits: typed.Literal | typed.Param | None = None
        if call.max_edits is not None:
            edits = self._whole_number("max_edits", call.max_edits, "T19", lowest=0)
            if edits is None:
                return None
        if target is None or query is None:
            return None
        return typed.TextMatch(call.fn, target, query, edits)

    def bm25(self, call: ast.Bm25, code: str = "T20") -> typed.Bm25 | None:
        """Return the relevance of a String property."""
        target = self._text_target("bm25", call.target, code)
        query = self._text_query("bm25", call.query, code)
        return None if target is None or query is None else typed.Bm25(target, query)

    def nearest(self, call: ast.Nearest) -> typed.Nearest | None:
        """Return the distance of a vector property; a String query is embedded later."""
        target = self.property(call.target, "T15")
        if target is None or not self._on_node("nearest", target, call.target.span):
            return None
        kind = target.type
        if kind.scalar is not Scalar.VECTOR:
            message = f"`nearest` needs a Vector property, `${target.var}.{target.name}` is {kind}"
            self.ctx.report("T15", message, call.target.span)
            return None
        query = self._vector_query(call.query, kind)
        if query is None:
            return None
        score = PropType(Scalar.F64, nullable=kind.nullable)
        return typed.Nearest(target, query, score, call.approximate)

    def _vector_query(self, query: ast.Expr, kind: PropType) -> typed.Literal | typed.Param | None:
        if isinstance(query, ast.Literal) and is_vector_literal(query):
            try:
                return as_vector(query, kind.dim)
            except ValueError as error:
                self.ctx.report("T15", str(error), query.span)
                return None
        found = self.scalar(query)
        if found is None:
            return None
        if isinstance(found, typed.Literal | typed.Param) and not self.is_entity(query):
            given = found.type
            if given.is_plain_string or (given.scalar is Scalar.VECTOR and given.dim == kind.dim):
                return found
            message = f"`nearest` compares {kind.required()} with {given}"
        else:
            message = "the query of `nearest` must be a parameter or a literal"
        hint = f"pass a {kind.required()} or a String, which is embedded"
        self.ctx.report("T15", message, query.span, hint)
        return None

    def rrf(self, call: ast.Rrf) -> typed.Rrf | None:
        """Return the fused score of two rankings of one variable."""
        first, second = self._arm(call.first), self._arm(call.second)
        k: typed.Literal | typed.Param | None = DEFAULT_RRF_K
        if call.k is not None:
            k = self._whole_number("k", call.k, "T21", lowest=1)
        if first is None or second is None or k is None:
            return None
        if first.var != second.var:
            both = f"`${first.var}` and `${second.var}`"
            message = f"`rrf` fuses two rankings of one variable, not of {both}"
            self.ctx.report("T21", message, call.span)
            return None
        return typed.Rrf(first, second, k)

    def _arm(self, arm: ast.Nearest | ast.Bm25) -> typed.Nearest | typed.Bm25 | None:
        return self.nearest(arm) if isinstance(arm, ast.Nearest) else self.bm25(arm)

    def _text_target(self, fn: str, target: ast.Expr, code: str) -> typed.Prop | None:
        found = self.scalar(target)
        if found is None:
            return None
        if not isinstance(found, typed.Prop) or self.is_entity(target):
            hint = "for example `$d.title`"
            self.ctx.report(code, f"`{fn}` searches a String property", target.span, hint)
            return None
        if not self._on_node(fn, found, target.span):
            return None
        if not found.type.is_plain_string:
            message = f"`{fn}` searches a String property, this is {found.type}"
            self.ctx.report(code, message, target.span)
            return None
        return found

    def _on_node(self, fn: str, prop: typed.Prop, span: Span) -> bool:
        if isinstance(self.scope.find(prop.var), EdgeType):
            self.ctx.report(
                "T23", f"`{fn}` works on node properties, `${prop.var}` is an edge", span
            )
            return False
        return True

    def _text_query(
        self, fn: str, query: ast.Expr, code: str
    ) -> typed.Literal | typed.Param | None:
        found = self.scalar(query)
        if found is None:
            return None
        if not isinstance(found, typed.Literal | typed.Param) or self.is_entity(query):
            message = f"the query of `{fn}` must be a String parameter or literal"
            self.ctx.report(code, message, query.span)
            return None
        if not found.type.is_plain_string:
            message = f"the query of `{fn}` must be a String, this is {found.type}"
            self.ctx.report(code, message, query.span)
            return None
        return found

    def _whole_number(
        self, what: str, expr: ast.Expr, code: str, lowest: int
    ) -> typed.Literal | typed.Param | None:
        found = self.scalar(expr)
        if found is None:
            return None
        whole = found.type.scalar in INTEGERS and not found.type.is_list
        if not isinstance(found, typed.Literal | typed.Param) or not whole:
            message = f"`{what}` must be an integer parameter or literal, this is {found.type}"
            self.ctx.report(code, message, expr.span)
            return None
        if (
            isinstance(found, typed.Literal)
            and isinstance(found.value, int)
            and found.value < lowest
        ):
            message = f"`{what}` must be at least {lowest}, this is {found.value}"
            self.ctx.report(code, message, expr.span)
            return None
        return found

    # Aggregates

    def aggregate(self, call: ast.Aggregate) -> typed.Aggregate | None:
        """Return an aggregate over rows; only `count` takes nodes and edges."""
        if call.arg is None:
            return typed.Aggregate(call.fn, None, typed.COUNT_TYPE)
        if call.fn in _VALUE_AGGREGATES and self.is_entity(call.arg):
            message = f"`{call.fn}` needs a value, not a node or an edge"
            hint = "name a property, for example `$p.age`"
            self.ctx.report("T8", message, call.arg.span, hint)
            return None
        arg = self.scalar(call.arg)
        if arg is None:
            return None
        kind = arg.type
        if kind.scalar is Scalar.BLOB:
            self.ctx.report("T24", "a Blob cannot be aggregated", call.arg.span)
            return None
        if call.fn is AggregateFn.COUNT:
            return typed.Aggregate(call.fn, arg, typed.COUNT_TYPE, call.distinct)
        if call.fn in _ORDERED_AGGREGATES:
            if kind.is_list or kind.scalar is Scalar.VECTOR:
                message = f"`{call.fn}` needs single values in an order, this is {kind}"
                self.ctx.report("T8", message, call.arg.span)
                return None
            result = PropType(kind.scalar, nullable=True, enum_values=kind.enum_values)
            return typed.Aggregate(call.fn, arg, result)
        if not kind.is_numeric:
            self.ctx.report("T8", f"`{call.fn}` needs a number, this is {kind}", call.arg.span)
            return None
        return typed.Aggregate(call.fn, arg, PropType(Scalar.F64, nullable=True))

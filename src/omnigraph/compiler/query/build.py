"""Grammar reductions to AST nodes. Called by Lark while it parses, so no tree is ever built.

Checks only what belongs to spelling: escapes, digits, variable names, annotation names.
"""

# ruff: noqa: D102 - a method is described by the grammar rule of its name
from __future__ import annotations

import re
from typing import Any, NoReturn

from lark import Transformer

from omnigraph.compiler.diagnostics import Diagnostic, Phase, did_you_mean
from omnigraph.compiler.operations import AggregateFn, CompareOp, TextFn
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.lexer import QueryToken as Token
from omnigraph.compiler.source import Span
from omnigraph.compiler.syntax import tokens, unescape
from omnigraph.compiler.types import INTEGER_BOUNDS, Scalar

_META = ("description", "instruction")
_ENUM_WORD = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MIN_INT, _MAX_INT = INTEGER_BOUNDS[Scalar.I64][0], INTEGER_BOUNDS[Scalar.U64][1]


class RefusedError(Exception):
    """The text fits the grammar but is misspelled; carries what to report."""

    def __init__(self, found: Diagnostic) -> None:
        self.found = found
        super().__init__(found.message)


def _refuse(code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
    raise RefusedError(Diagnostic(code, Phase.PARSE, message, span, hint))


def _span(first: Token, last: Token | None = None) -> Span:
    return Span(first.start_pos, (last or first).end_pos)


def _name(token: Token) -> str:
    """Return the name of a `$variable`."""
    if not (token.value[1].islower() or token.value[1] == "_"):
        lowered = f"${token.value[1].lower()}{token.value[2:]}"
        _refuse(
            "P014",
            f"variable `{token.value}` must start with a lowercase letter or `_`",
            _span(token),
            f"write `{lowered}`",
        )
    return token.value[1:]


def _text(token: Token) -> str:
    try:
        return unescape(token.value)
    except ValueError as error:
        # unescape counts from behind the opening quote, at the character after the backslash
        at = token.start_pos + error.args[0]
        _refuse(
            "P011",
            f"unsupported escape sequence `\\{token.value[error.args[0] + 1]}`",
            Span(at, at + 2),
            'the escapes are `\\"`, `\\\\`, `\\n`, `\\r` and `\\t`',
        )


def _int(token: Token) -> int:
    # Measured before converting: Python refuses to convert thousands of digits.
    value = int(token.value) if len(token.value) <= 20 else None
    if value is None or not _MIN_INT <= value <= _MAX_INT:
        _refuse("P013", "this integer does not fit 64 bits", _span(token))
    return value


def _count(token: Token) -> int:
    value = _int(token)
    if value < 0:
        _refuse("P013", "a negative number cannot stand here", _span(token))
    return value


def _negated(token: Token) -> bool:
    """Whether `is null` has a `not`; comments may stand between its words."""
    return any(part.kind == "word" and part.text == "not" for part in tokens(token.value))


class AstBuilder(Transformer[Any, ast.Query]):
    """One method per grammar rule; children are tokens and already built nodes."""

    def start(self, children: list[Any]) -> ast.Query | None:
        return children[0] if children else None

    def query(self, children: list[Any]) -> ast.Query:
        keyword, name, *middle, body, closer = children
        params = tuple(part for part in middle if isinstance(part, ast.Param))
        meta: dict[str, str] = {}
        for word, text in (part for part in middle if isinstance(part, tuple)):
            if word.value in meta:
                _refuse("P016", f"`@{word.value}` is written twice", _span(word))
            meta[word.value] = text
        return ast.Query(
            name.value,
            params,
            body,
            meta.get("description"),
            meta.get("instruction"),
            _span(keyword, closer),
            _span(name),
        )

    def meta(self, children: list[Any]) -> tuple[Token, str]:
        word, text = children
        if word.value not in _META:
            _refuse(
                "P015",
                f"queries take no annotation `@{word.value}`",
                _span(word),
                did_you_mean(word.value, _META) or "use `@description` or `@instruction`",
            )
        return word, _text(text)

    def param(self, children: list[Any]) -> ast.Param:
        var, (kind, last) = children
        return ast.Param(_name(var), kind, _span(var, last))

    def list_type(self, children: list[Token]) -> tuple[ast.ParamType, Token]:
        name, nullable = children[0], len(children) > 2
        return ast.ParamType(name.value, is_list=True, nullable=nullable), children[-1]

    def scalar_type(self, children: list[Token]) -> tuple[ast.ParamType, Token]:
        return ast.ParamType(children[0].value, nullable=len(children) > 1), children[-1]

    def vector_type(self, children: list[Token]) -> tuple[ast.ParamType, Token]:
        name, dim = children[0], _count(children[1])
        return ast.ParamType(name.value, nullable=len(children) > 3, dim=dim), children[-1]

    def enum_type(self, children: list[Token]) -> tuple[ast.ParamType, Token]:
        words, nullable = _enum_words(children[0]), len(children) > 1
        return ast.ParamType("enum", nullable=nullable, words=words), children[-1]

    # Read body

    def read(self, children: list[Any]) -> ast.ReadBody:
        (clauses, (distinct, projections), *rest) = children
        order: tuple[ast.Ordering, ...] = ()
        rows: dict[str, ast.RowCount] = {}
        for part in rest:
            if isinstance(part, tuple) and isinstance(part[0], Token):
                word, operand = part
                if word.value in rows:
                    _refuse("P016", f"`{word.value}` is written twice", _span(word))
                rows[word.value] = operand
            else:
                order = part
        return ast.ReadBody(
            clauses, projections, distinct, order, rows.get("limit"), rows.get("offset")
        )

    def match(self, children: list[Any]) -> tuple[ast.Clause, ...]:
        return tuple(children[1:])

    def returns(self, children: list[Any]) -> tuple[bool, tuple[ast.Projection, ...]]:
        distinct = isinstance(children[1], Token)
        return distinct, tuple(children[2:] if distinct else children[1:])

    def projection(self, children: list[Any]) -> ast.Projection:
        expr = children[0]
        if len(children) == 1:
            return ast.Projection(expr, None, expr.span)
        alias = children[2]
        return ast.Projection(expr, alias.value, Span(expr.span.start, alias.end_pos))

    def order(self, children: list[Any]) -> tuple[ast.Ordering, ...]:
        return tuple(children[1:])

    def ordering(self, children: list[Any]) -> ast.Ordering:
        expr = children[0]
        if len(children) == 1:
            return ast.Ordering(expr, None, expr.span)
        direction = children[1]
        return ast.Ordering(
            expr,
            ast.SortDirection(direction.value),
            Span(expr.span.start, direction.end_pos),
        )

    def ordering_var(self, children: list[Any]) -> ast.Ordering:
        return self.ordering([self.variable(children[:1]), *children[1:]])

    def direction(self, children: list[Token]) -> Token:
        return children[0]

    def rows(self, children: list[Token]) -> tuple[Token, ast.RowCount]:
        word, operand = children
        if operand.type == "VAR":
            return word, ast.Variable(_name(operand), _span(operand))
        return word, ast.Literal(ast.LiteralKind.INT, _int(operand), _span(operand))

    # Clauses

    def negation(self, children: list[Any]) -> ast.Negation:
        return ast.Negation(tuple(children[1:-1]), _span(children[0], children[-1]))

    def binding(self, children: list[Any]) -> ast.Binding:
        var, kind, *rest = children
        matches = tuple(rest[:-1])
        return ast.Binding(_name(var), kind.value, matches, _span(var, kind), _span(kind))

    def match_item(self, children: list[Any]) -> ast.PropertyValue:
        name, value = children
        return ast.PropertyValue(name.value, value, Span(name.start_pos, value.span.end))

    assignment = match_item

    def traversal(self, children: list[Any]) -> ast.Traversal:
        src, dst = children[0], children[-1]
        edge_var: Token | None = None
        bounds: ast.HopBounds | None = None
        edge, undirected, edge_span = "", False, ast.NOWHERE
        for part in children[1:-1]:
            match part:
                case Token():
                    edge_var = part
                case ast.HopBounds():
                    bounds = part
                case _:
                    edge, undirected, edge_span = part
        return ast.Traversal(
            _name(src),
            edge,
            _name(dst),
            None if edge_var is None else _name(edge_var),
            undirected,
            bounds,
            _span(src, dst),
            edge_span,
            ast.NOWHERE if edge_var is None else _span(edge_var),
            _span(dst),
        )

    def edge_var(self, children: list[Token]) -> Token:
        return children[0]

    def edge(self, children: list[Token]) -> tuple[str, bool, Span]:
        word = children[0]
        if word.type != "UNDIRECTED":
            return word.value, False, _span(word)
        return _inner_word(word.value), True, _span(word)

    def bounds(self, children: list[Token]) -> ast.HopBounds:
        opener, low, *high, closer = children
        top = _count(high[0]) if high else None
        return ast.HopBounds(_count(low), top, _span(opener, closer))

    def filter(self, children: list[Any]) -> ast.Filter:
        left, op, right = children
        span = Span(left.span.start, right.span.end)
        return ast.Filter(left, CompareOp(op.value), right, span)

    def filter_var(self, children: list[Any]) -> ast.Filter:
        return self.filter([self.variable(children[:1]), *children[1:]])

    def null_test(self, children: list[Any]) -> ast.NullTest:
        operand, test = children
        return ast.NullTest(operand, _negated(test), Span(operand.span.start, test.end_pos))

    def null_test_var(self, children: list[Any]) -> ast.NullTest:
        return self.null_test([self.variable(children[:1]), children[1]])

    def compare(self, children: list[Token]) -> Token:
        return children[0]

    word_op = compare

    # Expressions

    def variable(self, children: list[Token]) -> ast.Variable:
        return ast.Variable(_name(children[0]), _span(children[0]))

    def property_access(self, children: list[Token]) -> ast.Property:
        var, name = children
        return ast.Property(_name(var), name.value, _span(var, name))

    def alias_ref(self, children: list[Token]) -> ast.AliasRef:
        return ast.AliasRef(children[0].value, _span(children[0]))

    def now(self, children: list[Token]) -> ast.Now:
        return ast.Now(_span(children[0], children[-1]))

    def nearest(self, children: list[Any]) -> ast.Nearest:
        word, target, query, *approximate, closer = children
        return ast.Nearest(target, query, bool(approximate), _span(word, closer))

    def text(self, children: list[Any]) -> ast.TextMatch:
        word, field, query, *edits, closer = children
        fn = TextFn(word.value)
        if edits and fn is not TextFn.FUZZY:
            _refuse("P010", f"`{fn}` takes two arguments", edits[0].span)
        return ast.TextMatch(fn, field, query, edits[0] if edits else None, _span(word, closer))

    def bm25(self, children: list[Any]) -> ast.Bm25:
        word, field, query, closer = children
        return ast.Bm25(field, query, _span(word, closer))

    def rrf(self, children: list[Any]) -> ast.Rrf:
        word, first, second, *k, closer = children
        return ast.Rrf(first, second, k[0] if k else None, _span(word, closer))

    def aggregate(self, children: list[Any]) -> ast.Aggregate:
        word, arg, closer = children
        return ast.Aggregate(AggregateFn(word.value), arg, span=_span(word, closer))

    def aggregate_distinct(self, children: list[Any]) -> ast.Aggregate:
        word, _, arg, closer = children
        if word.value != "count":
            _refuse(
                "P010", f"`distinct` stands only in `count`, not in `{word.value}`", _span(word)
            )
        return ast.Aggregate(AggregateFn.COUNT, arg, distinct=True, span=_span(word, closer))

    def aggregate_rows(self, children: list[Any]) -> ast.Aggregate:
        word, closer = children
        if word.value != "count":
            _refuse("P010", f"`*` stands only in `count`, not in `{word.value}`", _span(word))
        return ast.Aggregate(AggregateFn.COUNT, None, span=_span(word, closer))

    # Literals

    def string_literal(self, children: list[Token]) -> ast.Literal:
        return ast.Literal(ast.LiteralKind.STRING, _text(children[0]), _span(children[0]))

    def int_literal(self, children: list[Token]) -> ast.Literal:
        return ast.Literal(ast.LiteralKind.INT, _int(children[0]), _span(children[0]))

    def float_literal(self, children: list[Token]) -> ast.Literal:
        value = float(children[0].value)
        if value in (float("inf"), float("-inf")):
            _refuse("P013", "this number does not fit a 64-bit float", _span(children[0]))
        return ast.Literal(ast.LiteralKind.FLOAT, value, _span(children[0]))

    def bool_literal(self, children: list[Token]) -> ast.Literal:
        return ast.Literal(ast.LiteralKind.BOOL, children[0].value == "true", _span(children[0]))

    def date_literal(self, children: list[Token]) -> ast.Literal:
        word, text, closer = children
        kind = ast.LiteralKind.DATE if word.value == "date" else ast.LiteralKind.DATETIME
        return ast.Literal(kind, _text(text), _span(word, closer))

    def list_literal(self, children: list[Any]) -> ast.Literal:
        opener, *items, closer = children
        return ast.Literal(ast.LiteralKind.LIST, tuple(items), _span(opener, closer))

    # Mutations

    def mutation(self, children: list[Any]) -> ast.MutationBody:
        return ast.MutationBody(tuple(children))

    def insert(self, children: list[Any]) -> ast.Insert:
        word, kind, *assignments, closer = children
        return ast.Insert(kind.value, tuple(assignments), _span(word, closer), _span(kind))

    def update(self, children: list[Any]) -> ast.Update:
        word, kind, _, *assignments, where = children
        span = Span(word.start_pos, where[-1].span.end)
        return ast.Update(kind.value, tuple(assignments), where, span, _span(kind))

    def delete(self, children: list[Any]) -> ast.Delete:
        word, kind, where = children
        return ast.Delete(kind.value, where, Span(word.start_pos, where[-1].span.end), _span(kind))

    def where(self, children: list[Any]) -> tuple[ast.Predicate, ...]:
        return tuple(children[1::2])

    def predicate(self, children: list[Any]) -> ast.PredicateCompare:
        name, op, value = children
        span = Span(name.start_pos, value.span.end)
        return ast.PredicateCompare(name.value, CompareOp(op.value), value, span)

    def predicate_null(self, children: list[Token]) -> ast.PredicateNullTest:
        name, test = children
        return ast.PredicateNullTest(name.value, _negated(test), _span(name, test))


def _enum_words(token: Token) -> tuple[str, ...]:
    """Return the words of `enum(a, b-c)`; they may hold hyphens, so they are one token here."""
    inside = _COMMENT.sub(" ", token.value[token.value.index("(") + 1 : -1])
    words = tuple(word.strip() for word in inside.split(","))
    for word in words:
        if not _ENUM_WORD.fullmatch(word):
            what = f"`{word}` is not a word of an enum" if word else "a word of the enum is missing"
            _refuse("P010", what, _span(token), "write for example `enum(open, closed)`")
    return words


def _inner_word(undirected: str) -> str:
    """Return the edge word inside `<word>`, where space and comments may surround it."""
    return next(token.text for token in tokens(undirected) if token.kind == "word")

"""Random query ASTs, and their text in random layouts; an independent spelling of the grammar."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.compiler.operations import AggregateFn, CompareOp, TextFn
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.ast import (
    Aggregate,
    AliasRef,
    Binding,
    Bm25,
    Delete,
    Filter,
    HopBounds,
    Insert,
    Literal,
    LiteralKind,
    MutationBody,
    Nearest,
    Negation,
    Now,
    NullTest,
    Ordering,
    Param,
    ParamType,
    PredicateCompare,
    PredicateNullTest,
    Projection,
    Property,
    PropertyValue,
    Query,
    QueryFile,
    ReadBody,
    Rrf,
    SortDirection,
    TextMatch,
    Traversal,
    Update,
    Variable,
)
from omnigraph.compiler.syntax import quote

# Names that are keywords somewhere must be free everywhere else.
WORDS = [
    "a",
    "name",
    "is",
    "query",
    "match",
    "limit",
    "order",
    "count",
    "set",
    "_x",
    "camelCase",
    "date",
]
names = st.sampled_from(WORDS)
aliases = st.sampled_from(["a", "is", "total", "limit", "order", "count", "_x", "query", "delete"])
variables = st.sampled_from(["p", "q", "f", "_", "_a", "match", "w2"])
types = st.sampled_from(["Person", "Company", "A", "String"])
texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x00", exclude_categories=("Cc", "Cs")),
    max_size=6,
)

scalars = st.one_of(
    texts.map(lambda text: Literal(LiteralKind.STRING, text)),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Literal(LiteralKind.INT, value)),
    st.sampled_from([0.5, -1.25, 100.0]).map(lambda value: Literal(LiteralKind.FLOAT, value)),
    st.booleans().map(lambda value: Literal(LiteralKind.BOOL, value)),
    texts.map(lambda text: Literal(LiteralKind.DATE, text)),
    texts.map(lambda text: Literal(LiteralKind.DATETIME, text)),
)
lists = st.lists(scalars, max_size=3).map(lambda items: Literal(LiteralKind.LIST, tuple(items)))
literals = st.one_of(scalars, lists)
values = st.one_of(literals, st.builds(Variable, variables), st.just(Now()))
properties = st.builds(Property, variables, names)
# Deferred, because hypothesis prints a strategy in full and this one is in all others.
plain = st.deferred(
    lambda: st.one_of(
        properties,
        st.builds(Variable, variables),
        literals,
        st.just(Now()),
        st.builds(AliasRef, aliases),
    )
)
nearest = st.builds(Nearest, properties, plain)
bm25 = st.builds(Bm25, plain, plain)
fuzzy = st.builds(TextMatch, st.just(TextFn.FUZZY), plain, plain, st.none() | plain)
texts_of = st.builds(
    TextMatch, st.sampled_from([TextFn.SEARCH, TextFn.MATCH_TEXT]), plain, plain, st.none()
)
text_calls = st.one_of(fuzzy, texts_of)
rrf = st.builds(Rrf, nearest | bm25, nearest | bm25, st.none() | plain)
aggregates = st.one_of(
    st.builds(Aggregate, st.sampled_from(AggregateFn), plain, st.just(False)),
    st.builds(Aggregate, st.just(AggregateFn.COUNT), plain, st.booleans()),
    st.just(Aggregate(AggregateFn.COUNT, None)),
)
exprs = st.deferred(lambda: st.one_of(plain, nearest, bm25, text_calls, rrf, aggregates))

items = st.lists(st.builds(PropertyValue, names, values), max_size=3).map(tuple)
bindings = st.builds(Binding, variables, types, items)
bounds = st.builds(HopBounds, st.integers(0, 9), st.none() | st.integers(0, 9))
traversals = st.builds(
    Traversal, variables, names, variables, st.none() | variables, st.booleans(), st.none() | bounds
)
SYMBOLS = [op for op in CompareOp if not op[0].isalpha()]


@st.composite
def filters(draw) -> Filter:
    left = draw(exprs)
    ops = SYMBOLS if isinstance(left, Variable) else list(CompareOp)
    return Filter(left, draw(st.sampled_from(ops)), draw(exprs))


clauses = st.recursive(
    st.one_of(
        bindings, traversals, filters(), st.builds(NullTest, exprs, st.booleans()), text_calls
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda found: Negation(tuple(found))),
    max_leaves=4,
)
projections = st.builds(Projection, exprs, st.none() | aliases)


@st.composite
def orderings(draw) -> Ordering:
    expr = draw(exprs)
    direction = (
        None if isinstance(expr, Nearest) else draw(st.none() | st.sampled_from(SortDirection))
    )
    return Ordering(expr, direction)


row_counts = st.none() | st.one_of(
    st.builds(Variable, variables), st.integers(-5, 50).map(lambda n: Literal(LiteralKind.INT, n))
)


def many(strategy, low: int = 1, high: int = 3):
    return st.lists(strategy, min_size=low, max_size=high).map(tuple)


reads = st.builds(
    ReadBody,
    many(clauses),
    many(projections),
    st.booleans(),
    many(orderings(), 0),
    row_counts,
    row_counts,
)
predicates = st.one_of(
    st.builds(PredicateCompare, names, st.sampled_from([*SYMBOLS, CompareOp.IN]), values),
    st.builds(PredicateNullTest, names, st.booleans()),
)
statements = st.one_of(
    st.builds(Insert, types, items),
    st.builds(Update, types, items, many(predicates)),
    st.builds(Delete, types, many(predicates)),
)
mutations = many(statements).map(MutationBody)
param_types = st.one_of(
    st.builds(ParamType, types, st.booleans(), st.booleans()),
    st.builds(ParamType, st.just("Vector"), st.just(False), st.booleans(), st.integers(0, 4096)),
)
params = st.builds(Param, variables, param_types)
# Declarations are told apart by the word `query`, so it cannot name one.
query_names = st.sampled_from(
    [*(word for word in WORDS if word != "query"), "search", "nearest", "now", "bm25"]
)
queries = st.builds(
    Query, query_names, many(params, 0), reads | mutations, st.none() | texts, st.none() | texts
)
files = st.lists(queries, max_size=3, unique_by=lambda query: query.name).map(
    lambda found: QueryFile(tuple(found))
)


def tokens_of(file: QueryFile) -> list[str]:
    """Return the words and signs of a file, in order, without any space."""
    return [token for query in file.queries for token in _query(query)]


def _query(query: Query) -> list[str]:
    out = ["query", query.name, "("]
    out += _joined([_param(param) for param in query.params])
    out.append(")")
    for word, text in (("description", query.description), ("instruction", query.instruction)):
        if text is not None:
            out += ["@", word, "(", quote(text), ")"]
    body = _read(query.body) if isinstance(query.body, ReadBody) else _mutation(query.body)
    return [*out, "{", *body, "}"]


def _joined(parts: list[list[str]], comma: str = ",") -> list[str]:
    out: list[str] = []
    for at, part in enumerate(parts):
        out += [comma, *part] if at and comma else part
    return out


def _param(param: Param) -> list[str]:
    kind = param.type
    core = [kind.name]
    if kind.is_list:
        core = ["[", kind.name, "]"]
    elif kind.dim is not None:
        core = [kind.name, "(", str(kind.dim), ")"]
    return [f"${param.name}", ":", *core, *(["?"] if kind.nullable else [])]


def _read(body: ReadBody) -> list[str]:
    out = [
        "match",
        "{",
        *_clauses(body.match),
        "}",
        "return",
        *(["distinct"] if body.distinct else []),
    ]
    out += ["{", *_joined([_projection(item) for item in body.projections]), "}"]
    if body.order:
        out += ["order", "{", *_joined([_ordering(item) for item in body.order]), "}"]
    for word, count in (("limit", body.limit), ("offset", body.offset)):
        if count is not None:
            out += [word, *_expr(count)]
    return out


def _projection(item: Projection) -> list[str]:
    return [*_expr(item.expr), *([] if item.alias is None else ["as", item.alias])]


def _ordering(item: Ordering) -> list[str]:
    return [*_expr(item.expr), *([] if item.direction is None else [str(item.direction)])]


def _clauses(found) -> list[str]:
    return [token for clause in found for token in _clause(clause)]


def _clause(clause: ast.Clause) -> list[str]:
    match clause:
        case Negation():
            return ["not", "{", *_clauses(clause.clauses), "}"]
        case Binding():
            head = [f"${clause.var}", ":", clause.type_name]
            return [*head, "{", *_items(clause.matches), "}"] if clause.matches else head
        case Traversal():
            edge = ["<", clause.edge, ">"] if clause.undirected else [clause.edge]
            named = [] if clause.edge_var is None else [f"${clause.edge_var}", ":"]
            return [f"${clause.src}", *named, *edge, *_bounds(clause.bounds), f"${clause.dst}"]
        case Filter():
            return [*_expr(clause.left), str(clause.op), *_expr(clause.right)]
        case NullTest():
            return [*_expr(clause.operand), "is", *(["not"] if clause.negated else []), "null"]
        case TextMatch():
            return _expr(clause)


def _bounds(found: HopBounds | None) -> list[str]:
    if found is None:
        return []
    return ["{", str(found.min), ",", *([] if found.max is None else [str(found.max)]), "}"]


def _items(found) -> list[str]:
    return _joined([[item.name, ":", *_expr(item.value)] for item in found])


def _call(name: str, *arguments) -> list[str]:
    given = [_expr(argument) for argument in arguments if argument is not None]
    return [name, "(", *_joined(given), ")"]


def _expr(expr: ast.Expr) -> list[str]:
    match expr:
        case Literal():
            return _literal(expr)
        case Now():
            return ["now", "(", ")"]
        case Variable():
            return [f"${expr.name}"]
        case Property():
            return [f"${expr.var}", ".", expr.name]
        case AliasRef():
            return [expr.name]
        case TextMatch():
            return _call(str(expr.fn), expr.target, expr.query, expr.max_edits)
        case Nearest():
            return _call("nearest", expr.target, expr.query)
        case Bm25():
            return _call("bm25", expr.target, expr.query)
        case Rrf():
            return _call("rrf", expr.first, expr.second, expr.k)
        case Aggregate():
            inner = ["*"] if expr.arg is None else _expr(expr.arg)
            return [str(expr.fn), "(", *(["distinct"] if expr.distinct else []), *inner, ")"]


def _literal(literal: Literal) -> list[str]:
    match literal.kind:
        case LiteralKind.STRING:
            return [quote(literal.value)]
        case LiteralKind.BOOL:
            return [str(literal.value).lower()]
        case LiteralKind.DATE | LiteralKind.DATETIME:
            return [literal.kind.lower(), "(", quote(literal.value), ")"]
        case LiteralKind.LIST:
            return ["[", *_joined([_literal(item) for item in literal.value]), "]"]
        case _:
            return [str(literal.value)]


def _mutation(body: MutationBody) -> list[str]:
    out: list[str] = []
    for statement in body.statements:
        match statement:
            case Insert():
                out += ["insert", statement.type_name, "{", *_items(statement.assignments), "}"]
            case Update():
                out += ["update", statement.type_name, "set", "{"]
                out += [*_items(statement.assignments), "}", "where", *_where(statement.where)]
            case Delete():
                out += ["delete", statement.type_name, "where", *_where(statement.where)]
    return out


def _where(found) -> list[str]:
    return _joined([_predicate(predicate) for predicate in found], "and")


def _predicate(predicate: ast.Predicate) -> list[str]:
    if isinstance(predicate, PredicateNullTest):
        return [predicate.name, "is", *(["not"] if predicate.negated else []), "null"]
    return [predicate.name, str(predicate.op), *_expr(predicate.value)]


gaps = st.sampled_from(
    [
        " ",
        "\n",
        "\t",
        "\r\n",
        "\n\n\n",
        " // note\n",
        "\n// own line\n",
        " /* block */ ",
        "\n/* a\n b */\n",
    ]
)


@st.composite
def laid_out(draw, file: QueryFile) -> str:
    """Return the text of a file with random space and comments between its tokens."""
    words = tokens_of(file)
    filler = draw(st.lists(gaps, min_size=1, max_size=7))
    return draw(gaps) + "".join(word + filler[at % len(filler)] for at, word in enumerate(words))

"""The shape of `.gq` text: what was written, with places, before any meaning is known.

Equality ignores spans, so two layouts of one query are equal. Nothing here knows the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.compiler.operations import AggregateFn, CompareOp, TextFn
from omnigraph.compiler.source import Span

ANONYMOUS = "_"
"""The name of `$_`: never bound, never joined."""

NOWHERE = Span(0, 0)


class SortDirection(StrEnum):
    """A written sort direction."""

    ASC = "asc"
    DESC = "desc"


class LiteralKind(StrEnum):
    """What a literal was written as."""

    STRING = "String"
    INT = "integer"
    FLOAT = "float"
    BOOL = "Bool"
    DATE = "Date"
    DATETIME = "DateTime"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Literal:
    """A written value. Dates keep their text: their contents are checked with their type."""

    kind: LiteralKind
    value: str | int | float | bool | tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Now:
    """`now()`."""

    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A bare `$name`: a parameter, a node or an edge."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Property:
    """`$var.name`."""

    var: str
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AliasRef:
    """A bare word: the alias of a projection."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search(field, query)`, `match_text(field, query)` or `fuzzy(field, query[, edits])`."""

    fn: TextFn
    target: Expr
    query: Expr
    max_edits: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Nearest:
    """`nearest($var.vector, query[, approximate])`."""

    target: Property
    query: Expr
    approximate: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bm25:
    """`bm25(field, query)`."""

    target: Expr
    query: Expr
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rrf:
    """`rrf(first, second[, k])`."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expr | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`fn([distinct] arg)`; `arg` None is `count(*)`."""

    fn: AggregateFn
    arg: Expr | None
    distinct: bool = False
    span: Span = field(default=NOWHERE, compare=False)


Value = Literal | Variable | Now
"""What may stand in an inline match, an assignment or a mutation predicate."""

Expr = Literal | Now | Variable | Property | AliasRef | TextMatch | Nearest | Bm25 | Rrf | Aggregate


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """`name: value` in an inline match or an assignment list."""

    name: str
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """`$var: Type { name: value, … }`."""

    var: str
    type_name: str
    matches: tuple[PropertyValue, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class HopBounds:
    """`{min,max}`; `max` None is the open form, which the type checker refuses."""

    min: int
    max: int | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$src [$edge_var:]edge{min,max} $dst`, or `<edge>` for either direction."""

    src: str
    edge: str
    dst: str
    edge_var: str | None = None
    undirected: bool = False
    bounds: HopBounds | None = None
    span: Span = field(default=NOWHERE, compare=False)
    edge_span: Span = field(default=NOWHERE, compare=False)
    edge_var_span: Span = field(default=NOWHERE, compare=False)
    dst_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """`left op right`."""

    left: Expr
    op: CompareOp
    right: Expr
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NullTest:
    """`operand is [not] null`."""

    operand: Expr
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { … }`."""

    clauses: tuple[Clause, ...]
    span: Span = field(default=NOWHERE, compare=False)


Clause = Binding | Traversal | Filter | NullTest | TextMatch | Negation


@dataclass(frozen=True, slots=True)
class Projection:
    """`expr [as alias]`."""

    expr: Expr
    alias: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    """One sort key; `direction` None when nothing was written."""

    expr: Expr
    direction: SortDirection | None = None
    span: Span = field(default=NOWHERE, compare=False)


RowCount = Literal | Variable
"""The operand of `limit` and `offset`."""


@dataclass(frozen=True, slots=True)
class ReadBody:
    """`match … return … [order …] [limit …] [offset …]`."""

    match: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    limit: RowCount | None = None
    offset: RowCount | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert Type { … }`."""

    type_name: str
    assignments: tuple[PropertyValue, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PredicateCompare:
    """`name op value` in a mutation's `where`; `in` takes a list."""

    name: str
    op: CompareOp
    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PredicateNullTest:
    """`name is [not] null` in a mutation's `where`."""

    name: str
    negated: bool
    span: Span = field(default=NOWHERE, compare=False)


Predicate = PredicateCompare | PredicateNullTest


@dataclass(frozen=True, slots=True)
class Update:
    """`update Type set { … } where …`."""

    type_name: str
    assignments: tuple[PropertyValue, ...]
    where: tuple[Predicate, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Type where …`."""

    type_name: str
    where: tuple[Predicate, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationBody:
    """One or more statements, applied together or not at all."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ParamType:
    """A written parameter type; whether the name means a scalar is checked later."""

    name: str
    is_list: bool = False
    nullable: bool = False
    dim: int | None = None
    words: tuple[str, ...] = ()
    """Of an enum, in the order they are written."""


@dataclass(frozen=True, slots=True)
class Param:
    """`$name: Type` in a query header."""

    name: str
    type: ParamType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One `query` declaration."""

    name: str
    params: tuple[Param, ...]
    body: ReadBody | MutationBody
    description: str | None = None
    instruction: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_mutation(self) -> bool:
        """Whether the body writes."""
        return isinstance(self.body, MutationBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of one text, in source order."""

    queries: tuple[Query, ...]

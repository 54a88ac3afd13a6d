"""What a query means: every name, type and direction resolved; no text, no spans, no catalog.

Written by `typecheck`, read by lowering. The expressions are also those of the IR: a plan and the
query it came from speak of values in one vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.compiler.operations import AggregateFn, CompareOp, TextFn
from omnigraph.compiler.types import PropType, Scalar

NOW_PARAM = "__nanograph_now"
"""The reserved parameter that holds the time of the request."""

ROW = ""
"""The variable of a mutation's predicate: the row under test, which has no name in the text."""

LiteralValue = str | int | float | bool | tuple["LiteralValue", ...]
"""Dates are days, datetimes milliseconds since the epoch (UTC); lists and vectors are tuples."""

ID_TYPE = PropType(Scalar.STRING)
BOOL_TYPE = PropType(Scalar.BOOL)
COUNT_TYPE = PropType(Scalar.I64)
SCORE_TYPE = PropType(Scalar.F64)
NOW_TYPE = PropType(Scalar.DATETIME)


class Direction(StrEnum):
    """Which way an edge is walked from the left variable."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    def flipped(self) -> Direction:
        """Return the way back."""
        return _FLIPPED[self]


_FLIPPED = {
    Direction.OUT: Direction.IN,
    Direction.IN: Direction.OUT,
    Direction.BOTH: Direction.BOTH,
}


# Expressions


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of a known type."""

    value: LiteralValue
    type: PropType


@dataclass(frozen=True, slots=True)
class Param:
    """A declared parameter, or the reserved one of `now()`."""

    name: str
    type: PropType
    enums: tuple[PropType, ...] = ()
    """Where it is declared: the enums it is compared with; another word would find nothing."""


@dataclass(frozen=True, slots=True)
class Prop:
    """A column of a variable; `id`, `src` and `dst` included."""

    var: str
    name: str
    type: PropType


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Whether a text property matches a query; `max_edits` only for `fuzzy`."""

    fn: TextFn
    target: Prop
    query: Literal | Param
    max_edits: Literal | Param | None = None
    type: PropType = BOOL_TYPE


@dataclass(frozen=True, slots=True)
class Nearest:
    """Distance between a vector property and a query; smaller is better.

    A String query is embedded before execution. If it is approximate, a ranking by it may look only
    at those rows that an index leads to.
    """

    target: Prop
    query: Literal | Param
    type: PropType = SCORE_TYPE
    approximate: bool = False

    @property
    def var(self) -> str:
        """The ranked variable."""
        return self.target.var


@dataclass(frozen=True, slots=True)
class Bm25:
    """Relevance of a text property for a query; larger is better."""

    target: Prop
    query: Literal | Param
    type: PropType = SCORE_TYPE

    @property
    def var(self) -> str:
        """The ranked variable."""
        return self.target.var


@dataclass(frozen=True, slots=True)
class Rrf:
    """Two rankings of one variable, fused by reciprocal rank; larger is better."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Literal | Param
    type: PropType = SCORE_TYPE

    @property
    def var(self) -> str:
        """The ranked variable."""
        return self.first.var


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A value over a group of rows; `arg` None counts rows."""

    fn: AggregateFn
    arg: Scalarish | None
    type: PropType
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class KeyId:
    """The id of the node with these key values, in the order of the key's columns.

    Never written by a user: a rewrite turns equality with a key into equality with its id.
    """

    parts: tuple[Literal | Param, ...]
    type: PropType = ID_TYPE


Score = Nearest | Bm25 | Rrf
Scalarish = Literal | Param | Prop | TextMatch | Score | KeyId
"""A value of one row."""

Expr = Scalarish | Aggregate


# Predicates


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`; never true when an operand is null."""

    left: Scalarish
    op: CompareOp
    right: Scalarish


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand is null`, or `is not null` when negated."""

    operand: Scalarish
    negated: bool = False


Predicate = Compare | IsNull


# Match clauses


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable ranges over the nodes of a type that satisfy every predicate."""

    var: str
    type_name: str
    predicates: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Traversal:
    """`src` reaches `dst` over an edge type; an anonymous end is None."""

    src: str | None
    dst: str | None
    edge: str
    direction: Direction
    src_type: str
    dst_type: str
    min_hops: int = 1
    max_hops: int = 1
    edge_var: str | None = None


@dataclass(frozen=True, slots=True)
class Negation:
    """No match of the inner clauses exists; `outer` are the variables that tie it to its row."""

    clauses: tuple[Clause, ...]
    outer: tuple[str, ...]


Clause = Binding | Traversal | Compare | IsNull | Negation


# Queries


@dataclass(frozen=True, slots=True)
class Column:
    """A result column."""

    name: str
    expr: Expr

    @property
    def type(self) -> PropType:
        """The type of the column's values."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A sort key; null is the smallest value."""

    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows come in the order of a score of one variable; ties go to the order keys."""

    score: Score
    best_first: bool = True


RowCount = int | Param


@dataclass(frozen=True, slots=True)
class TypedRead:
    """A checked read query. `variables` are in declaration order, edge variables last."""

    name: str
    params: tuple[Param, ...]
    clauses: tuple[Clause, ...]
    variables: tuple[str, ...]
    columns: tuple[Column, ...]
    distinct: bool = False
    ranking: Ranking | None = None
    order: tuple[OrderKey, ...] = ()
    limit: RowCount | None = None
    offset: RowCount | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A property takes a value."""

    prop: str
    type: PropType
    value: Literal | Param


@dataclass(frozen=True, slots=True)
class InsertNode:
    """A node is added, or replaced when its key exists."""

    type_name: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class InsertEdge:
    """An edge is added between two node ids."""

    type_name: str
    src: Literal | Param
    dst: Literal | Param
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """All rows that satisfy every predicate take the assigned values; edges may move, too."""

    type_name: str
    is_edge: bool
    assignments: tuple[Assignment, ...]
    where: tuple[Predicate, ...]
    ends: tuple[Assignment, ...] = ()
    """New values of `src` and `dst`."""


@dataclass(frozen=True, slots=True)
class Delete:
    """All rows that satisfy every predicate go; nodes take their edges along."""

    type_name: str
    is_edge: bool
    where: tuple[Predicate, ...]


Statement = InsertNode | InsertEdge | Update | Delete


@dataclass(frozen=True, slots=True)
class TypedMutation:
    """A checked mutation."""

    name: str
    params: tuple[Param, ...]
    statements: tuple[Statement, ...]


TypedQuery = TypedRead | TypedMutation

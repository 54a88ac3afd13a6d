"""What Spark cannot run of a query, told before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.compiler.ir.ops import (
    Aggregate,
    Expand,
    Filter,
    Join,
    NodeScan,
    Predicate,
    ReadIr,
    Rrf,
    iter_exprs,
    iter_ops,
    operands,
)
from omnigraph.compiler.types import Scalar
from omnigraph.errors import BadRequestError

MAX_HOPS = 16
"""A step of more hops would be a plan of as many joins."""


class UnsupportedOnSparkError(BadRequestError):
    """Spark does not run an operator of a query.

    Attributes:
        operator: which one.
    """

    def __init__(self, operator: str, why: str) -> None:
        self.operator = operator
        super().__init__(f"Spark does not run {operator}: {why}", hint="leave engine out")


def check_support(ir: ReadIr) -> None:
    """Return only if all of a query can run on Spark.

    Raises:
        UnsupportedOnSparkError: names the first operator that cannot.
    """
    for op in iter_ops(ir.ops):
        if isinstance(op, Expand) and op.max_hops > MAX_HOPS:
            raise UnsupportedOnSparkError(
                "Expand", f"a step of up to {op.max_hops} hops is more than {MAX_HOPS}"
            )
        for predicate in predicates_of(op):
            for side in operands(predicate):
                if isinstance(side, Rrf):
                    raise UnsupportedOnSparkError(type(op).__name__, "it compares a fused score")
    for expr in iter_exprs(ir):
        inner = expr.arg if isinstance(expr, Aggregate) else expr
        if inner is not None and inner.type.scalar is Scalar.BLOB:
            raise UnsupportedOnSparkError("return", "a Blob is read from the graph itself")


def predicates_of(op: object) -> Iterator[Predicate]:
    """Yield what an operator asks of its rows."""
    match op:
        case NodeScan():
            yield from op.filters
        case Expand():
            yield from (*op.dst_filters, *op.edge_filters)
        case Filter():
            yield op.predicate
        case Join():
            yield from op.on
        case _:
            return

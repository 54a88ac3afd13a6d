"""Expressions and predicates over rows, whole columns at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.ir.key_id import key_id
from omnigraph.compiler.ir.ops import operands
from omnigraph.compiler.operations import CompareOp, TextFn
from omnigraph.compiler.query.typed import (
    Bm25,
    Compare,
    IsNull,
    KeyId,
    Literal,
    Nearest,
    Param,
    Predicate,
    Prop,
    Rrf,
    Scalarish,
    TextMatch,
)
from omnigraph.engine.image.analyzer import analyze
from omnigraph.engine.image.arrays import Floats, Ints, Mask
from omnigraph.engine.image.pieces import PIECE, spans
from omnigraph.engine.image.postings import Postings, bm25, matching_any, similar_terms
from omnigraph.engine.read.compare import FLIPPED, compare_columns, compare_value
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.rows import Rows
from omnigraph.errors import BadRequestError

DEFAULT_MAX_EDITS = 2

Constant = Literal | Param | KeyId
_IDENTITY = frozenset({CompareOp.EQ, CompareOp.NE})
_BY_TABLE = (TextMatch, Nearest, Bm25, Rrf)
"""Scores every node at once, however many rows ask."""


def constant(expr: Constant, ctx: ReadContext) -> Any:  # noqa: ANN401 - any literal value
    """Return the value of an expression that is the same for every row."""
    return value_of(expr, ctx.params)


def value_of(expr: Constant, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any literal value
    """Return the value of a constant under the given parameters."""
    match expr:
        case Literal():
            return expr.value
        case Param():
            return params[expr.name]
        case KeyId():
            parts = [(value_of(part, params), part.type) for part in expr.parts]
            return None if any(value is None for value, _ in parts) else key_id(parts)
        case _:
            assert_never(expr)


def holds(predicate: Predicate, rows: Rows, ctx: ReadContext) -> Mask:
    """Return for which rows the predicate is true."""
    if rows.size <= PIECE or any(isinstance(one, _BY_TABLE) for one in operands(predicate)):
        return _holds(predicate, rows, ctx)
    parts = [
        _holds(predicate, rows.slice(start, end - start), ctx) for start, end in spans(rows.size)
    ]
    return np.concatenate(parts)


def _holds(predicate: Predicate, rows: Rows, ctx: ReadContext) -> Mask:
    match predicate:
        case Compare():
            return _compare(predicate, rows, ctx)
        case IsNull():
            return _is_null(predicate, rows, ctx)
        case _:
            assert_never(predicate)


def _compare(predicate: Compare, rows: Rows, ctx: ReadContext) -> Mask:
    left, op, right = predicate.left, predicate.op, predicate.right
    if isinstance(left, TextMatch) and isinstance(right, Literal) and op is CompareOp.EQ:
        mask = text_mask(left, rows, ctx)
        return mask if right.value else ~mask
    if op in _IDENTITY and _same_table(left, right, ctx):
        assert isinstance(left, Prop)
        assert isinstance(right, Prop)
        same: Mask = rows.at[left.var] == rows.at[right.var]
        return same if op is CompareOp.EQ else ~same
    if isinstance(right, Constant):
        if isinstance(left, Constant):
            column = _repeat(left, 1, ctx)
            one = compare_value(column, op, constant(right, ctx))
            return np.full(rows.size, bool(one[0]))
        return compare_value(values(left, rows, ctx), op, constant(right, ctx))
    if isinstance(left, Constant):
        if op is CompareOp.CONTAINS and left.type.is_list:
            return compare_value(values(right, rows, ctx), CompareOp.IN, constant(left, ctx))
        if op in FLIPPED:
            return compare_value(values(right, rows, ctx), FLIPPED[op], constant(left, ctx))
        return compare_columns(_repeat(left, rows.size, ctx), op, values(right, rows, ctx))
    return compare_columns(values(left, rows, ctx), op, values(right, rows, ctx))


def _same_table(left: Scalarish, right: Scalarish, ctx: ReadContext) -> bool:
    """Whether two ids belong to one table: then equal ids are equal positions."""
    match left, right:
        case Prop(name="id"), Prop(name="id"):
            return ctx.types[left.var] == ctx.types[right.var]
        case _:
            return False


def _is_null(predicate: IsNull, rows: Rows, ctx: ReadContext) -> Mask:
    operand = predicate.operand
    if isinstance(operand, Constant):
        null: Mask = np.full(rows.size, constant(operand, ctx) is None)
    else:
        null = np.asarray(values(operand, rows, ctx).is_null().to_numpy(zero_copy_only=False))
    return ~null if predicate.negated else null


def values(expr: Scalarish, rows: Rows, ctx: ReadContext) -> pa.Array:
    """Return the expression's value for every row."""
    match expr:
        case Literal() | Param() | KeyId():
            return _repeat(expr, rows.size, ctx)
        case Prop():
            return ctx.image(expr.var).column(expr.name).take(rows.at[expr.var])
        case TextMatch():
            return pa.array(text_mask(expr, rows, ctx))
        case Nearest():
            return _distances(expr, rows, ctx)
        case Bm25():
            return pa.array(bm25_scores(expr, rows.at[expr.var], ctx))
        case Rrf():
            return _fused(expr, rows, ctx)
        case _:
            assert_never(expr)


def _repeat(expr: Constant, size: int, ctx: ReadContext) -> pa.Array:
    value, kind = constant(expr, ctx), arrow_type(expr.type)
    if isinstance(value, tuple):
        value = list(value)
    if pa.types.is_date32(kind) or pa.types.is_date64(kind):
        storage = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.repeat(pa.scalar(value, storage), size).view(kind)
    return pa.repeat(pa.scalar(value, kind), size)


# Search


def text_mask(match: TextMatch, rows: Rows, ctx: ReadContext) -> Mask:
    """Return for which rows the text property matches the query."""
    query = constant(match.query, ctx)
    if query is None:
        return np.zeros(rows.size, dtype=bool)
    postings = _postings(match.target, ctx)
    terms = analyze(query)
    if match.fn is TextFn.FUZZY:
        edits = _max_edits(match, ctx)
        terms = tuple(near for term in terms for near in similar_terms(postings, term, edits))
    return np.asarray(matching_any(postings, terms)[rows.at[match.target.var]])


def _max_edits(match: TextMatch, ctx: ReadContext) -> int:
    if match.max_edits is None:
        return DEFAULT_MAX_EDITS
    edits = constant(match.max_edits, ctx)
    if edits is None or edits < 0:
        shown = "null" if edits is None else edits
        raise BadRequestError(
            f"fuzzy: max_edits must be 0 or more, got {shown}",
            hint=f"{DEFAULT_MAX_EDITS} is the default",
        )
    return int(edits)


def bm25_scores(score: Bm25, positions: Ints, ctx: ReadContext) -> Floats:
    """Return the relevance of each position; 0 where no query term occurs."""
    dense = np.zeros(ctx.image(score.var).positions, np.float64)
    rows, scores = bm25_members(score, ctx)
    dense[rows] = scores
    return np.asarray(dense[positions])


def bm25_members(score: Bm25, ctx: ReadContext) -> tuple[Ints, Floats]:
    """Return the positions that contain a query term, ascending, with their relevance."""
    query = constant(score.query, ctx)
    terms = () if query is None else analyze(query)
    found = bm25(_postings(score.target, ctx), terms)
    return found.rows, found.scores


def _postings(target: Prop, ctx: ReadContext) -> Postings:
    return ctx.images.postings(ctx.types[target.var][0], target.name)


def query_vector(score: Nearest, ctx: ReadContext) -> npt.NDArray[np.float32] | None:
    """Return the query side of a distance, or None when it is null."""
    value = constant(score.query, ctx)
    return None if value is None else np.asarray(value, dtype=np.float32)


def distances(score: Nearest, positions: Ints, ctx: ReadContext) -> Floats:
    """Return the distance of each position; NaN where there is none."""
    query = query_vector(score, ctx)
    if query is None:
        return np.full(len(positions), np.nan)
    vectors = ctx.images.vectors(ctx.types[score.var][0], score.target.name)
    return vectors.distances(query, positions)


def _distances(score: Nearest, rows: Rows, ctx: ReadContext) -> pa.Array:
    found = distances(score, rows.at[score.var], ctx)
    return pa.array(found, mask=np.isnan(found))


def _fused(score: Rrf, rows: Rows, ctx: ReadContext) -> pa.Array:
    """Return the fused score of every row; null where neither arm knows the node."""
    ranked, positions = ctx.fused[score], rows.at[score.var]
    if not len(ranked.positions):
        return pa.nulls(len(positions), pa.float64())
    at = np.minimum(np.searchsorted(ranked.positions, positions), len(ranked.positions) - 1)
    return pa.array(ranked.scores[at], mask=ranked.positions[at] != positions)

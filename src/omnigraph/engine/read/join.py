"""Joining rows on equal values, without their product: by codes that equal values share."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.base.budget import NUMBER_BYTES
from omnigraph.compiler.query.typed import Compare, Prop
from omnigraph.engine.image.arrays import Ints, distinct, renumbered_values
from omnigraph.engine.image.columns import dense_ranks
from omnigraph.engine.image.pieces import PIECE, gathered, sorted_rows
from omnigraph.engine.image.table import ID
from omnigraph.engine.read.compare import plain_column
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.evaluate import values
from omnigraph.engine.read.rows import Rows
from omnigraph.engine.topology.csr import cuts_of, ranges

_NEVER = -1
"""The code of what equals nothing: null and NaN."""
_STEP_PAIRS = 1 << 20


def joined(
    on: Sequence[Compare], rows: Rows, other: Rows, keep: Set[str], ctx: ReadContext
) -> Rows:
    """Return the pairs of rows that are equal in everything, this side's rows outermost.

    Args:
        on: the equalities, each between a variable of one side and one of the other.
        rows: this side.
        other: the other one.
        keep: the variables the result needs.
        ctx: the running query.
    """
    own = {var: at for var, at in rows.at.items() if var in keep}
    theirs = {var: at for var, at in other.at.items() if var in keep}
    held = rows.size * (len(rows.at) + 3) + other.size * (len(other.at) + 4)
    ctx.budget.hold("Join", held * NUMBER_BYTES)
    left, right = _codes(on, rows, other, ctx)
    order = sorted_rows([right], other.size)
    starts, counts = _matches(left, right, order)
    total = int(counts.sum())
    ctx.budget.check("Join", total, len(own) + len(theirs) + 2)
    ctx.budget.hold("Join", (held + total * (len(own) + len(theirs) + 2)) * NUMBER_BYTES)
    if not own and not theirs:
        return Rows(total, {})
    found: dict[str, list[Ints]] = {var: [] for var in (*own, *theirs)}
    for start, end in pairwise(cuts_of(counts, _STEP_PAIRS)):
        ctx.budget.check("Join")
        some = counts[start:end]
        for var, at in own.items():
            found[var].append(np.repeat(at[start:end], some))
        if theirs:
            partners = order[ranges(starts[start:end], some)]
            for var, at in theirs.items():
                found[var].append(at[partners])
    return Rows(total, {var: _whole(parts) for var, parts in found.items()})


def _whole(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _matches(left: Ints, right: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return where, in the other side's order, the partners of each row start, and how many."""
    known = right[right != _NEVER]
    width = int(max(left.max(initial=_NEVER), right.max(initial=_NEVER))) + 1
    sizes = np.bincount(known, minlength=width)
    # What equals nothing has the lowest code, so it comes first in the order.
    firsts = len(order) - len(known) + np.cumsum(sizes) - sizes
    matching = left != _NEVER
    at = np.where(matching, left, 0)
    if not width:
        return np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    return gathered(firsts, at), np.where(matching, gathered(sizes, at), 0)


def _codes(on: Sequence[Compare], rows: Rows, other: Rows, ctx: ReadContext) -> tuple[Ints, Ints]:
    """Return a code per row of either side; those of two rows are equal where all values are."""
    left, right = _shared(on[0], rows, other, ctx)
    for one in on[1:]:
        ctx.budget.check("Join")
        more_left, more_right = _shared(one, rows, other, ctx)
        width = int(max(more_left.max(initial=0), more_right.max(initial=0))) + 1
        mixed = np.concatenate([left * width + more_left, right * width + more_right])
        never = np.concatenate([(left < 0) | (more_left < 0), (right < 0) | (more_right < 0)])
        codes, _ = renumbered_values(mixed)
        codes[never] = _NEVER
        left, right = codes[: rows.size], codes[rows.size :]
    return left, right


def _shared(one: Compare, rows: Rows, other: Rows, ctx: ReadContext) -> tuple[Ints, Ints]:
    mine, theirs = one.left, one.right
    assert isinstance(mine, Prop)
    assert isinstance(theirs, Prop)
    if mine.var not in rows.at:
        mine, theirs = theirs, mine
    at, their_at = rows.at[mine.var], other.at[theirs.var]
    if mine.name == theirs.name == ID and ctx.types[mine.var] == ctx.types[theirs.var]:
        # Equal ids of one table are equal positions.
        return at.astype(np.int64), their_at.astype(np.int64)
    nodes, their_nodes = _once(at), _once(their_at)
    columns = [
        _canonical(values(mine, Rows.of(mine.var, nodes), ctx)),
        _canonical(values(theirs, Rows.of(theirs.var, their_nodes), ctx)),
    ]
    codes = _value_codes(pa.concat_arrays(columns))
    return (
        _spread(codes[: len(nodes)], nodes, at),
        _spread(codes[len(nodes) :], their_nodes, their_at),
    )


def _once(at: Ints) -> Ints:
    """Return the positions each once, if that are clearly fewer."""
    found = distinct(at)
    return found if len(found) <= len(at) // 2 else at


def _spread(codes: Ints, nodes: Ints, at: Ints) -> Ints:
    return codes if nodes is at else gathered(codes, np.searchsorted(nodes, at))


def _canonical(column: pa.Array) -> pa.Array:
    """Return the values in the type all that compare with them share; one zero, no NaN."""
    column = plain_column(column)
    if pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64())
        return pc.add(pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers), 0.0)
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        return column.cast(pa.int64())
    return column


def _value_codes(column: pa.Array) -> Ints:
    if len(column) <= 4 * PIECE:
        codes = pc.fill_null(column.dictionary_encode().indices, _NEVER)
        return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)
    # Sorting takes longer, but can be stopped.
    ranks = dense_ranks(column)
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NEVER, ranks)

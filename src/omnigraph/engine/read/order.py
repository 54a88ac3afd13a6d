"""Putting rows in order: sort keys as integers, ids as the last word.

Null is the smallest value. Ids compare by code point, so an order is the same everywhere and does
not depend on how rows were found or stored.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from omnigraph.engine.image.arrays import Floats, Ints, at_least_kth
from omnigraph.engine.image.columns import dense_ranks
from omnigraph.engine.image.pieces import gathered
from omnigraph.engine.read.context import ReadContext
from omnigraph.engine.read.rows import Rows

_RANK_TABLE_ABOVE = 2_048


def ranks(column: pa.Array, *, descending: bool = False) -> Ints:
    """Return integers that sort like the column in the asked direction; null is the smallest."""
    found = dense_ranks(column)
    return -found if descending else found


def id_ranks(var: str, rows: Rows, ctx: ReadContext) -> Ints:
    """Return integers that sort like the ids of a variable."""
    image, positions = ctx.image(var), rows.at[var]
    if len(positions) <= _RANK_TABLE_ABOVE:
        return ranks(image.column("id").take(positions))
    return gathered(image.id_order, positions)


def contenders(key: Ints | Floats, wanted: int) -> Ints:
    """Return the rows that can be among the first `wanted` by a key, those tied with the last too.

    There may be a few more.
    """
    if len(key) <= 2 * wanted + 64:
        return np.arange(len(key))
    if wanted == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(key <= -at_least_kth(-key, wanted))


def by_ids(variables: Iterable[str], rows: Rows, ctx: ReadContext) -> list[Ints]:
    """Return the sort keys that order rows by the ids of the given variables.

    A variable that is the same node in every row orders nothing.
    """
    if rows.size <= 1:
        return []
    varied = [var for var in variables if (rows.at[var] != rows.at[var][0]).any()]
    return [id_ranks(var, rows, ctx) for var in varied]

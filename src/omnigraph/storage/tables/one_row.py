"""One row of a dataset at one of its versions, found by what is known of a newer version.

Looking for a key reads the whole key column. But a row keeps its row id while it is updated, and
two versions differ only in what their fragment lists say: so whoever follows a row back through its
versions pays for what changed between them, not for the size of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance.fragment import LanceFragment

from omnigraph.storage.tables.differ import Candidates, compare_fragments, same_fragment
from omnigraph.storage.tables.failures import lance_errors
from omnigraph.storage.tables.handle import Handle, Tables
from omnigraph.storage.tables.predicate import equals, to_sql
from omnigraph.storage.tables.scan import ROW_ADDRESS, ROW_ID, Reader

WRITTEN_AT = "_row_last_updated_at_version"
_SINGLE = 1_000
"""Rows of a fragment up to which they are asked for one by one, not by going through all of it."""
_FRAGMENT_BITS = 32


@dataclass(frozen=True, slots=True)
class Found:
    """A row at a version, as a table of one row."""

    handle: Handle
    row: pa.Table
    row_id: int
    address: int
    written_at: int
    """The version of its dataset that wrote it last."""


def find_row(handle: Handle, column: str, value: str) -> Found | None:
    """Return the row that has a value; with the bytes of its blobs."""
    where = equals(column, value)
    wanted = [*handle.dataset.schema.names, WRITTEN_AT]
    rows = Reader(handle).scan(
        wanted, where, with_row_id=True, with_row_address=True, blobs=True, limit=1
    )
    return _found(handle, rows)


def find_earlier(
    tables: Tables, older: Handle, newer: Handle, column: str, value: str, known: Found | None
) -> Found | None:
    """Return the row that has a value in an older version of the same dataset.

    Args:
        tables: of the graph.
        older: where to look.
        newer: a version of the same dataset, in whatever lineage.
        column: the key of the table.
        value: of the row.
        known: the row with this value in the newer version; None if it has none.
    """
    where = to_sql(equals(column, value))
    if known is not None:
        found = _first(older, [f"{ROW_ID} = {known.row_id} and {where}"], None)
        if found is not None:
            return found
    before, _ = compare_fragments(tables, older, newer)
    whole = list(before.whole)
    if known is not None:  # rows of files that were taken over have other row ids
        shared = same_fragment(newer, known.address >> _FRAGMENT_BITS, older)
        whole += [] if shared is None else [shared]
    dense = [one.fragment for one in before.some if len(one.physical) > _SINGLE]
    if whole or dense:
        found = _first(older, [where], [*whole, *dense])
        if found is not None:
            return found
    return _first(older, (f"{where} and {single}" for single in _singles(before)), None)


def _singles(candidates: Candidates) -> Iterator[str]:
    """Yield which single rows of fragments are candidates, some at a time."""
    addresses: list[int] = []
    for one in candidates.some:
        if len(one.physical) <= _SINGLE:
            first = one.fragment.fragment_id << _FRAGMENT_BITS
            addresses += (first + one.physical).tolist()
    for start in range(0, len(addresses), _SINGLE):
        listed = ", ".join(map(str, addresses[start : start + _SINGLE]))
        yield f"{ROW_ADDRESS} in ({listed})"


def _first(
    handle: Handle, filters: Sequence[str] | Iterator[str], fragments: list[LanceFragment] | None
) -> Found | None:
    wanted = [*handle.dataset.schema.names, WRITTEN_AT]
    for where in filters:
        with lance_errors(f"reading {handle}"):
            rows = handle.dataset.scanner(
                columns=wanted,
                filter=where,
                fragments=fragments,
                with_row_id=True,
                with_row_address=True,
                blob_handling="all_binary",
            ).to_table()
        found = _found(handle, rows)
        if found is not None:
            return found
    return None


def _found(handle: Handle, rows: pa.Table) -> Found | None:
    if not len(rows):
        return None
    row_id, address, written_at = (
        int(rows[name][0].as_py()) for name in (ROW_ID, ROW_ADDRESS, WRITTEN_AT)
    )
    row = rows.drop_columns([ROW_ID, ROW_ADDRESS, WRITTEN_AT])
    return Found(handle, row, row_id, address, written_at)

"""What rows of a dataset hold that they must not: keys that repeat, and text that is not UTF-8.

Lance checks text when it is read, not when it is written, and refuses a whole batch for one row.
Which rows it are is found by reading less and less; what can be read is only ever read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables.failures import UnreadableTextError, lance_errors
from omnigraph.storage.tables.handle import Handle
from omnigraph.storage.tables.scan import ROW_ADDRESS, key_column


@dataclass(frozen=True, slots=True)
class Content:
    """What is wrong with the rows of one version."""

    repeated: Sequence[str] = ()
    """Keys that more than one row has."""
    unreadable: dict[str, list[str]] = field(default_factory=dict)
    """Per column the first rows whose text is none: their keys, or where they are."""
    nameless: bool = False
    """Whether the keys of some rows are not readable."""


def check_content(handle: Handle, limit: int) -> Content:
    """Read all keys and text once; at most `limit` rows are told of per column.

    That opens every data file and applies every deletion.
    """
    key = key_column(handle.dataset.schema)
    repeated: list[str] = []
    unreadable = {}
    try:
        keys = _read(handle, [key])[key]
        if pc.count_distinct(keys, mode="all").as_py() != len(keys):
            repeated = _repeated(keys)
    except UnreadableTextError:
        unreadable[key] = [f"row {at + 1}" for at in _first(unreadable_rows(handle, key), limit)]
    for name in _text_columns(handle):
        if name != key and not _is_readable(handle, name):
            at = _first(unreadable_rows(handle, name), limit)
            unreadable[name] = _named(handle, key, at)
    return Content(repeated, unreadable, key in unreadable)


def unreadable_keys(handle: Handle) -> list[int]:
    """Return the addresses of the rows whose key cannot be read, and so cannot be named."""
    key = key_column(handle.dataset.schema)
    if _is_readable(handle, key):
        return []
    with lance_errors(f"reading {handle}"):
        rows = handle.dataset.scanner(columns=[], with_row_address=True, scan_in_order=True)
        addresses = rows.to_table()[ROW_ADDRESS].to_numpy()
    return [int(addresses[at]) for at in unreadable_rows(handle, key)]


def unreadable_rows(handle: Handle, column: str) -> Iterator[int]:
    """Yield the positions of the rows whose text in a column cannot be read."""
    parts = [(0, handle.row_count)]
    while parts:
        start, end = parts.pop()
        if start == end or _is_readable(handle, column, start, end):
            continue
        if end - start == 1:
            yield start
            continue
        middle = (start + end) // 2
        parts += [(middle, end), (start, middle)]


def _first(rows: Iterator[int], limit: int) -> list[int]:
    return [at for at, _ in zip(rows, range(limit), strict=False)]


def _named(handle: Handle, key: str, at: list[int]) -> list[str]:
    try:
        with lance_errors(f"reading {handle}"):
            return [str(one) for one in handle.dataset.take(at, columns=[key])[key].to_pylist()]
    except UnreadableTextError:
        return [f"row {one + 1}" for one in at]


def _repeated(keys: pa.ChunkedArray) -> list[str]:
    counted = pc.value_counts(keys)
    often = np.flatnonzero(counted.field("counts").to_numpy() > 1)
    return [str(one) for one in counted.field("values").take(pa.array(often)).to_pylist()]


def _text_columns(handle: Handle) -> list[str]:
    return [
        field.name
        for field in handle.dataset.schema
        if pa.types.is_string(field.type)
        or (pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type))
    ]


def _is_readable(handle: Handle, column: str, start: int = 0, end: int | None = None) -> bool:
    try:
        with lance_errors(f"reading {handle}"):
            scanner = handle.dataset.scanner(
                columns=[column],
                offset=start or None,
                limit=None if end is None else end - start,
                scan_in_order=True,
            )
            for _ in scanner.to_batches():
                pass
    except UnreadableTextError:
        return False
    return True


def _read(handle: Handle, columns: list[str]) -> pa.Table:
    with lance_errors(f"reading {handle}"):
        return handle.dataset.scanner(columns=columns, scan_in_order=True).to_table()

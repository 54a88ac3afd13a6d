"""Text that is not UTF-8, found before anything relies on it.

Arrow and Parquet call a column text without looking at its bytes; stored like that, it would make
its whole column unreadable. A column costs one pass over its bytes; only if that fails are cells
looked at one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.violations import Rule, Violation
from omnigraph.engine.image.arrays import Mask
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.odd_cells import is_list, is_text, plain_values
from omnigraph.pipeline.inputs.row_ids import Ints


def readable(
    values: pa.Array, type_name: str, name: str, at: Ints, bad: Mask, faults: Faults
) -> pa.Array:
    """Return a column with null for cells that are no text, marking and reporting their rows."""
    if isinstance(values, pa.DictionaryArray):
        values = plain_values(values)
    if isinstance(values, pa.RunEndEncodedArray):
        values = pc.run_end_decode(values)
    wrong = _not_text(values)
    if wrong is None:
        return values
    text = f"{type_name}.{name}: invalid UTF-8"
    faults.add_all(at[wrong & ~bad], lambda _: Violation(Rule.RECORD, type_name, text, name))
    bad |= wrong
    return _without(values, np.flatnonzero(wrong))


def decoded(
    cells: pa.Array, type_name: str, name: str, at: Ints, bad: Mask, faults: Faults
) -> pa.Array:
    """Return cells of bytes as text, with null for those that are none; see `readable`."""
    return readable(cells.view(pa.string()), type_name, name, at, bad, faults)


def _without(values: pa.Array, wrong: Ints) -> pa.Array:
    """Return a column with null in some rows; in pieces, since Arrow cannot take from views."""
    parts, start = [], 0
    for at in wrong.tolist():
        parts += [values.slice(start, at - start), pa.nulls(1, values.type)]
        start = at + 1
    return pa.concat_arrays([*parts, values.slice(start)])


def _not_text(values: pa.Array) -> Mask | None:
    """Return which rows hold text that is none; None if there is no such row."""
    if isinstance(values, pa.DictionaryArray):
        return _not_text(plain_values(values))
    if is_list(values.type):
        items = _not_text(values.flatten())
        if items is None:
            return None
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        wrong = np.zeros(len(values), dtype=bool)
        wrong[np.repeat(np.arange(len(values)), lengths)[items]] = True
        return wrong
    if not is_text(values.type):
        return None
    view = pa.types.is_string_view(values.type)
    cells = values.cast(pa.binary_view()) if view else values  # Arrow has no shorter way
    cells = cells.cast(pa.large_binary())
    try:
        cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.fromiter((not _is_utf8(cell.as_py()) for cell in cells), bool, len(cells))
    return None


def _is_utf8(cell: bytes | None) -> bool:
    if cell is None:
        return True
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True

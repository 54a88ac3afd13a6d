"""CSV files as batches of text, with every row that is not one named by its number.

A row with too few or too many cells is passed over and reported: a damaged row is a fault like any
other, not the end of the file. Cells stay bytes, for the same reason. Knows nothing of types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from omnigraph.api.violations import Rule, Violation
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import compression_of, open_stream
from omnigraph.pipeline.inputs.row_ids import Ints


class Ragged:
    """Rows of a file that have not as many cells as its header; other formats have none."""

    def __init__(self, type_name: str, faults: Faults) -> None:
        self._type_name = type_name
        self._faults = faults
        self._numbers: list[int] = []

    def __call__(self, row: pcsv.InvalidRow) -> str:
        """Report a row and pass it over."""
        number = row.number - 1  # the header is counted too
        self._numbers.append(number)
        text = f"{row.actual_columns} cells in a row of {row.expected_columns}"
        self._faults.add(number, Violation(Rule.RECORD, self._type_name, text))
        return "skip"

    def numbers(self, start: int, count: int) -> Ints:
        """Return the numbers in the file of some rows, counted without those passed over."""
        at = np.arange(start + 1, start + count + 1, dtype=np.int64)
        if not self._numbers:
            return at
        gone = np.asarray(self._numbers, np.int64)
        before: Ints = np.searchsorted(gone - np.arange(len(gone)), at, side="right")
        return at + before


def csv_batches(path: InputFile, names: Iterable[str], ragged: Ragged) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; columns of known names hold bytes, null where a cell is empty."""
    convert = pcsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pcsv.ParseOptions(newlines_in_values=True, invalid_row_handler=ragged)
    one_by_one = pcsv.ReadOptions(
        use_threads=False
    )  # else rows that are passed over have no number
    with (
        open_stream(path, compression_of(path)) as opened,
        pcsv.open_csv(opened, one_by_one, parse, convert) as reader,
    ):
        yield from reader

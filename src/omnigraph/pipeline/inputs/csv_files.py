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
from omnigraph.pipeline.inputs.dialect import PLAIN, Dialect, opened_csv
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import compression_of
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.model import InputError

NULLS = ["", "null"]
"""Cells that are null unless they are quoted."""
_QUOTE = b'"'
_TAIL = 1 << 20


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


def csv_batches(
    path: InputFile, names: Iterable[str], ragged: Ragged, dialect: Dialect = PLAIN
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; columns of known names hold bytes of UTF-8.

    A cell that is empty, or the word `null`, is null unless it is quoted.

    Raises:
        InputError: the file ends inside a quoted cell, whose end somebody forgot, or its text is
            not in the encoding it is said to be in.
    """
    try:
        yield from _read(path, names, ragged, dialect)
    except UnicodeError as error:
        if dialect == PLAIN:
            raise
        raise InputError(
            f"{path.name}: its text is not {dialect.encoding.upper()}: {error}",
            hint="say which encoding it is in",
        ) from None


def _read(
    path: InputFile, names: Iterable[str], ragged: Ragged, dialect: Dialect
) -> Iterator[pa.RecordBatch]:
    convert = pcsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        null_values=NULLS,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pcsv.ParseOptions(
        delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=ragged
    )
    one_by_one = pcsv.ReadOptions(
        use_threads=False
    )  # else rows that are passed over have no number
    with (
        opened_csv(path, dialect) as opened,
        pcsv.open_csv(opened, one_by_one, parse, convert) as reader,
    ):
        last = None
        for batch in reader:
            last = batch if len(batch) else last
            yield batch
    if _may_be_open(path, last, dialect):
        _refuse_open_quote(path, dialect)


def _may_be_open(path: InputFile, last: pa.RecordBatch | None, dialect: Dialect) -> bool:
    """Whether the last cell may be one whose closing quote is missing: it goes on to the end.

    Then it holds line breaks, or else its quote is on the last line; both are cheap to see.
    """
    if last is not None:
        cell = last.column(last.num_columns - 1)[-1].as_py()
        text = cell if isinstance(cell, bytes) else str(cell).encode()
        if b"\n" in text:
            return True
    if compression_of(path) is not None or dialect.encoding != PLAIN.encoding:
        return True
    with path.open() as opened:
        opened.seek(max(0, opened.size() - _TAIL))
        lines = bytes(opened.read()).rstrip(b"\r\n").splitlines()
    return bool(lines) and lines[-1].count(_QUOTE) % 2 == 1


def _refuse_open_quote(path: InputFile, dialect: Dialect) -> None:
    """Refuse a file whose last cell begins with a quote that is never closed.

    The reader takes such a cell for one that ends with the file, and all rows in it for its text.
    """
    if sum(piece.count(_QUOTE) for piece in _pieces(path, dialect)) % 2 == 0:
        return  # quotes that open and close come in pairs, and those in quoted cells are doubled
    text = b"".join(_pieces(path, dialect))
    opened_at = _open_quote(text, dialect.delimiter.encode() + b"\r\n")
    if opened_at is not None:
        line = text.count(b"\n", 0, opened_at) + 1
        raise InputError(
            f"{path.name}:{line}: the quoted cell that begins here never ends",
            hint='close it with ", or double the quote if it is part of the text',
        )


def _pieces(path: InputFile, dialect: Dialect) -> Iterator[bytes]:
    with opened_csv(path, dialect) as opened:
        while piece := opened.read(1 << 22):
            yield bytes(piece)


def _open_quote(text: bytes, ends: bytes = b",\r\n") -> int | None:
    """Return where the quote is that is open at the end of a text, if there is one."""
    at, inside = text.find(_QUOTE), None
    while at >= 0:
        if inside is None:  # only at the beginning of a cell does a quote mean anything
            inside = at if at == 0 or text[at - 1] in ends else None
        elif text[at + 1 : at + 2] == _QUOTE:
            at += 1
        else:
            inside = None
        at = text.find(_QUOTE, at + 1)
    return inside

"""The five layouts of a read result: json, jsonl, csv, table, kv. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import assert_never

import orjson

from omnigraph.api.rows import ReadOutput
from omnigraph.config.settings import CellLayout, OutputFormat

_NO_ROWS = "(no rows)"
_MIN_WIDTH = 8
_NOT_NULL = ("", "null")
"""Texts that would mean null without quotes."""
_QUOTED = (",", '"', "\n", "\r")
# A line break or tab inside a cell would tear the table apart; an escape code would paint it.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
_BOLD, _OFF = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class TableStyle:
    """How wide cells may get, and what happens to longer ones."""

    max_width: int = 80
    layout: CellLayout = "truncate"
    color: bool = False


def lines(output: ReadOutput, wanted: OutputFormat, style: TableStyle) -> Iterator[str]:
    """Yield the result in a layout, line by line."""
    match wanted:
        case "json":
            yield orjson.dumps(output.to_json_value(), option=orjson.OPT_INDENT_2).decode()
        case "jsonl":
            yield from _jsonl(output)
        case "csv":
            yield from _csv(output)
        case "kv":
            yield from _kv(output)
        case "table":
            yield from _table(output, style)
        case _:
            assert_never(wanted)


def cell(value: object) -> str:
    """Return a value as cells show it."""
    if isinstance(value, str):
        return value
    return _compact(value)


def _compact(value: object) -> str:
    return orjson.dumps(value).decode()


def _jsonl(output: ReadOutput) -> Iterator[str]:
    yield _compact(output.head.to_json_value())
    for row in output.rows:
        yield _compact(row)


def _headline(output: ReadOutput) -> str:
    target = output.target
    place = f"branch {target.branch}" if target.snapshot is None else f"snapshot {target.snapshot}"
    return f"{len(output.rows)} rows from {place} via {output.query_name}"


def _csv(output: ReadOutput) -> Iterator[str]:
    yield ",".join(csv_cell(name) for name in output.columns)
    for row in output.rows:
        yield ",".join(csv_value(row[name]) for name in output.columns)


def csv_value(value: object) -> str:
    """Return a value as one cell of a CSV line, so that a load reads the same value.

    >>> csv_value(None), csv_value("null"), csv_value("")
    ('null', '"null"', '""')
    """
    if isinstance(value, str) and value in _NOT_NULL:
        return f'"{value}"'
    return csv_cell(cell(value))


def csv_cell(text: str) -> str:
    """Return a text as one cell of a CSV line."""
    if any(char in text for char in _QUOTED):
        return '"' + text.replace('"', '""') + '"'
    return text


def _kv(output: ReadOutput) -> Iterator[str]:
    yield _headline(output)
    if not output.rows:
        yield _NO_ROWS
    for number, row in enumerate(output.rows, start=1):
        if number > 1:
            yield ""
        yield f"row {number}"
        for name in output.columns:
            yield f"{name}: {cell(row[name])}"


def _table(output: ReadOutput, style: TableStyle) -> Iterator[str]:
    yield _headline(output)
    if not output.columns:
        yield _NO_ROWS
        return
    cells = [
        [cell(row[name]).translate(CONTROLS) for name in output.columns] for row in output.rows
    ]
    widths = [
        _width(name, [row[at] for row in cells], style.max_width)
        for at, name in enumerate(output.columns)
    ]
    titles = _joined(output.columns, widths)
    yield f"{_BOLD}{titles}{_OFF}" if style.color else titles
    yield "-+-".join("-" * width for width in widths)
    for row in cells:
        match style.layout:
            case "truncate":
                shown = [_cut(text, width) for text, width in zip(row, widths, strict=True)]
                yield _joined(shown, widths)
            case "wrap":
                yield from _wrapped(row, widths)
            case _:
                assert_never(style.layout)


def _width(title: str, cells: Sequence[str], max_width: int) -> int:
    longest = max((len(text) for text in cells), default=0)
    return min(max(len(title), min(longest, max_width)), max(max_width, _MIN_WIDTH))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))


def _cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…" if width > 1 else text[:width]


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    chunks = [
        [text[at : at + width] for at in range(0, len(text), width)] or [""]
        for text, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*chunks, fillvalue=""):
        yield _joined(parts, widths)

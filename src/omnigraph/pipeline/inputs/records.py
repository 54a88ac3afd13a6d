"""Blocks of JSON lines into rows: sorted by type, parsed as columns, looked at closely if odd.

A record is `{"type": T, "data": {…}}` or `{"edge": E, "from": id, "to": id, "data": {…}}` on a line
of its own; blank lines and lines that start with `//` are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.model import ID, Catalog, EdgeType
from omnigraph.engine.image.arrays import Mask
from omnigraph.pipeline.inputs.columns import OddColumnError, from_json, json_type, may_be_rounded
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.lines import Block
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import Kind, TypedRows
from omnigraph.pipeline.inputs.strict import Line, RecordError, known_kind, strict_rows

_OPEN, _CLOSE, _RETURN, _NEWLINE = b"{}\r\n"
_HEAD = re.compile(rb'\{\s*"(type|edge)"\s*:\s*"([^"\\]*)"')
_LONG_INTEGER = r"[:,\[]\s*-?\d{8,}\s*[,}\]]"
_MAX_HEADS = 256
_JSON_BLOCK = 2 << 20


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of one block that hold records; `text` ends every one with its newline."""

    text: pa.StringArray
    at: Ints
    offsets: Ints

    def pick(self, mask: pa.Array) -> _Lines:
        chosen = np.asarray(mask, dtype=bool)
        return _Lines(self.text.filter(mask), self.at[chosen], self.offsets[chosen])

    def each(self) -> Iterator[Line]:
        for number, offset, text in zip(self.at, self.offsets, self.text, strict=True):
            yield Line(int(number), int(offset), text.as_buffer().to_pybytes())


def read_rows(
    block: Block, first: int, catalog: Catalog, max_line_bytes: int, faults: Faults
) -> tuple[list[TypedRows], int]:
    """Return the rows of a block whose first line has the number `first`, and its line count."""
    if block.too_long:
        faults.add(first, _too_long(max_line_bytes))
        return [], 1
    lines, count = _record_lines(block, first, max_line_bytes, faults)
    rows: list[TypedRows] = []
    for kind, part in _by_kind(lines, catalog, faults):
        fast = None if kind is None else _parsed(part, kind)
        rows += strict_rows(part.each(), catalog, faults) if fast is None else [fast]
    return rows, count


def _record_lines(
    block: Block, first: int, max_line_bytes: int, faults: Faults
) -> tuple[_Lines, int]:
    """Return the lines that hold records; a value can then not span lines unnoticed."""
    raw = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    last = ends - 1 - ((ends > starts) & (raw[np.maximum(ends - 1, 0)] == _RETURN))
    usual = (last > starts) & (raw[starts] == _OPEN) & (raw[np.maximum(last, 0)] == _CLOSE)
    keep = usual.copy()
    for at in np.flatnonzero(~usual):
        text = block.data[starts[at] : ends[at]].strip()
        if text and not text.startswith(b"//"):
            keep[at] = text.startswith(b"{") and text.endswith(b"}")
            if not keep[at]:
                strict_rows([Line(first + int(at), 0, text)], _NOTHING, faults)
    keep &= _fit_lines(starts, ends, keep, first, max_line_bytes, faults)
    text = _texts(block.data, starts, ends)
    keep &= _decodable(text, block.data, starts, ends, keep, first, faults)
    lines = _Lines(text, np.arange(first, first + len(ends)), starts + block.offset)
    return lines if keep.all() else lines.pick(pa.array(keep)), len(ends)


_NOTHING = Catalog({}, {}, {})


def _fit_lines(
    starts: Ints, ends: Ints, keep: Mask, first: int, max_line_bytes: int, faults: Faults
) -> Mask:
    long: Mask = (ends - starts > max_line_bytes) & keep
    faults.add_all(
        (np.flatnonzero(long) + first).astype(np.int64), lambda _: _too_long(max_line_bytes)
    )
    return np.logical_not(long)


def _texts(data: bytes, starts: Ints, ends: Ints) -> pa.StringArray:
    offsets = np.append(starts, ends[-1] + 1).astype(np.int32)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))


def _decodable(
    text: pa.StringArray,
    data: bytes,
    starts: Ints,
    ends: Ints,
    keep: Mask,
    first: int,
    faults: Faults,
) -> Mask:
    sound = np.ones(len(ends), dtype=bool)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        for at in np.flatnonzero(keep):
            try:
                data[starts[at] : ends[at]].decode()
            except UnicodeDecodeError as error:
                sound[at] = False
                wrong = Violation(
                    Rule.RECORD, "", f"invalid UTF-8 at byte {error.start} of the line"
                )
                faults.add(first + int(at), wrong)
        sound |= ~keep
    return sound


def _too_long(limit: int) -> Violation:
    return Violation(Rule.RECORD, "", f"the line is longer than {limit} bytes")


def _by_kind(
    lines: _Lines, catalog: Catalog, faults: Faults
) -> Iterator[tuple[Kind | None, _Lines]]:
    """Yield the lines per type; under None those that only a closer look can place.

    Files are written by programs, so most lines begin like another one: one comparison of the
    beginning places all lines of a type at once.
    """
    rest = lines
    for _ in range(_MAX_HEADS):
        if not len(rest.text):
            return
        head = _HEAD.match(rest.text[0].as_buffer().to_pybytes())
        if head is None:
            break
        same = pc.starts_with(rest.text, head.group().decode())
        whole = pc.all(same).as_py()
        part = rest if whole else rest.pick(same)
        try:
            yield known_kind(head[2].decode(), catalog, is_edge=head[1] == b"edge"), part
        except RecordError as error:
            _refuse_all(part, error.violations[0], faults)
        if whole:
            return
        rest = rest.pick(pc.invert(same))
    yield from _by_fields(rest, catalog)


def _refuse_all(lines: _Lines, wrong: Violation, faults: Faults) -> None:
    faults.add_all(lines.at, lambda _: wrong)


def _by_fields(lines: _Lines, catalog: Catalog) -> Iterator[tuple[Kind | None, _Lines]]:
    """Yield the lines per type, whatever the order of their fields."""
    names = pa.schema([("type", pa.string()), ("edge", pa.string())])
    found = _read_json(lines, names, "ignore")
    if found is None:
        yield None, lines
        return
    types, edges = (found[name].combine_chunks() for name in names.names)
    odd = pc.equal(pc.is_valid(types), pc.is_valid(edges))
    if pc.any(odd).as_py():
        yield None, lines.pick(odd)
    for values, is_edge, others in ((types, False, edges), (edges, True, types)):
        for word in pc.unique(values.drop_null()):
            same = pc.and_(pc.fill_null(pc.equal(values, word), False), pc.is_null(others))
            try:
                kind: Kind | None = known_kind(word.as_py(), catalog, is_edge=is_edge)
            except RecordError:
                kind = None
            yield kind, lines.pick(same)


def _parsed(lines: _Lines, kind: Kind) -> TypedRows | None:
    """Return the rows of lines of one type, or None if some line is not as it should be."""
    is_edge = isinstance(kind, EdgeType)
    props = {name: prop.type for name, prop in kind.properties.items()}
    data = [(name, json_type(found)) for name, found in props.items()]
    if ID not in props:
        data.append((ID, pa.string()))
    heads = ["edge", "from", "to"] if is_edge else ["type"]
    schema = pa.schema([*((name, pa.string()) for name in heads), ("data", pa.struct(data))])
    found = _read_json(lines, schema, "error")
    if found is None:
        return None
    inside = found["data"].combine_chunks()
    raw = dict(zip([name for name, _ in data], inside.flatten(), strict=True))
    if any(may_be_rounded(raw[name], props[name]) for name in props) and _has_long_integer(lines):
        return None
    try:
        columns = {name: from_json(raw[name], props[name]) for name in props}
    except OddColumnError:
        return None
    return TypedRows(
        kind,
        columns,
        raw[ID] if ID not in props else pa.nulls(len(inside), pa.string()),
        found["from"].combine_chunks() if is_edge else None,
        found["to"].combine_chunks() if is_edge else None,
        lines.at,
        lines.offsets,
    )


def _has_long_integer(lines: _Lines) -> bool:
    """Whether some line has an integer that a float type may round, or text that looks like one."""
    return bool(pc.any(pc.match_substring_regex(lines.text, _LONG_INTEGER)).as_py())


def _read_json(lines: _Lines, schema: pa.Schema, unexpected: str) -> pa.Table | None:
    """Return one row per line, or None if the lines are not exactly that."""
    offsets, values = lines.text.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[lines.text.offset :][: len(lines.text) + 1]
    longest = int(np.diff(bounds).max())
    text = values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    try:
        found = pj.read_json(
            pa.BufferReader(text),
            pj.ReadOptions(block_size=max(_JSON_BLOCK, longest + 1)),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return found if len(found) == len(lines.text) else None

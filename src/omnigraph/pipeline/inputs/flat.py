"""Objects of one type without a frame, as JSON arrays and Python lists have them, as JSON lines.

A flat object has ends and id among its fields: `{"from": "ann", "to": "bo", "since": 2020}`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from omnigraph.base.budget import keep
from omnigraph.compiler.catalog.model import ID, EdgeType, NodeType
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.lines import compression_of, open_stream, read_blocks
from omnigraph.pipeline.inputs.strict import RecordError, exact_json
from omnigraph.pipeline.model import Columns, InputError

_ENDS = {"from": "from", "to": "to", "src": "from", "dst": "to"}
_PARSED = 8
"""A text takes about this many times its size as Python objects."""


def framed_lines(
    rows: Iterable[object], kind: NodeType | EdgeType, columns: Columns, name: str
) -> Iterator[bytes]:
    """Yield flat objects of a type as the lines a load reads, one each, in order.

    Raises:
        InputError: something is no object, or has a value JSON has no words for.
    """
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise InputError(f"{name}:{number}: expected an object, got {type(row).__name__}")
        try:
            yield json.dumps(_framed(row, kind, columns), default=plain_value).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{name}:{number}: {error}") from None


def array_of(file: InputFile) -> list[object] | None:
    """Return the objects of a file that is a JSON array, or None if it is something else.

    Raises:
        InputError: it begins as an array, and is none.
    """
    with open_stream(file, compression_of(file)) as opened:
        first = _text(opened, 64)
        if not first.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return None
        whole = first + b"".join(iter(lambda: opened.read(1 << 20) or b"", b""))
    keep("load", _PARSED * len(whole))
    try:
        found = exact_json(whole.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecordError) as error:
        raise InputError(f"{file.name}: not a JSON array: {error}") from None
    assert isinstance(found, list)
    return found


def json_lines(file: InputFile) -> Iterator[tuple[int, object]]:
    """Yield the objects of a file that has one on every line, with the numbers of the lines.

    Raises:
        InputError: a line is no JSON.
    """
    for block in read_blocks(file, compression_of(file), max_line_bytes=1 << 30):
        for number, line in enumerate(block.data.splitlines(), start=1):
            if line.strip() and not line.lstrip().startswith(b"//"):
                try:
                    yield number, exact_json(line)
                except (ValueError, RecordError) as error:
                    raise InputError(f"{file.name}:{number}: invalid JSON: {error}") from None


def json_line(record: object) -> bytes:
    """Return a record as a line."""
    return json.dumps(record).encode() + b"\n"


def _text(opened: Any, size: int) -> bytes:  # noqa: ANN401 - any stream
    found = b""
    while len(found) < size and (piece := opened.read(size - len(found))):
        found += piece
    return found


def _framed(row: Mapping[Any, Any], kind: NodeType | EdgeType, columns: Columns) -> dict[str, Any]:
    names = columns.renamed(map(str, row))
    data = {
        name: value for name, value in zip(names, row.values(), strict=True) if name is not None
    }
    if ID in data and ID not in kind.properties:
        data[ID] = _word(data[ID])
    if isinstance(kind, NodeType):
        return {"type": kind.name, "data": data}
    ends = {_ENDS[word]: _word(data.pop(word)) for word in [*data] if word in _ENDS}
    return {"edge": kind.name, **ends, "data": data}


def _word(value: object) -> object:
    """Return an id as text: numbers are written as those of a key are."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def plain_value(value: object) -> object:
    """Return a value that JSON has no words for in the words a load knows."""
    match value:
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            if moment.microsecond % 1_000:
                raise TypeError(f"{value} is finer than a millisecond")
            return moment.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        case dt.date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return "base64:" + base64.b64encode(value).decode()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case _ if hasattr(value, "tolist"):  # numbers and arrays of NumPy
            return value.tolist()
        case _:
            raise TypeError(f"a {type(value).__name__} is no value of a property")

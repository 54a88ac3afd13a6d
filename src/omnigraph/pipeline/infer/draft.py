"""A first schema from files: what their rows look like, written as a draft to go on from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from omnigraph.base.uri import is_file, is_folder
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.schema.format import format_schema
from omnigraph.compiler.source import Source
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.infer.guess import Seen, guessed
from omnigraph.pipeline.inputs.csv_files import NULLS
from omnigraph.pipeline.inputs.plain_lines import read_lines, unreadable
from omnigraph.pipeline.model import InputError, UnreadableError

SAMPLE_ROWS = 100_000
_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_ENDS = (("from", "to"), ("src", "dst"), ("source", "target"))
_KEYS = ("key", "slug", "uuid", "code", "name", "email", "title")
_KEY_SCALARS = frozenset({Scalar.STRING, Scalar.I64, Scalar.U64, Scalar.DATE})
_WIDTHS = {
    pa.int8(): Scalar.I32,
    pa.int16(): Scalar.I32,
    pa.int32(): Scalar.I32,
    pa.uint8(): Scalar.U32,
    pa.uint16(): Scalar.U32,
    pa.uint32(): Scalar.U32,
    pa.uint64(): Scalar.U64,
    pa.float16(): Scalar.F32,
    pa.float32(): Scalar.F32,
}
"""What a typed file says more exactly than its values do."""


@dataclass(slots=True)
class _Kind:
    """One node or edge type as far as it was seen."""

    name: str
    is_edge: bool
    rows: int = 0
    columns: dict[str, Seen] = field(default_factory=dict)
    widths: dict[str, Scalar] = field(default_factory=dict)
    ids: Seen = field(default_factory=Seen)
    ends: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))

    def add(self, values: dict[str, Any], *, is_text: bool = False) -> None:
        for name in values:
            if name not in self.columns:
                self.columns[name] = Seen(rows=self.rows)
        self.rows += 1
        for name, seen in self.columns.items():
            seen.add(values.get(name), is_text=is_text)


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted schema and what it was drafted from."""

    text: str
    rows: int
    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    notes: tuple[str, ...]


def infer_schema(files: Sequence[str | Path], sample_rows: int = SAMPLE_ROWS) -> Draft:
    """Return a schema that the rows of some files fit.

    Args:
        files: JSON lines in the form `load` takes, or plain objects; CSV, Parquet and Arrow files,
            each with rows of one type that is named like the file.
        sample_rows: how many rows of each file are looked at.

    Raises:
        NotFoundError: a file does not exist.
        UnreadableError: a file is broken, or not of its kind.
        BadRequestError: a row is none, or the ends of an edge cannot be told.
    """
    if not files:
        raise BadRequestError("no file is given", hint="name the files to look at")
    kinds: dict[str, _Kind] = {}
    rows = 0
    for file in files:
        path = Path(file)
        if is_folder(path):
            raise BadRequestError(f"'{path}' is a folder", hint="name the files in it")
        if not is_file(path):
            raise NotFoundError(f"file '{path}' not found")
        try:
            rows += _READERS.get(_suffix(path), _read_lines)(path, kinds, sample_rows)
        except UnreadableError:
            raise
        except OverflowError:
            raise InputError(f"{path}: a date or moment is not of a year from 1 to 9999") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: its text is not UTF-8: {error}") from None
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from error
    if not kinds:
        raise InputError("the files have no rows", hint="a schema is drafted from rows")
    return _draft(list(kinds.values()), rows, [str(file) for file in files])


# Reading


def _suffix(path: Path) -> str:
    suffixes = [one.lower() for one in path.suffixes if one.lower() not in (".gz", ".zst")]
    return suffixes[-1] if suffixes else ""


def _read_lines(path: Path, kinds: dict[str, _Kind], sample: int) -> int:
    own = _type_name(path)
    count = 0
    for number, record in islice(_records(path), sample):
        count += 1
        try:
            _add_record(record, own, kinds)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    return count


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    for number, text in read_lines(path):
        if text.startswith(b"//"):
            continue
        try:
            yield number, orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InputError(
                f"{path}:{number}: not valid JSON: {error}", hint="one JSON object per line"
            ) from None


def _add_record(record: object, own: str, kinds: dict[str, _Kind]) -> None:
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    word, is_edge = record.get("type"), False
    if isinstance(record.get("edge"), str):
        word, is_edge = record["edge"], True
    data = record.get("data", {})
    if not isinstance(word, str) or not isinstance(data, dict):
        _add_row(_kind(kinds, own, is_edge=_ends(record) is not None), record)
        return
    kind = _kind(kinds, word, is_edge=is_edge)
    if is_edge:
        _add_ends(kind, record.get("from"), record.get("to"))
    own_id = record.get("id", data.get("id"))
    if own_id is not None:
        kind.ids.add(str(own_id))
    kind.add({name: value for name, value in data.items() if name != "id"})


def _read_parquet(path: Path, kinds: dict[str, _Kind], sample: int) -> int:
    with pq.ParquetFile(path) as file:
        return _add_batches(path, file.schema_arrow, file.iter_batches(8_192), kinds, sample)


def _read_arrow(path: Path, kinds: dict[str, _Kind], sample: int) -> int:
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        batches = (file.get_batch(at) for at in range(file.num_record_batches))
        return _add_batches(path, file.schema, batches, kinds, sample)


def _read_csv(path: Path, kinds: dict[str, _Kind], sample: int) -> int:
    read = pa.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=NULLS
    )
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    with pa.input_stream(str(path)) as head, pa.csv.open_csv(head, parse_options=parse) as peek:
        try:
            names = peek.schema.names
        except UnicodeDecodeError:
            raise InputError(
                f"{path}: its header is not UTF-8", hint="save the file as UTF-8"
            ) from None
    read.column_types = dict.fromkeys(names, pa.string())
    with pa.csv.open_csv(str(path), parse_options=parse, convert_options=read) as batches:
        return _add_batches(path, batches.schema, batches, kinds, sample, is_text=True)


_READERS: dict[str, Callable[[Path, dict[str, _Kind], int], int]] = {
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".csv": _read_csv,
}


def _add_batches(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    kinds: dict[str, _Kind],
    sample: int,
    *,
    is_text: bool = False,
) -> int:
    kind = _kind(kinds, _type_name(path), is_edge=_ends(dict.fromkeys(schema.names)) is not None)
    for column in schema:
        item = column.type.value_type if pa.types.is_list(column.type) else column.type
        if item in _WIDTHS:
            kind.widths[column.name] = _WIDTHS[item]
    ends = _ends(dict.fromkeys(schema.names)) or ()
    for name in schema.names:
        if name != "id" and name not in ends:
            kind.columns.setdefault(name, Seen(rows=kind.rows, is_text=is_text))
    count = 0
    for batch in batches:
        for row in batch.slice(0, max(0, sample - count)).to_pylist():
            _add_row(kind, row, is_text=is_text)
            count += 1
        if count >= sample:
            break
    return count


def _add_row(kind: _Kind, row: dict[str, Any], *, is_text: bool = False) -> None:
    """Look at a flat row: ends and id are among its columns."""
    ends = _ends(row) if kind.is_edge else None
    if ends is not None:
        _add_ends(kind, row[ends[0]], row[ends[1]])
    if row.get("id") is not None:
        kind.ids.add(str(row["id"]))
    own = {name: value for name, value in row.items() if name != "id" and name not in (ends or ())}
    kind.add(own, is_text=is_text)


def _add_ends(kind: _Kind, start: object, end: object) -> None:
    for ids, value in zip(kind.ends, (start, end), strict=True):
        if value is not None:
            ids.add(str(value))


def _ends(row: dict[str, Any]) -> tuple[str, str] | None:
    return next((pair for pair in _ENDS if pair[0] in row and pair[1] in row), None)


def _kind(kinds: dict[str, _Kind], name: str, *, is_edge: bool) -> _Kind:
    found = kinds.setdefault(name, _Kind(name, is_edge))
    if found.is_edge != is_edge:
        raise InputError(f"'{name}' is a node in one place and an edge in another")
    return found


def _type_name(path: Path) -> str:
    words = re.findall(r"[A-Za-z0-9]+", path.name.partition(".")[0])
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"T{name}"


# Writing


def _draft(kinds: list[_Kind], rows: int, files: list[str]) -> Draft:
    nodes = [kind for kind in kinds if not kind.is_edge]
    edges = [kind for kind in kinds if kind.is_edge]
    notes: list[str] = []
    lines = [
        f"// Drafted from {rows} rows of {', '.join(files)}.",
        "// Check the keys, what may be missing (?) and the types, then: omnigraph init",
        "",
    ]
    keys = {kind.name: _key(kind) for kind in nodes}
    for kind in nodes:
        lines += [f"node {kind.name} {{", *_properties(kind, keys[kind.name], notes), "}", ""]
    for kind in edges:
        start, end = (_end_type(kind, ids, nodes, keys) for ids in kind.ends)
        head = f"edge {kind.name}: {start} -> {end}"
        body = _properties(kind, None, notes)
        lines += [f"{head} {{", *body, "}", ""] if body else [head, ""]
    text = format_schema(Source("\n".join(lines)))
    load_schema(Source(text, "the draft"))  # what is handed out compiles
    names = [tuple(kind.name for kind in group) for group in (nodes, edges)]
    return Draft(text, rows, names[0], names[1], tuple(notes))


def _key(kind: _Kind) -> str | None:
    """Return the property that tells rows apart, if its name promises to."""
    wanted = [*_KEYS[:2], f"{kind.name.lower()}_id", *_KEYS[2:]]
    for name in wanted:
        seen = kind.columns.get(name)
        if seen is None or not seen.is_unique:
            continue
        found = _type_of(kind, name, seen)
        if found is not None and not found.is_list and found.scalar in _KEY_SCALARS:
            return name
    return None


def _type_of(kind: _Kind, name: str, seen: Seen) -> PropType | None:
    found = guessed(seen)
    width = kind.widths.get(name)
    if found is None or width is None or found.scalar is Scalar.VECTOR:
        return found
    return PropType(width, nullable=found.nullable, is_list=found.is_list)


def _properties(kind: _Kind, key: str | None, notes: list[str]) -> list[str]:
    lines = []
    if key is None and not kind.is_edge and kind.ids.is_unique and kind.ids.present == kind.rows:
        lines.append("  id: String @key")
    for name, seen in kind.columns.items():
        found = _type_of(kind, name, seen)
        if not _NAME.fullmatch(name):
            said = f'{kind.name}: "{name}" cannot be the name of a property; rename the column'
        elif found is None:
            what = ", ".join(sorted(seen.odd)) or "values of different kinds"
            said = f"{kind.name}: no type holds {name} ({what})"
        else:
            lines.append(f"  {name}: {found}" + (" @key" if name == key else ""))
            if not seen.present:
                notes.append(f"{kind.name}: {name} is always missing; its type is a guess")
            continue
        notes.append(said)
        lines.append(f"  // {said}")
    return lines


def _end_type(kind: _Kind, ids: set[str], nodes: list[_Kind], keys: dict[str, str | None]) -> str:
    """Return the node type that has most of the ids an edge names."""
    counted = [(len(ids & _ids_of(node, keys[node.name])), node.name) for node in nodes]
    best = max(counted, default=(0, ""), key=lambda one: one[0])
    if best[0]:
        return best[1]
    if len(nodes) == 1:
        return nodes[0].name
    raise InputError(
        f"edge {kind.name}: its ends are ids of none of the given nodes",
        hint="give the files with its nodes as well",
    )


def _ids_of(node: _Kind, key: str | None) -> set[str]:
    values = node.ids.values if key is None else node.columns[key].values
    return {str(value) for value in values or ()}

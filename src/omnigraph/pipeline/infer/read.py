"""Files of any kind into what is seen of their types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from omnigraph.base.uri import is_file, is_folder
from omnigraph.compiler.types import Scalar
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.infer.kinds import SeenKinds, ends_among
from omnigraph.pipeline.infer.names import type_name
from omnigraph.pipeline.inputs.csv_files import NULLS
from omnigraph.pipeline.inputs.dialect import PLAIN, dialect_of, opened_csv
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.flat import array_of
from omnigraph.pipeline.inputs.plain_lines import read_lines, unreadable
from omnigraph.pipeline.model import Columns, InputError, UnreadableError

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
_NODE_FRAME = {"type", "id"}
_EDGE_FRAME = {"edge", "from", "to", "id"}


@dataclass(slots=True)
class Looking:
    """What was found so far, and how to look."""

    sample: int
    written: Columns = field(default_factory=Columns)
    """How CSV files are written, if somebody said it."""
    kinds: SeenKinds = field(default_factory=SeenKinds)
    rows: int = 0
    notes: list[str] = field(default_factory=list)
    framed: list[Path] = field(default_factory=list)
    """The files whose rows say their types."""

    def look_at(self, path: Path) -> None:
        """Look at the rows of one file.

        Raises:
            NotFoundError: it does not exist.
            UnreadableError: it is broken, or not of its kind.
            BadRequestError: a row is none.
        """
        if is_folder(path):
            raise BadRequestError(f"'{path}' is a folder", hint="name the files in it")
        if not is_file(path):
            raise NotFoundError(f"file '{path}' not found")
        try:
            self.rows += _READERS.get(_suffix(path), _read_lines)(path, self)
        except UnreadableError:
            raise
        except OverflowError:
            raise InputError(f"{path}: a date or moment is not of a year from 1 to 9999") from None
        except UnicodeError as error:
            raise InputError(f"{path}: its text is not UTF-8: {error}", hint=_SAY) from None
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from error


_SAY = "save the file as UTF-8, or say its --encoding, as windows-1252"


def _suffix(path: Path) -> str:
    suffixes = [one.lower() for one in path.suffixes if one.lower() not in (".gz", ".zst")]
    return suffixes[-1] if suffixes else ""


def _own_type(path: Path) -> str:
    return type_name(path.name.partition(".")[0])


def _read_json(path: Path, looking: Looking) -> int:
    rows = array_of(InputFile(str(path)))
    if rows is None:
        return _read_lines(path, looking)
    numbered = enumerate(rows, start=1)
    if rows and all(isinstance(one, dict) and "data" in one and _framed(one) for one in rows):
        return _add_records(path, numbered, looking)
    sampled = rows[: looking.sample]
    for number, row in enumerate(sampled, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: not a JSON object")
    _add_rows(path, [row for row in sampled if isinstance(row, dict)], looking)
    return len(sampled)


def _read_lines(path: Path, looking: Looking) -> int:
    return _add_records(path, _records(path), looking)


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


def _add_records(path: Path, records: Iterable[tuple[int, Any]], looking: Looking) -> int:
    """Look at records with their types; those without one are rows of the file's own."""
    count, flat = 0, []
    for number, record in islice(records, looking.sample):
        count += 1
        if not isinstance(record, dict):
            raise InputError(f"{path}:{number}: not a JSON object")
        frame = _framed(record)
        if frame is None:
            flat.append(record)
            continue
        try:
            _add_framed(path, *frame, record, looking)
        except InputError as error:
            raise InputError(f"{path}:{number}: {error.message}", hint=error.hint) from None
    _add_rows(path, flat, looking)
    return count


def _framed(record: dict[str, Any]) -> tuple[str, bool] | None:
    """Return the type a record says, and whether it is an edge's; None if it says none."""
    word, is_edge = record.get("type"), False
    if isinstance(record.get("edge"), str):
        word, is_edge = record["edge"], True
    if not isinstance(word, str) or not isinstance(record.get("data", {}), dict):
        return None
    is_frame = "data" in record or record.keys() <= (_EDGE_FRAME if is_edge else _NODE_FRAME)
    return (word, is_edge) if is_frame else None


def _add_framed(
    path: Path, word: str, is_edge: bool, record: dict[str, Any], looking: Looking
) -> None:
    kind = looking.kinds.named(word, is_edge=is_edge, is_flat=False, path=path)
    if path not in looking.framed:
        looking.framed.append(path)
    if is_edge:
        kind.add_ends(record.get("from"), record.get("to"))
    kind.add(record.get("data", {}))


def _add_rows(path: Path, rows: list[dict[str, Any]], looking: Looking) -> None:
    """Look at flat objects, which have not all the same fields."""
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    is_edge = ends_among(names) is not None
    kind = looking.kinds.named(_own_type(path), is_edge=is_edge, is_flat=True, path=path)
    kind.add_columns(names)
    for row in rows:
        kind.add(row)


def _read_parquet(path: Path, looking: Looking) -> int:
    with pq.ParquetFile(path) as file:
        return _add_batches(path, file.schema_arrow, file.iter_batches(8_192), looking)


def _read_arrow(path: Path, looking: Looking) -> int:
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        batches = (file.get_batch(at) for at in range(file.num_record_batches))
        return _add_batches(path, file.schema, batches, looking)


def _read_csv(path: Path, looking: Looking) -> int:
    file = InputFile(str(path))
    dialect = dialect_of(file, looking.written)
    read = pa.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=NULLS
    )
    parse = pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True)
    with opened_csv(file, dialect) as head, pa.csv.open_csv(head, parse_options=parse) as peek:
        try:
            names = peek.schema.names
        except UnicodeDecodeError:
            raise InputError(f"{path}: its header is not UTF-8", hint=_SAY) from None
    if dialect != PLAIN:
        looking.notes.append(f"{path}: {dialect}")
    read.column_types = dict.fromkeys(names, pa.string())
    with (
        opened_csv(file, dialect) as opened,
        pa.csv.open_csv(opened, parse_options=parse, convert_options=read) as batches,
    ):
        return _add_batches(path, batches.schema, batches, looking, is_text=True)


_READERS: dict[str, Callable[[Path, Looking], int]] = {
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
}


def _add_batches(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    looking: Looking,
    *,
    is_text: bool = False,
) -> int:
    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: column '{twice}' is there twice", hint="rename one of them")
    is_edge = ends_among(names) is not None
    kind = looking.kinds.named(_own_type(path), is_edge=is_edge, is_flat=True, path=path)
    for column in schema:
        item = column.type.value_type if pa.types.is_list(column.type) else column.type
        if item in _WIDTHS:
            kind.widths[column.name] = _WIDTHS[item]
    kind.add_columns(names, is_text=is_text)
    count = 0
    for batch in batches:
        for row in batch.slice(0, max(0, looking.sample - count)).to_pylist():
            kind.add(row, is_text=is_text)
            count += 1
        if count >= looking.sample:
            break
    return count

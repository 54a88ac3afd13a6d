"""What a load is to read: paths, globs, folders, streams, tables; all of it ends up as files.

Streams and in-memory tables are copied into the load's folder first, so that every task is told
about its input by name and can run anywhere, and again.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from omnigraph.base.uri import is_on_s3
from omnigraph.compiler.catalog.model import ID, Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.inputs.dialect import PLAIN, Dialect, dialect_of, tell
from omnigraph.pipeline.inputs.files import InputFile, find_files, plain_name, plain_stem
from omnigraph.pipeline.inputs.flat import array_of, framed_lines, json_line, json_lines
from omnigraph.pipeline.inputs.lines import Compression, compression_of
from omnigraph.pipeline.inputs.mapping import columns_of, type_of
from omnigraph.pipeline.model import AS_THEY_ARE, ColumnMap, Columns, InputError, UnreadableError
from omnigraph.storage.options import S3Options

TableFormat = Literal["parquet", "arrow", "csv"]


class SpeaksArrow(Protocol):
    """An Arrow table or batch, a pandas or polars DataFrame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of Arrow's C interface."""
        ...


class SparkFrame(Protocol):
    """A DataFrame of Spark."""

    @property
    def sparkSession(self) -> Any:  # noqa: ANN401, N802 - Spark's own
        """The session it lives in."""
        ...


Frame: TypeAlias = SpeaksArrow | SparkFrame
_AnyFrame: TypeAlias = Any
"""What is looked at to find out which of them it is."""
Stream: TypeAlias = IO[bytes] | IO[str]
Rows: TypeAlias = "str | Path | Frame | Sequence[str | Path | Frame | Mapping[str, Any]]"
Data: TypeAlias = "str | Path | bytes | Stream | Mapping[str, Rows] | Sequence[Data]"
"""Paths, globs or folders of files, `-` for standard input, JSON lines as bytes, an open file, or
a mapping from type names to files, tables or lists of objects."""

_TABLE_FORMATS: Mapping[str, TableFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
}
_JSON = (".json", ".jsonl", ".ndjson")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_STDIN = "-"
_COPY_ROWS = 131_072
_DEEPEST = 100
"""Lists in lists beyond this are a mistake."""
_EXACT_PARQUET = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True, slots=True)
class LinesSource:
    """A file of JSON lines; `name` is what messages call it."""

    name: str
    path: InputFile
    compression: Compression | None
    bytes: int
    frame: None = None


@dataclass(frozen=True, slots=True)
class TableSource:
    """A file with rows of one type."""

    name: str
    path: InputFile
    format: TableFormat
    table_key: str
    bytes: int
    columns: Columns = AS_THEY_ARE
    """What its columns are called here."""
    dialect: Dialect = PLAIN
    """How it is written, if it is CSV."""
    frame: str | None = None
    """The fingerprint of the Spark frame whose rows these are among, if somebody asks for it."""


Source = LinesSource | TableSource


def find_sources(
    data: Data,
    catalog: Catalog,
    folder: Path,
    s3: Callable[[], S3Options] = S3Options,
    *,
    fingerprints: bool = False,
    mapping: ColumnMap = {},  # noqa: B006 - never written to
) -> list[Source]:
    """Return everything to read, in order; `folder` takes copies of what is not a file.

    `s3` is asked how to reach object stores if something is in one. With `fingerprints` Spark
    frames are told apart by their rows; files need none. `mapping` names columns of tables and
    flat objects anew.

    Raises:
        NotFoundError: a named file does not exist.
        InputError: something is not readable as data.
    """
    finder = _Finder(catalog, folder, s3, mapping, fingerprints=fingerprints)
    return list(finder.find(data))


class _Finder:
    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        s3: Callable[[], S3Options],
        mapping: ColumnMap,
        *,
        fingerprints: bool,
    ) -> None:
        self._catalog = catalog
        self._mapping = mapping
        self._fingerprints = fingerprints
        self._folder = folder
        self._s3 = s3
        self._copies = 0

    def find(self, data: object, depth: int = 0) -> Iterator[Source]:
        match data:
            case str() | Path():
                yield from self._named(str(data))
            case bytes():
                yield self._stream("<bytes>", io.BytesIO(data))
            case Mapping():
                for word, given in data.items():
                    yield from self._typed(str(word), given)
            case list() | tuple():
                if depth == _DEEPEST:
                    raise InputError(
                        f"data is in more than {_DEEPEST} lists", hint="give one list of it"
                    )
                for one in data:
                    yield from self.find(one, depth + 1)
            case _ if hasattr(data, "read"):
                name = str(getattr(data, "name", "<stream>"))
                yield self._stream(name, data)
            case _:
                raise InputError(
                    f"cannot load a {type(data).__name__}",
                    hint='pass paths, an open file, JSON lines as bytes, or {"Type": table}',
                )

    def _named(self, text: str) -> Iterator[Source]:
        if text == _STDIN:
            yield self._stream("<stdin>", sys.stdin.buffer)
            return
        if text.lstrip().startswith("{"):
            raise InputError("text is taken for a path", hint="pass JSON lines as bytes: .encode()")
        for file in find_files(text, self._s3_for(text)):
            yield self._file(file)

    def _s3_for(self, text: str) -> S3Options:
        return self._s3() if is_on_s3(text) else S3Options()

    def _file(self, file: InputFile) -> Source:
        mapped = type_of(self._mapping, file)
        if mapped is not None:
            return self._typed_file(mapped, file)
        table_format = _table_format(file)
        if table_format is None and plain_name(file).suffix.lower() == ".json":
            return self._json(plain_stem(file.name), self._seekable(file))
        if table_format is None:
            return _lines(file.name, self._seekable(file))
        return self._table(plain_stem(file.name), file.name, file, table_format)

    def _seekable(self, file: InputFile) -> InputFile:
        """Return a file that tasks can read in pieces, and again."""
        if not file.is_stream:
            return file
        copy = self._copy_path()
        with Path(file.path).open("rb") as stream, copy.open("wb") as target:
            shutil.copyfileobj(stream, target, 1 << 20)
        return InputFile(str(copy), shown=file.name)

    def _typed(self, word: str, given: object) -> Iterator[Source]:
        # Told before a file or table of no type is looked for.
        self._kind(word, str(given) if isinstance(given, str | Path) else f"<{word}>")
        if isinstance(given, list | tuple) and given and isinstance(given[0], Mapping):
            yield self._flat(word, f"<{word}>", given)
        elif isinstance(given, list | tuple):
            for one in given:
                yield from self._typed(word, one)
        elif isinstance(given, str | Path):
            for file in find_files(str(given), self._s3_for(str(given))):
                yield self._typed_file(word, file)
        else:
            yield from self._frame(word, given)

    def _typed_file(self, word: str, file: InputFile) -> Source:
        table_format = _table_format(file)
        if table_format is not None:
            return self._table(word, file.name, file, table_format)
        if _is_json(file):
            return self._json(word, self._seekable(file), flat=True)
        raise InputError(
            f"{file.name} is not a .parquet, .arrow, .feather, .csv, .tsv or .json file"
        )

    def _json(self, word: str, file: InputFile, *, flat: bool = False) -> Source:
        """Return a file of JSON: lines with their types as they are, anything else framed."""
        found = array_of(file)
        if found is None:
            if not flat:
                return _lines(file.name, file)
            return self._flat(word, file.name, (one for _, one in json_lines(file)))
        if found and all(isinstance(one, Mapping) and _says_type(one) for one in found):
            return self._copied_lines(file.name, (json_line(one) for one in found))
        return self._flat(word, file.name, found)

    def _flat(self, word: str, name: str, rows: Iterable[object]) -> Source:
        kind = self._kind(word, name)
        lines = framed_lines(rows, kind, self._columns(kind), name)
        return self._copied_lines(name, lines)

    def _copied_lines(self, name: str, lines: Iterable[bytes]) -> Source:
        path = self._copy_path()
        with path.open("wb") as target:
            target.writelines(lines)
        return _lines(name, InputFile(str(path), shown=name))

    def _frame(self, word: str, frame: _AnyFrame) -> Iterator[Source]:
        if is_spark_frame(frame):
            folder = self._copy_path()
            write_spark_frame(frame, folder)
            mark = frame_fingerprint(frame, folder) if self._fingerprints else None
            for path in sorted(folder.glob("*.parquet")):
                found = self._table(word, f"<{word}>", InputFile(str(path)), "parquet")
                yield replace(found, frame=mark)
            return
        path = self._copy_path()
        _write_arrow(_arrow(frame), path)
        yield self._table(word, f"<{word}>", InputFile(str(path)), "arrow")

    def _table(
        self, word: str, name: str, file: InputFile, table_format: TableFormat
    ) -> TableSource:
        kind = self._kind(word, name)
        whole = self._seekable(file)
        columns, dialect = self._columns(kind), PLAIN
        if table_format == "csv":
            try:
                dialect = dialect_of(whole, columns)
            except (OSError, pa.ArrowInvalid) as error:
                raise UnreadableError(f"{name} cannot be read: {error}") from error
            tell(whole, dialect, columns)
        return TableSource(name, whole, table_format, kind.table_key, whole.size, columns, dialect)

    def _columns(self, kind: NodeType | EdgeType) -> Columns:
        """Return how columns are called; what is mapped to the id of a keyed node is its key."""
        found = columns_of(self._mapping, kind.name)
        if isinstance(kind, EdgeType) or len(kind.key) != 1 or ID in kind.properties:
            return found
        names = {name: kind.key[0] if to == ID else to for name, to in found.names.items()}
        return replace(found, names=names) if names != found.names else found

    def _kind(self, word: str, name: str) -> NodeType | EdgeType:
        try:
            return self._catalog.type_named(word)
        except NotFoundError as error:
            named = "" if word != plain_stem(name) else f'name the type: {{"Type": "{name}"}}; '
            raise InputError(f"{name}: {error.message}", hint=f"{named}{error.hint}") from None
        except BadRequestError as error:
            raise InputError(f"{name}: {error.message}", hint=error.hint) from None

    def _stream(self, name: str, stream: Any) -> Source:  # noqa: ANN401 - anything with `read`
        path = self._copy_path()
        with path.open("wb") as target:
            for piece in _pieces(name, stream):
                target.write(piece)
        return _lines(name, InputFile(str(path), shown=name))

    def _copy_path(self) -> Path:
        self._copies += 1
        return self._folder / f"input.{self._copies}"


def _pieces(name: str, stream: Any) -> Iterator[bytes]:  # noqa: ANN401 - anything with `read`
    """Yield what a stream holds; its own failures are told by its name."""
    try:
        while piece := stream.read(1 << 20):
            yield piece.encode() if isinstance(piece, str) else bytes(memoryview(piece))
    except UnicodeEncodeError:
        raise InputError(f"{name} is not Unicode text: it has a lone surrogate") from None
    except (OSError, ValueError, TypeError) as error:
        raise UnreadableError(f"{name} cannot be read: {error}") from error


def _table_format(file: InputFile) -> TableFormat | None:
    """Return what kind of table a file is by its name, or None."""
    found = _TABLE_FORMATS.get(plain_name(file).suffix.lower())
    if found not in (None, "csv") and plain_name(file) != file.parts:
        raise InputError(
            f"{file.name} is compressed as a whole", hint=f"unpack it: {found} files cannot be"
        )
    return found


def _is_json(file: InputFile) -> bool:
    return plain_name(file).suffix.lower() in _JSON


def _says_type(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("type", record.get("edge")), str) and "data" in record


def is_spark_frame(frame: _AnyFrame) -> bool:
    """Whether something is a DataFrame of Spark, without loading Spark to find out."""
    return type(frame).__module__.startswith("pyspark.sql.") and hasattr(frame, "sparkSession")


def write_spark_frame(frame: _AnyFrame, folder: Path) -> None:
    """Let Spark write a DataFrame as Parquet files, which tasks then read like any others.

    Spark's usual form of timestamps ends in 2262; the settings belong to the session, so they are
    put back.
    """
    conf = frame.sparkSession.conf
    before = {name: conf.get(name, None) for name in _EXACT_PARQUET}
    try:
        for name, value in _EXACT_PARQUET.items():
            conf.set(name, value)
        frame.write.mode("overwrite").parquet(str(folder))
    finally:
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)


def frame_fingerprint(frame: _AnyFrame, folder: Path) -> str:
    """Return what is the same for equal rows of a written frame, in whatever order and files."""
    from pyspark.sql import functions as spark  # who has such a frame has PySpark

    rows = frame.sparkSession.read.schema(frame.schema).parquet(str(folder))
    # A null does not count in Spark's hash, so where they are is hashed as well. No property is a
    # map, and Spark cannot hash one.
    names = [one.name for one in frame.schema if one.dataType.typeName() != "map"]
    cells = [rows[f"`{name}`"] for name in names]
    cells += [cell.isNull() for cell in cells]
    sums = [
        spark.sum(spark.xxhash64(spark.lit(seed), *cells).cast("decimal(38,0)")) for seed in (1, 2)
    ]
    found = rows.agg(spark.count(spark.lit(1)), *sums).first()
    return f"{frame.schema.simpleString()} {' '.join(map(str, found))}"


def _write_arrow(table: pa.Table, path: Path) -> None:
    """Write a table so that equal rows give equal files, however they were cut into chunks."""
    plain = table.unify_dictionaries().replace_schema_metadata()
    with pa.ipc.new_file(path, plain.schema) as writer:
        for start in range(0, len(plain), _COPY_ROWS):
            writer.write_table(plain.slice(start, _COPY_ROWS).combine_chunks())


def _lines(name: str, file: InputFile) -> LinesSource:
    return LinesSource(name, file, compression_of(file), file.size)


def _arrow(frame: _AnyFrame) -> pa.Table:
    """Return any kind of table as an Arrow table."""
    match frame:
        case pa.Table():
            return frame
        case pa.RecordBatch():
            return pa.Table.from_batches([frame])
        case _ if hasattr(frame, "__arrow_c_stream__"):
            try:
                found = pa.table(frame)
            except (pa.ArrowException, ValueError) as error:
                raise InputError(
                    f"cannot load a {type(frame).__name__} as a table: {error}"
                ) from error
            # What pandas calls rows without having been told is not data.
            unnamed = [name for name in found.column_names if _PANDAS_INDEX.fullmatch(name)]
            return found.drop_columns(unnamed) if unnamed else found
        case _:
            raise InputError(
                f"cannot load a {type(frame).__name__} as a table",
                hint="pass a pandas or polars DataFrame or an Arrow table",
            )

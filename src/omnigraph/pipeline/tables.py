"""Parquet, Arrow and CSV files of one type into rows, batch by batch.

A column may come in any Arrow type that holds the same values (a pandas timestamp for a Date, say);
CSV cells are text and empty ones null. Edges have `from` and `to` columns, or `src` and `dst`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import ID, EdgeType
from omnigraph.compiler.types import FLOATS, INTEGERS, PropType, Scalar
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.write.cells import CellError, column
from omnigraph.engine.write.violations import Rule, Violation
from omnigraph.pipeline.columns import DAY_MS, OddColumnError, from_json, json_type, may_be_rounded
from omnigraph.pipeline.csv_files import Ragged, csv_batches, decoded
from omnigraph.pipeline.faults import Faults
from omnigraph.pipeline.files import InputFile
from omnigraph.pipeline.model import InputError, UnreadableError
from omnigraph.pipeline.row_ids import Ints
from omnigraph.pipeline.rows import Kind, Rows
from omnigraph.pipeline.sources import TableFormat
from omnigraph.pipeline.strict import RecordError, exact_json, json_cell

_BATCH_ROWS = 131_072
_ENDS = {"from": "src", "to": "dst"}
_EPOCH = dt.date(1970, 1, 1)
_EPOCH_MOMENT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def read_table(
    path: InputFile, name: str, table_format: TableFormat, kind: Kind, faults: Faults
) -> Iterator[Rows]:
    """Yield the rows of a file; rows with a value that does not fit are faults.

    Raises:
        InputError: a column is unknown or missing.
        UnreadableError: the file is damaged.
    """
    start, ragged = 0, Ragged(kind.name, faults)
    try:
        for batch in _batches(path, table_format, kind, ragged):
            _check_columns(batch.schema.names, name, kind)
            at = ragged.numbers(start, len(batch))
            yield _rows(batch, kind, table_format == "csv", at, faults)
            start += len(batch)
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadableError(f"{name} cannot be read: {error}") from error


def _batches(
    path: InputFile, table_format: TableFormat, kind: Kind, ragged: Ragged
) -> Iterator[pa.RecordBatch]:
    match table_format:
        case "parquet":
            with path.open() as opened, pq.ParquetFile(opened) as file:
                yield from file.iter_batches(_BATCH_ROWS)
        case "arrow":
            with path.mapped() as source:
                reader = pa.ipc.open_file(source)
                for at in range(reader.num_record_batches):
                    yield reader.get_batch(at)
        case "csv":
            names = [ID, *_ENDS, *_ENDS.values(), *kind.properties]
            yield from csv_batches(path, names, ragged)


def _check_columns(names: list[str], source: str, kind: Kind) -> None:
    ends = [(word, own) for word, own in _ENDS.items() if isinstance(kind, EdgeType)]
    known = {ID, *kind.properties, *(one for pair in ends for one in pair)}
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{source}: column '{repeated[0]}' is there twice")
    for name in names:
        if name not in known:
            raise InputError(
                f"{source}: {kind.name} has no property '{name}'",
                hint=f"its properties are {', '.join(kind.properties) or 'none'}",
            )
    for word, own in ends:
        if (word in names) == (own in names):
            raise InputError(f"{source}: an edge table needs one column '{word}' (or '{own}')")


def _rows(batch: pa.RecordBatch, kind: Kind, is_csv: bool, at: Ints, faults: Faults) -> Rows:
    bad = np.zeros(len(batch), dtype=bool)
    columns: dict[str, pa.Array] = {}
    for name, prop in kind.properties.items():
        if name in batch.schema.names:
            given = batch.column(name)
            columns[name] = _fitted(given, prop.type, kind, name, is_csv, at, bad, faults)
        else:
            columns[name] = pa.nulls(len(batch), arrow_type(prop.type))
    own_id = ID in kind.properties or ID not in batch.schema.names
    text = PropType(Scalar.STRING, nullable=True)

    def words(name: str) -> pa.Array:
        return _fitted(batch.column(name), text, kind, name, is_csv, at, bad, faults)

    ids = pa.nulls(len(batch), pa.string()) if own_id else words(ID)
    ends: list[pa.Array | None] = [None, None]
    if isinstance(kind, EdgeType):
        ends = [words(word if word in batch.schema.names else own) for word, own in _ENDS.items()]
    rows = Rows(kind, columns, ids, ends[0], ends[1], at, at - 1)
    return _without(rows, bad) if bad.any() else rows


def _without(rows: Rows, bad: Mask) -> Rows:
    keep = pa.array(~bad)
    return Rows(
        rows.kind,
        {name: values.filter(keep) for name, values in rows.columns.items()},
        rows.ids.filter(keep),
        None if rows.src is None else rows.src.filter(keep),
        None if rows.dst is None else rows.dst.filter(keep),
        rows.at[~bad],
        rows.offsets[~bad],
    )


def _fitted(
    values: pa.Array,
    kind: PropType,
    owner: Kind,
    name: str,
    is_csv: bool,
    at: Ints,
    bad: Mask,
    faults: Faults,
) -> pa.Array:
    """Return a column as the property stores it, marking rows whose value does not fit."""
    if is_csv:
        values = decoded(values, owner.name, name, at, bad, faults)
    try:
        return from_text(values, kind) if is_csv else from_arrow(values, kind)
    except (OddColumnError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        cell = _text_cell if is_csv else _arrow_cell
        return _one_by_one(values, kind, owner, name, cell, at, bad, faults)


def from_arrow(values: pa.Array, kind: PropType) -> pa.Array:
    """Return a column of any fitting Arrow type as the property stores it."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    target = arrow_type(kind)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if kind.scalar is Scalar.VECTOR or kind.is_list:
        return _from_lists(values, kind)
    found = values.type
    match kind.scalar:
        case Scalar.STRING if _is_text(found):
            return values.cast(pa.string())
        case Scalar.BOOL if pa.types.is_boolean(found):
            return values
        case Scalar.BLOB if _is_bytes(found):
            return values.cast(target)
        case Scalar.DATE | Scalar.DATETIME if pa.types.is_temporal(found):
            return _from_moments(values, kind.scalar)
        case Scalar.DATE | Scalar.DATETIME | Scalar.BLOB if _is_text(found):
            return from_json(values.cast(pa.string()), kind)
        case Scalar.F32 | Scalar.F64 if pa.types.is_integer(found):
            return values.cast(target)  # refuses integers beyond those that are always exact
        case Scalar.F32 | Scalar.F64 if pa.types.is_floating(found):
            return from_json(values.cast(pa.float64()), kind)
        case scalar if scalar in INTEGERS and (
            pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
        ):
            return values.cast(target)
        case _:
            raise OddColumnError(f"{found} for {kind}")


def _from_lists(values: pa.Array, kind: PropType) -> pa.Array:
    found = values.type
    if pa.types.is_fixed_size_list(found) or pa.types.is_large_list(found):
        values = values.cast(pa.list_(found.value_type))
    if not pa.types.is_list(values.type):
        raise OddColumnError(f"{found} for {kind}")
    if kind.scalar is Scalar.VECTOR:
        numbers = pa.types.is_integer(values.type.value_type)
        exact = values.cast(pa.list_(pa.float32())) if numbers else values
        return from_json(exact.cast(pa.list_(pa.float64())), kind)
    items = from_arrow(values.values, kind.item())
    nulls = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(values.offsets, items, mask=nulls).cast(arrow_type(kind))


def _from_moments(values: pa.Array, scalar: Scalar) -> pa.Array:
    """Return days or milliseconds; a time of day is never dropped from what becomes a Date."""
    if pa.types.is_date32(values.type) and scalar is Scalar.DATE:
        return values
    millis = _millis(values)
    if scalar is Scalar.DATETIME:
        return millis.view(pa.date64())
    days = pc.cast(pc.floor(pc.divide(millis.cast(pa.float64()), DAY_MS)), pa.int64())
    if pc.all(pc.equal(pc.multiply(days, DAY_MS), millis)).as_py() is False:
        raise OddColumnError("a moment within a day")
    return days.cast(pa.int32()).view(pa.date32())


def _millis(values: pa.Array) -> pa.Array:
    """Return milliseconds since the epoch; digits below are dropped, before 1970 too."""
    if pa.types.is_date64(values.type):
        return values.view(pa.int64())
    if pa.types.is_date32(values.type):
        return pc.multiply(values.view(pa.int32()).cast(pa.int64()), DAY_MS)
    if not pa.types.is_timestamp(values.type):
        raise OddColumnError("a time without a date")
    if values.type.unit == "s":
        return pc.multiply_checked(values.view(pa.int64()), 1_000)
    parts = {"ms": 1, "us": 1_000, "ns": 1_000_000}[values.type.unit]
    counts = values.view(pa.int64())
    floored = np.floor_divide(pc.fill_null(counts, 0).to_numpy(), parts)
    return pa.array(floored, mask=np.asarray(counts.is_null(), dtype=bool))


def from_text(values: pa.Array, kind: PropType) -> pa.Array:
    """Return a column of CSV cells as the property stores it; lists are written as JSON."""
    if kind.is_list or kind.scalar is Scalar.VECTOR:
        raise OddColumnError("lists are read cell by cell")
    if kind.scalar in INTEGERS or kind.scalar is Scalar.BOOL:
        if kind.scalar is Scalar.BOOL and not _only(values, ["true", "false"]):
            raise OddColumnError("not true or false")
        return values.cast(arrow_type(kind))
    if kind.scalar in FLOATS:
        numbers = values.cast(pa.float64())
        if may_be_rounded(numbers, kind) and _has_long_integer(values):
            raise OddColumnError("an integer may be rounded")
        return from_json(numbers, kind)
    return from_json(values.cast(json_type(kind)), kind)


def _has_long_integer(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, r"^\s*[+-]?\d{8,}\s*$")).as_py())


def _only(values: pa.Array, words: list[str]) -> bool:
    return pc.all(pc.is_in(values.drop_null(), value_set=pa.array(words))).as_py() is not False


def _one_by_one(
    values: pa.Array,
    kind: PropType,
    owner: Kind,
    name: str,
    cell: Callable[[Any, PropType], Any],
    at: Ints,
    bad: Mask,
    faults: Faults,
) -> pa.Array:
    fitted: list[Any] = []
    for position, value in enumerate(_python_values(values)):
        try:
            fitted.append(None if value is None else cell(value, kind))
        except CellError as error:
            fitted.append(None)
            if not bad[position]:
                text = f"{owner.name}.{name}: {error}"
                wrong = Violation(Rule.TYPE, owner.name, text, name, value=value)
                faults.add(int(at[position]), wrong)
            bad[position] = True
    return column(fitted, kind)


def _python_values(values: pa.Array) -> list[Any]:
    if pa.types.is_date64(values.type):
        values = values.view(pa.int64()).cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    listed: list[Any] = values.to_pylist()
    return listed


def _arrow_cell(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - any value of a table
    match value:
        case list():
            return json_cell([_plain(one) for one in value], kind)
        case dt.datetime() if kind.scalar is Scalar.DATE and value.time() != dt.time():
            raise CellError("a Date has no time of day")
        case dt.datetime() if kind.scalar is Scalar.DATE:
            return json_cell((value.date() - _EPOCH).days, kind)
        case dt.date() if kind.scalar is Scalar.DATE and not isinstance(value, dt.datetime):
            return json_cell((value - _EPOCH).days, kind)
        case _:
            return json_cell(_plain(value), kind)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH_MOMENT) // dt.timedelta(milliseconds=1)
    return value


def _text_cell(text: str, kind: PropType) -> Any:  # noqa: ANN401 - any property value
    if (
        kind.is_list
        or kind.scalar is Scalar.VECTOR
        or kind.is_numeric
        or kind.scalar is Scalar.BOOL
    ):
        try:
            return json_cell(exact_json(text.encode()), kind)
        except (orjson.JSONDecodeError, RecordError):
            raise CellError(f"expected {kind.required()}, got '{text}'") from None
    return json_cell(text, kind)


def _is_bytes(found: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(found)
        or pa.types.is_large_binary(found)
        or pa.types.is_binary_view(found)
    )


def _is_text(found: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(found)
        or pa.types.is_large_string(found)
        or pa.types.is_string_view(found)
    )

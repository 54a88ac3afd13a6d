"""Parquet, Arrow and CSV files of one type into rows, batch by batch.

A column may come in any Arrow type that holds the same values (a pandas timestamp for a Date, say);
CSV cells are text and empty ones null. Edges have `from` and `to` columns, or `src` and `dst`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.arrow import arrow_type
from omnigraph.compiler.catalog.model import ID, EdgeType
from omnigraph.compiler.types import FLOATS, INTEGERS, PropType, Scalar
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.write.cells import CellError, column
from omnigraph.pipeline.inputs.columns import OddColumnError, from_json, json_type, may_be_rounded
from omnigraph.pipeline.inputs.csv_files import Ragged, csv_batches
from omnigraph.pipeline.inputs.dialect import PLAIN, Dialect
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.files import InputFile
from omnigraph.pipeline.inputs.moments import from_moments, is_moment, is_zone
from omnigraph.pipeline.inputs.odd_cells import (
    arrow_cell,
    arrow_values,
    is_text,
    plain_values,
    shown_value,
    text_cell,
)
from omnigraph.pipeline.inputs.readable import decoded, readable
from omnigraph.pipeline.inputs.row_ids import Ints
from omnigraph.pipeline.inputs.rows import Kind, TypedRows, split
from omnigraph.pipeline.inputs.sources import TableFormat
from omnigraph.pipeline.model import AS_THEY_ARE, Columns, InputError, UnreadableError

_BATCH_ROWS = 131_072
_ENDS = {"from": "src", "to": "dst"}
_LONG_INTEGER = r"^\s*[+-]?\d{8,}\s*$"


def read_table(
    path: InputFile,
    name: str,
    table_format: TableFormat,
    kind: Kind,
    faults: Faults,
    columns: Columns = AS_THEY_ARE,
    dialect: Dialect = PLAIN,
) -> Iterator[TypedRows]:
    """Yield the rows of a file; rows with a value that does not fit are faults.

    Raises:
        InputError: a column is unknown or missing.
        UnreadableError: the file is damaged.
    """
    start, ragged = 0, Ragged(kind.name, faults)
    try:
        for given in _batches(path, table_format, kind, ragged, columns, dialect):
            batch = _renamed(given, columns, name)
            _check_zones(batch.schema, name)
            _check_columns(_names(batch.schema, name), name, kind)
            at = ragged.numbers(start, len(batch))
            yield from _rows(batch, kind, table_format == "csv", at, faults)
            start += len(batch)
    except (OSError, pa.ArrowInvalid) as error:
        raise UnreadableError(f"{name} cannot be read: {error}") from error


def _batches(
    path: InputFile,
    table_format: TableFormat,
    kind: Kind,
    ragged: Ragged,
    columns: Columns,
    dialect: Dialect,
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
            names = [ID, *_ENDS, *_ENDS.values(), *kind.properties, *columns.names]
            yield from csv_batches(path, names, ragged, dialect)


def _renamed(batch: pa.RecordBatch, columns: Columns, source: str) -> pa.RecordBatch:
    """Return a batch under the names of the schema, without what is to be left out."""
    if columns is AS_THEY_ARE:
        return batch
    given = _names(batch.schema, source)
    columns.require_all(given, source)
    called = columns.renamed(given)
    kept = [at for at, name in enumerate(called) if name is not None]
    return batch.select(kept).rename_columns([called[at] for at in kept])


def _names(schema: pa.Schema, source: str) -> list[str]:
    try:
        return list(schema.names)
    except UnicodeDecodeError:
        raise InputError(
            f"{source}: its header is not UTF-8",
            hint="save the file as UTF-8, or say its --encoding, as windows-1252",
        ) from None


def _check_zones(schema: pa.Schema, source: str) -> None:
    for field in schema:
        zone = field.type.tz if pa.types.is_timestamp(field.type) else None
        if zone is not None and not is_zone(zone):
            raise InputError(f"{source}: column '{field.name}' has the unknown time zone '{zone}'")


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


def _rows(
    batch: pa.RecordBatch, kind: Kind, is_csv: bool, at: Ints, faults: Faults
) -> list[TypedRows]:
    """Return the rows of a batch; those with a value that does not fit stand by themselves."""
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
        given = _as_words(batch.column(name))
        return _fitted(given, text, kind, name, is_csv, at, bad, faults)

    ids = pa.nulls(len(batch), pa.string()) if own_id else words(ID)
    ends: list[pa.Array | None] = [None, None]
    if isinstance(kind, EdgeType):
        ends = [words(word if word in batch.schema.names else own) for word, own in _ENDS.items()]
    rows = TypedRows(kind, columns, ids, ends[0], ends[1], at, at - 1)
    misfits = {
        name: _lost(batch.column(name), columns[name])
        for name in columns
        if bad.any() and name in batch.schema.names
    }
    return split(rows, misfits, bad)


def _as_words(ids: pa.Array) -> pa.Array:
    """Return ids as text: numbers and days of a typed file are written as those of a key are."""
    found = ids.type
    is_plain = pa.types.is_integer(found) or pa.types.is_date32(found)
    return ids.cast(pa.string()) if is_plain else ids


def _lost(given: pa.Array, fitted: pa.Array) -> Mask:
    """Return which cells had a value and have none any more: it did not fit."""
    return np.asarray(pc.and_(pc.is_valid(given), pc.is_null(fitted)), dtype=bool)


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
    sound = decoded if is_csv else readable
    values = sound(values, owner.name, name, at, bad, faults)
    try:
        return from_text(values, kind) if is_csv else from_arrow(values, kind)
    except (OddColumnError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        cells, cell = (
            (values.to_pylist(), text_cell) if is_csv else (arrow_values(values, kind), arrow_cell)
        )
        return _one_by_one(cells, kind, owner, name, cell, at, bad, faults)


def from_arrow(values: pa.Array, kind: PropType) -> pa.Array:
    """Return a column of any fitting Arrow type as the property stores it."""
    if isinstance(values, pa.DictionaryArray):
        values = plain_values(values)
    if isinstance(values, pa.RunEndEncodedArray):
        values = pc.run_end_decode(values)
    target = arrow_type(kind)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if kind.scalar is Scalar.VECTOR or kind.is_list:
        return _from_lists(values, kind)
    found = values.type
    match kind.scalar:
        case Scalar.STRING if is_text(found):
            return values.cast(pa.string())
        case Scalar.BOOL if pa.types.is_boolean(found):
            return values
        case Scalar.BLOB if _is_bytes(found):
            return values.cast(target)
        case Scalar.DATE | Scalar.DATETIME if is_moment(found):
            return from_moments(values, kind.scalar)
        case Scalar.DATE | Scalar.DATETIME | Scalar.BLOB if is_text(found):
            return from_json(values.cast(pa.string()), kind)
        case _ if kind.is_numeric:
            return _from_numbers(values, kind)
        case _:
            raise OddColumnError(f"{found} for {kind}")


def _from_numbers(values: pa.Array, kind: PropType) -> pa.Array:
    found, target, is_float = values.type, arrow_type(kind), kind.scalar in FLOATS
    if pa.types.is_integer(found):
        return values.cast(target)  # refuses, for floats, any beyond those that are always exact
    if pa.types.is_floating(found) and is_float:
        return from_json(values.cast(pa.float64()), kind)
    if pa.types.is_floating(found):
        if may_be_rounded(
            values, PropType(Scalar.F64)
        ):  # pandas makes floats where some are missing
            raise OddColumnError("an integer may have been rounded")
        return values.cast(target)
    if not pa.types.is_decimal(found):
        raise OddColumnError(f"{found} for {kind}")
    if not is_float:
        return values.cast(target)
    numbers = values.cast(pa.string()).cast(pa.float64())  # directly, 2.51 is not the nearest
    if found.scale <= 0 and may_be_rounded(numbers, kind):
        raise OddColumnError("an integer may be rounded")
    return from_json(numbers, kind)


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


def from_text(values: pa.Array, kind: PropType) -> pa.Array:
    """Return a column of CSV cells as the property stores it; lists are written as JSON."""
    if kind.is_list or kind.scalar is Scalar.VECTOR:
        raise OddColumnError("lists are read cell by cell")
    if kind.scalar is Scalar.BOOL and not _only(values, ["true", "false"]):
        raise OddColumnError("not true or false")
    if kind.scalar in INTEGERS and _some_match(values, "[xX]"):
        raise OddColumnError("Arrow would read hexadecimal digits")
    if kind.scalar in INTEGERS or kind.scalar is Scalar.BOOL:
        return values.cast(arrow_type(kind))
    if kind.scalar in FLOATS:
        numbers = values.cast(pa.float64())
        if may_be_rounded(numbers, kind) and _some_match(values, _LONG_INTEGER):
            raise OddColumnError("an integer may be rounded")
        return from_json(numbers, kind)
    return from_json(values.cast(json_type(kind)), kind)


def _some_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _only(values: pa.Array, words: list[str]) -> bool:
    return pc.all(pc.is_in(values.drop_null(), value_set=pa.array(words))).as_py() is not False


def _one_by_one(
    values: list[Any],
    kind: PropType,
    owner: Kind,
    name: str,
    cell: Callable[[Any, PropType], Any],
    at: Ints,
    bad: Mask,
    faults: Faults,
) -> pa.Array:
    fitted: list[Any] = []
    for position, value in enumerate(values):
        try:
            fitted.append(None if value is None else cell(value, kind))
        except CellError as error:
            fitted.append(None)
            text = f"{owner.name}.{name}: {error}"
            wrong = Violation(Rule.TYPE, owner.name, text, name, value=shown_value(value))
            faults.add(int(at[position]), wrong, again=bool(bad[position]))
            bad[position] = True
    return column(fitted, kind)


def _is_bytes(found: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(found)
        or pa.types.is_fixed_size_binary(found)
        or pa.types.is_large_binary(found)
        or pa.types.is_binary_view(found)
    )

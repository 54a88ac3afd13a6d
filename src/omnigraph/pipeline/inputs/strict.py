"""One record at a time, for lines that columns could not take: every fault gets its line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.api.query import MAX_SAFE_INTEGER
from omnigraph.api.violations import Rule, Violation
from omnigraph.compiler.catalog.model import ID, Catalog, EdgeType
from omnigraph.compiler.query.literals import parse_date, parse_datetime
from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.image.arrays import Mask
from omnigraph.engine.write.cells import CellError, column, fit
from omnigraph.pipeline.inputs.columns import DAY_MS, FIRST_DAY, LAST_DAY
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.rows import Kind, TypedRows

_LONG = (Scalar.I64, Scalar.U64)
_DIGITS = re.compile(r"-?[1-9][0-9]{15,19}")
_NODE_FIELDS = frozenset({"type", "data"})
_EDGE_FIELDS = frozenset({"edge", "from", "to", "data"})
_Ends: TypeAlias = tuple[str | None, str | None]
_NO_ENDS: _Ends = (None, None)


class RecordError(ValueError):
    """A record is wrong; carries what to report."""

    def __init__(self, *violations: Violation) -> None:
        self.violations = violations
        super().__init__(violations[0].message)


class MisfitError(RecordError):
    """Values of a record do not fit; the others are known."""

    def __init__(self, violations: Sequence[Violation], kind: Kind, values: dict[str, Any]) -> None:
        self.kind, self.values = kind, values
        super().__init__(*violations)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: its number within the task, its offset in the file, its text."""

    at: int
    offset: int
    text: bytes


@dataclass(slots=True)
class _Sheet:
    """Rows of one type being collected."""

    kind: Kind
    cells: dict[str, list[Any]]
    ids: list[str | None] = field(default_factory=list)
    src: list[str | None] = field(default_factory=list)
    dst: list[str | None] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    misfits: list[set[str | None]] = field(default_factory=list)
    """Of refused rows: the properties whose values do not fit."""

    def add(
        self,
        line: Line,
        values: Mapping[str, Any],
        ends: _Ends = _NO_ENDS,
        row_id: str | None = None,
    ) -> None:
        for name, cells in self.cells.items():
            cells.append(values.get(name))
        self.ids.append(row_id)
        self.src.append(ends[0])
        self.dst.append(ends[1])
        self.at.append(line.at)
        self.offsets.append(line.offset)

    def rows(self) -> TypedRows:
        is_edge = isinstance(self.kind, EdgeType)
        return TypedRows(
            self.kind,
            {
                name: column(values, self.kind.properties[name].type)
                for name, values in self.cells.items()
            },
            pa.array(self.ids, pa.string()),
            pa.array(self.src, pa.string()) if is_edge else None,
            pa.array(self.dst, pa.string()) if is_edge else None,
            np.asarray(self.at, np.int64),
            np.asarray(self.offsets, np.int64),
            self._misfits() if self.misfits else None,
        )

    def _misfits(self) -> dict[str, Mask]:
        return {name: np.asarray([name in one for one in self.misfits]) for name in self.cells}


def strict_rows(lines: Iterable[Line], catalog: Catalog, faults: Faults) -> list[TypedRows]:
    """Return the rows of all lines that are records of a type; what is wrong becomes faults.

    Rows with values that do not fit stand apart from sound ones.
    """
    sheets: dict[tuple[str, bool], _Sheet] = {}

    def sheet_of(kind: Kind, *, sound: bool) -> _Sheet:
        empty = _Sheet(kind, {name: [] for name in kind.properties})
        return sheets.setdefault((kind.table_key, sound), empty)

    for line in lines:
        try:
            record = _record(line.text)
            kind = kind_of(record, catalog)
            values, ends, row_id = _fields(record, kind)
        except MisfitError as error:
            faults.add_row(line.at, error.violations)
            sheet = sheet_of(error.kind, sound=False)
            sheet.add(line, error.values)
            sheet.misfits.append({wrong.prop for wrong in error.violations})
        except RecordError as error:
            faults.add_row(line.at, error.violations)
        else:
            sheet_of(kind, sound=True).add(line, values, ends, row_id)
    return [sheet.rows() for sheet in sheets.values()]


def _record(text: bytes) -> dict[str, Any]:
    """Return the object on a line; twice the same name in it is an error, not a choice."""
    try:
        found = exact_json(text)
    except orjson.JSONDecodeError as error:
        hint = "" if text.strip().endswith(b"}") else " (one record per line)"
        raise _wrong(f"invalid JSON at column {error.colno}: {error.msg}{hint}") from None
    if not isinstance(found, dict):
        raise _wrong("expected a JSON object")
    return found


def exact_json(text: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with every digit of its integers, each name of an object once.

    Raises:
        orjson.JSONDecodeError: it is not JSON.
        RecordError: a name is given twice, or lists are nested too deeply.
    """
    # The one is strict, but makes floats of integers that do not fit 64 bits; the other is exact.
    orjson.loads(text)
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise _wrong("lists or objects are nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for at, name in enumerate(names) if name in names[:at])
        raise _wrong(f"field '{again}' is given twice")
    return found


def kind_of(record: Mapping[str, Any], catalog: Catalog) -> Kind:
    """Return the type a record is of.

    Raises:
        RecordError: it names none, two, or one the schema does not know.
    """
    match record:
        case {"type": _, "edge": _}:
            raise _wrong("a record has either 'type' or 'edge', not both")
        case {"type": word}:
            return known_kind(word, catalog, is_edge=False)
        case {"edge": word}:
            return known_kind(word, catalog, is_edge=True)
        case _:
            raise _wrong("expected 'type' or 'edge' field")


def known_kind(word: object, catalog: Catalog, *, is_edge: bool) -> Kind:
    """Return a type of the schema by the name a record gives; edges whatever their case."""
    what = "edge" if is_edge else "node"
    if not isinstance(word, str):
        raise _wrong(f"the name of a {what} type must be text")
    found = catalog.find_edge(word) if is_edge else catalog.nodes.get(word)
    if found is None:
        raise _wrong(f"unknown {what} type '{word}'", word)
    return found


def _fields(record: Mapping[str, Any], kind: Kind) -> tuple[dict[str, Any], _Ends, str | None]:
    is_edge = isinstance(kind, EdgeType)
    for name in record.keys() - (_EDGE_FIELDS if is_edge else _NODE_FIELDS):
        raise _wrong(f"unexpected field '{name}' beside 'data'", kind.name)
    data = record.get("data")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise _wrong("'data' must be an object", kind.name)
    ends = (_text(record, "from", kind), _text(record, "to", kind))
    row_id = _text(data, ID, kind) if ID not in kind.properties else None
    return _values(data, kind), ends, row_id


def _values(data: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the properties of a record as they are stored; all that do not fit are told."""
    values: dict[str, Any] = {}
    wrong: list[Violation] = []
    for name, value in data.items():
        prop = kind.properties.get(name)
        if prop is not None:
            try:
                values[name] = json_cell(value, prop.type)
            except CellError as error:
                text = f"{kind.name}.{name}: {error}"
                wrong.append(Violation(Rule.TYPE, kind.name, text, name, value=value))
        elif name != ID:
            text = f"{kind.name} has no property '{name}'"
            wrong.append(Violation(Rule.RECORD, kind.name, text, name))
    if wrong:
        raise MisfitError(wrong, kind, values)
    return values


def _text(record: Mapping[str, Any], name: str, kind: Kind) -> str | None:
    value = record.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(f"{kind.name}: '{name}' must be text", kind.name, name)


def json_cell(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value as its property stores it; dates may be text or numbers.

    Raises:
        CellError: it does not fit.
    """
    if value is None:
        return None
    if kind.is_list and isinstance(value, list):
        return [json_cell(item, kind.item()) for item in value]
    if kind.scalar in (Scalar.DATE, Scalar.DATETIME) and not kind.is_list:
        value = _moment(value, kind.scalar)
    if isinstance(value, str) and kind.scalar in _LONG and not kind.is_list:
        value = _long_integer(value)
    return fit(value, kind)


def _long_integer(text: str) -> int | str:
    """Return the integer a text stands for that JavaScript could not hold as a number."""
    if not _DIGITS.fullmatch(text) or abs(int(text)) <= MAX_SAFE_INTEGER:
        return text
    return int(text)


def _moment(value: Any, scalar: Scalar) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        try:
            return parse_date(value) if scalar is Scalar.DATE else parse_datetime(value)
        except ValueError as error:
            raise CellError(str(error)) from None
    unit = 1 if scalar is Scalar.DATE else DAY_MS
    if isinstance(value, int) and not FIRST_DAY * unit <= value < (LAST_DAY + 1) * unit:
        raise CellError(f"{value} is out of range for {scalar}")
    return value


def _wrong(message: str, type_name: str = "", prop: str | None = None) -> RecordError:
    return RecordError(Violation(Rule.RECORD, type_name, message, prop))

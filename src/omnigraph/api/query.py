"""What a read returns: rows with the conversions people ask for, and what it took to get them.

Python values: dates are `date`, datetimes are `datetime` in UTC, vectors and lists are lists.
JSON: dates are `YYYY-MM-DD`, datetimes `YYYY-MM-DDTHH:MM:SS.mmmZ`, non-finite numbers strings (null
inside vectors), 64-bit integers numbers, or decimal strings where a reader cannot hold them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self, overload

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.notebook import SHOWN_ROWS, count_note, table_html
from omnigraph.api.pictures import MOST_PICTURE_NODES, PICTURE_NODES, Picture
from omnigraph.api.rows import ReadOutput, ReadTarget
from omnigraph.api.wire import Shape, Wire
from omnigraph.base.extras import load_extra
from omnigraph.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import polars as pl

MAX_SAFE_INTEGER = 2**53 - 1
_DATE64 = pa.date64()
_MOMENT = pa.timestamp("ms", "UTC")


class QueryResult:
    """Rows of a read query, in order.

    Iterating yields rows as dicts; `len` is the number of rows.
    """

    def __init__(
        self,
        table: pa.Table,
        query_name: str = "",
        branch: str | None = None,
        commit_id: str | None = None,
    ) -> None:
        self.query_name, self.branch, self.commit_id = query_name, branch, commit_id
        self._names, self._columns = tuple(table.column_names), tuple(table.columns)
        self._table: pa.Table | None = table
        self.draw: Callable[[int], Picture] | None = None

    @classmethod
    def of_columns(
        cls,
        names: Sequence[str],
        columns: Sequence[pa.Array],
        query_name: str = "",
        branch: str | None = None,
        commit_id: str | None = None,
    ) -> Self:
        """Return a result of whole columns; the table is made when somebody asks for it."""
        made = cls.__new__(cls)
        made.query_name, made.branch, made.commit_id = query_name, branch, commit_id
        made._names, made._columns, made._table = tuple(names), tuple(columns), None
        made.draw = None
        return made

    def graph(self, max_nodes: int = PICTURE_NODES) -> Picture:
        """Return the nodes and edges behind the rows, of the very state they were read from.

        A notebook draws it; `to_networkx()` gives it to programs.

        Raises:
            BadRequestError: these rows are no result of a query, but part of one.
        """
        if self.draw is None:
            raise BadRequestError(
                "these rows are no whole result of a query, so what is behind them is not known",
                hint="ask the result of graph.query(…) itself",
            )
        return self.draw(max_nodes)

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the nodes and edges behind the rows as a networkx graph; needs networkx."""
        return self.graph(MOST_PICTURE_NODES).to_networkx()

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        if self._table is None:
            self._table = pa.Table.from_arrays(list(self._columns), names=list(self._names))
        return self._table

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, which: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, which: slice) -> QueryResult: ...
    @overload
    def __getitem__(self, which: str) -> pa.ChunkedArray: ...
    def __getitem__(
        self, which: int | slice | str
    ) -> dict[str, Any] | QueryResult | pa.ChunkedArray:
        """Return a row by its number, rows by a range, or a column by its name."""
        match which:
            case str():
                return self._column(which)
            case slice():
                rows = self.table.take(pa.array(range(len(self))[which], pa.int64()))
                return QueryResult(rows, self.query_name, self.branch, self.commit_id)
            case _:
                at = range(len(self))[which]  # refuses numbers beyond the end
                return QueryResult(self.table.slice(at, 1)).to_dicts()[0]

    def _column(self, name: str) -> pa.ChunkedArray:
        if name not in self._names:
            known = ", ".join(self._names)
            raise NotFoundError(f"the result has no column '{name}'", hint=f"it has {known}")
        return _with_moments(self.table.select([name])).column(0)

    def one(self) -> dict[str, Any]:
        """Return the only row.

        Raises:
            BadRequestError: there are none, or several.
        """
        if len(self) != 1:
            raise BadRequestError(f"one row was expected, the result has {len(self)}")
        return self.to_dicts()[0]

    def scalar(self) -> Any:  # noqa: ANN401 - whatever the query returns
        """Return the only value of the only row.

        Raises:
            BadRequestError: there is not exactly one row of one column.
        """
        if len(self._names) != 1:
            raise BadRequestError(
                f"one column was expected, the result has {len(self._names)}",
                hint=f"they are {', '.join(self._names)}",
            )
        return self.one()[self._names[0]]

    def __arrow_c_schema__(self) -> object:
        """Return the schema to whoever speaks Arrow's C interface."""
        return _with_moments(self.table.slice(0, 0)).schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows to whoever speaks Arrow's C interface, as polars or DuckDB do."""
        return _with_moments(self.table).__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def __repr__(self) -> str:
        named = f"{self.query_name!r}, " if self.query_name else ""
        return f"QueryResult({named}{len(self)} rows, columns {', '.join(self._names)})"

    @property
    def columns(self) -> list[str]:
        """Column names, in the order of `return`."""
        return list(self._names)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self.table

    def batches(self, max_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches of at most `max_rows`."""
        yield from self.table.to_batches(max_chunksize=max_rows)

    def to_arrow_ipc(self) -> bytes:
        """Return an Arrow IPC stream; the schema is there even without rows."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return bytes(sink.getvalue())

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame; needs pandas.

        Integers keep every digit: where nulls stand among them, their column has pandas' nullable
        type instead of floats.
        """
        pandas = load_extra("pandas", "notebook", "to_pandas")
        table = _with_moments(self.table)
        frame: pd.DataFrame = table.to_pandas(integer_object_nulls=True)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count and pa.types.is_integer(column.type):
                nullable = str(column.type).replace("i", "I").replace("u", "U")
                frame[name] = pandas.array(frame[name], dtype=nullable)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a polars DataFrame; needs polars."""
        polars = load_extra("polars", "notebook", "to_polars")
        frame: pl.DataFrame = polars.from_arrow(_with_moments(self.table))
        return frame

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts of Python values."""
        names = self._names
        return [dict(zip(names, row, strict=False)) for row in self.to_tuples()]

    def to_tuples(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of Python values, in the order of the columns."""
        columns = [
            (_moment_values(column) if _has_moments(column.type) else column).to_pylist()
            for column in self._columns
        ]
        return list(zip(*columns, strict=True))

    def to_json_rows(self, *, js_safe: bool = False) -> list[dict[str, Any]]:
        """Return the rows as JSON-ready dicts.

        Args:
            js_safe: write integers beyond ±(2^53 - 1) as decimal strings.
        """
        columns = [_json_values(column, js_safe=js_safe) for column in self.table.columns]
        return [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_json(self, *, js_safe: bool = False) -> str:
        """Return the rows as a JSON array of objects."""
        return orjson.dumps(self.to_json_rows(js_safe=js_safe)).decode()

    def output(
        self, *, branch: str | None, snapshot: str | None = None, js_safe: bool = False
    ) -> ReadOutput:
        """Return the result as it goes over the wire; it echoes what was asked for."""
        rows = tuple(self.to_json_rows(js_safe=js_safe))
        target = ReadTarget(branch if snapshot is None else None, snapshot)
        return ReadOutput(self.query_name, target, rows, self._names)

    def _repr_html_(self) -> str:
        """Return a table for notebooks, cut after 50 rows."""
        shown = QueryResult(self.table.slice(0, SHOWN_ROWS)).to_json_rows()
        rows = [[_cell(value) for value in row.values()] for row in shown]
        return table_html(self.columns, rows, count_note(len(self), len(rows), "rows"))


@dataclass(frozen=True, slots=True)
class ProfileStep(Shape):
    """One operator; what runs inside an anti-join is one level deeper and part of its time."""

    operator: str
    depth: int
    rows: int
    expected: Annotated[float | None, Wire("expected_rows", digits=0)]
    access: str | None
    """How it gets at its rows."""
    ms: Annotated[float, Wire(digits=3)]


@dataclass(frozen=True, slots=True)
class Profile(Shape):
    """What a query did, operator by operator, beside its result."""

    query_name: str
    row_count: int
    compile_ms: Annotated[float, Wire(digits=3)]
    total_ms: Annotated[float, Wire(digits=3)]
    steps: Annotated[tuple[ProfileStep, ...], Wire("operators")]
    result: Annotated[QueryResult | None, Wire(hidden=True)] = field(
        default=None, repr=False, compare=False
    )
    """The rows, where the query ran in this process."""

    def _repr_html_(self) -> str:
        """Return the operators as a table for notebooks."""
        rows = [
            [
                "\N{NO-BREAK SPACE}" * 2 * one.depth + one.operator,
                str(one.rows),
                "" if one.expected is None else f"{one.expected:.0f}",
                f"{one.ms:.3f}",
                one.access or "",
            ]
            for one in self.steps
        ]
        note = f"{self.query_name}: {self.row_count} rows in {self.total_ms:.3f} ms"
        return table_html(("operator", "rows", "expected", "ms", "access"), rows, note)


def _cell(value: object) -> str:
    return (
        "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
    )


def _with_moments(table: pa.Table) -> pa.Table:
    """Return the table with datetimes as UTC timestamps: Arrow's date64 forgets the time of day."""
    for at, column in enumerate(table.schema):
        if _has_moments(column.type):
            table = table.set_column(at, column.name, _moment_values(table.column(at)))
    return table


def _has_moments(kind: pa.DataType) -> bool:
    return bool(kind == _DATE64 or (pa.types.is_list(kind) and kind.value_type == _DATE64))


def _moment_values(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of datetimes, or of lists of them, as UTC timestamps."""
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if whole.type == _DATE64:
        return _moments(whole)
    lists = whole.combine_chunks()
    items = _moments(pa.chunked_array([lists.values])).combine_chunks()
    return pa.chunked_array([pa.ListArray.from_arrays(lists.offsets, items, mask=lists.is_null())])


def _moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [chunk.view(pa.int64()).cast(_MOMENT) for chunk in column.chunks]
    return pa.chunked_array(chunks, _MOMENT)


def _json_values(column: pa.ChunkedArray, *, js_safe: bool) -> list[Any]:
    kind = column.type
    if pa.types.is_date32(kind):
        return list(pc.cast(column, pa.string()).to_pylist())
    if pa.types.is_date64(kind):
        return list(pc.strftime(_moments(column), "%Y-%m-%dT%H:%M:%SZ").to_pylist())
    values: list[Any] = column.to_pylist()
    if pa.types.is_large_binary(kind):  # of a whole row; as an export has it, and a load takes it
        return [None if one is None else _encoded(one) for one in values]
    if pa.types.is_floating(kind):
        return [_json_float(value) for value in values]
    if js_safe and pa.types.is_integer(kind):
        return [_safe_integer(value) for value in values]
    if pa.types.is_fixed_size_list(kind):
        return [None if one is None else [_vector_item(item) for item in one] for one in values]
    if pa.types.is_list(kind):
        return [
            None
            if one is None
            else _json_values(pa.chunked_array([pa.array(one, kind.value_type)]), js_safe=js_safe)
            for one in _raw_lists(column)
        ]
    return values


def _encoded(value: bytes) -> str:
    return "base64:" + base64.b64encode(value).decode()


def _raw_lists(column: pa.ChunkedArray) -> list[Any]:
    """Return lists as Arrow arrays, so that their items keep their type."""
    return [None if not one.is_valid else one.values for chunk in column.chunks for one in chunk]


def _json_float(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _vector_item(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _safe_integer(value: int | None) -> int | str | None:
    return value if value is None or abs(value) <= MAX_SAFE_INTEGER else str(value)

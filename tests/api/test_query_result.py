import datetime as dt
import json

import numpy as np
import pyarrow as pa

from omnigraph.api.query import QueryResult

MOMENT_MS = 1_777_111_222_345


def table(**columns):
    return QueryResult(pa.table(columns))


def test_every_type_has_its_json_form():
    result = table(
        s=pa.array(["ä", None]),
        b=pa.array([True, None]),
        i=pa.array([2**53, None], pa.int64()),
        u=pa.array([2**64 - 1, 0], pa.uint64()),
        f=pa.array([0.1, None], pa.float32()),
        d=pa.array([20_000, None], pa.int32()).cast(pa.date32()),
        t=pa.array([MOMENT_MS, None], pa.int64()).view(pa.date64()),
        v=pa.array([[0.5, 1.0], None], pa.list_(pa.float32(), 2)),
        l=pa.array([["a", None], None], pa.list_(pa.string())),
        ld=pa.array([[20_000], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    )
    first, second = json.loads(result.to_json())
    assert first == {
        "s": "ä",
        "b": True,
        "i": 2**53,
        "u": 2**64 - 1,
        "f": float(np.float32(0.1)),
        "d": "2024-10-04",
        "t": "2026-04-25T10:00:22.345Z",
        "v": [0.5, 1.0],
        "l": ["a", None],
        "ld": ["2024-10-04"],
    }
    assert set(second.values()) == {None, 0}


def test_integers_beyond_53_bits_become_text_when_asked():
    result = table(n=pa.array([2**53 - 1, 2**53, -(2**53), None], pa.int64()))
    rows = [row["n"] for row in result.to_json_rows(js_safe=True)]
    assert rows == [9007199254740991, "9007199254740992", "-9007199254740992", None]


def test_non_finite_numbers_are_words_and_null_inside_vectors():
    result = table(
        f=pa.array([float("nan"), float("inf"), float("-inf")]),
        v=pa.array([[float("nan"), 1.0]] * 3, pa.list_(pa.float32(), 2)),
    )
    rows = json.loads(result.to_json())
    assert [row["f"] for row in rows] == ["NaN", "Infinity", "-Infinity"]
    assert rows[0]["v"] == [None, 1.0]


def test_python_rows_keep_the_time_of_day():
    moments = pa.array([MOMENT_MS, None], pa.int64()).view(pa.date64())
    expected = dt.datetime(2026, 4, 25, 10, 0, 22, 345_000, tzinfo=dt.UTC)
    assert [row["t"] for row in table(t=moments)] == [expected, None]
    lists = pa.array([[MOMENT_MS], None], pa.list_(pa.int64())).view(pa.list_(pa.date64()))
    assert [row["t"] for row in table(t=lists)] == [[expected], None]


def test_arrow_forms_carry_the_schema_without_rows():
    empty = QueryResult(pa.schema([("a", pa.int32())]).empty_table())
    reader = pa.ipc.open_stream(empty.to_arrow_ipc())
    assert reader.schema.names == ["a"]
    assert list(reader) == []
    assert empty.to_json() == "[]"
    assert len(empty) == 0


def test_batches_are_bounded():
    result = table(n=pa.array(range(10)))
    assert [len(batch) for batch in result.batches(4)] == [4, 4, 2]


def test_notebooks_see_an_escaped_and_bounded_table():
    shown = table(**{"<a>": pa.array(["<script>"] * 60)})._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "60 rows, 10 not shown" in shown
    assert shown.count("<tr>") == 51


def test_rows_come_as_tuples_in_the_order_of_the_columns():
    result = table(b=[1, None], a=["x", "y"], at=pa.array([0, None], pa.date64()))
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert result.to_tuples() == [(1, "x", moment), (None, "y", None)]
    assert [tuple(row.values()) for row in result.to_dicts()] == result.to_tuples()

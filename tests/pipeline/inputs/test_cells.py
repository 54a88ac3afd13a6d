"""A cell of a table means the same whatever stands beside it, and only what it says."""

import contextlib
import datetime as dt
import gzip
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.compiler.types import PropType, Scalar
from omnigraph.engine.write.cells import CellError, column
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.inputs.columns import OddColumnError
from omnigraph.pipeline.inputs.odd_cells import arrow_cell, arrow_values, text_cell
from omnigraph.pipeline.inputs.tables import from_arrow, from_text
from omnigraph.pipeline.model import InputError, UnreadableError
from tests.pipeline.conftest import rows

SCALARS = [scalar for scalar in Scalar if scalar not in (Scalar.VECTOR, Scalar.BLOB)]
KINDS = [PropType(scalar, nullable=True, is_list=many) for scalar in SCALARS for many in (0, 1)]
FAR = pa.array([10**18], pa.int64())

TEXTS = st.one_of(
    st.from_regex(r"[ +-]?[0-9x._]{1,18}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9]Z?)?)?"),
    st.sampled_from(["true", "false", "True", "null", "nan", "inf", "0x10", "", "[1]", '["a"]']),
    st.text(max_size=6).filter(lambda text: text.isprintable()),
)
COUNTS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-100, 40_000).map(lambda days: days * 86_400_000_000),
)
ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "America/St_Johns", "+01:00"])


@st.composite
def columns(draw):
    """Return one value in some Arrow type."""
    what = draw(st.sampled_from(["float", "int", "decimal", "moment", "date", "text", "bool"]))
    match what:
        case "float":
            return pa.array(
                [draw(st.floats())], draw(st.sampled_from([pa.float32(), pa.float64()]))
            )
        case "int":
            return pa.array([draw(COUNTS)], pa.int64())
        case "decimal":
            value = draw(st.decimals(-(10**20), 10**20, places=draw(st.sampled_from([0, 2]))))
            return pa.array([value])
        case "moment":
            unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
            return pa.array([draw(COUNTS)]).view(pa.timestamp(unit, draw(ZONES)))
        case "date":
            if draw(st.booleans()):
                return pa.array([draw(COUNTS)]).view(pa.date64())
            return pa.array([draw(st.integers(-(2**31), 2**31 - 1))], pa.int32()).view(pa.date32())
        case "bool":
            return pa.array([draw(st.booleans())])
        case _:
            return pa.array([draw(TEXTS)], draw(st.sampled_from([pa.string(), pa.large_string()])))


def in_column(read, values, kind):
    """Return what a column becomes as a whole, or None if that needs a closer look."""
    try:
        return read(values, kind)
    except (OddColumnError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.sampled_from(KINDS))
@example("0x10", PropType(Scalar.I32))
@example("007", PropType(Scalar.I32))
@example("+.5e1", PropType(Scalar.F64))
def test_a_csv_cell_means_the_same_alone_and_beside_others(text, kind):
    whole = in_column(from_text, pa.array([text]), kind)
    if whole is not None:
        assert column([text_cell(text, kind)], kind).equals(whole)


@settings(max_examples=600, deadline=None)
@given(columns(), st.booleans(), st.sampled_from(KINDS))
@example(pa.array([2.0**60]), False, PropType(Scalar.I64))
@example(pa.array([2.0**60]), True, PropType(Scalar.U64, is_list=True))
def test_a_value_of_a_table_means_the_same_alone_and_beside_others(values, many, kind):
    if many:
        values = pa.ListArray.from_arrays([0, 1], values)
    whole = in_column(from_arrow, values, kind)
    [value] = arrow_values(values, kind)
    if whole is not None:
        assert column([arrow_cell(value, kind)], kind).equals(whole)
        whole.to_pylist()  # whatever is stored can be read
    else:
        with contextlib.suppress(CellError):
            column([arrow_cell(value, kind)], kind).to_pylist()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("born", FAR.view(pa.timestamp("s"))),
        ("born", pa.array([10**7], pa.int32()).view(pa.date32())),
        ("born", pa.array([-(10**7)], pa.int32()).view(pa.date32())),
        ("seen", FAR.view(pa.timestamp("s"))),
        ("seen", FAR.view(pa.timestamp("us", "Europe/Berlin"))),
        ("seen", FAR.view(pa.date64())),
        ("days", pa.ListArray.from_arrays([0, 1], FAR.view(pa.timestamp("us")))),
    ],
)
def test_years_outside_the_calendar_are_refused(graph, name, values):
    with pytest.raises(ConstraintError, match=rf"<Person>: row 1: Person.{name}: .* year"):
        graph.load({"Person": pa.table({"name": ["a"], name: values})})


def test_a_date_is_the_day_in_the_zone_of_its_column(graph):
    midnight = [
        dt.datetime(2020, 1, 1, 23, tzinfo=dt.UTC),
        dt.datetime(2020, 7, 1, 22, tzinfo=dt.UTC),
    ]
    table = pa.table(
        {"name": ["a", "b"], "born": pa.array(midnight, pa.timestamp("us", "Europe/Berlin"))}
    )
    graph.load({"Person": table})
    found = rows(graph, "node:Person")
    assert [found[one]["born"] for one in "ab"] == [dt.date(2020, 1, 2), dt.date(2020, 7, 2)]
    utc = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin"))
    with pytest.raises(ConstraintError, match="a Date has no time of day"):
        graph.load({"Person": pa.table({"name": ["c"], "born": utc})})


def test_decimals_are_numbers_and_a_bad_one_spoils_no_other(graph):
    table = pa.table(
        {
            "name": ["a", "b", "c"],
            "age": pa.array([Decimal("5.00"), Decimal("1.50"), None]),
            "exact": pa.array([Decimal("0.25"), Decimal("0.50"), Decimal("7.00")]),
        }
    )
    done = graph.load({"Person": table}, on_error="skip")
    assert [str(one) for one in done.skipped_rows] == [
        "<Person>: row 2: Person.age: expected an I32, got a number"
    ]
    found = rows(graph, "node:Person")
    assert {name: (row["age"], row["exact"]) for name, row in found.items()} == {
        "a": (5, 0.25),
        "c": (None, 7.0),
    }


def test_days_in_lists_are_days_beside_a_moment_that_is_none(graph):
    days = [
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)],
        [dt.datetime(1970, 1, 1, 0, 0, 0, 5_000, dt.UTC)],
    ]
    table = pa.table(
        {"name": ["a", "b"], "days": pa.array(days, pa.list_(pa.timestamp("us", "UTC")))}
    )
    done = graph.load({"Person": table}, on_error="skip")
    assert [str(one) for one in done.skipped_rows] == [
        "<Person>: row 2: Person.days: a Date has no time of day"
    ]
    assert rows(graph, "node:Person")["a"]["days"] == [dt.date(2020, 1, 1)]


def test_numbers_of_a_csv_file_are_decimal_however_they_are_padded(graph, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("name,age,exact\na,007,.5\nb, 8 ,+1.\nc,0x10,1\nd,9,none\n")
    done = graph.load({"Person": path}, on_error="skip")
    assert [str(one) for one in done.skipped_rows] == [
        f"{path}: row 3: Person.age: expected I32, got '0x10'",
        f"{path}: row 4: Person.exact: expected F64, got 'none'",
    ]
    found = rows(graph, "node:Person")
    assert {name: (row["age"], row["exact"]) for name, row in found.items()} == {
        "a": (7, 0.5),
        "b": (8, 1.0),
    }


@pytest.mark.parametrize("name", ["Person.csv.gz", "Person.csv.zst", "Person.csv"])
def test_a_compressed_csv_file_is_read_like_any_other(graph, tmp_path, name):
    codec = "zstd" if name.endswith(".zst") else "gzip"
    with pa.CompressedOutputStream(tmp_path / name, codec) as packed:
        packed.write(b"name,age\na,1\n")
    graph.load(tmp_path)
    assert rows(graph, "node:Person")["a"]["age"] == 1
    graph.load({"Person": tmp_path / name}, "merge")


def test_a_table_that_is_compressed_as_a_whole_is_named(graph, tmp_path):
    (tmp_path / "Person.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(InputError, match=r"Person.parquet.gz is compressed as a whole"):
        graph.load(tmp_path)


def test_a_csv_file_in_another_encoding_is_named(graph, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes("name,größe\na,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"people.csv: its header is not UTF-8"):
        graph.load({"Person": path})


def test_a_stream_that_breaks_is_called_by_its_name(graph):
    with pytest.raises(UnreadableError, match=r"^<bytes> cannot be read"):
        graph.load(b"\x1f\x8b\x08bad")


def test_a_large_number_that_pandas_made_a_float_is_refused_for_an_integer(graph):
    frame = pd.DataFrame({"name": ["a", "b"], "big": [2**53 + 1, None]})
    with pytest.raises(ConstraintError, match=r"row 1: Person.big: .* may have been rounded"):
        graph.load({"Person": frame})


def test_categories_of_polars_and_pandas_are_text(graph):
    for words in (
        pl.DataFrame(
            {"name": ["a", "b"], "level": pl.Series(["junior", None], dtype=pl.Enum(["junior"]))}
        ),
        pl.DataFrame(
            {"name": ["a", "b"], "level": pl.Series(["junior", None], dtype=pl.Categorical)}
        ),
        pd.DataFrame({"name": ["a", "b"], "level": pd.Categorical(["junior", None])}),
    ):
        graph.load({"Person": words})
        assert [one["level"] for one in rows(graph, "node:Person").values()] == ["junior", None]


def test_a_frame_with_a_column_twice_is_refused(graph):
    with pytest.raises(InputError, match="Duplicate column names"):
        graph.load({"Person": pd.DataFrame([["a", "b"]], columns=["name", "name"])})

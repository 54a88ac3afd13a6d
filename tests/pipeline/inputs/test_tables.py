"""Loading rows of one type from Parquet, Arrow, CSV and data frames."""

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from omnigraph.api.violations import Rule
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.model import InputError
from tests.pipeline.conftest import jsonl, node, rows

PEOPLE = pa.table(
    {
        "name": ["ada", "bob"],
        "age": pa.array([36, None], pa.int64()),
        "big": pa.array([2**64 - 1, 0], pa.uint64()),
        "score": [0.5, None],
        "active": [True, None],
        "born": pa.array([dt.date(1815, 12, 10), None]),
        "seen": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC), None]),
        "tags": pa.array([["x", None], None], pa.large_list(pa.large_string())),
        "sizes": pa.array([[1, 2], []], pa.list_(pa.int16())),
        "photo": pa.array([b"\x00", None], pa.binary()),
        "place": pa.array([[1, 2, 3], None], pa.list_(pa.float64(), 3)),
    }
)


def check_people(graph):
    found = rows(graph, "node:Person")
    assert set(found) == {"ada", "bob"}
    ada = found["ada"]
    assert (ada["age"], ada["big"], ada["score"], ada["active"]) == (36, 2**64 - 1, 0.5, True)
    assert ada["born"] == dt.date(1815, 12, 10)
    assert ada["seen"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)
    assert (ada["tags"], ada["sizes"], ada["photo"]) == (["x", None], [1, 2], b"\x00")
    assert ada["place"] == [1.0, 2.0, 3.0]
    assert found["bob"]["place"] is None


def test_an_arrow_table_is_loaded_whatever_its_widths(graph):
    graph.load({"Person": PEOPLE})
    check_people(graph)


def test_parquet_and_arrow_files_take_their_type_from_the_mapping_or_their_name(graph, tmp_path):
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    graph.load({"Person": tmp_path / "people.parquet"})
    check_people(graph)
    with pa.ipc.new_file(tmp_path / "Person.arrow", PEOPLE.schema) as writer:
        writer.write_table(PEOPLE)
    graph.load(tmp_path / "Person.arrow")
    check_people(graph)


def test_frames_of_other_libraries_are_loaded(graph):
    graph.load({"Person": pl.from_arrow(PEOPLE.drop_columns(["place"]))})
    assert rows(graph, "node:Person")["ada"]["tags"] == ["x", None]
    frame = pd.DataFrame({"name": ["eve"], "born": pd.to_datetime(["2020-01-31"])})
    graph.load({"Person": frame})
    assert rows(graph, "node:Person")["eve"]["born"] == dt.date(2020, 1, 31)


def test_edges_come_with_from_and_to_or_the_stored_names(graph):
    graph.load(jsonl(node("Person", name="ada"), node("Person", name="bob")))
    graph.load({"Knows": pa.table({"from": ["ada"], "to": ["bob"], "since": ["2020-01-31"]})})
    graph.load({"knows": pa.table({"src": ["bob"], "dst": ["ada"]})}, mode="append")
    ends = {(row["src"], row["dst"]) for row in rows(graph, "edge:Knows").values()}
    assert ends == {("ada", "bob"), ("bob", "ada")}


def test_csv_cells_are_text_and_empty_ones_null(graph, tmp_path):
    path = tmp_path / "Person.csv"
    path.write_text(
        "name,age,big,score,exact,active,born,seen,tags,place,email\n"
        'ada,36,18446744073709551615,0.5,1e3,true,1815-12-10,1970-01-01T00:00:00Z,"[""x"",null]",'
        '"[1,2,3]",\n'
        '"b\n,ob",,,,,false,,,,,"b@c"\n'
    )
    graph.load(path)
    found = rows(graph, "node:Person")
    ada, bob = found["ada"], found["b\n,ob"]
    assert (ada["age"], ada["big"], ada["exact"], ada["active"]) == (36, 2**64 - 1, 1000.0, True)
    assert (ada["tags"], ada["place"], ada["email"]) == (["x", None], [1.0, 2.0, 3.0], None)
    assert (bob["age"], bob["active"], bob["email"]) == (None, False, "b@c")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        pytest.param("age", pa.array([1, 2**40]), "out of range for I32", id="range"),
        pytest.param("age", pa.array([1.0, 1.5]), "expected an I32", id="fraction"),
        pytest.param("age", pa.array(["1", "x"]), "expected an I32", id="text"),
        pytest.param("exact", pa.array([1.0, float("nan")]), "finite", id="nan"),
        pytest.param("place", pa.array([[1, 2, 3], [1]]), "3 dimensions", id="width"),
        pytest.param("email", pa.array([None, 1]), "expected a String", id="number"),
        pytest.param("born", pa.array(["2020-01-01", "soon"]), "invalid Date", id="date"),
        pytest.param(
            "born",
            pa.array([18262 * 86_400, 18262 * 86_400 + 1], pa.timestamp("s")),
            "no time of day",
            id="moment",
        ),
        pytest.param("photo", pa.array(["base64:AA==", "http://x"]), "outside bytes", id="blob"),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(graph, column, values, message):
    table = pa.table({"name": ["ada", "bob"], column: values})
    with pytest.raises(ConstraintError) as caught:
        graph.load({"Person": table})
    last = caught.value.violations[-1]
    assert (last.rule, last.place) == (Rule.TYPE, "<Person>: row 2")
    assert message in last.message


def test_wrong_csv_cells_name_their_row(graph, tmp_path):
    path = tmp_path / "Person.csv"
    pcsv.write_csv(
        pa.table({"name": ["a", "b"], "age": ["1", "one"], "active": ["true", "yes"]}), path
    )
    with pytest.raises(ConstraintError) as caught:
        graph.load(path)
    assert [(one.place, one.prop) for one in caught.value.violations] == [
        (f"{path}: row 2", "age"),
        (f"{path}: row 2", "active"),
    ]


def test_given_and_missing_ids_may_be_mixed(graph):
    table = pa.table({"id": ["n1", None], "text": ["x", "y"]})
    graph.load({"Note": table})
    found = rows(graph, "node:Note")
    assert found["n1"]["text"] == "x"
    assert len(found) == 2


def test_damaged_rows_of_a_csv_file_are_told_by_number_and_can_be_left_out(graph, tmp_path):
    good = "".join(f"p{at},{at % 100}\n" for at in range(100_000))  # more than one block
    text = f"name,age\na,1\nb\nc,2,3\nd,x\n\n{good}e,4\nf,5,6\n".encode()
    path = tmp_path / "Person.csv"
    path.write_bytes(text + b"\xff,7\ng,old\n")
    with pytest.raises(ConstraintError) as caught:
        graph.load(path)
    assert [str(one).removeprefix(f"{path}: ") for one in caught.value.violations] == [
        "row 2: 1 cells in a row of 2",
        "row 3: 3 cells in a row of 2",
        "row 4: Person.age: expected I32, got 'x'",
        "row 100006: 3 cells in a row of 2",
        "row 100007: Person.name: invalid UTF-8",
        "row 100008: Person.age: expected I32, got 'old'",
    ]
    result = graph.load(path, on_error="skip")
    assert (result.nodes_loaded, result.skipped) == ({"Person": 100_002}, 6)
    assert {"a", "e", "p0"} <= set(rows(graph, "node:Person"))


def test_rows_of_a_frame_that_was_filtered_or_has_a_named_index_are_loaded(graph):
    frame = pd.DataFrame({"name": ["ada", "bob", "cyn"], "age": [1, 2, 3]})
    graph.load({"Person": frame[frame["age"] > 1]})
    assert {key: row["age"] for key, row in rows(graph, "node:Person").items()} == {
        "bob": 2,
        "cyn": 3,
    }
    graph.load({"Person": frame.set_index("name")})
    assert set(rows(graph, "node:Person")) == {"ada", "bob", "cyn"}


def test_a_frame_whose_column_mixes_types_is_refused(graph):
    with pytest.raises(InputError, match=r"cannot load a DataFrame as a table: .*column name"):
        graph.load({"Person": pd.DataFrame({"name": ["ada", 1]})})

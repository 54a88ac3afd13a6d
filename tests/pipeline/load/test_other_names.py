"""Files as people have them: other column names, JSON arrays, lists of objects."""

import datetime as dt
import gzip
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.config.document import ConfigError
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import NotFoundError
from omnigraph.pipeline.model import InputError
from tests.support.fast import FAST

SCHEMA = """
node Customer { customer_id: I64 @key full_name: String? born: Date? seen: DateTime? score: F64?
  tags: [String]? photo: Blob? }
node Note { text: String }
edge Bought: Customer -> Customer { at: I32? }
"""
ROWS = [
    {"Customer ID": 1, "Full name": "Ann", "x": "-"},
    {"Customer ID": 2, "Full name": None, "x": 1},
]
CALLED = {"Customer ID": "customer_id", "Full name": "full_name"}
MAP = """types:
  Customer:
    columns: {"Customer ID": customer_id, "Full name": full_name}
    ignore: [x]
  Bought:
    columns: {buyer: from, seller: to}
"""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        yield made


@pytest.fixture
def mapping(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text(MAP)
    return path


def customers(graph):
    rows = graph.query(
        "match { $c: Customer } return { $c.customer_id as i, $c.full_name as n } order { i }"
    )
    return [(row["i"], row["n"]) for row in rows]


def written(path, form, rows):
    match form:
        case "csv":
            names = list(rows[0])
            lines = [
                ",".join("" if row[one] is None else str(row[one]) for one in names) for row in rows
            ]
            path.write_text("\n".join([",".join(names), *lines]) + "\n")
        case "parquet":
            columns = {one: [row[one] for row in rows] for one in rows[0]}
            columns.pop("x", None)
            pq.write_table(pa.table(columns | ({"x": ["a", "b"]} if "x" in rows[0] else {})), path)
        case "json":
            path.write_text(json.dumps(rows))
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("form", ["csv", "parquet", "json", "jsonl"])
def test_a_mapping_says_what_columns_of_any_file_are(graph, mapping, tmp_path, form):
    edges = (
        written(tmp_path / f"b.{form}", form, [{"buyer": 1, "seller": 2, "at": 5}])
        if (form == "csv")
        else written(tmp_path / f"b.{form}", form, [{"buyer": "1", "seller": "2", "at": 5}])
    )
    data = {"Customer": written(tmp_path / f"c.{form}", form, ROWS), "Bought": edges}
    done = graph.load(data, mode="append", mapping=mapping)
    assert (done.nodes_loaded, done.edges_loaded) == ({"Customer": 2}, {"Bought": 1})
    assert customers(graph) == [(1, "Ann"), (2, None)]
    assert graph.query("match { $a $b:bought $c } return { $b.at as at }").scalar() == 5


def test_columns_may_be_named_one_by_one(graph, tmp_path):
    rows = [{name: one[name] for name in CALLED} for one in ROWS]
    data = {"Customer": written(tmp_path / "c.csv", "csv", rows)}
    graph.load(data, mode="append", columns=CALLED)
    assert customers(graph) == [(1, "Ann"), (2, None)]
    graph.load(data, mode="merge", columns={"Customer ID": "id", "Full name": "full_name"})
    assert customers(graph) == [(1, "Ann"), (2, None)]  # what is called id is the key


def test_a_column_the_mapping_names_must_be_there(graph, mapping, tmp_path):
    data = {"Customer": written(tmp_path / "c.csv", "csv", [{"Customer ID": 1, "x": 2}])}
    with pytest.raises(InputError, match="no column 'Full name', which the mapping names"):
        graph.load(data, mapping=mapping)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("types: {A: {colums: {a: b}}}", "unknown key `types.A.colums`"),
        ("kinds: {}", "unknown key `kinds`"),
        ("types: {A: {columns: {a: c, b: c}}}", "two columns of A are called `c`"),
        ("types: [", "not valid YAML"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_with_its_place(graph, tmp_path, text, says):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        graph.load({"Note": [{"text": "a"}]}, mapping=tmp_path / "bad.yaml")
    assert says in caught.value.message
    with pytest.raises(NotFoundError, match=r"mapping file 'gone\.yaml' not found"):
        graph.load({"Note": [{"text": "a"}]}, mapping="gone.yaml")


def test_a_key_under_another_mapping_is_another_load(graph, tmp_path):
    path = written(tmp_path / "n.csv", "csv", [{"text": "a", "other": "b"}])
    (tmp_path / "one.yaml").write_text("types: {Note: {ignore: [other]}}")
    (tmp_path / "two.yaml").write_text("types: {Note: {columns: {other: text}, ignore: [text]}}")
    how = {"mode": "append", "idempotency_key": "k"}
    graph.load({"Note": path}, mapping=tmp_path / "one.yaml", **how)
    assert graph.load({"Note": path}, mapping=tmp_path / "one.yaml", **how).replayed
    with pytest.raises(omnigraph.OmniGraphError, match="key"):
        graph.load({"Note": path}, mapping=tmp_path / "two.yaml", **how)


# Lists of objects


def test_lists_of_objects_are_loaded_as_they_are(graph):
    moment = dt.datetime(2024, 5, 1, 12, 30, 0, 125_000, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    done = graph.load(
        {
            "Customer": [
                {
                    "customer_id": np.int64(7),
                    "full_name": "Ann",
                    "born": dt.date(1980, 2, 29),
                    "seen": moment,
                    "score": Decimal("1.25"),
                    "tags": ("a", "b"),
                    "photo": b"\x00\x01",
                },
                {"customer_id": 8},
            ],
            "Bought": [{"from": "7", "to": "8", "at": 3}, {"src": "8", "dst": "7"}],
        },
        mode="append",
    )
    assert (done.nodes_loaded, done.edges_loaded) == ({"Customer": 2}, {"Bought": 2})
    (row,) = graph.query(
        "match { $c: Customer { customer_id: 7 } } return { $c.born as born, $c.seen as seen, "
        "$c.score as score, $c.tags as tags }"
    )
    assert row == {"born": dt.date(1980, 2, 29), "seen": moment, "score": 1.25, "tags": ["a", "b"]}
    assert graph.read_blob("Customer", "7", "photo") == b"\x00\x01"


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        ([{"text": "a"}, 3], InputError, "<Note>:2: expected an object, got int"),
        ([{"text": object()}], InputError, "<Note>:1: a object is no value of a property"),
        ([{"text": 3}], ConstraintError, "Note.text: expected a String, got an integer"),
        ([{"nope": "a"}], ConstraintError, "Note has no property 'nope'"),
        ([{"text": "a"}, {"text": None}], ConstraintError, "<Note>:2: Note.text: null"),
    ],
)
def test_objects_that_do_not_fit_are_named_by_their_place(graph, rows, error, says):
    with pytest.raises(error) as caught:
        graph.load({"Note": rows}, mode="append")
    assert says in str(caught.value)


def test_a_moment_finer_than_a_millisecond_is_refused_in_a_list(graph):
    fine = dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
    with pytest.raises(InputError, match="finer than a millisecond"):
        graph.load({"Customer": [{"customer_id": 1, "seen": fine}]}, mode="append")


# JSON arrays


@pytest.mark.parametrize("packed", [False, True])
def test_an_array_of_objects_is_a_file_of_the_type_it_is_named_like(graph, tmp_path, packed):
    text = b"\xef\xbb\xbf  " + json.dumps([{"text": "a"}, {"text": "ü"}]).encode()
    path = tmp_path / ("Note.json.gz" if packed else "Note.json")
    path.write_bytes(gzip.compress(text) if packed else text)
    assert graph.load(str(path), mode="append").nodes_loaded == {"Note": 2}
    assert graph.load({"Note": str(path)}, mode="append").nodes_loaded == {"Note": 2}


def test_an_array_of_records_may_have_several_types(graph, tmp_path):
    records = [
        {"type": "Customer", "data": {"customer_id": 1}},
        {"type": "Note", "data": {"text": "a"}},
        {"edge": "Bought", "from": "1", "to": "1", "data": {}},
    ]
    (tmp_path / "all.json").write_text(json.dumps(records, indent=1))
    done = graph.load(str(tmp_path / "all.json"), mode="append")
    assert (done.nodes_loaded, done.edges_loaded) == ({"Customer": 1, "Note": 1}, {"Bought": 1})


def test_lines_in_a_json_file_are_lines(graph, tmp_path):
    (tmp_path / "all.json").write_text('{"type":"Note","data":{"text":"a"}}\n')
    assert graph.load(str(tmp_path / "all.json"), mode="append").nodes_loaded == {"Note": 1}


@pytest.mark.parametrize("text", ["[{]", "[{},", '[{"a": 1}] x', "[1]", '[{"a":1,"a":2}]'])
def test_an_array_that_is_none_is_refused_by_its_name(graph, tmp_path, text):
    (tmp_path / "Note.json").write_text(text)
    with pytest.raises(InputError, match=r"Note\.json"):
        graph.load(str(tmp_path / "Note.json"), mode="append")

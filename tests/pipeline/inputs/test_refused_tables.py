"""What tables must not lose or make up in silence: digits, rows, zones, nulls."""

import csv
import gzip
import io
import json

import pandas as pd
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.inputs.csv_files import _open_quote
from omnigraph.pipeline.model import InputError
from tests.support.fast import FAST

SCHEMA = """node P { name: String @key t: String? s: DateTime? d: Date? i: I64? u: U64?
  many: [DateTime]? }
"""
BIG = 2**53 + 1


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        yield made


def texts(graph):
    rows = graph.query("match { $p: P } return { $p.name as n, $p.t as t } order { n }")
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("prop", ["s", "d", "many"])
def test_digits_below_a_millisecond_are_refused_by_row(graph, unit, prop):
    fine = {"us": 1, "ns": 1}[unit]
    values = [0, None, fine]
    kind = pa.timestamp(unit, "UTC")
    column = (
        pa.array([[one] if one is not None else None for one in values], pa.list_(kind))
        if (prop == "many")
        else pa.array(values, kind)
    )
    with pytest.raises(ConstraintError) as caught:
        graph.load({"P": pa.table({"name": ["a", "b", "c"], prop: column})}, mode="append")
    (broken,) = caught.value.violations
    assert (broken.place, broken.prop) == ("<P>: row 3", prop)
    assert "no digits below a millisecond" in broken.message


def test_whole_milliseconds_of_any_unit_are_taken(graph):
    stamps = pd.to_datetime(["1969-12-31T23:59:59.999", "2024-05-01T12:30:00.125"])
    frame = pd.DataFrame({"name": ["a", "b"], "s": stamps.astype("datetime64[ns]")})
    assert graph.load({"P": frame}, mode="append").nodes_loaded == {"P": 2}


@pytest.mark.parametrize("zone", ["Mars/Phobos", "+25:99", "berlin"])
def test_a_zone_nobody_knows_is_refused_by_its_column(graph, zone):
    column = pa.array([1], pa.timestamp("ms", zone))
    with pytest.raises(InputError, match="column 's' has the unknown time zone"):
        graph.load({"P": pa.table({"name": ["a"], "s": column})}, mode="append")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00", None])
def test_known_zones_are_taken(graph, zone):
    column = pa.array([1_000], pa.timestamp("ms", zone))
    graph.load({"P": pa.table({"name": ["a"], "s": column})}, mode="append")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('name,t\na,"open\nb,x\n', 2),
        ('name,t\na,x\nb,"open', 3),
        ('name,t\na,x\nb,"open\n', 3),
        ('name,t\n"a","""', 2),
        ('name,t\na,"x"\nb,"y""\nc,z\n', 3),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_ends_inside_a_quote_is_refused_with_its_line(
    graph, tmp_path, text, line, packed
):
    path = tmp_path / ("P.csv.gz" if packed else "P.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(InputError, match=rf"P\.csv(\.gz)?:{line}: the quoted cell"):
        graph.load(str(path), mode="append")
    assert texts(graph) == []


@pytest.mark.parametrize(
    "text",
    [
        'name,t\na,"x\ny"\n',
        'name,t\na,5" pipe\n',
        'name,t\na,x\nb,6" pipe',
        'name,t\na,"say ""hi"""\n',
        'name,t\na,""\n',
        'name,t\n"a","b\n"\n',
    ],
)
def test_quotes_that_close_or_mean_nothing_are_taken(graph, tmp_path, text):
    (tmp_path / "P.csv").write_text(text)
    graph.load(str(tmp_path / "P.csv"), mode="append")
    told = [tuple(row) for row in csv.reader(io.StringIO(text))][1:]
    assert texts(graph) == [(name, cell) for name, cell in told]


def test_an_open_quote_is_found_where_it_opens():
    assert [_open_quote(one) for one in (b'a,"b', b'"a","', b'"a""', b'a"b', b'"a","b"')] == [
        2, 4, 0, None, None,
    ]  # fmt: skip


def test_null_and_the_text_null_are_told_apart_in_both_directions(graph, tmp_path, cli_lines):
    rows = {"a": None, "b": "null", "c": "", "d": "x", "e": 'q"q', "f": "NULL"}
    (tmp_path / "P.csv").write_text('name,t\na,null\nb,"null"\nc,""\nd,x\ne,"q""q"\nf,NULL\ng,\n')
    graph.load(str(tmp_path / "P.csv"), mode="overwrite")
    assert dict(texts(graph)) == rows | {"g": None}
    shown = cli_lines(graph)
    assert shown == ["name,t", "a,null", 'b,"null"', 'c,""', "d,x", 'e,"q""q"', "f,NULL", "g,null"]
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "P.csv").write_text("\n".join(shown) + "\n")
    graph.load(str(tmp_path / "again" / "P.csv"), mode="overwrite")
    assert dict(texts(graph)) == rows | {"g": None}


@pytest.fixture
def cli_lines():
    from omnigraph.cli.formats import TableStyle, lines

    def shown(graph):
        found = graph.query("match { $p: P } return { $p.name as name, $p.t as t } order { name }")
        return list(lines(found.output(branch="main"), "csv", TableStyle(80, "truncate", False)))

    return shown


def test_integers_that_javascript_cannot_hold_come_back_from_its_safe_form(graph):
    line = {"type": "P", "data": {"name": "a", "i": -BIG, "u": 2**64 - 1}}
    graph.load(json.dumps(line).encode(), mode="append")
    found = graph.query("match { $p: P } return { $p.name as name, $p.i as i, $p.u as u }")
    (row,) = json.loads(found.to_json(js_safe=True))
    assert row == {"name": "a", "i": str(-BIG), "u": str(2**64 - 1)}
    graph.load({"P": [row]}, mode="overwrite")
    again = graph.query("match { $p: P } return { $p.name as name, $p.i as i, $p.u as u }")
    assert again.to_dicts() == found.to_dicts()


@pytest.mark.parametrize("text", ["1", "007", str(2**53 - 1), "9007199254740993.0", "9" * 21])
def test_other_integers_are_no_text(graph, text):
    with pytest.raises(ConstraintError, match=r"expected an I64, got text|integer"):
        graph.load({"P": [{"name": "a", "i": text}]}, mode="append")

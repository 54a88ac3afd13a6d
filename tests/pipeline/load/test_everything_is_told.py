"""A refused row tells all it breaks: values that do not fit, and rules that other values break."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.engine.write.violations import ConstraintError
from tests.support.fast import FAST

SCHEMA = """node P {
  name: String @key
  age: I32?
  kind: enum(a, b)?
  size: F64
  mail: String?
  @range(age, 0..10)
  @check(mail, ".+@.+")
}
edge Likes: P -> P { since: I32 kind: enum(x, y)? }
"""
WORST = {"name": "w", "age": "old", "kind": "zz", "mail": "none"}
TOLD = [
    "P.age: expected an I32, got text",
    "invalid enum value 'zz' for P.kind (expected: a, b)",
    "P.size: null in a required property",
    "@check violation on P.mail: value 'none' does not match pattern '.+@.+'",
]


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g"), SCHEMA, options=FAST) as made:
        yield made


def refused(graph, data, **how):
    with pytest.raises(ConstraintError) as caught:
        graph.load(data, mode="append", **how)
    assert (
        graph.query("query q() { match { $p: P } return { count(*) as n } }").to_dicts()[0]["n"]
        == 0
    )
    return caught.value


def lines(*records):
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def nodes(*rows):
    return lines(*({"type": "P", "data": row} for row in rows))


def test_a_line_tells_what_does_not_fit_and_what_its_other_values_break(graph):
    error = refused(graph, nodes(WORST))
    assert sorted(one.message for one in error.violations) == sorted(TOLD)
    assert {(one.place, one.row_id) for one in error.violations if one.prop != "age"} == {
        ("<bytes>:1", "w")
    }
    assert error.total == 4


def test_a_value_that_does_not_fit_is_not_called_missing_too(graph):
    error = refused(graph, nodes({"name": "a", "size": "big"}))
    assert [one.message for one in error.violations] == ["P.size: expected an F64, got text"]


def test_faults_of_one_row_stand_together_in_the_order_of_the_input(graph):
    good = {"name": "g", "size": 1}
    error = refused(
        graph, nodes({**good, "age": 99}, good, WORST, {**good, "name": "h", "age": -1})
    )
    places = [one.place for one in error.violations]
    assert places == ["<bytes>:1", *["<bytes>:3"] * 4, "<bytes>:4"]


def test_edges_tell_as_much(graph):
    edge = {"edge": "Likes", "from": "a", "to": "b", "data": {"since": "x", "kind": "no"}}
    assert [one.prop for one in refused(graph, lines(edge)).violations] == ["since", "kind"]


@pytest.mark.parametrize("form", ["parquet", "csv", "frame"])
def test_tables_tell_as_much_as_lines(graph, tmp_path, form):
    table = pa.table({name: [value] for name, value in WORST.items()})
    path = tmp_path / f"P.{form}"
    match form:
        case "parquet":
            pq.write_table(table, path)
        case "csv":
            path.write_text("name,age,kind,mail\nw,old,zz,none\n")
    data = {"P": table if form == "frame" else str(path)}
    error = refused(graph, data)
    told = {one.message for one in error.violations}
    assert (len(told), set(TOLD[1:]) - told) == (4, set())
    assert len({one.place for one in error.violations}) == 1


def test_a_skipped_row_counts_once_however_much_it_breaks(graph):
    done = graph.load(nodes(WORST, {"name": "g", "size": 1}), mode="append", on_error="skip")
    assert (done.skipped, done.nodes_loaded) == (1, {"P": 1})

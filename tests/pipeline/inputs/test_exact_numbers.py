"""An integer that a float would round is refused on every way into a graph; fractions are not."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.api.violations import Rule
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import OmniGraphError
from tests.pipeline.conftest import rows

INEXACT = [
    pytest.param("exact", 2**53 + 1, "would become 9007199254740992 as F64", id="F64"),
    pytest.param("exact", -(2**62) - 1, "would become -4611686018427387904 as F64", id="negative"),
    pytest.param("score", 2**24 + 1, "would become 16777216 as F32", id="F32"),
    pytest.param("place", [0, 2**24 + 1, 0], "would become 16777216 as F32", id="vector"),
]


def line(prop, text):
    return f'{{"type": "Person", "data": {{"name": "x", "{prop}": {text}}}}}\n'.encode()


def as_parquet(graph, tmp_path, prop, value):
    pq.write_table(pa.table({"name": ["x"], prop: [value]}), tmp_path / "p.parquet")
    return graph.load({"Person": tmp_path / "p.parquet"})


def as_csv(graph, tmp_path, prop, value):
    (tmp_path / "p.csv").write_text(f'name,{prop}\nx,"{json.dumps(value)}"\n')
    return graph.load({"Person": tmp_path / "p.csv"})


def as_lines(graph, tmp_path, prop, value):
    good = b'{"type": "Person", "data": {"name": "y"}}\n'
    return graph.load(good + line(prop, json.dumps(value)))


def as_table(graph, tmp_path, prop, value):
    return graph.load({"Person": pa.table({"name": ["x"], prop: [value]})})


@pytest.mark.parametrize("way", [as_lines, as_table, as_parquet, as_csv])
@pytest.mark.parametrize(("prop", "value", "message"), INEXACT)
def test_a_load_refuses_integers_that_would_be_rounded(graph, tmp_path, way, prop, value, message):
    with pytest.raises(ConstraintError) as caught:
        way(graph, tmp_path, prop, value)
    (one,) = caught.value.violations
    given = json.dumps(value) if way is as_csv else value  # cells of CSV are text
    assert (one.rule, one.prop, one.value) == (Rule.TYPE, prop, given)
    assert message in one.message
    assert one.place is not None
    assert rows(graph, "node:Person") == {}


@pytest.mark.parametrize(("prop", "value", "message"), INEXACT)
def test_a_mutation_refuses_them_as_literals_and_as_parameters(graph, prop, value, message):
    literal = f'query m() {{ insert Person {{ name: "x", {prop}: {json.dumps(value)} }} }}'
    kinds = {"exact": "F64", "score": "F32", "place": "Vector(3)"}
    head = f"query m($v: {kinds[prop]})"
    passed = f'{head} {{ insert Person {{ name: "x", {prop}: $v }} }}'
    for text, params in ((literal, {}), (passed, {"v": value})):
        with pytest.raises(OmniGraphError, match=message):
            graph.mutate(text, params=params)
    if prop != "place":  # an integer parameter fits the declared type, but not the property
        with pytest.raises(ConstraintError, match=f"statement 1: .*{message}"):
            graph.mutate(passed.replace(kinds[prop], "I64"), params={"v": value})
    assert rows(graph, "node:Person") == {}


@pytest.mark.parametrize("way", [as_lines, as_table, as_parquet, as_csv])
@pytest.mark.parametrize(
    ("prop", "value", "stored"),
    [
        pytest.param("exact", 2**53, 2.0**53, id="the last of all that are exact"),
        pytest.param("exact", 3 * 2**60, 3 * 2.0**60, id="exact further on"),
        pytest.param("score", 0.1, 0.10000000149011612, id="a fraction"),
        pytest.param("exact", 1e300, 1e300, id="a power of ten"),
        pytest.param("score", 3e38, 3.0000000054977558e38, id="a large fraction"),
    ],
)
def test_what_is_exact_or_a_fraction_is_stored(graph, tmp_path, way, prop, value, stored):
    way(graph, tmp_path, prop, value)
    assert rows(graph, "node:Person")["x"][prop] == stored


def test_text_that_looks_like_a_long_integer_is_only_looked_at_closely(graph):
    graph.load(line("tags", '[":90071992547409931,"], "exact": 1e300'))
    assert rows(graph, "node:Person")["x"]["exact"] == 1e300


@pytest.mark.parametrize("digits", [20, 300])
def test_integers_beyond_64_bits_keep_their_digits_until_they_are_judged(graph, digits):
    with pytest.raises(ConstraintError, match=f"the integer {'1' * digits} would become"):
        graph.load(line("exact", "1" * digits))


def test_lists_nested_too_deeply_are_a_fault_of_their_line(graph):
    with pytest.raises(ConstraintError, match="nested too deeply"):
        graph.load(line("exact", "[" * 1_000 + "]" * 1_000))


@pytest.mark.xdist_group("spark")
def test_spark_refuses_the_same(graph, spark, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(line("exact", 2**53 + 1) + line("score", 2**24 + 1))
    said = []
    for engine in ("inline", "spark"):
        with pytest.raises(ConstraintError) as caught:
            graph.load(tmp_path / "a.jsonl", engine=engine, spark=spark)
        said.append([str(one) for one in caught.value.violations])
    assert said[0] == said[1]
    assert len(said[0]) == 2


@pytest.mark.parametrize("number", ["9007199254740993.0", "1e17", "-9007199254740993.0"])
def test_an_integer_written_as_a_fraction_is_refused_where_floats_have_gaps(
    graph, tmp_path, number
):
    prop = "sizes" if number.startswith("-") else "big"
    text = f"[{number}]" if prop == "sizes" else number
    (tmp_path / "p.csv").write_text(f'name,{prop}\nx,"{text}"\n')
    for load in (
        lambda: graph.load(line(prop, text)),
        lambda: graph.load({"Person": tmp_path / "p.csv"}),
        lambda: graph.mutate(f'query m() {{ insert Person {{ name: "x", {prop}: {text} }} }}'),
    ):
        with pytest.raises(OmniGraphError):
            load()
    assert rows(graph, "node:Person") == {}


def test_an_integer_written_as_a_small_fraction_is_that_integer(graph):
    graph.load(line("big", "9007199254740991.0"))
    assert rows(graph, "node:Person")["x"]["big"] == 2**53 - 1

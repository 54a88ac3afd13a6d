"""Lines read as columns and lines read one by one mean the same, whatever is in them."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.pipeline.inputs.faults import Faults
from omnigraph.pipeline.inputs.lines import Block
from omnigraph.pipeline.inputs.records import read_rows
from omnigraph.pipeline.inputs.rows import Origin, to_table
from omnigraph.pipeline.inputs.strict import Line, strict_rows
from tests.pipeline.conftest import SCHEMA

CATALOG = load_schema(Source(SCHEMA)).catalog
ORIGIN = Origin("01J0000000000000000000ABCD", 0)
PROPS = [*CATALOG.nodes["Person"].properties, "id", "nonsense"]
NUMBERS = st.sampled_from(
    "0 -0 -1 1 1.0 1.5 1e2 151 2147483647 2147483648 -2147483649 4294967296 9223372036854775808 "
    "18446744073709551615 18446744073709551616 0.1 1e38 3.5e38 1e308 1e309 1e-400 NaN Infinity "
    "01 1. .5 - 719162 -719163 2932896 2932897".split()
)
TEXTS = st.sampled_from(
    [
        "ada",
        "",
        "a@b",
        "senior",
        "2020-02-29",
        "2021-02-29",
        "0000-01-01",
        "0001-01-01",
        "2020-1-1",
        "1969-12-31T23:59:59.999Z",
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:60Z",
        "2020-01-01 00:00:00Z",
        "2020-01-01T00:00Z",
        "2020-01-01T00:00:00+01:00",
        "0001-01-01T00:00:00Z",
        "base64:AA==",
        "base64:A",
        "http://x",
        "ü\u0000",
    ]
).map(json.dumps)
ODD = st.sampled_from(
    ['"\\ud800"', '"\\u00fc"', '"a\tb"', "true", "false", "null", "{}", "tru", ""]
)
ITEMS = NUMBERS | TEXTS | ODD
VALUES = ITEMS | st.lists(ITEMS, max_size=4).map(lambda items: f"[{','.join(items)}]")


@st.composite
def lines(draw):
    """A record of a Person with any values, mostly with a key."""
    names = draw(st.lists(st.sampled_from(PROPS), max_size=4))
    pairs = [f'"{name}":{draw(VALUES)}' for name in names]
    if draw(st.integers(0, 9)):
        pairs.insert(0, '"name":"ada"')
    return f'{{"type":"Person","data":{{{",".join(pairs)}}}}}'.encode()


def columns_first(text):
    faults = Faults()
    found, _ = read_rows(Block(text + b"\n", 0), 1, CATALOG, 1 << 20, faults)
    return outcome(found, faults)


def one_by_one(text):
    faults = Faults()
    return outcome(strict_rows([Line(1, 0, text)], CATALOG, faults), faults)


def outcome(found, faults):
    tables = [to_table(rows, ORIGIN, faults) for rows in found]
    kept = [table.to_pylist() for table in tables if len(table)]
    return kept, [(fault.row, fault.violation.message) for fault in faults.items]


@settings(max_examples=400)
@given(lines())
def test_both_ways_give_the_same_row_or_the_same_fault(text):
    assert columns_first(text) == one_by_one(text)

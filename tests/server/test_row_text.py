"""Rows made into text column by column say what rows made one by one say."""

import math
from datetime import UTC, date, datetime

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.api.query import QueryResult
from omnigraph.server.row_text import arrow_pieces, json_items, ndjson

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MOMENTS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
KINDS = {
    pa.string(): TEXTS,
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): FLOATS,
    pa.float32(): st.floats(width=32),
    pa.date32(): st.dates().map(lambda day: (day - date(1970, 1, 1)).days),
    pa.date64(): MOMENTS,
    pa.list_(pa.string()): st.lists(TEXTS, max_size=2),
    pa.list_(pa.float32(), 2): st.lists(st.floats(width=32), min_size=2, max_size=2),
    pa.list_(pa.date64()): st.lists(st.just(None), max_size=0),
}
NAMES = ["p.name", 'odd "name"', "c", "é", "x\\y", "n"]


def column(kind, values):
    if kind == pa.date64():
        return pa.array(values, pa.int64()).view(kind)
    if kind == pa.date32():
        return pa.array(values, pa.int32()).view(kind)
    return pa.array(values, kind)


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=len(NAMES)))
    rows = draw(st.integers(0, 4))
    columns = [
        column(
            kind,
            draw(st.lists(st.none() | KINDS[kind], min_size=rows, max_size=rows)),
        )
        for kind in kinds
    ]
    return pa.table(columns, names=NAMES[: len(kinds)])


@given(tables(), st.booleans())
def test_lines_and_items_say_what_single_rows_say(table, js_safe):
    wanted = QueryResult(table).to_json_rows(js_safe=js_safe)
    wanted = orjson.loads(orjson.dumps(wanted))
    lines = ndjson(table, js_safe=js_safe).splitlines() if len(table) else []
    assert [orjson.loads(line) for line in _lines(ndjson(table, js_safe=js_safe))] == wanted
    assert orjson.loads(b"[" + json_items(table, js_safe=js_safe)[:-1] + b"]") == wanted
    assert len(lines) >= len(wanted)  # a text may hold what Python takes for a line break


def _lines(text):
    return text.split(b"\n")[:-1]


def test_a_number_that_is_whole_stays_a_float():
    table = pa.table({"f": pa.array([2.0, -0.0, 1e300, math.inf, None])})
    found = [orjson.loads(line)["f"] for line in _lines(ndjson(table))]
    assert [type(one) for one in found[:3]] == [float] * 3
    assert math.copysign(1, found[1]) == -1
    assert found[3:] == ["Infinity", None]


def test_moments_have_their_milliseconds():
    when = datetime(2024, 2, 29, 12, 0, 0, 7_000, tzinfo=UTC)
    table = pa.table({"m": column(pa.date64(), [int(when.timestamp() * 1_000)])})
    assert orjson.loads(ndjson(table)) == {"m": "2024-02-29T12:00:00.007Z"}


def test_an_arrow_stream_can_be_read_however_it_is_cut():
    table = pa.table({"a": list(range(10))})
    for packed in (False, True):
        pieces = arrow_pieces(table.to_batches(max_chunksize=3), {"k": "v"}, packed=packed)
        with pa.ipc.open_stream(b"".join(pieces)) as reader:
            found = reader.read_all()
        assert found.replace_schema_metadata(None).equals(table)
        assert found.schema.metadata == {b"k": b"v"}

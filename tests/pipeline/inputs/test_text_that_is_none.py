"""Arrow and Parquet call bytes text without looking: every way into a graph looks."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import BadRequestError
from omnigraph.graph import GraphOptions

SCHEMA = """
node P { k: String @key
  s: String? @index
  l: [String]? }
node N { s: String? }
edge E: P -> P { w: String? }
"""
GOOD = {"P": pa.table({"k": ["a", "b"], "s": ["x", "y"]})}


def odd(*cells: bytes, kind: pa.DataType | None = None) -> pa.Array:
    """Return bytes as a column that says it is text."""
    stored = pa.array(cells, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(cells), stored.buffers())
    return text if kind is None else text.cast(kind)


def lists(*cells: bytes) -> pa.Array:
    return pa.ListArray.from_arrays(list(range(len(cells) + 1)), odd(*cells))


BAD_TABLES = {
    "a key": ("P", {"k": odd(b"ok", b"\xff\xfe")}, "P.k"),
    "a value": ("P", {"k": ["c", "d"], "s": odd(b"ok", b"\xff\xfe")}, "P.s"),
    "long text": ("P", {"k": ["c", "d"], "s": odd(b"ok", b"\xff", kind=pa.large_string())}, "P.s"),
    "a view": ("P", {"k": ["c", "d"], "s": odd(b"ok", b"\xff", kind=pa.string_view())}, "P.s"),
    "a dictionary": ("P", {"k": ["c", "d"], "s": odd(b"ok", b"\xff").dictionary_encode()}, "P.s"),
    "an item of a list": ("P", {"k": ["c", "d"], "l": lists(b"ok", b"\xff")}, "P.l"),
    "an item of a list of views": (
        "P",
        {"k": ["c", "d"], "l": lists(b"ok", b"\xff").cast(pa.list_(pa.string_view()))},
        "P.l",
    ),
    "an id": ("N", {"id": odd(b"ok", b"\xff\xfe"), "s": ["x", "y"]}, "N.id"),
    "an end": ("E", {"from": ["a", "a"], "to": odd(b"b", b"\xff\xfe")}, "E.to"),
    "a value of an edge": (
        "E",
        {"from": ["a", "a"], "to": ["b", "b"], "w": odd(b"ok", b"\xc3(")},
        "E.w",
    ),
}


@pytest.fixture
def graph(tmp_path):
    options = GraphOptions(embedder=None)
    with omnigraph.init(tmp_path / "g", SCHEMA, options=options) as opened:
        opened.load(GOOD, "append", engine="inline")
        yield opened


def everything(graph):
    return b"".join(graph.iter_export())


def refuse(graph, data, mode, place, prop):
    before, commit = everything(graph), graph.snapshot().commit_id
    with pytest.raises(ConstraintError) as told:
        graph.load(data, mode, engine="inline")
    (violation,) = told.value.violations
    assert str(violation) == f"{place}: {prop}: invalid UTF-8"
    assert graph.snapshot().commit_id == commit
    assert everything(graph) == before


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_table_with_text_that_is_none_is_refused_by_row_and_property(graph, case, mode):
    name, columns, prop = BAD_TABLES[case]
    refuse(graph, {name: pa.table(columns)}, mode, f"<{name}>: row 2", prop)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_file_with_text_that_is_none_is_refused_by_file_row_and_property(graph, tmp_path, ending):
    path = tmp_path / f"P.{ending}"
    table = pa.table({"k": ["c", "d"], "s": odd(b"ok", b"\xff\xfe")})
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "arrow":
        pa.feather.write_feather(table, str(path), compression="uncompressed")
    else:
        path.write_bytes(b"k,s\nc,ok\nd,\xff\xfe\n")
    refuse(graph, str(path), "append", f"{path}: row 2", "P.s")


def test_a_line_of_json_with_text_that_is_none_is_refused(graph):
    lines = b'{"type":"P","data":{"k":"c"}}\n{"type":"P","data":{"k":"d","s":"\xff\xfe"}}\n'
    with pytest.raises(ConstraintError, match="<bytes>:2: invalid UTF-8"):
        graph.load(lines, "append", engine="inline")
    assert len(graph.query("query q() { match { $p: P } return { $p.k } }")) == 2


def test_rows_with_text_that_is_none_can_be_skipped(graph):
    table = pa.table({"k": ["c", "d", "e"], "s": odd(b"ok", b"\xff", b"too")})
    done = graph.load({"P": table}, "append", engine="inline", on_error="skip")
    assert (done.skipped, [str(one) for one in done.skipped_rows]) == (
        1,
        ["<P>: row 2: P.s: invalid UTF-8"],
    )
    found = graph.query("query q() { match { $p: P } return { $p.k, $p.s } }").to_tuples()
    assert found == [("a", "x"), ("b", "y"), ("c", "ok"), ("e", "too")]


def test_a_nested_value_with_text_that_is_none_is_told_by_its_type(graph):
    wrapped = pa.StructArray.from_arrays([odd(b"\xff")], ["inner"])
    with pytest.raises(ConstraintError, match=r"row 1: P.s: expected String, got struct"):
        graph.load({"P": pa.table({"k": ["c"], "s": wrapped})}, "append", engine="inline")


def test_a_frame_with_a_lone_surrogate_is_refused(graph):
    with pytest.raises(BadRequestError):
        graph.load({"P": pd.DataFrame({"k": ["\ud800"]}, dtype=object)}, "append", engine="inline")


def test_a_parameter_with_a_lone_surrogate_is_refused(graph):
    with pytest.raises(BadRequestError):
        graph.mutate("query i($k: String) { insert P { k: $k } }", params={"k": "\udc80"})

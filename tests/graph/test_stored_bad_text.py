"""Rows that were stored with text that is none: found, removed, and then all can be read again."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import FormatError
from omnigraph.graph import GraphOptions

SCHEMA = "node P { k: String @key\n s: String?\n l: [String]? }\nedge E: P -> P"
ALL = "query q() { match { $p: P } return { $p.k, $p.s, $p.l } }"


def odd(*cells: bytes) -> pa.Array:
    stored = pa.array(cells, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(cells), stored.buffers())


def store_unchecked(graph, **columns):
    """Write rows past every door, as a version of this program once did."""
    count = len(columns["k"])
    whole = {"id": columns["k"], "s": pa.nulls(count, pa.string()), **columns}
    whole.setdefault("l", pa.nulls(count, pa.list_(pa.string())))
    schema = graph.store.snapshot().open("node:P").schema
    session = graph.store.begin()
    session.append("node:P", pa.table({name: whole[name] for name in schema.names}))
    session.commit()


def findings(graph):
    return [(one.kind, one.subject, one.detail) for one in graph.verify() if not one.harmless]


@pytest.fixture
def graph(tmp_path):
    options = GraphOptions(embedder=None)
    with omnigraph.init(tmp_path / "g", SCHEMA, options=options) as opened:
        rows = pa.table({"k": [f"k{i:04}" for i in range(2_000)], "s": ["good"] * 2_000})
        opened.load({"P": rows}, "append", engine="inline")
        yield opened


@pytest.mark.parametrize("column", ["s", "l"])
def test_rows_with_bad_text_are_named_and_can_be_deleted_by_their_id(graph, column):
    cells = odd(b"ok", b"\xff\xfe", b"fine", b"\xff")
    values = cells if column == "s" else pa.ListArray.from_arrays([0, 1, 2, 3, 4], cells)
    store_unchecked(graph, **{"k": pa.array(["x1", "x2", "x3", "x4"]), column: values})
    with pytest.raises(FormatError, match="not UTF-8"):
        graph.query(ALL)
    ((kind, subject, detail),) = findings(graph)
    assert (kind, subject) == ("unreadable_text", "node:P on 'main'")
    assert detail.startswith(f"'{column}' is not UTF-8 in x2, x4;")
    for bad in ("x2", "x4"):
        graph.mutate(f'query d() {{ delete P where id = "{bad}" }}')
    assert findings(graph) == []
    assert len(graph.query(ALL)) == 2_002


def test_rows_whose_key_is_bad_text_are_deleted_by_repair_when_forced(graph):
    store_unchecked(graph, k=odd(b"x1", b"\xff\xfe", b"x3"))
    kinds = {(kind, detail.partition(";")[0]) for kind, _, detail in findings(graph)}
    assert kinds == {
        ("unreadable_text", "'id' is not UTF-8 in row 2002"),
        ("unreadable_text", "'k' is not UTF-8 in row 2002"),
    }
    before = graph.snapshot().commit_id

    def on_p(**how):
        (found,) = [one for one in graph.repair(**how) if one.table_key == "node:P"]
        return found.action, found.unreadable_keys

    assert on_p() == ("preview", 1)
    assert on_p(confirm=True) == ("refused", 1)
    assert graph.snapshot().commit_id == before
    assert on_p(confirm=True, force=True) == ("forced", 1)
    assert on_p() == ("no_op", 0)
    assert findings(graph) == []
    assert len(graph.query(ALL)) == 2_002
    graph.mutate('query i() { insert P { k: "x4" } }')
    assert len(graph.query(ALL)) == 2_003


def test_ids_that_are_there_twice_are_found(graph):
    store_unchecked(graph, k=pa.array(["k0001", "new", "k0007"]))
    ((kind, subject, detail),) = findings(graph)
    assert (kind, subject) == ("duplicate_ids", "node:P on 'main'")
    assert detail.startswith("2 ids are there more than once, such as 'k0001', 'k0007'")

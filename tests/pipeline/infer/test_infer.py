"""Drafting a schema from files: the draft compiles, and the files load into it."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.infer.draft import infer_schema
from omnigraph.pipeline.infer.guess import Seen, guessed
from omnigraph.pipeline.model import UnreadableError
from tests.support.fast import FAST

PEOPLE = """slug,age,score,member,born,seen,zip,note
ada,36,1.5,true,1815-12-10,2026-01-01T10:00:00Z,01234,
bob,17,2,false,1990-01-31,2026-01-02T10:00:00Z,99999,hi
"""
KNOWS = "from,to,since\nada,bob,2020-01-01\n"


def body(draft):
    return [line for line in draft.text.splitlines() if line and not line.startswith("//")]


def test_csv_files_become_a_node_and_an_edge_that_take_their_rows(tmp_path):
    (tmp_path / "Person.csv").write_text(PEOPLE)
    (tmp_path / "Knows.csv").write_text(KNOWS)
    files = [tmp_path / "Person.csv", tmp_path / "Knows.csv"]
    draft = infer_schema(files)
    assert body(draft) == [
        "node Person {",
        "  slug: String @key",
        "  age: I64",
        "  score: F64",
        "  member: Bool",
        "  born: Date",
        "  seen: DateTime",
        "  zip: String",
        "  note: String?",
        "}",
        "edge Knows: Person -> Person {",
        "  since: Date",
        "}",
    ]
    with omnigraph.init(str(tmp_path / "g.omni"), draft.text, options=FAST) as graph:
        done = graph.load({"Person": files[0], "Knows": files[1]})
        assert done.nodes_loaded == {"Person": 2}
        assert done.edges_loaded == {"Knows": 1}


def test_parquet_keeps_its_widths_and_vectors(tmp_path):
    table = pa.table(
        {
            "id": ["a", "b"],
            "small": pa.array([1, 2], pa.int16()),
            "whole": pa.array([1, 2], pa.uint32()),
            "near": pa.array([1.0, None], pa.float32()),
            "day": [datetime.date(2026, 1, 1)] * 2,
            "at": pa.array([0, 1_000], pa.timestamp("us", "UTC")),
            "tags": [["x"], []],
            "sizes": pa.array([[1], [2]], pa.list_(pa.int32())),
            "point": pa.array([[0.5] * 16] * 2, pa.list_(pa.float32(), 16)),
            "raw": [b"1", b"2"],
        }
    )
    pq.write_table(table, tmp_path / "daily-thing.parquet")
    draft = infer_schema([tmp_path / "daily-thing.parquet"])
    assert body(draft) == [
        "node DailyThing {",
        "  id: String @key",
        "  small: I32",
        "  whole: U32",
        "  near: F32?",
        "  day: Date",
        "  at: DateTime",
        "  tags: [String]",
        "  sizes: [I32]",
        "  point: Vector(16)",
        "  raw: Blob",
        "}",
    ]
    with omnigraph.init(str(tmp_path / "g.omni"), draft.text, options=FAST) as graph:
        done = graph.load({"DailyThing": tmp_path / "daily-thing.parquet"})
        assert done.nodes_loaded == {"DailyThing": 2}


def test_the_lines_of_an_export_give_back_the_types_they_came_from(tmp_path):
    schema = (
        "node Person {\n  name: String @key\n  age: I64?\n  vector: Vector(8)?\n}\n\n"
        "node Org {\n  title: String @key\n}\n\n"
        "edge WorksAt: Person -> Org {\n  since: Date\n}\n\nedge Knows: Person -> Person\n"
    )
    rows = [
        {"type": "Person", "data": {"name": "a", "age": 3, "vector": [0.5] * 8}},
        {"type": "Person", "data": {"name": "b"}},
        {"type": "Org", "data": {"title": "o"}},
        {"edge": "WorksAt", "from": "a", "to": "o", "data": {"since": "2020-01-01"}},
        {"edge": "Knows", "from": "a", "to": "b"},
    ]
    with omnigraph.init(str(tmp_path / "g.omni"), schema, options=FAST) as graph:
        graph.load("\n".join(map(json.dumps, rows)).encode())
        graph.export(tmp_path / "all.jsonl.gz")
    draft = infer_schema([tmp_path / "all.jsonl.gz"])
    assert sorted(body(draft)) == sorted(line for line in schema.splitlines() if line)


def test_plain_objects_are_rows_of_a_type_named_like_the_file(tmp_path):
    (tmp_path / "book.jsonl").write_text('// books\n{"code": 7}\n\n{"code": 8, "big": 2e3}\n')
    assert body(infer_schema([tmp_path / "book.jsonl"])) == [
        "node Book {",
        "  code: I64 @key",
        "  big: F64?",
        "}",
    ]


def test_what_no_property_can_hold_is_noted_and_the_rest_stays(tmp_path):
    row = {"type": "A", "data": {"name": "x", "deep": {"a": 1}, "First Name": "y", "gone": None}}
    other = {"type": "A", "data": {"name": "y", "mixed": 1}}
    third = {"type": "A", "data": {"name": "z", "mixed": "one"}}
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, (row, other, third))))
    draft = infer_schema([tmp_path / "a.jsonl"])
    assert [line for line in body(draft) if ":" in line and "//" not in line] == [
        "  name: String @key",
        "  gone: String?",
    ]
    assert sorted(draft.notes) == [
        'A: "First Name" cannot be the name of a property; rename the column',
        "A: gone is always missing; its type is a guess",
        "A: no type holds deep (objects)",
        "A: no type holds mixed (values of different kinds)",
    ]


def test_only_the_asked_number_of_rows_is_looked_at(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n2\nthree\n")
    assert "x: I64" in infer_schema([tmp_path / "a.csv"], sample_rows=2).text
    assert "x: String" in infer_schema([tmp_path / "a.csv"]).text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", "{", r"a.jsonl:1: not valid JSON"),
        ("a.jsonl", "\n[1]", r"a.jsonl:2: not a JSON object"),
        ("a.jsonl", "", "no rows"),
        ("a.jsonl", '{"edge":"E","from":"x","to":"y"}', "edge E: its ends are ids of none"),
        ("a.jsonl", '{"type":"E"}\n{"edge":"E","from":"x","to":"y"}', "'E' is a node in one"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadRequestError, match=said):
        infer_schema([tmp_path / name])


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(NotFoundError, match=r"gone\.csv"):
        infer_schema([tmp_path / "gone.csv"])


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5),
    st.dates().map(str),
)


@given(st.lists(st.fixed_dictionaries({"v": SCALARS}), min_size=1, max_size=6))
def test_any_rows_of_a_drafted_type_fit_it(rows):
    seen = Seen()
    for row in rows:
        seen.add(row["v"])
    kind = guessed(seen)
    if kind is not None:
        catalog = load_schema(Source(f"node A {{ v: {kind} }}")).catalog
        assert catalog.nodes["A"].properties["v"].type == kind
        assert kind.nullable == any(row["v"] is None for row in rows)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bad.parquet", b"no parquet"),
        ("bad.arrow", b"no arrow file"),
        ("bad.jsonl.gz", b"\x1f\x8bjunk"),
        ("ragged.csv", b"a,b\n1\n"),
        ("latin.csv", b"a\n\xff\n"),
        ("empty.csv", b""),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UnreadableError, match=f"cannot read '.*{name}'"):
        infer_schema([tmp_path / name])


def test_line_breaks_in_cells_make_no_rows_however_long_the_file(tmp_path):
    path = tmp_path / "Note.csv"
    lines = (f'n{at},"one\nand, two ""{at}"""\n' for at in range(40_000))
    path.write_text("name,text\n" + "".join(lines))
    assert infer_schema([path]).rows == 40_000


def test_decimals_are_numbers_and_times_alone_nothing(tmp_path):
    table = pa.table(
        {
            "name": ["a", "b"],
            "price": pa.array([Decimal("1.50"), Decimal("2.00")]),
            "count": pa.array([Decimal(7), None]),
            "at": pa.array([datetime.time(1), None]),
        }
    )
    path = tmp_path / "Item.parquet"
    pq.write_table(table.drop_columns(["at"]), path)
    draft = infer_schema([path])
    assert body(draft) == [
        "node Item {",
        "  name: String @key",
        "  price: F64",
        "  count: I64?",
        "}",
    ]
    with omnigraph.init(tmp_path / "g.omni", draft.text, options=FAST) as graph:
        assert graph.load(path).nodes_loaded == {"Item": 2}
    pq.write_table(table, path)
    assert infer_schema([path]).notes == ("Item: no type holds at (times without a date)",)


def test_columns_without_rows_are_kept_and_noted(tmp_path):
    path = tmp_path / "Empty.csv"
    path.write_text("name,age\n")
    draft = infer_schema([path])
    assert body(draft) == ["node Empty {", "  name: String", "  age: String", "}"]
    assert len(draft.notes) == 2


def test_what_is_no_table_of_this_kind_is_told(tmp_path):
    path = tmp_path / "Latin.csv"
    path.write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(BadRequestError, match=r"Latin.csv: its header is not UTF-8"):
        infer_schema([path])
    with pytest.raises(BadRequestError, match="is a folder"):
        infer_schema([tmp_path])
    far = tmp_path / "Far.parquet"
    pq.write_table(pa.table({"at": pa.array([10**18]).view(pa.timestamp("us"))}), far)
    with pytest.raises(BadRequestError, match=r"Far.parquet: .* year from 1 to 9999"):
        infer_schema([far])
    long = tmp_path / "Long.csv"
    long.write_text("name,sum\na," + "9" * 5_000 + "\n")
    assert "  sum: String" in body(infer_schema([long]))


def test_a_parquet_file_whose_text_is_none_is_refused_by_its_name(tmp_path):
    cells = pa.array([b"ok", b"\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, cells.buffers())
    pq.write_table(pa.table({"slug": text}), tmp_path / "P.parquet")
    with pytest.raises(BadRequestError, match=r"P\.parquet: its text is not UTF-8"):
        infer_schema([tmp_path / "P.parquet"])

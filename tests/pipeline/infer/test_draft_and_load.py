"""What is drafted from files takes exactly those files, under the mapping drafted with it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.infer.draft import infer_schema
from omnigraph.pipeline.inputs.mapping import mapped_files, mapping_text
from tests.support.fast import FAST


def body(draft):
    return [line for line in draft.text.splitlines() if line and not line.startswith("//")]


def loaded(folder, files, **how):
    """Draft, write the mapping down, load the files it names; return how many rows there are."""
    draft = infer_schema(files, beside=folder, **how)
    mapping = folder / "map.yaml"
    mapping.write_text(mapping_text(draft.mapping), encoding="utf-8")
    with omnigraph.init(str(folder / "g.omni"), draft.text, options=FAST) as graph:
        done = graph.load(mapped_files(mapping), "append", mapping=mapping)
        return draft, {**done.nodes_loaded, **done.edges_loaded}


ORDERS = """ID;Customer ID;Full Name;E-Mail;Größe (cm);order;Order Date;_score
1;17;Ann;ann@x.org;170;a;2024-01-31;1.5
2;18;Bo;bo@x.org;180;b;2024-02-01;2.5
"""


def test_an_ordinary_file_keeps_all_its_columns(tmp_path, caplog):
    (tmp_path / "orders 2024.csv").write_text(ORDERS)
    draft, rows = loaded(tmp_path, [tmp_path / "orders 2024.csv"])
    assert body(draft) == [
        "node Orders2024 {",
        "  orders2024_id: I64 @key",
        "  customer_id: I64",
        "  full_name: String",
        "  e_mail: String",
        "  grosse_cm: I64",
        "  order: String",
        "  order_date: Date",
        "  score: F64",
        "}",
    ]
    assert rows == {"Orders2024": 2}
    assert [note.partition(": ")[2] for note in draft.notes] == [
        "cells between semicolons, text in UTF-8"
    ]
    assert "orders 2024.csv: cells between semicolons, text in UTF-8" in caplog.text


@pytest.mark.parametrize("ends", ["source,target", "src,dst", "from,to", "Source,Target"])
def test_ends_are_known_by_their_usual_names(tmp_path, ends):
    (tmp_path / "person.csv").write_text("id,name\na,Ann\nb,Bo\n")
    (tmp_path / "knows.csv").write_text(f"{ends},since\na,b,2020-01-01\n")
    draft, rows = loaded(tmp_path, [tmp_path / "person.csv", tmp_path / "knows.csv"])
    assert "  id: String @key" in body(draft)
    assert "edge Knows: Person -> Person {" in body(draft)
    assert rows == {"Person": 2, "Knows": 1}


def test_numbers_as_ids_are_keys_and_ends_of_any_kind_of_file(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "name": ["x", "x"]}), tmp_path / "city.parquet")
    pq.write_table(pa.table({"source": [1], "target": [2], "id": [9]}), tmp_path / "road.parquet")
    (tmp_path / "rail.json").write_text(json.dumps([{"from": 2, "to": 1, "id": 4}]))
    files = [tmp_path / name for name in ("city.parquet", "road.parquet", "rail.json")]
    draft, rows = loaded(tmp_path, files)
    assert body(draft)[:4] == ["node City {", "  city_id: I64 @key", "  name: String", "}"]
    assert rows == {"City": 2, "Road": 1, "Rail": 1}


def test_ids_that_do_not_tell_rows_apart_are_a_property(tmp_path):
    (tmp_path / "Visit.csv").write_text("id,name\n7,a\n7,b\n")
    draft, rows = loaded(tmp_path, [tmp_path / "Visit.csv"])
    assert body(draft)[1:3] == ["  visit_id: I64", "  name: String @key"]
    assert rows == {"Visit": 2}


def test_what_no_property_holds_is_left_out_by_the_mapping(tmp_path):
    table = {"slug": ["a", "b"], "": [1, 2], "deep": [{"x": 1}, None], "gone": [float("nan"), 1.0]}
    pq.write_table(pa.table(table), tmp_path / "Odd.parquet")
    draft, rows = loaded(tmp_path, [tmp_path / "Odd.parquet"])
    assert [line for line in body(draft) if "//" not in line] == [
        "node Odd {",
        "  slug: String @key",
        "  column: I64",
        "}",
    ]
    assert rows == {"Odd": 2}
    assert "Odd: no type holds gone (numbers that are not finite)" in draft.notes


def test_an_export_keeps_the_key_its_ids_were_made_of(tmp_path):
    schema = (
        "node Person {\n  name: String\n  number: I64 @key\n}\n\nnode Note {\n  text: String\n}\n\n"
        "edge Wrote: Person -> Note\n"
    )
    rows = [
        {"type": "Person", "data": {"name": "a", "number": 1}},
        {"type": "Person", "data": {"name": "b", "number": 2}},
        {"type": "Note", "data": {"text": "hi", "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
        {"edge": "Wrote", "from": "1", "to": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    ]
    with omnigraph.init(str(tmp_path / "first.omni"), schema, options=FAST) as graph:
        graph.load("\n".join(map(json.dumps, rows)).encode())
        graph.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    for line in lines:
        if line.get("type") == "Person":
            line["data"].setdefault("id", str(line["data"]["number"]))
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    draft, found = loaded(tmp_path, [tmp_path / "all.jsonl"])
    assert sorted(body(draft)) == sorted(line for line in schema.splitlines() if line)
    assert found == {"Person": 2, "Note": 1, "Wrote": 1}


# How text files are written

TEXTS = {
    "semicolon": ("name;size\nä,b;1\n", "utf-8", None),
    "tab": ("name\tsize\nä;b\t1\n", "utf-8", None),
    "bar": ('"na;;me"|size\nä|1\n', "utf-8", None),
    "mark": ("name,size\nä,1\n", "utf-8-sig", None),
    "wide": ("name,size\nä,1\n", "utf-16", None),
    "windows": ("name,größe\n€,1\n", "windows-1252", "windows-1252"),
}


@pytest.mark.parametrize("which", TEXTS)
def test_text_files_are_read_as_they_are_written(tmp_path, which):
    text, encoding, said = TEXTS[which]
    (tmp_path / "Thing.csv").write_bytes(text.encode(encoding))
    draft, rows = loaded(tmp_path, [tmp_path / "Thing.csv"], encoding=said)
    assert rows == {"Thing": 1}
    with omnigraph.connect(str(tmp_path / "g.omni"), options=FAST) as graph:
        first = draft.text.partition("{")[2].split(":")[0].strip()
        found = graph.query(f"match {{ $t: Thing }} return {{ $t.{first} as v }}").scalar()
    assert (
        found
        == text.splitlines()[1]
        .replace("|", ";" if which != "bar" else "|")
        .split({"semicolon": ";", "tab": "\t", "bar": "|"}.get(which, ","))[0]
    )


def test_what_is_said_of_a_file_wins_and_words_that_mean_nothing_are_refused(tmp_path):
    (tmp_path / "T.csv").write_text("a;b,c\n1;2,3\n")
    draft = infer_schema([tmp_path / "T.csv"], delimiter="semicolon")
    assert [line.split(":")[0] for line in body(draft)[1:-1]] == ["  a", "  b_c"]
    wrong = ({"delimiter": "ab"}, {"delimiter": '"'}, {"encoding": "klingon"}, {"encoding": "hex"})
    with omnigraph.init(str(tmp_path / "g.omni"), draft.text, options=FAST) as graph:
        for how in wrong:
            with pytest.raises(BadRequestError, match=r"cannot stand between|no encoding"):
                infer_schema([tmp_path / "T.csv"], **how)
            with pytest.raises(BadRequestError, match=r"cannot stand between|no encoding"):
                graph.load({"T": str(tmp_path / "T.csv")}, **how)
        renamed = {"delimiter": ";", "columns": {"b,c": "b_c"}}
        # What stands between the cells is said by nobody: the header has one of each.
        with pytest.raises(BadRequestError, match="no property 'a;b'"):
            graph.load({"T": str(tmp_path / "T.csv")})
        assert graph.load({"T": str(tmp_path / "T.csv")}, **renamed).nodes_loaded == {"T": 1}


def test_a_file_of_another_encoding_is_told_how_to_say_it(tmp_path):
    (tmp_path / "T.csv").write_bytes("größe\n1\n".encode("windows-1252"))
    with pytest.raises(BadRequestError) as caught:
        infer_schema([tmp_path / "T.csv"])
    assert "--encoding" in caught.value.hint
    (tmp_path / "U.csv").write_bytes(b"a\n" + b"\x81\n")
    with pytest.raises(BadRequestError, match="its text is not"):
        infer_schema([tmp_path / "U.csv"], encoding="windows-1252")
    with (
        omnigraph.init(str(tmp_path / "g.omni"), "node U { a: String }", options=FAST) as graph,
        pytest.raises(BadRequestError, match="its text is not CP1252"),
    ):
        graph.load(str(tmp_path / "U.csv"), encoding="windows-1252")


# Any files

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6)
HEADERS = st.one_of(
    st.sampled_from(
        ["id", "ID", "Name", "name", "type", "order", "src", "_score", "Full Name", "é"]
    ),
    TEXT.filter(lambda text: not text.startswith("\ufeff")),
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 9),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.sampled_from(["null", "1_0.5", "1e999", "007", "2024-02-30", "2024-02-29T10:00:00.123456Z"]),
    st.dates().map(str),
    st.lists(st.integers(0, 3), max_size=3),
)


@st.composite
def tables(draw):
    """Draw rows under any headers; now and then a column is of one kind of values."""
    names = draw(st.lists(HEADERS, min_size=1, max_size=5, unique=True))
    count = draw(st.integers(1, 4))
    columns = []
    for _ in names:
        kind = draw(st.sampled_from([VALUES, st.integers(-5, 5), TEXT, st.floats(-9, 9)]))
        columns.append(draw(st.lists(kind, min_size=count, max_size=count)))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def cell(value):
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, bool | list) else str(value)
    return '"' + text.replace('"', '""') + '"' if isinstance(value, str | list) else text


def write(folder, form, rows):
    path = folder / f"any thing.{form}"
    match form:
        case "csv":
            lines = [",".join(map(cell, row.values())) for row in rows]
            head = ",".join(map(cell, rows[0]))
            path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
        case "json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        case "parquet":
            columns = {}
            for name in rows[0]:
                values = [row[name] for row in rows]
                try:
                    columns[name] = pa.array(values)
                except (pa.ArrowException, OverflowError):
                    columns[name] = pa.array([None if one is None else str(one) for one in values])
            pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=tables())
def test_any_rows_load_into_the_schema_drafted_from_them(tmp_path_factory, form, rows):
    folder = tmp_path_factory.mktemp("any")
    draft, found = loaded(folder, [write(folder, form, rows)])
    assert draft.rows == len(rows) or form == "csv"  # where a blank line is no row
    assert sum(found.values()) == draft.rows

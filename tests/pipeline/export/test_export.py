"""Export and load are inverses; equal graphs give equal bytes."""

import io
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.pipeline.export import write as export
from omnigraph.pipeline.model import UnwritableError
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node, rows
from tests.support.fast import FAST

TABLES = ("node:Person", "node:Note", "node:Slot", "edge:Knows", "edge:Boss", "edge:Wrote")
WORDS = st.text(st.characters(codec="utf-8"), max_size=6)
DATES = st.dates().map(str)
MOMENTS = st.datetimes().map(lambda one: one.isoformat(timespec="milliseconds") + "Z")
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = {
    "age": st.integers(0, 150),
    "level": st.sampled_from(["junior", "senior"]),
    "big": st.integers(0, 2**64 - 1),
    "score": F32,
    "exact": st.floats(allow_nan=False, allow_infinity=False),
    "active": st.booleans(),
    "born": DATES,
    "seen": MOMENTS,
    "tags": st.lists(st.none() | WORDS, max_size=3),
    "days": st.lists(st.none() | DATES, max_size=2),
    "sizes": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "photo": st.sampled_from(["base64:", "base64:AAEC"]),
    "place": st.lists(F32, min_size=3, max_size=3),
}


@st.composite
def records(draw):
    """A sound set of records, in any order."""
    names = draw(st.lists(WORDS, unique=True, max_size=5))
    people = [
        node("Person", name=name, **draw(st.fixed_dictionaries({}, optional=VALUES)))
        for name in names
    ]
    notes = [node("Note", text=text) for text in draw(st.lists(WORDS, max_size=3))]
    slots = draw(st.lists(st.tuples(WORDS, st.integers(-9, 9)), unique=True, max_size=3))
    found = [*people, *notes, *(node("Slot", room=room, hour=hour) for room, hour in slots)]
    if names:
        ends = st.tuples(st.sampled_from(names), st.sampled_from(names))
        found += [
            edge("Knows", *pair, **draw(st.fixed_dictionaries({}, optional={"since": DATES})))
            for pair in draw(st.lists(ends, max_size=5))
        ]
    return draw(st.permutations(found))


def exported(graph, **options):
    out = io.BytesIO()
    graph.export(out, **options)
    return out.getvalue()


@settings(max_examples=15)
@given(found=records())
def test_what_is_exported_loads_back_to_an_equal_graph(found):
    with (
        tempfile.TemporaryDirectory() as folder,
        omnigraph.init(f"{folder}/a.omni", SCHEMA, options=FAST) as first,
        omnigraph.init(f"{folder}/b.omni", SCHEMA, options=FAST) as second,
    ):
        first.load(jsonl(*found))
        text = exported(first)
        assert len(text.splitlines()) == text.count(b"\n") == len(found)
        second.load(text, mode="append")
        for table in TABLES:
            assert rows(first, table) == rows(second, table)
        assert exported(second) == text
        first.export(f"{folder}/out", format="parquet")
        second.load(f"{folder}/out")
        for table in TABLES:
            assert rows(first, table) == rows(second, table)


def test_physical_history_does_not_show(graph, tmp_path):
    people = [node("Person", name=f"p{at}", age=at) for at in range(40)]
    graph.load(jsonl(*people[::-1]))
    graph.load(jsonl(*people[7:9]), mode="merge")
    graph.store.optimize()
    with omnigraph.init(str(tmp_path / "other.omni"), SCHEMA, options=FAST) as other:
        other.load(jsonl(*people))
        assert exported(other) == exported(graph)
        for one, name in ((graph, "a"), (other, "b")):
            one.export(tmp_path / name, format="parquet", types=["Person"])
    files = [(tmp_path / name / "Person.parquet").read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_parts_branches_and_the_past_can_be_exported(graph):
    first = graph.load(jsonl(node("Person", name="ada"), node("Note", text="x")))
    graph.ingest(jsonl(node("Person", name="bob")), branch="side")
    names = lambda text: [orjson.loads(line)["data"].get("name") for line in text.splitlines()]  # noqa: E731
    assert names(exported(graph, types=["Person"], branch="side")) == ["ada", "bob"]
    assert names(exported(graph, tables=["node:Person"])) == ["ada"]
    graph.load(jsonl(node("Person", name="eve")), mode="merge")
    assert names(exported(graph, types=["Person"], at=first.commit_id)) == ["ada"]
    assert b"".join(graph.iter_export()) == exported(graph)
    lines = [orjson.loads(line) for line in exported(graph).splitlines()]
    assert [line.get("type") for line in lines] == ["Note", "Person", "Person"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst"])
def test_files_are_compressed_by_their_name_and_appear_whole(graph, tmp_path, name):
    graph.load(jsonl(node("Person", name="ada")))
    result = graph.export(tmp_path / name, types=["Person"])
    assert [(one.table_key, one.rows) for one in result.tables] == [("node:Person", 1)]
    assert [path.name for path in sorted(tmp_path.iterdir()) if path.is_file()] == [name]
    graph.load(jsonl(node("Person", name="bob")))
    graph.load(Path(tmp_path / name))
    assert set(rows(graph, "node:Person")) == {"ada"}


def test_a_zero_keeps_its_sign_beside_numbers_that_are_read_one_by_one(graph):
    graph.load(jsonl(node("Person", name="ada", score=-0.0, exact=1e300, place=[-0.0, 1, 2])))
    before = exported(graph)
    assert b'"score":-0.0,"exact":1e+300' in before
    graph.load(before)
    assert exported(graph) == before


def test_unknown_parts_are_refused(graph):
    for options in ({"types": ["Robot"]}, {"tables": ["node:Robot"]}, {"branch": "typo"}):
        with pytest.raises(NotFoundError):
            graph.export(io.BytesIO(), **options)
    with pytest.raises(BadRequestError):
        graph.export(io.BytesIO(), format="xml")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_target_that_cannot_be_written_is_named_and_nothing_is_left(graph, tmp_path, format):
    graph.load(jsonl(node("Person", name="ada")))
    (tmp_path / "file").write_text("kept")
    for target in (tmp_path / "none" / "x.jsonl", tmp_path / "file" / "x", tmp_path / "folder"):
        (tmp_path / "folder" / "Person.parquet").mkdir(parents=True, exist_ok=True)
        if format == "parquet" and target.parent.name == "none":
            continue  # folders are made
        with pytest.raises(UnwritableError, match=r"cannot (write|make)"):
            graph.export(target, format=format)
    assert (tmp_path / "file").read_text() == "kept"
    assert not list(tmp_path.rglob("*.tmp"))


def test_parquet_goes_into_a_folder_alone(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for target in ("-", io.BytesIO()):
        with pytest.raises(BadRequestError, match="name a folder"):
            graph.export(target, format="parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["g.omni"]


def test_an_export_that_breaks_off_leaves_the_file_of_before(graph, tmp_path, monkeypatch):
    graph.load(jsonl(node("Person", name="ada")))
    path = tmp_path / "x.jsonl"
    path.write_text("before")

    def broken(selection):
        yield b"half"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "export_lines", broken)
    with pytest.raises(UnwritableError, match=r"cannot write '.*x\.jsonl': No space left"):
        graph.export(path)
    assert path.read_text() == "before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["g.omni", "x.jsonl"]


def test_an_exported_line_is_the_whole_row(tmp_path):
    schema = (
        "node P { name: String @key age: I32? } node Own { id: String @key x: I32? } "
        "edge Knows: P -> P { since: I32? note: String? }"
    )
    with omnigraph.init(str(tmp_path / "g"), schema, options=FAST) as graph:
        graph.mutate('insert P { name: "a" } insert Own { id: "o" x: 1 }')
        graph.mutate('insert Knows { from: "a" to: "a" note: "n" }')
        told = [orjson.loads(line) for line in b"".join(graph.iter_export()).splitlines()]
    (edge_line, own, person) = told
    assert own == {"type": "Own", "data": {"id": "o", "x": 1}}
    assert person == {"type": "P", "data": {"id": "a", "name": "a", "age": None}}
    assert list(edge_line["data"]) == ["id", "since", "note"]
    assert (edge_line["from"], edge_line["data"]["since"]) == ("a", None)

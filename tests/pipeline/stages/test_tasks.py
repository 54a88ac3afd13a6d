"""Tasks: the same rows, ids and faults however the input is cut and whoever reads it."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from ulid import ULID

from omnigraph.base.runner import InlineRunner
from omnigraph.compiler.catalog.build import load_schema
from omnigraph.compiler.source import Source
from omnigraph.pipeline.checks.together import row_faults
from omnigraph.pipeline.inputs.row_ids import generated_ids, key_ids
from omnigraph.pipeline.inputs.sources import find_sources
from omnigraph.pipeline.stages.loaded import places_of
from omnigraph.pipeline.stages.tasks import Job, plan_tasks, run_task
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node

CATALOG = load_schema(Source(SCHEMA)).catalog
OPERATION = "01J0000000000000000000ABCD"
LINES = st.sampled_from(
    [
        jsonl(node("Note", text="x")),
        jsonl(node("Person", name="ada", age=1)),
        jsonl(edge("Knows", "a", "b", since="2020-01-31")),
        jsonl(node("Person", name="bob", age="old")),
        jsonl(node("Robot")),
        b"// a comment\n",
        b"\n",
        b"{broken}\n",
        b'{"data": {"text": "later"}, "type": "Note"}\n',
    ]
)


def outcome(paths, folder, split, runner=None, max_line=1 << 20):
    """Rows per table in input order, and the faults with their places."""
    sources = find_sources(list(paths), CATALOG, folder)
    tasks = plan_tasks(sources, Job(CATALOG, folder, OPERATION, max_line), split)
    parsed = list((runner or InlineRunner()).map(run_task, tasks))
    places = places_of(sources, tasks, parsed)
    tables = {}
    for spill in (spill for one in parsed for spill in one.spills):
        rows = spill.read()
        at = pa.array([places.of(one) for one in rows["_at"].to_pylist()])
        placed = rows.drop_columns("_at").append_column("where", at)
        tables.setdefault(spill.table_key, []).append(placed)
    whole = {key: pa.concat_tables(parts).sort_by("where") for key, parts in tables.items()}
    found = row_faults(parsed, places, 100)
    return (
        {key: rows.to_pylist() for key, rows in sorted(whole.items())},
        [(one.place, one.message) for one in found.items],
        found.total,
    )


@settings(max_examples=40)
@given(lines=st.lists(LINES, max_size=25), split=st.integers(1, 200))
def test_how_a_file_is_cut_changes_neither_rows_nor_ids_nor_faults(tmp_path_factory, lines, split):
    folder = tmp_path_factory.mktemp("cut")
    (folder / "x.jsonl").write_bytes(b"".join(lines))
    whole = outcome([folder / "x.jsonl"], folder, 1 << 30)
    assert outcome([folder / "x.jsonl"], folder, split) == whole


def test_faults_of_later_pieces_are_counted_from_the_start_of_the_file(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(jsonl(node("Note", text="x")) * 9 + b"{}\n")
    _, found, _ = outcome([tmp_path / "x.jsonl"], tmp_path, 40)
    assert [place for place, _ in found] == [f"{tmp_path}/x.jsonl:10"]


def test_lines_beyond_the_limit_are_named_and_the_others_read(tmp_path):
    long = jsonl(node("Note", text="x" * 300))
    (tmp_path / "x.jsonl").write_bytes(jsonl(node("Note", text="a")) + long + jsonl(node("Robot")))
    rows, found, _ = outcome([tmp_path / "x.jsonl"], tmp_path, 1 << 20, max_line=200)
    assert [row["text"] for row in rows["node:Note"]] == ["a"]
    assert found == [
        (f"{tmp_path}/x.jsonl:2", "the line is longer than 200 bytes"),
        (f"{tmp_path}/x.jsonl:3", "unknown node type 'Robot'"),
    ]


@given(
    source=st.integers(0, 2**16 - 1),
    offsets=st.lists(st.integers(0, 2**48 - 1), unique=True, max_size=20),
)
def test_generated_ids_are_ulids_that_tell_and_sort_their_places(source, offsets):
    import numpy as np

    made = generated_ids(OPERATION, source, np.asarray(offsets, np.int64)).to_pylist()
    assert [one for _, one in sorted(zip(offsets, made, strict=True))] == sorted(made)
    for offset, text in zip(offsets, made, strict=True):
        number = int(ULID.from_str(text))
        assert number >> 80 == int(ULID.from_str(OPERATION)) >> 80
        assert (number >> 64) & 0xFFFF == source
        assert (number >> 16) & (2**48 - 1) == offset


@given(
    st.lists(st.tuples(st.none() | st.text(max_size=4), st.none() | st.integers(-9, 9)), max_size=8)
)
def test_ids_of_key_columns_are_the_ids_of_their_rows(rows):
    from omnigraph.compiler.ir.key_id import key_id
    from omnigraph.compiler.types import PropType, Scalar

    rows = [row for row in rows if row[0] is None or row[0].isprintable() or row[0].isascii()]
    kinds = (PropType(Scalar.STRING), PropType(Scalar.I32))
    texts = pa.array([row[0] for row in rows], pa.string())
    numbers = pa.array([row[1] for row in rows], pa.int32())
    expected = [None if None in row else key_id(list(zip(row, kinds, strict=True))) for row in rows]
    assert key_ids([(texts, kinds[0]), (numbers, kinds[1])]).to_pylist() == expected

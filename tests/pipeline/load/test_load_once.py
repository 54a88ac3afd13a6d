"""A load under an idempotency key is made once, whatever happened to the first answer."""

import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.api.progress import Silence
from omnigraph.engine.write.violations import ConstraintError
from omnigraph.errors import BadRequestError
from omnigraph.pipeline.run.spark_jvm import keep_quiet
from omnigraph.storage.manifest.history import IdempotencyConflictError
from tests.pipeline.conftest import edge, jsonl, node, rows
from tests.support.fast import FAST

PEOPLE = jsonl(node("Person", name="ada"), node("Person", name="bo"))
NOTES = pa.table({"text": ["one", "two", "three"]})


def notes(graph, branch="main"):
    return sorted(row["text"] for row in rows(graph, "node:Note", branch).values())


def logical(graph, branch="main"):
    return [one.id for one in graph.store.commits(branch) if one.kind == "logical"]


def arrow(_folder):
    return {"Note": NOTES}


def arrow_in_other_chunks(_folder):
    return {"Note": pa.concat_tables([NOTES.slice(0, 1), NOTES.slice(1)])}


def frame(_folder):
    return {"Note": NOTES.to_pandas()}


def lines(_folder):
    return jsonl(*(node("Note", text=text) for text in NOTES["text"].to_pylist()))


def stream(folder):
    return io.BytesIO(lines(folder))


def parquet(folder):
    pq.write_table(NOTES, folder / "notes.parquet")
    return {"Note": str(folder / "notes.parquet")}


def table_of_text(folder):
    with (folder / "notes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in NOTES["text"].to_pylist())])
    return {"Note": str(folder / "notes.csv")}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (arrow, arrow),
        (arrow, arrow_in_other_chunks),
        (frame, frame),
        (lines, lines),
        (lines, stream),
        (parquet, parquet),
        (table_of_text, table_of_text),
    ],
)
def test_a_repeated_load_of_rows_without_keys_writes_once(graph, tmp_path, first, again):
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    one = graph.load(first(tmp_path / "1"), "append", engine="inline", idempotency_key="k")
    two = graph.load(again(tmp_path / "2"), "append", engine="inline", idempotency_key="k")
    assert (one.replayed, two.replayed) == (False, True)
    assert two.commit_id == one.commit_id
    assert (two.tables, two.nodes_loaded) == (one.tables, {"Note": 3})
    assert notes(graph) == ["one", "three", "two"]
    graph.load(again(tmp_path / "2"), "append", engine="inline", idempotency_key="other")
    assert len(notes(graph)) == 6


def test_a_repeated_load_of_edges_writes_once_and_breaks_no_rule(graph):
    data = PEOPLE + jsonl(edge("Knows", "ada", "bo", weight=1.0))
    one = graph.load(data, "append", engine="inline", idempotency_key="k")
    with pytest.raises(ConstraintError, match="exists already"):
        graph.load(data, "append", engine="inline")
    two = graph.load(data, "append", engine="inline", idempotency_key="k")
    assert (two.replayed, two.commit_id) == (True, one.commit_id)
    assert (two.nodes_loaded, two.edges_loaded) == ({"Person": 2}, {"Knows": 1})
    assert len(rows(graph, "edge:Knows")) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda graph: graph.load(PEOPLE[:-1] + b" \n", "append", idempotency_key="k"),
        lambda graph: graph.load(PEOPLE, "merge", idempotency_key="k"),
        lambda graph: graph.load(PEOPLE, "append", idempotency_key="k", actor="eve"),
        lambda graph: graph.load(PEOPLE, "append", idempotency_key="k", on_error="skip"),
        lambda graph: graph.load({"Note": NOTES}, "append", idempotency_key="k"),
        lambda graph: graph.mutate('query q() { insert Note { text: "x" } }', idempotency_key="k"),
    ],
)
def test_another_request_under_the_same_key_is_a_conflict(graph, other):
    graph.load(PEOPLE, "append", engine="inline", idempotency_key="k")
    before = logical(graph)
    with pytest.raises(IdempotencyConflictError, match="another request"):
        other(graph)
    assert logical(graph) == before


def test_a_key_of_a_mutation_stands_for_no_load(graph):
    graph.mutate('query q() { insert Note { text: "x" } }', idempotency_key="k")
    with pytest.raises(IdempotencyConflictError):
        graph.load(PEOPLE, "append", engine="inline", idempotency_key="k")


def test_a_key_counts_on_its_branch(graph):
    graph.branches.create("side")
    for branch in ("main", "side"):
        done = graph.load({"Note": NOTES}, "append", branch=branch, idempotency_key="k")
        assert not done.replayed
    assert len(notes(graph)) == len(notes(graph, "side")) == 3


def test_an_ingest_is_made_once_with_its_branch(graph):
    first = graph.ingest({"Note": NOTES}, branch="new", mode="append", idempotency_key="k")
    again = graph.ingest({"Note": NOTES}, branch="new", mode="append", idempotency_key="k")
    assert (first.branch_created, first.replayed) == (True, False)
    assert (again.branch_created, again.replayed) == (False, True)
    assert len(notes(graph, "new")) == 3


def test_rows_that_were_left_out_are_counted_again(graph):
    data = PEOPLE + b'{"type":"Person","data":{"age":3}}\n'
    one = graph.load(data, "append", engine="inline", on_error="skip", idempotency_key="k")
    two = graph.load(data, "append", engine="inline", on_error="skip", idempotency_key="k")
    assert (one.skipped, two.skipped, two.replayed) == (1, 1, True)


@pytest.mark.parametrize("stage", ["read", "check", "write"])
def test_a_load_that_was_made_while_its_repetition_was_under_way_is_found(graph, stage):
    """First when the check begins, then under the lock."""

    class Meanwhile(Silence):
        def stage(self, name, _total):
            if name == stage and len(logical(graph)) == before:
                with omnigraph.connect(graph.uri, options=FAST) as other:
                    made.append(other.load(PEOPLE, "append", engine="inline", idempotency_key="k"))

    made, before = [], len(logical(graph))
    done = graph.load(PEOPLE, "append", engine="inline", idempotency_key="k", progress=Meanwhile())
    assert (done.replayed, done.commit_id) == (True, made[0].commit_id)
    assert len(logical(graph)) == before + 1
    assert set(rows(graph, "node:Person")) == {"ada", "bo"}


@pytest.mark.parametrize("key", ["", " ", 5, "\ud800"])
def test_a_key_is_a_word(graph, key):
    with pytest.raises(BadRequestError, match="idempotency key"):
        graph.load(PEOPLE, idempotency_key=key)
    with pytest.raises(BadRequestError, match="idempotency key"):
        graph.ingest(PEOPLE, branch="new", idempotency_key=key)
    assert graph.branches.list() == ["main"]


@pytest.mark.xdist_group("spark")
def test_a_frame_of_spark_is_known_by_its_rows_in_any_order(graph, spark):
    keep_quiet()
    session = SparkSession(spark)
    data = [("one", 1), ("two", None), (None, 2)]

    def write(rows, parts, key="k"):
        made = session.createDataFrame(rows, "text string, size int").repartition(parts)
        return graph.write_spark(made.select("text"), type="Note", idempotency_key=key)

    some = [row for row in data if row[0] is not None]
    assert not write(some, 2).replayed
    assert write(some[::-1], 1).replayed
    assert notes(graph) == ["one", "two"]
    with pytest.raises(IdempotencyConflictError):
        write([*some, ("two", 5)], 2)

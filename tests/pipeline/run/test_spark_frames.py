"""Graphs as DataFrames and back: exact types, one snapshot, one commit."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from omnigraph.engine.write.violations import ConstraintError
from omnigraph.pipeline.run.spark_jvm import keep_quiet
from tests.pipeline.conftest import edge, jsonl, node, rows

pytestmark = pytest.mark.xdist_group("spark")

EVERYTHING = node(
    "Person",
    name="ada",
    email="a@b",
    age=36,
    level="senior",
    big=2**64 - 1,
    score=0.1,
    exact=1e300,
    active=True,
    born="0815-12-10",
    seen="0012-12-31T23:59:59.999Z",
    tags=["x", None],
    days=["1969-12-31"],
    sizes=[-(2**63), 2**63 - 1],
    place=[1, 2.5, -3],
)


@pytest.fixture
def session(spark):
    keep_quiet()
    return SparkSession(spark)


def test_every_type_of_a_snapshot_is_a_frame_of_exact_values(graph, session):
    graph.load(jsonl(EVERYTHING, node("Person", name="bo"), edge("Knows", "ada", "bo", weight=0.5)))
    frames = graph.spark(session)
    graph.load(jsonl(node("Person", name="late")), "append")  # after the snapshot
    assert set(frames) == {"Person", "Note", "Slot", "Knows", "Boss", "Wrote"}
    people = {row["id"]: row for row in frames["Person"].collect()}
    assert set(people) == {"ada", "bo"}
    ada = people["ada"]
    assert (ada["big"], ada["age"], ada["exact"]) == (Decimal(2**64 - 1), 36, 1e300)
    assert ada["born"] == dt.date(815, 12, 10)
    assert (ada["tags"], ada["sizes"]) == (["x", None], [-(2**63), 2**63 - 1])
    assert (ada["place"], ada["days"]) == ([1.0, 2.5, -3.0], [dt.date(1969, 12, 31)])
    kinds = {field.name: field.dataType for field in frames["Person"].schema}
    assert kinds["seen"] == spark_types.TimestampType()
    assert kinds["big"] == spark_types.DecimalType(20, 0)
    assert [row.asDict()["weight"] for row in frames["Knows"].collect()] == [0.5]
    assert frames["Note"].count() == 0


def test_a_frame_written_back_gives_the_same_rows(graph, session):
    graph.load(jsonl(EVERYTHING, node("Person", name="bo")))
    expected = rows(graph, "node:Person")
    frame = graph.spark(session)["Person"].drop("photo")
    graph.branches.create("copy")
    before = len(graph.store.commits("copy"))
    result = graph.write_spark(frame, type="Person", mode="overwrite", branch="copy")
    assert (result.engine, result.nodes_loaded) == ("spark", {"Person": 2})
    assert rows(graph, "node:Person", "copy") == expected
    fresh = len(graph.store.commits("copy")) - before
    logical = [one for one in graph.store.commits("copy") if one.id == result.commit_id]
    assert fresh <= 2  # the branch gets its own lineage of the table first
    assert [one.kind for one in logical] == ["logical"]


def test_the_format_reads_branches_commits_and_columns(graph, session):
    first = graph.load(jsonl(node("Person", name="ada", age=1)))
    graph.ingest(jsonl(node("Person", name="bo", age=2)), branch="side")

    def read(**options):
        return session.read.format("omnigraph").options(**options).load(graph.uri)

    assert [row["id"] for row in read(type="Person").collect()] == ["ada"]
    side = read(type="Person", branch="side", columns="id, age")
    assert sorted(map(tuple, side.collect())) == [("ada", 1), ("bo", 2)]
    old = read(type="Person", branch="side", commit=first.commit_id)
    assert old.count() == 1
    # A filtered frame and its unfiltered source stay what they are.
    assert (side.filter("age = 2").count(), side.count()) == (1, 2)


def test_a_frame_with_bad_rows_changes_nothing(graph, session):
    before = graph.snapshot().commit_id
    frame = session.createDataFrame([("ada", 200)], "name string, age int")
    with pytest.raises(ConstraintError, match="<Person>: row 1: @range violation"):
        graph.write_spark(frame, type="Person")
    assert graph.snapshot().commit_id == before


def test_text_that_is_none_in_a_frame_is_refused(graph, session):
    """Spark lets any bytes be text."""
    frame = session.createDataFrame([("bo", b"b@o"), ("cy", b"\xff\xfe")], ["name", "email"])
    frame = frame.withColumn("email", frame.email.cast("string")).coalesce(1)
    with pytest.raises(ConstraintError, match=r"row 2: Person\.email: invalid UTF-8"):
        graph.write_spark(frame, type="Person")
    assert rows(graph, "node:Person") == {}

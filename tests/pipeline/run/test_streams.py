"""Graphs in Structured Streaming: batches count once, changes are told once, gaps are told."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.errors import BadRequestError
from omnigraph.graph.spark_streams import StreamModeError
from omnigraph.pipeline.run.spark_jvm import keep_quiet
from pyspark_omnigraph import register
from tests.pipeline.conftest import edge, jsonl, node
from tests.support.fast import FAST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = """node Person {
  name: String @key
  age: I32?
  seen: DateTime?
}
node Note {
  text: String
}
edge Knows: Person -> Person {
  since: I32?
}
"""


@pytest.fixture
def session(spark):
    keep_quiet()
    return SparkSession(spark)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as made:
        yield made


def put(tmp_path, number, *rows):
    """Give the stream another file, all at once."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    draft = tmp_path / f"{number}.draft"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / f"{number}.json")


def told(session, tmp_path, schema):
    return session.readStream.schema(schema).json(str(tmp_path / "in"))


def run(writer, tmp_path):
    """Run a stream over all there is."""
    query = writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
    started = query.start()
    started.awaitTermination()


def knows(graph):
    text = "match { $a: Person $a $k:knows $b } return { $a.name, $b.name, $k.since }"
    return graph.query(text).to_tuples()


def people_and_edges(frame):
    names = frame.selectExpr("a as name").union(frame.selectExpr("b as name")).distinct()
    return {"Person": names, "Knows": frame.selectExpr("a as from", "b as to", "since")}


def test_a_batch_that_is_run_again_counts_once(graph, session, tmp_path):
    put(tmp_path, 1, {"a": "Ann", "b": "Bob", "since": 1}, {"a": "Bob", "b": "Ann", "since": 2})
    sink = graph.spark_sink(split=people_and_edges, mode="merge", actor="stream")

    def dies_behind(frame, batch):
        sink(frame, batch)
        raise RuntimeError("killed between the load and Spark's note of it")

    source = told(session, tmp_path, "a string, b string, since int")
    with pytest.raises(StreamingQueryException, match="killed between"):
        run(source.writeStream.foreachBatch(dies_behind), tmp_path)
    before = graph.snapshot().commit_id
    assert knows(graph) == [("Ann", "Bob", 1), ("Bob", "Ann", 2)]
    run(source.writeStream.foreachBatch(sink), tmp_path)  # the same batch, from the beginning
    assert graph.snapshot().commit_id == before
    put(tmp_path, 2, {"a": "Bob", "b": "Cid", "since": 3})
    run(source.writeStream.foreachBatch(sink), tmp_path)
    assert knows(graph) == [("Ann", "Bob", 1), ("Bob", "Ann", 2), ("Bob", "Cid", 3)]
    assert graph.commits.list(limit=1)[0].actor_id == "stream"


def test_the_format_takes_a_stream_batch_by_batch(graph, session, tmp_path):
    put(tmp_path, 1, {"text": "one"}, {"text": "two"})
    source = told(session, tmp_path, "text string")
    options = {"path": graph.uri, "type": "Note", "stream": "notes"}
    register(session)
    run(source.writeStream.format("omnigraph").options(**options), tmp_path)
    commits = len(graph.commits.list())
    notes = "match { $n: Note } return { $n.text } order { $n.text }"
    assert graph.query(notes).to_tuples() == [("one",), ("two",)]
    done = sorted((tmp_path / "check" / "commits").iterdir())
    for one in done:  # Spark forgets that the batch was done, as if it had died before noting it
        one.unlink()
    for one in (tmp_path / "check" / "commits").glob(".*"):
        one.unlink()
    put(tmp_path, 2, {"text": "three"})
    run(source.writeStream.format("omnigraph").options(**options), tmp_path)
    assert graph.query(notes).to_tuples() == [("one",), ("three",), ("two",)]
    assert len(graph.commits.list()) == commits + 1


def test_changes_are_told_once_and_gaps_are_told(graph, session, tmp_path):
    graph.load(jsonl(node("Person", name="Ann", age=1, seen="2024-01-01T00:00:00.001Z")))
    graph.branches.create("side")
    side = graph.branch("side")
    source = session.readStream.format("omnigraph").options(changes="true", branch="side")
    found = []

    def keep(frame, batch):
        found.append(sorted(tuple(row) for row in frame.select("_op", "id", "age").collect()))

    def follow():
        frame = source.option("type", "Person").load(graph.uri)
        run(frame.writeStream.foreachBatch(keep), tmp_path)
        return frame

    frame = follow()
    assert frame.columns == ["_op", "_commit", "_changed", "id", "name", "age", "seen"]
    assert found == [[("insert", "Ann", 1)]]
    side.load(jsonl(node("Person", name="Bob", age=2), edge("Knows", "Ann", "Bob")), "merge")
    side.mutate('query q() { update Person set { age: 9 } where name = "Ann" }')
    side.mutate('query q() { delete Person where name = "Bob" }')
    side.optimize()
    follow()
    follow()  # nothing happened since
    assert [one for one in found[1:] if one] == [
        [("delete", "Bob", 2), ("insert", "Bob", 2), ("update", "Ann", 9)]
    ]
    graph.branches.delete("side")
    graph.branches.create("side")
    with pytest.raises(StreamingQueryException, match=r"FeedResetError.*deleted and made anew"):
        follow()


def test_wrong_options_of_streams_are_told(graph, session, tmp_path):
    with pytest.raises(StreamModeError, match="replace those before"):
        graph.spark_sink(type="Note", mode="overwrite")
    with pytest.raises(BadRequestError, match="a type, or a split"):
        graph.spark_sink()
    with pytest.raises(BadRequestError, match="no batch of a stream"):
        graph.spark_sink(type="Note")(session.createDataFrame([("x",)], "text string"), 0)


PROGRAM = """
    import os, sys
    import omnigraph
    from omnigraph.pipeline.run.spark import OwnSpark, SparkSettings, new_session
    place, source, check, fatal = sys.argv[1:]
    own = OwnSpark(SparkSettings(master="local[1]", memory="512m"))
    own.context()
    session = new_session()
    with omnigraph.connect(place) as graph:
        sink = graph.spark_sink(type="Note")
        def batch(frame, number):
            if fatal == "before":
                os._exit(9)
            sink(frame.select("text"), number)
            if fatal == "behind":
                os._exit(9)
        if source.endswith(".omni"):
            options = {"changes": "true", "type": "Note"}
            frame = session.readStream.format("omnigraph").options(**options).load(source)
        else:
            frame = session.readStream.schema("text string").json(source)
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", check)
        writer.trigger(availableNow=True).start().awaitTermination()
    own.stop()
"""


def copied(graph, tmp_path, source, fatal):
    """Copy notes into a graph by a process of its own, which may be killed on the way."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), graph.uri, source]
    done = subprocess.run(
        [*command, str(tmp_path / "check"), fatal],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=dict(os.environ),  # noqa: TID251 - a child inherits everything
    )
    assert done.returncode == (0 if fatal == "never" else 9), done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["files", "changes"])
def test_a_driver_that_is_killed_around_a_load_loses_and_doubles_nothing(graph, tmp_path, kind):
    with omnigraph.init(str(tmp_path / "from.omni"), SCHEMA, options=FAST) as other:
        for number, fatal in enumerate(("before", "behind", "never"), start=1):
            put(tmp_path, number, {"text": f"note {number}"})
            other.load(jsonl(node("Note", text=f"note {number}")), "append")
            source = other.uri if kind == "changes" else str(tmp_path / "in")
            copied(graph, tmp_path, source, fatal)
        copied(graph, tmp_path, source, "never")  # Spark may have ended behind the batch run again
    notes = graph.query("match { $n: Note } return { $n.text } order { $n.text }").to_tuples()
    assert notes == [("note 1",), ("note 2",), ("note 3",)]

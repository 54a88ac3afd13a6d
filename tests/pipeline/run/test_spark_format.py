"""`spark.read.format("omnigraph")` in any session: found by Spark itself, one commit per frame."""

import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.pipeline.run.spark_jvm import keep_quiet
from tests.pipeline.conftest import SCHEMA, edge, jsonl, node
from tests.support.fast import FAST

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).parents[3]
PLAIN = """
    import json, sys, warnings
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from pyspark.sql import SparkSession
    session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").getOrCreate())
    assert "omnigraph" not in sys.modules
    def read(**options):
        return session.read.format("omnigraph").options(**options).load("g.omni")
    people = read(type="Person", branch="side")
    print(json.dumps([
        sorted(row["id"] for row in people.collect()),
        sorted(map(tuple, people.where("age > 1").select("age", "id").collect())),
        people.count(),
        read(type="Person", commit=sys.argv[1]).count(),
    ]))
    session.stop()
"""


def test_a_plain_session_reads_graphs_without_being_told_how(tmp_path):
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=FAST) as graph:
        first = graph.load(jsonl(node("Person", name="ada", age=1)))
        graph.ingest(jsonl(node("Person", name="bo", age=2)), branch="side")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PLAIN), str(first.commit_id)],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # noqa: TID251 - inherited
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["ada", "bo"], [[2, "bo"]], 2, 1]


def test_what_spark_finds_loads_nothing_before_it_is_used():
    program = "import sys, pyspark_omnigraph; print([m for m in sys.modules if 'omnigraph' in m])"
    words = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pyspark_omnigraph']"


def test_the_wheel_brings_what_spark_looks_for(tmp_path):
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"pyspark_omnigraph/__init__.py", "omnigraph/graph/spark_source.py"} <= {*names}


@pytest.fixture(scope="module")
def session(spark):
    keep_quiet()
    return SparkSession(spark)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("format") / "g.omni")
    with omnigraph.init(place, SCHEMA, options=FAST) as made:
        made.load(
            jsonl(
                node("Person", name="ada", age=36, big=2**64 - 1, place=[1, 2, 3], tags=["x"]),
                node("Person", name="bo", age=5),
                node("Person", name="cy"),
                edge("Knows", "ada", "bo", weight=0.5),
                edge("Knows", "bo", "cy"),
            )
        )
        yield made


def read(session, graph, **options):
    schema = options.pop("schema", None)
    reader = session.read if schema is None else session.read.schema(schema)
    return reader.format("omnigraph").options(**options).load(graph.uri)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "the option 'type' is missing"),
        ({"type": "Robot"}, "the schema has no type 'Robot' (hint: it has Note, Person"),
        ({"type": "Person", "branch": "nope"}, "branch 'nope' not found"),
        ({"type": "Person", "commit": "nope"}, "commit 'nope' not found"),
        ({"type": "Person", "version": "99"}, "version 99 of 'main' does not exist"),
        ({"type": "Person", "version": "-1"}, "version '-1' is not a whole number"),
        ({"type": "Person", "version": "1", "commit": "x"}, "not of both"),
        ({"type": "Person", "columns": "id,agee"}, "Person has no column 'agee'"),
        ({"type": "Person", "columns": "id,id"}, "column 'id' is named twice"),
        ({"type": "Person", "brunch": "side"}, "unknown option 'brunch'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_make_no_sense_are_refused(session, graph, options, told):
    with pytest.raises(AnalysisException) as caught:
        read(session, graph, **options)
    assert told in str(caught.value)


def test_a_place_without_a_graph_is_refused(session, tmp_path):
    with pytest.raises(AnalysisException, match="NotFoundError"):
        session.read.format("omnigraph").option("type", "Person").load(str(tmp_path / "none"))


def test_a_callers_own_schema_chooses_columns_and_never_casts(session, graph):
    chosen = read(session, graph, type="Person", schema="age int, id string")
    assert sorted(map(tuple, chosen.collect()), key=repr) == [
        (36, "ada"),
        (5, "bo"),
        (None, "cy"),
    ]
    wrong = read(session, graph, type="Person", schema="age string")
    with pytest.raises(AnalysisException, match=r"Person\.age is int, not string"):
        wrong.collect()


def test_a_frame_stays_at_the_commit_it_was_asked_at(session, graph):
    graph.branches.create("moving")
    people = read(session, graph, type="Person", branch="moving", columns="id")
    graph.load(jsonl(node("Person", name="late")), "append", branch="moving")
    assert people.count() == 3
    assert people.join(people, "id").count() == 3
    assert read(session, graph, type="Person", branch="moving").count() == 4
    version = graph.snapshot("moving").manifest_version
    assert read(session, graph, type="Person", branch="moving", version=version).count() == 4


def test_selections_and_filters_of_the_format_are_those_of_the_graph(session, graph):
    frame, other = graph.spark(session)["Person"], read(session, graph, type="Person")
    for wanted in (
        lambda one: one,
        lambda one: one.select("big", "id"),
        lambda one: one.where("age > 5"),
        lambda one: one.where("age is null").select("name"),
        lambda one: one.where("id in ('ada', 'cy') and (age < 40 or age is null)"),
        lambda one: one.where("tags[0] = 'x'").select("place", "tags"),
        lambda one: one.groupBy("age").count(),
    ):
        expected = sorted(map(tuple, wanted(frame).collect()), key=repr)
        assert sorted(map(tuple, wanted(other).collect()), key=repr) == expected
        assert expected
    links = read(session, graph, type="knows")  # edges whatever their case, as in records
    both = links.join(other.select("id", "age"), links["src"] == other["id"])
    assert sorted(row["age"] for row in both.collect()) == [5, 36]


def test_writing_through_the_format_says_what_to_do_instead(session, graph):
    frame = session.createDataFrame([("x",)], "name string")
    writer = frame.write.format("omnigraph").mode("append").option("type", "Person")
    with pytest.raises(AnalysisException, match=r"graph\.write_spark"):
        writer.save(graph.uri)

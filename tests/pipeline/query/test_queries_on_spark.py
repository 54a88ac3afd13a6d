"""Queries on Spark answer as they do here: rows, order and types, whatever is asked."""

import dataclasses
import tempfile
import threading
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.api.visibility import RowRules, RowRulesError
from omnigraph.base.budget import Limits
from omnigraph.engine.image.cache import ImageCache
from omnigraph.engine.read.images import SnapshotImages
from omnigraph.engine.read.prepare import prepare
from omnigraph.engine.read.run import run_read
from omnigraph.errors import BadRequestError, BudgetExceededError, CompileError
from omnigraph.pipeline.query.run import SparkQuery
from omnigraph.pipeline.query.support import UnsupportedOnSparkError
from omnigraph.pipeline.run.spark import new_session
from tests.support.answers import Question, listed, plain_rows
from tests.support.fast import FAST
from tests.support.graphs import a_graph
from tests.support.read_queries import a_query
from tests.support.stored_graphs import StoredGraph

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SCHEMA = """node Person {
  name: String @key
  age: I32?
  score: F64?
  bio: String? @index
  face: Vector(3)?
  photo: Blob?
}
node Town {
  name: String @key
}
edge Knows: Person -> Person {
  since: I32?
}
edge LivesIn: Person -> Town
"""
PEOPLE = [
    ("Ann", 30, 0.5, "red fox running", [1.0, 0.0, 0.0]),
    ("Bob", 40, -0.0, "the quick red fox", [0.0, 1.0, 0.0]),
    ("Cid", None, -0.5, "a lazy dog", [0.9, 0.1, 0.0]),
    ("Dan", 30, None, None, None),
    ("Eve", 50, 1e300, "fox and dog and fox", [0.0, 0.0, 1.0]),
    ("Fay", 20, -1e300, "foxes run", [1.0, 1.0, 0.0]),
]
KNOWS = [
    ("Ann", "Bob", 2000), ("Ann", "Bob", 2001), ("Bob", "Cid", None), ("Cid", "Ann", 1999),
    ("Dan", "Dan", 2010), ("Eve", "Fay", 2011), ("Fay", "Ann", 2012), ("Bob", "Eve", 2013),
]  # fmt: skip
QUERIES = {
    "values and order": "match { $p: Person } return { $p.name, $p.age, $p.score, $p.face }"
    " order { $p.score desc, $p.age }",
    "filter and window": "match { $p: Person $p.age >= 30 } return { $p.name } limit 2 offset 1",
    "steps": "match { $a: Person $a knows $b $b knows $c $c.age > 20 } return { $a, $b, $c.bio }",
    "both ways": "match { $a: Person { name: 'Ann' } $a <knows> $b } return { $b.name }",
    "hops": "match { $a: Person $a knows{1,3} $b } return { $a.name, $b.name }",
    "edges": "match { $a: Person $a $k:knows $b $k.since > 1999 } return { $a, $k.since, $b }",
    "not": "match { $a: Person $a knows $b not { $b knows $a } } return { $a, $b }",
    "lonely": "match { $a: Person not { $a livesIn $_ } } return { $a.name }",
    "groups": "match { $a: Person $a $k:knows $b } return { $b.name as name, count($k) as n,"
    " avg($a.score) as mean, sum($k.since) as total, min($a.age) as least } order { n desc }",
    "totals": "match { $a: Person $a.age > 1000 } return { count(*) as n, max($a.name) as most }",
    "distinct": "match { $a: Person $a knows $b } return distinct { $b.age }",
    "count distinct": "match { $a: Person $a knows $b $b knows $c } return { count(distinct $c) }",
    "joined": "match { $a: Person $b: Person $a.age = $b.age $a != $b } return { $a, $b }",
    "search": 'match { $a: Person search($a.bio, "foxes") } return { $a.name }',
    "bm25": 'match { $a: Person } return { $a.name, bm25($a.bio, "red fox") as s }'
    ' order { bm25($a.bio, "red fox") desc } limit 3',
    "nearest": "match { $a: Person } return { $a.name, nearest($a.face, $v) as d }"
    " order { nearest($a.face, $v) } limit 3",
    "rrf": "match { $a: Person } return { $a.name }"
    ' order { rrf(nearest($a.face, $v), bm25($a.bio, "fox dog")) desc } limit 4',
}


@pytest.fixture(scope="module")
def session(request):
    request.getfixturevalue("spark")
    return new_session()


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    place = tmp_path_factory.mktemp("queries")
    with omnigraph.init(str(place / "g.omni"), SCHEMA, options=FAST) as made:
        columns = zip(*PEOPLE, strict=True)
        names, ages, scores, bios, faces = (list(one) for one in columns)
        people = {"name": names, "age": pa.array(ages, pa.int32()), "score": scores, "bio": bios}
        people["face"] = pa.array(faces, pa.list_(pa.float32(), 3))
        made.load({"Person": pa.table(people)}, "append")
        ends = [list(one) for one in zip(*KNOWS, strict=True)]
        edges = {"from": ends[0], "to": ends[1], "since": pa.array(ends[2], pa.int32())}
        made.load({"Knows": pa.table(edges)}, "append")
        made.load(b'{"type":"Town","data":{"name":"Ulm"}}\n'
                  b'{"edge":"LivesIn","from":"Ann","to":"Ulm"}\n', "append")  # fmt: skip
        yield made


def params_of(text):
    return {"v": [1.0, 0.2, 0.0]} if "$v" in text else None


def framed(text):
    return f"query q($v: Vector(3)) {{ {text} }}" if "$v" in text else text


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_answers_on_spark_as_it_does_here(graph, session, name):
    text, params = framed(QUERIES[name]).replace("'", '"'), params_of(QUERIES[name])
    here = graph.query(text, params=params)
    there = graph.query(text, params=params, engine="spark", spark=session)
    assert there.to_tuples() == here.to_tuples()
    assert there.table.schema == here.table.schema
    assert there.commit_id == here.commit_id


def check(session, seed, questions=3):
    """Compare random queries over a random graph with what they answer here."""
    rng = Random(seed)
    case = a_graph(rng, dangling=False)
    with tempfile.TemporaryDirectory() as place:
        stored = StoredGraph.create(Path(place) / "graph", case)
        with stored.store:
            snapshot = stored.store.snapshot("main")
            images = SnapshotImages(snapshot, case.catalog, ImageCache(1 << 30))
            while questions:
                asked = a_query(rng, case)
                try:
                    question = Question(case.catalog, asked.text, asked.params)
                except CompileError:
                    continue
                questions -= 1
                plan = prepare(question.ir)
                here = run_read(plan, images, question.bound).to_table()
                given = (session, plan, question.bound, snapshot, case.catalog)
                names, columns = SparkQuery(*given).columns()
                there = pa.Table.from_arrays(columns, names=names)
                told = f"seed {seed}: {asked.text} {asked.params}"
                wanted = listed(question.asked(case.rows))
                assert plain_rows(there) == plain_rows(here) == wanted, told
                assert there.schema.types == here.schema.types, told


def test_random_queries_answer_on_spark_as_they_do_here(session):
    for seed in (10, 38):
        check(session, seed)


@pytest.mark.exhaustive
@pytest.mark.timeout(3_600)
def test_random_queries_answer_on_spark_as_they_do_here_at_length(session):
    for seed in range(1_000, 1_300):
        check(session, seed)


def test_rows_stream_from_spark_and_stay_a_data_frame(graph, session):
    text = "match { $p: Person } return { $p.name, $p.age } order { $p.name desc }"
    here = list(graph.stream(text, batch_rows=4))
    there = list(graph.stream(text, batch_rows=4, engine="spark", spark=session))
    assert pa.Table.from_batches(there) == pa.Table.from_batches(here)
    nobody = 'match { $p: Person { name: "Nobody" } } return { $p.name }'
    (empty,) = graph.stream(nobody, engine="spark", spark=session)
    assert (empty.num_rows, empty.schema.names) == (0, ["p.name"])
    before = graph.snapshot().commit_id
    frame = graph.at(before).spark_query(text, session=session)
    assert frame.columns == ["p.name", "p.age"]
    assert [tuple(row) for row in frame.collect()] == graph.query(text).to_tuples()
    assert frame.where("`p.age` = 30").count() == 2


def test_the_engine_is_chosen_by_who_asks_and_by_size(graph, session):
    text = "match { $p: Person $p.age > 0 } return { count(*) as n }"
    assert graph.explain(text, engine="spark", spark=session).startswith("engine: spark, asked for")
    assert graph.explain(text, engine="auto").startswith("engine: inline, no session is given")
    told = graph.explain(text, spark=session)
    assert told.startswith("engine: inline, it reads columns of about 240 bytes")
    small = dataclasses.replace(FAST, image_bytes=100)
    with omnigraph.connect(graph.uri, options=small) as tight:
        told = tight.explain(text, spark=session)
        assert told.startswith("engine: spark, unless it selects few rows")
        assert tight.query(text, spark=session).scalar() == 5
        assert tight.query(text).scalar() == 5
    assert not graph.explain(text).startswith("engine")


def test_what_spark_does_not_run_is_told_by_its_operator(graph, session):
    wrong = {
        "match { $a: Person $a knows{1,20} $b } return { $b }": "Expand",
        "match { $a: Person } return { $a.photo }": "return",
    }
    for text, operator in wrong.items():
        with pytest.raises(UnsupportedOnSparkError) as told:
            graph.query(text, engine="spark", spark=session)
        assert told.value.operator == operator
    with pytest.raises(BadRequestError, match="needs a Spark"):
        graph.query("match { $a: Person } return { $a }", engine="spark")
    with pytest.raises(BadRequestError, match="unknown engine"):
        graph.query("match { $a: Person } return { $a }", engine="ray", spark=session)
    seen = graph.under(RowRules.of({"Person": frozenset({"$n.age > 30"})}))
    with pytest.raises(RowRulesError):
        seen.query("match { $a: Person } return { $a }", engine="spark", spark=session)


def test_a_query_on_spark_is_stopped_by_its_limits(graph, session):
    text = "match { $a: Person $a knows{1,3} $b } return { count(*) as n }"
    with pytest.raises(BudgetExceededError, match="time budget"):
        graph.query(text, engine="spark", spark=session, limits=Limits(seconds=0.2))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(BudgetExceededError, match="cancelled"):
        graph.query(text, engine="spark", spark=session, cancel=cancel)

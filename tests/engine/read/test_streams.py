"""A result can be taken batch by batch: the same rows in the same order, never all at once."""

import threading

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.base.budget import Limits, QueryCancelledError
from omnigraph.errors import BadRequestError, BudgetExceededError, NotFoundError
from tests.support.fast import FAST

SCHEMA = "node Doc { slug: String @key  text: String  size: I64? }\nedge Cites: Doc -> Doc\n"
COUNT = 1_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    where = str(tmp_path_factory.mktemp("stream") / "g.omni")
    ids = [f"d{at:04}" for at in range(COUNT)]
    with omnigraph.init(where, SCHEMA, options=FAST) as opened:
        session = opened.store.begin()
        texts = [f"word{at % 7} {'x' * 100}" for at in range(COUNT)]
        docs = {"id": ids, "slug": ids, "text": texts, "size": [at % 9 for at in range(COUNT)]}
        session.append("node:Doc", pa.table(docs))
        cites = {"id": ids, "src": ids, "dst": ids[::-1]}
        session.append("edge:Cites", pa.table(cites))
        session.commit()
        yield opened


QUERIES = [
    "query q() { match { $d: Doc } return { $d.slug, $d.text } }",
    "query q() { match { $d: Doc  $d cites $e } return { $d.slug, $e.size } "
    "order { $e.size desc } }",
    'query q() { match { $d: Doc } return { $d.slug, bm25($d.text, "word3") as s } '
    'order { bm25($d.text, "word3") } limit 50 offset 7 }',
    "query q() { match { $d: Doc } return { $d.size, count(*) as n } }",
    "query q() { match { $d: Doc } return distinct { $d.size } }",
    'query q() { match { $d: Doc { slug: "d0003" } } return { $d.text } }',
    'query q() { match { $d: Doc { slug: "none" } } return { $d.text, $d.size } }',
]


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("size", [1, 7, 400, 65_536])
def test_batches_are_the_result_cut_in_pieces(graph, text, size):
    whole = graph.query(text).to_arrow()
    batches = list(graph.stream(text, batch_rows=size))
    assert pa.Table.from_batches(batches).to_pylist() == whole.to_pylist()
    assert batches[0].schema == whole.schema
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert len(batches) == max(1, -(-whole.num_rows // size))


def test_a_stream_reads_the_state_it_started_on(graph):
    text = "query q() { match { $d: Doc } return { $d.slug } }"
    stream = graph.stream(text, batch_rows=100)
    first = next(stream)
    graph.mutate('query m() { insert Doc { slug: "a", text: "first of all" } }')
    try:
        assert len(first) + sum(map(len, stream)) == COUNT
        assert next(graph.stream(text))[0][0].as_py() == "a"
    finally:
        graph.mutate('query m() { delete Doc where slug = "a" }')


def test_what_a_batch_holds_counts_not_what_the_result_would(graph):
    text = "query q() { match { $d: Doc } return { $d.text } }"
    limits = Limits(bytes=60_000)
    for _ in range(2):
        graph.query(text)  # from then on the table is resident and costs nothing
    with pytest.raises(BudgetExceededError, match="return needs"):
        graph.query(text, limits=limits)
    assert sum(map(len, graph.stream(text, limits=limits, batch_rows=100))) == COUNT


def test_mistakes_are_told_before_the_first_batch(graph):
    with pytest.raises(NotFoundError):
        graph.stream(QUERIES[0], "nope")
    with pytest.raises(BadRequestError, match="cannot have 0 rows"):
        graph.stream(QUERIES[0], batch_rows=0)
    with pytest.raises(BudgetExceededError):
        graph.stream(QUERIES[0], limits=Limits(rows=10))


def test_a_stream_can_be_cancelled_and_left_alone(graph):
    stop = threading.Event()
    stream = graph.stream(QUERIES[0], cancel=stop, batch_rows=10)
    next(stream)
    stop.set()
    with pytest.raises(QueryCancelledError):
        next(stream)
    left = graph.stream(QUERIES[0], batch_rows=10)
    next(left)
    left.close()

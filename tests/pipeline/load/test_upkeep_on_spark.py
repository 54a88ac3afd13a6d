"""Compaction and indexes built in pieces by Spark: the same rows, the same answers."""

from dataclasses import replace

import pytest

import omnigraph
from omnigraph import GraphOptions
from omnigraph.api.upkeep import IndexStatus
from omnigraph.pipeline.run.spark import SparkRunner
from omnigraph.storage.tables.index import IndexSpec
from omnigraph.storage.tables.predicate import equals
from tests.pipeline.conftest import jsonl, node, rows
from tests.support.fast import FAST

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """node Doc {
  slug: String @key
  text: String @index
  sort: enum(a, b)
}
"""
DOCS = [
    node("Doc", slug=f"d{at}", text=f"common word{at % 10} only{at}", sort="ab"[at % 2])
    for at in range(120)
]


@pytest.fixture
def docs(tmp_path):
    options = GraphOptions(storage=replace(FAST.storage, max_rows_per_file=10))
    with omnigraph.init(str(tmp_path / "g.omni"), SCHEMA, options=options) as graph:
        graph.load(jsonl(*DOCS))
        yield graph


def by_value(graph):
    reader = graph.store.snapshot().open("node:Doc")
    return [
        reader.scan(["id"], equals(column, value))["id"].to_pylist()
        for column, value in (("id", "d77"), ("slug", "d5"), ("sort", "b"))
    ]


def by_text(graph):
    reader = graph.store.snapshot().open("node:Doc")
    return [
        set(reader.scan(["id"], full_text=word, limit=200)["id"].to_pylist())
        for word in ("common", "word3", "only77")
    ]


def test_indexes_of_many_pieces_answer_like_no_index(docs, spark):
    expected = by_value(docs)
    texts = [{f"d{at}" for at in range(120)}, {f"d{at}" for at in range(3, 120, 10)}, {"d77"}]
    reports = docs.ensure_indices(spark=spark)
    assert {one.status for one in reports} == {IndexStatus.BUILT}
    runner = SparkRunner(spark)
    assert docs.store.build_index(
        "node:Doc", IndexSpec("sort", "BITMAP", "by_sort"), "main", runner
    )
    assert (by_value(docs), by_text(docs)) == (expected, texts)
    assert {one.status for one in docs.ensure_indices()} == {IndexStatus.CURRENT}
    docs.load(jsonl(node("Doc", slug="late", text="common word3", sort="b")), "append")
    docs.ensure_indices()
    assert by_text(docs)[1] == texts[1] | {"late"}


def test_compaction_on_spark_keeps_every_row(docs, spark):
    docs.load(jsonl(*DOCS[:7]), "merge")
    docs.load(jsonl(node("Doc", slug="new", text="x", sort="a")), "append")
    expected = rows(docs, "node:Doc")
    fragments = docs.store.snapshot().handle("node:Doc").fragment_count
    (done,) = docs.optimize(spark=spark)
    assert done.committed
    assert docs.store.snapshot().handle("node:Doc").fragment_count < fragments
    assert rows(docs, "node:Doc") == expected
    assert all(one.harmless for one in docs.verify())

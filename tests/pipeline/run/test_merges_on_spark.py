"""Large merges run on Spark when one is given, and come to the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.merge import large
from omnigraph.pipeline.run.spark import SparkRunner
from tests.support.fast import FAST

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = """node Doc {
  slug: String @key
  words: String?
}
"""


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(large, "LARGE", 0)
    monkeypatch.setattr(large, "RANGE", 2_000)


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "graph", SCHEMA, options=FAST) as opened:
        opened.load(docs(range(300), "old"), "append")
        opened.branches.create("side")
        opened.load(docs(range(200), "theirs"), "merge", branch="side")
        opened.load(docs(range(300, 350), "new"), "append", branch="side")
        opened.load(docs(range(210, 240), "ours"), "merge")
        yield opened


def docs(numbers, words):
    numbers = list(numbers)
    texts = [f"{words} {at}" for at in numbers]
    return {"Doc": pa.table({"slug": [f"d{at:04d}" for at in numbers], "words": texts})}


def rows(graph, branch="main"):
    table = graph.store.snapshot(branch).open("node:Doc").scan(["id", "words"])
    return dict(zip(table["id"].to_pylist(), table["words"].to_pylist(), strict=True))


@pytest.fixture
def asked(monkeypatch):
    """Count the tasks that Spark is given, call by call."""
    seen = []
    run = SparkRunner.map

    def counted(self, task, specs):
        seen.append(len(specs))
        return run(self, task, specs)

    monkeypatch.setattr(SparkRunner, "map", counted)
    return seen


def test_a_merge_on_spark_is_the_merge_here(graph, spark, asked):
    graph.branches.create("copy")
    graph.branches.merge("side", into="copy")
    assert not asked
    done = graph.branches.merge("side", spark=spark)
    assert len(asked) == 2
    assert rows(graph) == rows(graph, "copy")
    (told,) = done.tables
    assert (told.inserted, told.updated, told.deleted) == (50, 200, 0)
    assert not graph.store.kernel.objects.list("__staging")


def test_conflicts_found_on_spark_are_told_here(graph, spark, asked):
    graph.load(docs(range(190, 195), "mine"), "merge")
    before = rows(graph)
    with pytest.raises(omnigraph.errors.ConflictError) as caught:
        graph.branches.merge("side", spark=spark)
    assert [one.row_id for one in caught.value.every] == [f"d{at:04d}" for at in range(190, 195)]
    assert asked
    assert rows(graph) == before

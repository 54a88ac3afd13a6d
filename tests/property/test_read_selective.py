"""A query answers the same on the few rows it can touch as on whole tables, in any plan."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from omnigraph.compiler.ir.facts import facts_of
from omnigraph.compiler.ir.optimize import optimize
from omnigraph.compiler.ir.reads import reads_of
from omnigraph.engine.read import selective
from omnigraph.engine.read.plan import statistics_of
from omnigraph.engine.read.selective import selective_images
from omnigraph.errors import CompileError
from tests.support.answers import Question, listed
from tests.support.graphs import a_graph, seeds, without_shrinking
from tests.support.read_queries import a_query
from tests.support.stored_graphs import StoredGraph


def check(seed: int, queries: int) -> int:
    rng = Random(seed)
    case = a_graph(rng)
    answered = 0
    with tempfile.TemporaryDirectory() as place:
        graph = StoredGraph.create(Path(place) / "graph", case)
        with graph.store:
            for _ in range(rng.randint(0, 3)):
                graph.change(rng)
            snapshot = graph.store.snapshot()
            facts = facts_of(case.catalog, statistics_of(snapshot))
            for _ in range(queries):
                asked = a_query(rng, case)
                try:
                    question = Question(case.catalog, asked.text, asked.params)
                except CompileError:
                    continue
                wanted = listed(question.asked(graph.rows["main"]))
                for ir in (question.ir, optimize(question.plain_ir, facts)):
                    assert set(reads_of(ir).tables) <= set(snapshot.tables)
                    images = selective_images(
                        ir, reads_of(ir), snapshot, case.catalog, question.bound
                    )
                    if images is not None:
                        answered += 1
                        found = question.answered(images, ir)
                        assert found == wanted, f"{asked.text}\n{asked.params}"
    return answered


@given(seeds)
@settings(without_shrinking, max_examples=40)
def test_fetched_rows_answer_like_whole_tables(seed):
    check(seed, queries=8)


@pytest.mark.exhaustive
@pytest.mark.timeout(1_800)
@given(seeds)
@settings(without_shrinking, max_examples=settings().max_examples // 10)
def test_fetched_rows_answer_like_whole_tables_at_length(seed):
    check(seed, queries=30)


def test_most_queries_can_be_answered_that_way():
    assert sum(check(seed, queries=8) for seed in range(6)) > 30


@pytest.mark.parametrize("name", ["MAX_FRONTIER", "MAX_ROWS", "SMALL_TABLE"])
def test_giving_up_changes_no_answer(name, monkeypatch):
    monkeypatch.setattr(selective, name, 2)
    for seed in range(8):
        check(seed, queries=6)

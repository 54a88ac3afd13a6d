"""Answers from storage: fresh, refreshed by what changed, compacted, on main and on branches."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, note, settings

from omnigraph.errors import CompileError
from tests.support.answers import Question
from tests.support.graphs import GraphCase, a_graph, seeds, without_shrinking
from tests.support.read_queries import a_query
from tests.support.stored_graphs import StoredGraph


def questions(rng: Random, case: GraphCase, count: int) -> list[Question]:
    found: list[Question] = []
    while len(found) < count:
        asked = a_query(rng, case)
        try:
            found.append(Question(case.catalog, asked.text, asked.params))
        except CompileError:
            continue
        note(f"{asked.text}\n{asked.params}")
    return found


def check(seed: int, rounds: int) -> None:
    rng = Random(seed)
    case = a_graph(rng)
    with tempfile.TemporaryDirectory() as place:
        graph = StoredGraph.create(Path(place) / "graph", case)
        with graph.store:
            asked = questions(rng, case, 5)
            for _ in range(rounds):
                for question in rng.sample(asked, 2):
                    graph.check(question, rng.choice(list(graph.rows)))
                for _ in range(rng.randint(1, 3)):
                    graph.change(rng)
                graph.check_past(rng.choice(asked))
            for branch in graph.rows:
                graph.check(asked[0], branch)


@given(seeds)
@settings(without_shrinking, max_examples=40)
def test_every_version_and_branch_answers_like_its_rows(seed):
    check(seed, rounds=6)


@pytest.mark.exhaustive
@pytest.mark.timeout(1_800)
@given(seeds)
@settings(without_shrinking, max_examples=settings().max_examples // 10)
def test_every_version_and_branch_answers_like_its_rows_at_length(seed):
    check(seed, rounds=12)

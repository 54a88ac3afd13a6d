"""Mapped images give the answers of those that were read, whatever happened to the graph.

After every few random commits on random branches the same questions are asked of a cache that maps
what earlier ones kept on disk, and of the rows the graph should have.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest

from omnigraph.engine.image import shelf
from omnigraph.engine.image.cache import WAYS, ImageCache
from omnigraph.engine.image.shelf import Shelf, ShelfOptions
from tests.property.test_read_matrix import some_questions
from tests.support.graphs import a_graph
from tests.support.stored_graphs import StoredGraph

STEPS, ASKED = 14, 4


def fresh(graph: StoredGraph, folder: Path) -> ImageCache:
    """Return the cache of a process that has just been started."""
    return ImageCache(1 << 30, Shelf(ShelfOptions(folder, 1 << 30), graph.store.kernel))


def check(seed: int, ways: list[str]) -> None:
    rng = Random(seed)
    case = a_graph(rng)
    with tempfile.TemporaryDirectory() as place:
        graph = StoredGraph.create(Path(place) / "graph", case)
        folder = Path(place) / "derived"
        with graph.store:
            questions = some_questions(rng, case, 6)
            cache = fresh(graph, folder)
            for _ in range(STEPS):
                for _ in range(rng.randint(0, 3)):
                    graph.change(rng)
                if rng.random() < 0.4:
                    cache = fresh(graph, folder)
                for branch in rng.sample(sorted(graph.rows), min(2, len(graph.rows))):
                    snapshot = graph.store.snapshot(branch)
                    for question in rng.sample(questions, ASKED):
                        graph.compare(question, snapshot, graph.rows[branch], cache)
                if rng.random() < 0.7:
                    cache.store()
                for snapshot, rows in graph.past[-2:]:
                    graph.compare(rng.choice(questions), snapshot, rows, cache)


@pytest.fixture
def ways(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(shelf, "LEAST_ROWS", 1)
    monkeypatch.setattr(WAYS, "add", lambda _, way: told.append(way))
    return told


@pytest.mark.property
def test_what_is_mapped_answers_like_what_was_read(ways):
    for seed in range(6):
        check(seed, ways)
    assert ways.count("mapped") > 20
    assert ways.count("refreshed") > 20


@pytest.mark.exhaustive
@pytest.mark.timeout(1_800)
def test_what_is_mapped_answers_like_what_was_read_at_length(ways):
    for seed in range(60):
        check(seed, ways)

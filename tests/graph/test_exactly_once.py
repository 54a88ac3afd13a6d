"""A consumer of the feed that may die anywhere takes every change over exactly once."""

import subprocess
import sys
import time

import pytest

import omnigraph
from tests.graph.test_changes_feed import people
from tests.graph.test_diff import ADD, AGE, GO
from tests.support.fast import FAST
from tests.support.feed_consumer import consume, people_in

SCHEMA = "node Person { name: String @key  age: I32? }"


class Died(BaseException):
    """Stands for a power cut: nothing catches it."""


@pytest.fixture
def graph(tmp_path):
    with omnigraph.init(tmp_path / "g.omni", SCHEMA, options=FAST) as opened:
        yield opened


def work(graph, number):
    graph.mutate(ADD, params={"n": f"p{number}", "a": number})
    graph.mutate(AGE, params={"n": f"p{number}", "a": number + 1})
    if number % 3 == 2:
        graph.mutate(GO, params={"n": f"p{number - 1}"})
        graph.mutate("query m() { update Person set { age: 0 } where age > 0 }")
    if number % 4 == 3:
        graph.store.optimize()


def test_wherever_the_consumer_dies_it_goes_on_as_if_it_had_not(graph, tmp_path):
    copy, calm = str(tmp_path / "copy.db"), str(tmp_path / "calm.db")
    for number in range(6):
        work(graph, number)
    deaths = 0
    for lifetime in range(1, 400):
        left = lifetime % 7 + 1  # a few steps, so that it dies at each of them in turn

        def step():
            nonlocal left
            left -= 1
            if not left:
                raise Died

        try:
            consume(graph, copy, step=step)
        except Died:
            deaths += 1
        else:
            break
        if lifetime == 5:
            work(graph, 7)  # the graph goes on meanwhile
    assert deaths > 10
    consume(graph, calm)
    assert people_in(copy) == people_in(calm) == people(graph)


@pytest.mark.slow
def test_a_killed_process_goes_on_as_if_it_had_not_been(graph, tmp_path):
    copy = str(tmp_path / "copy.db")
    command = [sys.executable, "-m", "tests.support.feed_consumer", graph.uri, copy]
    for round_ in range(3):
        child = subprocess.Popen(command)
        try:
            before = people_in(copy)
            for number in range(6):
                work(graph, 10 * round_ + number)
            until = time.monotonic() + 60
            while people_in(copy) == before and time.monotonic() < until and child.poll() is None:
                time.sleep(0.01)
            assert child.poll() is None, "the consumer met a change twice, or failed"
            assert people_in(copy) != before, "the consumer does nothing"
        finally:
            child.kill()
            child.wait()
    consume(graph, copy)
    assert people_in(copy) == people(graph)

"""A store that does not answer keeps no call longer than it may take."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph
from omnigraph import Limits
from omnigraph.base.budget import PROCESS, BudgetExceededError, QueryCancelledError
from omnigraph.graph import GraphOptions
from omnigraph.storage.tables.failures import StoreSilentError
from omnigraph.storage.upkeep import verify
from tests.support.slow_line import Line, slow_line

pytestmark = pytest.mark.s3
SCHEMA = "node P { k: String @key }"
INSERT = 'query i() { insert P { k: "a" } }'
KEYS = "query q() { match { $p: P } return { $p.k } }"
SOON = Limits(seconds=0.4)
SILENT_S = 3_600.0


@pytest.fixture
def line(server) -> Iterator[Line]:
    with slow_line(server.endpoint) as opened:
        yield opened


@pytest.fixture
def graph(line, root, options):
    with omnigraph.init(root, SCHEMA, options=GraphOptions(options, embedder=None)) as made:
        made.mutate(INSERT)
    behind = replace(options, s3=replace(options.s3, endpoint=line.endpoint))
    with omnigraph.connect(root, options=GraphOptions(behind, embedder=None)) as opened:
        yield opened
        line.delay_s = 0.0
        line.cut()  # whoever is still waited for
        line.mend()


class Later:
    """Set once somebody who waits has asked for a while."""

    asked = 0

    def is_set(self):
        self.asked += 1
        return self.asked > 8


def test_reads_and_writes_stop_at_their_limit_and_when_they_are_cancelled(graph, line):
    assert len(graph.query(KEYS)) == 1
    line.delay_s = SILENT_S
    for call in (
        lambda **how: graph.query(KEYS, **how),
        lambda **how: list(graph.stream(KEYS, **how)),
        lambda **how: graph.mutate(INSERT, **how),
    ):
        with pytest.raises(BudgetExceededError, match="ran past the time budget"):
            call(limits=SOON)
        with pytest.raises(QueryCancelledError, match="was cancelled in asking the store"):
            call(cancel=Later())
    assert PROCESS.used == 0


@pytest.mark.parametrize("held", ["opening", "reading"])
def test_a_table_that_does_not_come_is_waited_for_no_longer(graph, line, held):
    then = graph.at(graph.snapshot().commit_id)
    assert then.catalog.nodes
    if held == "reading":
        graph.store.snapshot().handle("node:P")
    line.delay_s = SILENT_S
    with pytest.raises(BudgetExceededError, match=f"{held} nodes/"):
        then.query(KEYS, limits=SOON)


@pytest.mark.parametrize("step", ["_check_branch", "unusable_indexes"])
def test_a_store_that_does_not_answer_is_no_finding(graph, line, step, monkeypatch):
    graph.ensure_indices()
    check = getattr(verify, step)

    def cut_off(*what):
        line.cut()
        try:
            return check(*what)
        finally:
            line.mend()

    monkeypatch.setattr(verify, step, cut_off)
    with pytest.raises(StoreSilentError):
        graph.verify()
    monkeypatch.undo()
    assert [finding for finding in graph.verify() if not finding.harmless] == []


def test_once_the_store_answers_again_everything_goes_on(graph, line):
    line.delay_s = SILENT_S
    with pytest.raises(BudgetExceededError):
        graph.query(KEYS, limits=SOON)
    line.delay_s = 0.0
    line.cut()
    line.mend()
    assert len(graph.query(KEYS)) == 1
    assert graph.mutate('query i() { insert P { k: "b" } }').commit_id is not None
    assert threading.active_count() < 50

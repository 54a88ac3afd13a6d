"""Every operation, killed at every gap it passes: the graph is as before or as after.

The gaps are not listed here: a dry run of each operation tells which failpoints it passes and
how often, so a new failpoint is walked as soon as it exists.
"""

from __future__ import annotations

import shutil

import pytest

from omnigraph.base import failpoints
from omnigraph.storage.store import open_store
from tests.crash.bench import Bench
from tests.support.operations import OPERATIONS, QUIET, record_passes, run_operation
from tests.support.storage_model import check_whole, graph_state

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_anywhere_it_reopens_to_before_or_after(name, start, tmp_path):
    bench = Bench(start, name, tmp_path)
    assert bench.cells(), "an operation that passes no failpoint proves nothing"
    for point, skip in bench.cells():
        root = bench.fresh()
        child = start(run_operation, name, str(root), points=f"{point}=kill@{skip}").wait()
        try:
            assert child.was_killed, (child.said, child.error)
            bench.check(root, acknowledged="done" in child.said)
        except Exception as error:
            raise AssertionError(f"{name} killed at {point}, pass {skip + 1}: {error}") from error
        shutil.rmtree(root.parent)


RECOVERIES = [name for name in OPERATIONS if name.startswith("recovery")]


@pytest.mark.parametrize("name", RECOVERIES)
def test_recovery_killed_again_and_again_heals_exactly_once(name, start, tmp_path):
    bench = Bench(start, name, tmp_path)
    root = bench.fresh()
    for point in sorted(bench.passes) * 2:
        start(run_operation, name, str(root), points=f"{point}=kill").wait()
    with open_store(str(root), options=QUIET) as store:
        assert graph_state(store) == bench.after
        healed = [c for c in store.commits() if c.recovery and "Mutation" in str(c.recovery)]
        assert len(healed) <= 1, healed
        check_whole(store)


def test_every_registered_failpoint_is_passed_by_some_operation(start, tmp_path):
    passed: set[str] = set()
    for number, name in enumerate(OPERATIONS):
        root = tmp_path / str(number) / "graph"
        OPERATIONS[name].prepare(root)
        passed |= set(start(record_passes, name, str(root)).succeed().said[-1])
    assert passed == set(failpoints.REGISTRY)

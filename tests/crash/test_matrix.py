"""Every operation, killed at every gap it passes: the graph is as before or as after, never between.

The gaps are not listed here: a dry run of each operation tells which failpoints it passes and
how often, so a new failpoint is walked as soon as it exists.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.base import failpoints
from omnigraph.errors import NotFoundError
from omnigraph.storage.store import open_store
from tests.support.children import children
from tests.support.operations import OPERATIONS, QUIET, record_passes, run_operation
from tests.support.storage_model import GraphState, check_whole, empty_graph, graph_state

pytestmark = pytest.mark.crash


class Bench:
    """One operation: prepared graphs to break, and what they may look like afterwards."""

    def __init__(self, start: Any, name: str, folder: Path) -> None:
        self.start, self.operation, self.folder = start, OPERATIONS[name], folder
        self._count = 0
        self.before = self._read(self.fresh())
        after = self.fresh()
        self.passes = self.start(record_passes, name, str(after)).succeed().said[-1]
        self.after = self._read(after)

    def fresh(self) -> Path:
        """Return a newly prepared graph."""
        self._count += 1
        root = self.folder / f"{self._count}" / "graph"
        self.operation.prepare(root)
        return root

    def cells(self) -> list[tuple[str, int]]:
        """Return every gap, once per pass; of many passes the first ones and the last."""
        return [
            (point, skip)
            for point, times in sorted(self.passes.items())
            for skip in sorted({*range(min(times, 3)), times - 1})
        ]

    def _read(self, root: Path) -> GraphState | None:
        """Return what a reader sees, which is what the last commit left; None without a graph."""
        try:
            with open_store(str(root), read_only=True) as store:
                return graph_state(store)
        except NotFoundError:
            return None

    def check(self, root: Path, *, acknowledged: bool) -> None:
        """Reopen for writing: all or nothing, healed once, and writable again."""
        if self.operation.act is None and self._read(root) is None:
            empty_graph(root, QUIET).close()  # a dead `init` can simply be run again
        with open_store(str(root), options=QUIET) as store:
            found = graph_state(store)
            assert found == self.after or (found == self.before and not acknowledged), found
            check_whole(store)


@pytest.fixture
def start():
    with children() as starter:
        yield starter


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

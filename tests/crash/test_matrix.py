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


OUTCOMES = [
    pytest.param("publish.after_staging", 0, False, None, id="before the intent"),
    pytest.param("publish.after_sidecar", 0, True, "RolledBack", id="with the intent alone"),
    pytest.param("publish.between_tables", 0, True, "RolledBack", id="after the first table"),
    pytest.param("publish.between_tables", 2, True, "RolledForward", id="after the last table"),
    pytest.param("publish.after_tables", 0, True, "RolledForward", id="before the barrier"),
    pytest.param("publish.after_table_sync", 0, True, "RolledForward", id="before the publish"),
    pytest.param("publish.after_publish", 0, True, "RolledForward", id="after the publish"),
    pytest.param("publish.after_files", 0, True, "RolledForward", id="before the intent ends"),
    pytest.param("publish.after_sidecar_delete", 0, False, None, id="before the answer"),
]


@pytest.mark.parametrize(("gap", "skip", "intent", "healing"), OUTCOMES)
def test_the_intent_decides_what_recovery_does(gap, skip, intent, healing, start, tmp_path):
    """A write counts from the moment its last table has moved, and recovery says so once."""
    bench = Bench(start, "many tables", tmp_path)
    root = bench.fresh()
    start(run_operation, "many tables", str(root), points=f"{gap}=kill@{skip}").wait()
    pending = [path.stem for path in (root / "__recovery").glob("*.json")]
    assert len(pending) == int(intent)
    with open_store(str(root), options=QUIET) as store:
        told = [commit.recovery for commit in store.commits() if commit.recovery]
        assert [audit["operation_id"] for audit in told] == pending
        assert [audit["recovery_kind"] for audit in told] == ([healing] if healing else [])
        assert all(audit["recovery_for_actor"] == "ann" for audit in told)
        counts = healing == "RolledForward" or gap == "publish.after_sidecar_delete"
        assert graph_state(store) == (bench.after if counts else bench.before)
        kept = [commit for commit in store.commits() if commit.idempotency_key == "many"]
        assert [commit.result for commit in kept] == ([{"rows": 3}] if counts else [])
        check_whole(store)


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

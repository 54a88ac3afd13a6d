"""Writers die beside writers that live: the dead leave nothing half, the living lose nothing."""

from __future__ import annotations

import pytest

from omnigraph.base import failpoints
from omnigraph.storage.store import open_store
from tests.support.storage_model import (
    A,
    B,
    E,
    check_settled,
    check_whole,
    contents,
    new_graph,
    write,
)
from tests.support.writers import BUSY, append_rows, hold_and_commit

pytestmark = pytest.mark.crash
GAPS = sorted(
    name for name in failpoints.REGISTRY if name.startswith(("publish.", "write.before_fork"))
)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_live_writer_survives_writers_that_die_everywhere(branch, start, tmp_path):
    root = tmp_path / "graph"
    with new_graph(root, BUSY) as store:
        store.branches.create("side")
    go = tmp_path / "go"
    go.touch()
    living = start(append_rows, str(root), str(go), "alive", E, branch, 60)
    acknowledged = set()
    for number, gap in enumerate(GAPS * 2):
        name = f"dead-{number}"
        victim = start(hold_and_commit, str(root), BUSY, branch, name, points=f"{gap}=kill").wait()
        assert victim.error is None, victim.error
        if any(str(word).startswith("committed") for word in victim.said):
            acknowledged.add(name)
    living.succeed(120)
    with open_store(str(root), options=BUSY) as store:
        found = contents(store.snapshot(branch))
        assert found[E] == {f"alive-{number}": number for number in range(60)}
        halves = {key for key in found[A] if key.startswith("dead-")}
        assert halves == {key for key in found[B] if key.startswith("dead-")}
        assert acknowledged <= halves
        check_whole(store)


@pytest.mark.parametrize("gap", GAPS)
def test_an_open_store_heals_the_dead_and_writes_on(gap, start, tmp_path):
    """No reopening: the next write of a process that was there all the time finds the sidecar."""
    root = tmp_path / "graph"
    with new_graph(root, BUSY) as store:
        store.branches.create("side")
        for branch in ("main", "side"):
            start(hold_and_commit, str(root), BUSY, branch, "dead", points=f"{gap}=kill").wait()
            write(store, {A: {"alive": 1}}, branch)
            found = contents(store.snapshot(branch))
            assert found[A]["alive"] == 1
            assert ("dead" in found[A]) == ("dead" in found[B])
            check_settled(store)
    with open_store(str(root), options=BUSY) as store:
        check_whole(store)

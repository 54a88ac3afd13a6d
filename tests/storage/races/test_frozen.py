"""A holder frozen at each step: others wait and name it; thawed, its write counts once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.base import failpoints
from omnigraph.storage.locks.by_name import LockTimeoutError
from omnigraph.storage.store import open_store
from tests.support.storage_model import A, B, check_whole, contents, new_graph, write
from tests.support.writers import BUSY, hold_and_commit

# Nobody but the frozen one may keep it waiting: its own upkeep would.
IMPATIENT = replace(BUSY, lock_timeout_s=0.3, maintenance="manual")
STEPS = sorted(name for name in failpoints.REGISTRY if name.startswith("publish."))


@pytest.mark.parametrize("step", STEPS)
def test_a_frozen_holder_keeps_its_lock_and_finishes_its_write(step, start, root):
    with new_graph(root, IMPATIENT) as store:
        child = start(hold_and_commit, str(root), BUSY, "main", "frozen", points=f"{step}=stop")
        assert child.wait_frozen()
        with pytest.raises(LockTimeoutError) as refused:
            write(store, {A: {"other": 1, "contested": 2}})
        assert refused.value.holder is not None
        assert refused.value.holder.pid == child.pid
        assert (
            "frozen" in contents(store.snapshot())[B]
            or "frozen" not in contents(store.snapshot())[A]
        ), "a reader saw one table without the other"
        child.run_on()
        assert child.succeed().said[-1] == "committed committed"
        write(store, {A: {"other": 1, "contested": 2}})
        found = contents(store.snapshot())
        assert found[A]["contested"] == 2
        assert found[A]["frozen"] == found[B]["frozen"] == 1
    with open_store(str(root), options=BUSY) as store:
        check_whole(store)


@pytest.mark.parametrize("step", STEPS)
def test_a_holder_killed_while_frozen_gives_way_at_once(step, start, root):
    with new_graph(root, BUSY) as store:
        child = start(hold_and_commit, str(root), BUSY, "main", "frozen", points=f"{step}=stop")
        assert child.wait_frozen()
        child.kill()
        write(store, {A: {"other": 1, "contested": 2}})
        found = contents(store.snapshot())
        assert found[A]["contested"] == 2
        assert ("frozen" in found[A]) == ("frozen" in found[B])
    with open_store(str(root), options=BUSY) as store:
        check_whole(store)

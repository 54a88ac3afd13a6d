"""Leases on S3: a dead or frozen holder is taken over, and its late steps change nothing."""

from __future__ import annotations

import pytest

from omnigraph.base import failpoints
from omnigraph.storage.store import open_store
from tests.support.operations import interrupted
from tests.support.storage_model import A, B, check_whole, contents, new_graph, write
from tests.support.writers import hold_and_commit, only_open

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("s3"), pytest.mark.crash]
PUBLISH = sorted(name for name in failpoints.REGISTRY if name.startswith("publish."))
# Waiting for leases takes seconds each: the long run waits at every gap, the usual one at these.
TELLING = ("publish.after_sidecar", "publish.between_tables", "publish.after_table_sync")
GAPS = [
    pytest.param(gap, marks=() if gap in TELLING else pytest.mark.exhaustive) for gap in PUBLISH
]


def both_or_neither(found, name):
    assert (name in found[A]) == (name in found[B]), f"half of {name}'s write is visible"
    return name in found[A]


@pytest.mark.parametrize("gap", GAPS)
def test_a_killed_holder_is_taken_over_and_its_write_is_whole_or_gone(gap, root, mortal, start):
    with new_graph(root, mortal) as store:
        dead = start(hold_and_commit, root, mortal, "main", "dead", points=f"{gap}=kill").wait()
        assert dead.was_killed
        write(store, {A: {"alive": 1, "contested": 2}})
        found = contents(store.snapshot())
        both_or_neither(found, "dead")
        assert found[A]["contested"] == 2
    with open_store(root, options=mortal) as store:
        check_whole(store)


@pytest.mark.parametrize("blind", [False, True], ids=["careful", "blind"])
@pytest.mark.parametrize("gap", GAPS)
def test_a_frozen_holder_is_taken_over_and_wakes_up_harmless(gap, blind, root, mortal, start):
    with new_graph(root, mortal) as store:
        task = (hold_and_commit, root, mortal, "main", "late", blind)
        frozen = start(*task, points=f"{gap}=stop")
        assert frozen.wait_frozen()
        write(store, {A: {"alive": 1, "contested": 2}})
        taken_over = both_or_neither(contents(store.snapshot()), "late")
        frozen.run_on()
        frozen.wait()
        found = contents(store.snapshot())
        done = [word for word in frozen.said if str(word).startswith("committed")]
        assert both_or_neither(found, "late") == bool(taken_over or done), (frozen.error, found)
        assert found[A]["alive"] == 1, "an acknowledged write was lost"
        if taken_over:
            assert found[A]["contested"] == 2, "the older write came back over the newer one"
        assert len([c for c in store.commits() if c.idempotency_key == "late"]) <= 1
    with open_store(root, options=mortal) as store:
        check_whole(store)


RECOVERY = ["recovery.before_restore", "recovery.between_restores", "recovery.before_publish"]


@pytest.mark.parametrize("gap", RECOVERY)
def test_a_frozen_recovery_is_taken_over_and_wakes_up_harmless(gap, root, mortal, start):
    with new_graph(root, mortal) as store:
        with interrupted("publish.after_sidecar=raise"):
            write(store, {A: {"half": 1}, B: {"half": 1}})
        frozen = start(only_open, root, mortal, points=f"{gap}=stop")
        assert frozen.wait_frozen()
        write(store, {A: {"alive": 1}, B: {"alive": 1}})
        frozen.run_on()
        frozen.wait()
        write(store, {A: {"again": 1}, B: {"again": 1}})
        found = contents(store.snapshot())
        assert found[A]["alive"] == found[A]["again"] == found[B]["again"] == 1
        assert "half" not in found[A]
    with open_store(root, options=mortal) as store:
        check_whole(store)


def test_a_lease_nobody_renews_is_shown_and_can_be_broken(root, options, start):
    with new_graph(root, options) as store:
        frozen = start(
            hold_and_commit, root, options, "main", "late", points="publish.after_sidecar=stop"
        )
        assert frozen.wait_frozen()
        holders = [holder for holder in store.locks() if holder.pid == frozen.pid]
        assert [holder.name for holder in holders] == ["branch:main"]
        assert store.break_lock("branch:main") == holders[0]
        assert options.lock_timeout_s < options.lease_ttl_s, "only breaking frees it in time"
        write(store, {A: {"alive": 1}})
        frozen.run_on()
        assert contents(store.snapshot())[A]["alive"] == 1
    with open_store(root, options=options) as store:
        check_whole(store)

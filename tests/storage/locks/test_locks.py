"""Locks: one holder, named in errors, freed by death."""

import multiprocessing
import threading
import time
from dataclasses import replace

import pytest

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.uri import parse_uri
from omnigraph.errors import ConflictError, StorageError
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.locks.by_name import Locks, LockTimeoutError
from omnigraph.storage.locks.leases import LeaseLocks, LeaseLostError
from tests.storage.conftest import QUIET, SteeredClock


def make_locks(root, clock=SYSTEM_CLOCK):
    counters = Counters()
    return Locks(Objects(parse_uri(str(root)), QUIET, counters), QUIET, clock, counters)


def make_leases(root, clock, ttl_s=8_000.0):
    """Leases work on any create-only store, so a directory will do.

    They live so long that the seconds a busy machine takes for a step do not matter.
    """
    options = replace(QUIET, lease_ttl_s=ttl_s)
    counters = Counters()
    objects = Objects(parse_uri(str(root)), options, counters)
    locks = Locks(objects, options, clock, counters)
    locks._backend = LeaseLocks(objects, clock, ttl_s)
    return locks


def test_a_held_lock_is_busy_for_others_and_names_its_holder(root):
    mine, other = make_locks(root), make_locks(root)
    with mine.hold("branch:main", "load"):
        with (
            pytest.raises(LockTimeoutError, match="load in process") as caught,
            other.hold("branch:main", "mutate", timeout_s=0.05),
        ):
            raise AssertionError("two holders")
        assert caught.value.holder is not None
        with other.try_hold("branch:main", "recovery") as held:
            assert held is None
        assert [holder.operation for holder in other.show()] == ["load"]
    assert other.show() == []
    with other.hold("branch:main", "mutate", timeout_s=0):
        pass


def test_different_locks_do_not_disturb_each_other(root):
    locks = make_locks(root)
    with locks.hold("refs", "a"), locks.hold("branch:main", "b"):
        assert {holder.name for holder in locks.show()} == {"refs", "branch:main"}


def test_threads_take_turns(root):
    locks = make_locks(root)
    inside: list[int] = []
    overlaps: list[int] = []

    def work() -> None:
        for _ in range(20):
            with locks.hold("branch:main", "t"):
                inside.append(1)
                overlaps.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [1] * 80


def _hold_until_killed(root, ready):
    with make_locks(root).hold("branch:main", "doomed"):
        ready.set()
        time.sleep(600)


def test_a_lock_dies_with_its_process(root):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    child = context.Process(target=_hold_until_killed, args=(root, ready))
    child.start()
    assert ready.wait(120)
    locks = make_locks(root)
    with pytest.raises(ConflictError, match=f"end process {child.pid}"):
        locks.break_lock("branch:main")
    child.kill()
    child.join()
    holder = locks.break_lock("branch:main")
    assert holder is not None
    assert holder.operation == "doomed"
    assert locks.break_lock("branch:main") is None, "there is nothing left to break"
    with locks.hold("branch:main", "next", timeout_s=5):
        pass


def test_waiting_is_counted(root):
    mine, other = make_locks(root), make_locks(root, SteeredClock())
    with (
        mine.hold("refs", "a"),
        pytest.raises(LockTimeoutError),
        other.hold("refs", "b", timeout_s=20.0),
    ):
        pass
    assert other._counters.get("lock_waits") > 0


class TestLeases:
    def test_epochs_rise_and_a_released_lease_is_free_at_once(self, root):
        locks = make_leases(root, SteeredClock())
        epochs = []
        for _ in range(3):
            with locks.hold("refs", "a") as held:
                epochs.append(held.epoch)
        assert epochs == [1, 2, 3]

    def test_a_live_lease_is_busy(self, root):
        clock = SteeredClock()
        mine, other = make_leases(root, clock), make_leases(root, clock)
        with mine.hold("refs", "a"):
            with other.try_hold("refs", "b") as held:
                assert held is None
            assert [holder.operation for holder in other.show()] == ["a"]
        assert other.show() == []

    def test_a_dead_lease_is_taken_over_after_its_lifetime_on_the_observers_clock(self, root):
        clock = SteeredClock()
        dead, other = make_leases(root, clock), make_leases(root, clock)
        held = dead._backend.attempt(dead._holder("refs", "dead"))
        held._done.set()  # its process is gone: nobody renews
        with other.try_hold("refs", "b") as refused:
            assert refused is None
        clock.ahead_s += 7_000
        with other.try_hold("refs", "b") as refused:
            assert refused is None
        clock.ahead_s += 2_000
        with other.try_hold("refs", "b") as taken:
            assert taken is not None
            assert taken.epoch == 2

    def test_a_renewed_lease_lives_on(self, root):
        clock = SteeredClock()
        mine, other = make_leases(root, clock), make_leases(root, clock)
        held = mine._backend.attempt(mine._holder("refs", "a"))
        with other.try_hold("refs", "b") as refused:
            assert refused is None
        clock.ahead_s += 7_000
        assert mine._backend.renew(held.holder, 1)
        with other.try_hold("refs", "b") as refused:
            assert refused is None
        clock.ahead_s += 7_000
        with other.try_hold("refs", "b") as refused:
            assert refused is None
        held._done.set()

    def test_a_holder_that_could_not_renew_stops_itself_at_half_time(self, root):
        clock = SteeredClock()
        locks = make_leases(root, clock)
        with locks.hold("refs", "a") as held:
            held.check()
            clock.ahead_s += 5_000
            with pytest.raises(LeaseLostError, match="could not be renewed"):
                held.check()

    def test_a_store_that_fails_once_is_asked_again(self, root, monkeypatch):
        locks, asked = make_leases(root, SYSTEM_CLOCK, ttl_s=2.0), []
        renew = LeaseLocks.renew

        def unreliable(self, holder, beat):
            asked.append(beat)
            if len(asked) == 1:
                raise StorageError("connection reset")
            return renew(self, holder, beat)

        monkeypatch.setattr(LeaseLocks, "renew", unreliable)
        with locks.hold("refs", "a") as held:
            first, deadline = held._renewed_at, time.monotonic() + 60
            while held._renewed_at == first and time.monotonic() < deadline:
                time.sleep(0.01)
            assert held._renewed_at > first
            assert not held.lost
        assert asked[:2] == [1, 2]

    def test_a_broken_lease_is_free_and_its_holder_cannot_renew(self, root):
        clock = SteeredClock()
        mine, other = make_leases(root, clock), make_leases(root, clock)
        held = mine._backend.attempt(mine._holder("refs", "stuck"))
        holder = other.break_lock("refs")
        assert holder is not None
        assert holder.operation == "stuck"
        with other.try_hold("refs", "b") as taken:
            assert taken is not None
            assert taken.epoch == holder.epoch + 1
            assert not mine._backend.renew(held.holder, 1)
        held._done.set()

    def test_old_epochs_are_tidied(self, root):
        locks = make_leases(root, SteeredClock())
        for _ in range(40):
            with locks.hold("refs", "a"):
                pass
        assert len(locks._objects.list("__locks")) < 2 * 18

"""Leases against everything that can happen between two requests of a process.

Several processes share one store. Each runs its operations in a thread of its own that stops
before every request, so that any process may sleep anywhere for as long as it takes the others to
take and forget any number of epochs. Requests may fail, be carried out without an answer, be
repeated by the client, or arrive long after they were given up. Clocks have other origins and
run unevenly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from omnigraph.errors import StorageError
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.backends import ObjectInfo
from omnigraph.storage.locks.by_name import Locks
from omnigraph.storage.locks.leases import HeldLease, LeaseLostError, LeaseMissedError
from omnigraph.storage.options import DEFAULTS

NAME = "branch:main"
TTL_S = 4_000.0
NUMBERS = st.integers(0, 2)
FATES = st.sampled_from(["answered"] * 6 + ["failed", "unheard", "repeated", "late"])
OPTIONS = replace(DEFAULTS, lease_ttl_s=TTL_S)


@dataclass
class Clock:
    """The time of one process: another origin and another speed than the others have."""

    machine: LeaseMachine
    origin: float
    speed: float

    def now_us(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.origin + self.machine.now * self.speed

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@dataclass
class Requests:
    """The store as one process sees it: every request waits for its turn and its fate."""

    process: Process
    root: Any = field(default_factory=lambda: SimpleNamespace(is_local=False))

    def create(self, name: str, data: bytes) -> bool:
        stored = self.process.machine.stored

        def carry_out() -> bool:
            made = name not in stored
            stored.setdefault(name, data)
            return made

        return self.process.request(carry_out)

    def find(self, name: str) -> bytes | None:
        return self.process.request(lambda: self.process.machine.stored.get(name))

    def list(self, prefix: str) -> list[ObjectInfo]:
        def carry_out() -> list[ObjectInfo]:
            names = sorted(self.process.machine.stored)
            return [ObjectInfo(name, 0, 0, "") for name in names if name.startswith(prefix)]

        return self.process.request(carry_out)

    def delete(self, *names: str) -> None:
        def carry_out() -> None:
            for name in names:
                self.process.machine.stored.pop(name, None)

        self.process.request(carry_out)


class Process:
    """One process: its locks, the lease it has, and the operation it is in the middle of."""

    def __init__(self, machine: LeaseMachine, clock: Clock) -> None:
        self.machine = machine
        self.locks = Locks(Requests(self), OPTIONS, clock, Counters())  # type: ignore[arg-type]
        self.held: HeldLease | None = None
        self.fate = "answered"
        self.error: BaseException | None = None
        self._worker: threading.Thread | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)

    @property
    def is_idle(self) -> bool:
        return self._worker is None

    def begin(self, operation: Callable[[], None]) -> None:
        """Start an operation; it stops before its first request."""

        def work() -> None:
            try:
                operation()
            except (StorageError, LeaseLostError):
                pass  # a process that is told so goes on
            except BaseException as error:  # noqa: BLE001 - raised again where the test sees it
                self.error = error
            finally:
                self._worker = None
                self._stopped.release()

        self._worker = threading.Thread(target=work)
        self._worker.start()
        self._stopped.acquire()

    def step(self, fate: str = "answered") -> None:
        """Let one request through, up to the next one."""
        if not self.is_idle:
            self.fate = fate
            self._go.release()
            self._stopped.acquire()
        if self.error is not None:
            raise self.error

    def finish(self, fate: str = "answered") -> None:
        """Let every request through."""
        while not self.is_idle:
            self.step(fate)

    def request(self, carry_out: Callable[[], Any]) -> Any:
        """Wait for the turn, then meet the fate."""
        self._stopped.release()
        self._go.acquire()
        if self.fate == "late":
            self.machine.under_way.append(carry_out)
        if self.fate in ("failed", "late"):
            raise StorageError("no connection")
        answer = carry_out()
        if self.fate == "unheard":
            raise StorageError("connection reset")
        return carry_out() if self.fate == "repeated" else answer

    # What it does

    def take(self, sure: bool) -> None:
        held = self.locks._attempt(NAME, "test", sure=sure)
        if held is not None:
            assert isinstance(held, HeldLease)
            self.machine.threads.append(held)
            self.held = held
            if sure:
                self.machine.taken(held)

    def check(self) -> None:
        was_ours = self.held._is_ours
        self.held.check()
        if not was_ours:
            self.machine.taken(self.held)

    def release(self) -> None:
        held, self.held = self.held, None
        self.locks._backend.release(held)

    def renew(self) -> None:
        broken = self.held.epoch in self.machine.broken
        assert not (self.held.renew() and broken), "a broken lease was renewed"


class LeaseMachine(RuleBasedStateMachine):
    """Never two holders, and no epoch twice."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored: dict[str, bytes] = {}
        self.under_way: list[Callable[[], Any]] = []
        self.threads: list[HeldLease] = []
        self.epochs: list[int] = []
        self.broken: set[int] = set()
        self.clocks = [Clock(self, 0, 1.0), Clock(self, 9e6, 1.1), Clock(self, -5e5, 0.95)]
        self.processes = [Process(self, clock) for clock in self.clocks]

    def taken(self, held: HeldLease) -> None:
        assert held.epoch > max(self.epochs, default=0), "an epoch was used twice"
        self.epochs.append(held.epoch)

    def idle(self, *, holding: bool) -> list[Process]:
        return [p for p in self.processes if p.is_idle and (p.held is not None) == holding]

    @rule(number=NUMBERS, sure=st.booleans(), at_once=st.booleans())
    def take(self, number: int, sure: bool, at_once: bool) -> None:
        process = self.processes[number]
        if process in self.idle(holding=False):
            process.begin(lambda: process.take(sure))
            if at_once:
                process.finish()

    @rule(
        number=NUMBERS, at_once=st.booleans(), what=st.sampled_from(["release", "renew", "check"])
    )
    def use(self, number: int, at_once: bool, what: str) -> None:
        process = self.processes[number]
        if process in self.idle(holding=True):
            process.begin(getattr(process, what))
            if at_once:
                process.finish()

    @rule(number=NUMBERS, fate=FATES)
    def step(self, number: int, fate: str) -> None:
        self.processes[number].step(fate)

    @rule(number=NUMBERS, times=st.integers(1, 40))
    def go_on_while_others_sleep(self, number: int, times: int) -> None:
        process = self.processes[number]
        for _ in range(times):
            if process in self.idle(holding=False):
                process.begin(lambda: process.take(True))
                process.finish()
            if process not in self.idle(holding=True):
                return
            process.begin(process.release)
            process.finish()

    @rule(part=st.sampled_from([0.05, 0.2, 0.3, 0.45, 0.8, 1.2]))
    def wait(self, part: float) -> None:
        self.now += part * TTL_S

    @rule()
    @precondition(lambda self: self.under_way)
    def a_late_request_arrives(self) -> None:
        self.under_way.pop(0)()

    @rule(number=NUMBERS)
    def die(self, number: int) -> None:
        self.processes[number].finish("failed")
        self.processes[number] = Process(self, self.clocks[number])

    @rule(number=NUMBERS)
    def break_lock(self, number: int) -> None:
        """An operator says that the holder is gone; from then on its word counts."""
        process = self.processes[number]
        if process.is_idle:
            said = []
            process.begin(lambda: said.append(process.locks.break_lock(NAME)))
            process.finish()
            self.broken |= {holder.epoch for holder in said if holder is not None}

    @invariant()
    def there_is_at_most_one_holder(self) -> None:
        assert len(list(self._sure())) <= 1, "two holders"

    def _sure(self) -> Iterator[Process]:
        for process in self.processes:
            held = process.held
            if held is None or not held._is_ours or held.epoch in self.broken:
                continue
            try:
                held.check()
            except LeaseLostError:
                continue
            yield process

    def teardown(self) -> None:
        for process in self.processes:
            process.finish("failed")
        for held in self.threads:
            held.stop()


@pytest.fixture
def machine() -> Iterator[LeaseMachine]:
    made = LeaseMachine()
    yield made
    made.there_is_at_most_one_holder()
    made.teardown()


@pytest.mark.parametrize("knows", ["its last epoch", "the newest epoch"])
def test_whoever_slept_while_epochs_were_forgotten_takes_none_of_them(machine, knows):
    sleeper, other, _ = machine.processes
    machine.go_on_while_others_sleep(0, 1)
    sleeper.begin(lambda: sleeper.take(True))
    if knows == "the newest epoch":
        sleeper.step("failed")  # the shortcut
        sleeper.begin(lambda: sleeper.take(True))
        sleeper.step()
    machine.go_on_while_others_sleep(1, 40)
    machine.take(1, sure=True, at_once=True)
    sleeper.finish()
    assert other.held is not None
    assert sleeper.held is None
    assert machine.epochs == [*range(1, 43)]


def test_a_lease_that_never_was_ours_is_called_so_as_often_as_it_is_checked(machine):
    sleeper = machine.processes[0]
    machine.go_on_while_others_sleep(0, 1)
    sleeper.begin(lambda: sleeper.take(False))
    machine.go_on_while_others_sleep(1, 40)
    sleeper.finish()
    for _ in range(2):
        told = []

        def ask(told=told):
            try:
                sleeper.held.check()
            except LeaseLostError as error:
                told.append(type(error))

        sleeper.begin(ask)
        sleeper.finish()
        assert told == [LeaseMissedError], "only that says that trying again is safe"


def test_a_sign_of_life_that_comes_too_late_does_not_count(machine):
    holder, observer, _ = machine.processes
    machine.take(0, sure=True, at_once=True)
    machine.take(1, sure=True, at_once=True)
    machine.wait(1.2)
    observer.begin(lambda: observer.take(True))
    observer.step()  # it has seen enough
    machine.use(0, at_once=True, what="renew")
    observer.finish()
    assert observer.held is not None
    assert holder.held.lost


def test_whoever_sleeps_before_the_answer_has_less_time_left(machine):
    sleeper, observer, _ = machine.processes
    sleeper.begin(lambda: sleeper.take(True))
    sleeper.step()
    sleeper.step()  # it is created
    machine.take(1, sure=True, at_once=True)
    machine.wait(1.2)
    sleeper.finish()
    assert sleeper.held is None, "it cannot tell how long others have been watching"
    machine.take(1, sure=True, at_once=True)
    assert observer.held is not None


@pytest.mark.parametrize("fate", ["unheard", "repeated"])
def test_a_lease_whose_answer_was_lost_is_known_by_its_content(machine, fate):
    process = machine.processes[0]
    process.begin(lambda: process.take(True))
    process.step()
    process.step(fate)
    process.finish()
    assert process.held is not None


def test_a_lease_that_arrives_after_it_was_given_up_is_given_back(machine):
    process, other, _ = machine.processes
    process.begin(lambda: process.take(True))
    process.step()
    process.step("late")
    process.finish()
    assert process.held is None
    machine.a_late_request_arrives()
    machine.take(1, sure=True, at_once=True)
    assert other.held is None, "it looks alive"
    machine.take(0, sure=True, at_once=True)
    assert process.held is not None
    assert machine.epochs == [2]


def test_a_release_that_fails_does_not_undo_what_was_done(machine):
    process = machine.processes[0]
    machine.take(0, sure=True, at_once=True)
    process.begin(process.release)
    process.step("failed")
    assert process.error is None
    machine.take(0, sure=True, at_once=True)
    assert process.held is None, "it ends by its lifetime"
    machine.wait(1.2)
    machine.take(0, sure=True, at_once=True)
    assert process.held is not None


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(
    max_examples=settings.default.max_examples * 3, stateful_step_count=40
)

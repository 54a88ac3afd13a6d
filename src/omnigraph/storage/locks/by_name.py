"""One writer at a time, across threads and processes: taking, waiting for and breaking locks.

Threads of one process queue at a gate, processes at what their store offers: `flocks` on disk,
`leases` in object stores. Knows nothing of what is being protected. `fork` of a process that
holds a lock is not supported.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from omnigraph.base.clock import Clock
from omnigraph.errors import ConflictError, ErrorKind
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.locks.flocks import FileLocks
from omnigraph.storage.locks.holders import HeldLock, Holder
from omnigraph.storage.locks.leases import LeaseLocks, LeaseLostError
from omnigraph.storage.options import StorageOptions

REFS_LOCK = "refs"
_FIRST_WAIT_S = 0.0005
_LONGEST_WAIT_S = 0.02
_LOOK_S = 0.05

Stop = Callable[[str], None]
"""Raises if the caller, who is told what it waits for, has to give up."""


def branch_lock_name(branch: str) -> str:
    """Return the name of the lock that protects one graph branch."""
    return f"branch:{branch}"


class LockTimeoutError(ConflictError):
    """The lock stayed busy for the whole time we were willing to wait."""

    kind = ErrorKind.LOCK_TIMEOUT

    def __init__(self, name: str, waited_s: float, holder: Holder | None) -> None:
        self.name, self.holder = name, holder
        whose = f"held by {holder}" if holder else "its holder is unknown"
        super().__init__(
            f"lock '{name}' stayed busy for {waited_s:.1f} s ({whose})",
            hint="try again, or look at it with `omnigraph lock show`",
        )


@dataclass(slots=True)
class _Gate:
    """In-process side of one lock: threads of one store queue here, not at the file."""

    mutex: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Somebody who waits for a lock, since when, and for how long."""

    name: str
    since: float
    limit_s: float
    stop: Stop | None

    def look(self) -> None:
        if self.stop is not None:
            self.stop(f"waiting for the lock '{self.name}'")


class Locks:
    """The locks of one graph."""

    def __init__(
        self, objects: Objects, options: StorageOptions, clock: Clock, counters: Counters
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._counters = counters
        self._timeout_s = options.lock_timeout_s
        self._backend: FileLocks | LeaseLocks = (
            FileLocks(objects)
            if objects.root.is_local
            else LeaseLocks(objects, clock, options.lease_ttl_s)
        )
        self._guard = threading.Lock()
        self._gates: dict[str, _Gate] = {}

    @contextlib.contextmanager
    def hold(
        self,
        name: str,
        operation: str,
        *,
        timeout_s: float | None = None,
        sure: bool = True,
        stop: Stop | None = None,
    ) -> Iterator[HeldLock]:
        """Hold a lock for the block; wait for it at most `timeout_s`, or until `stop` raises.

        Unless it is to be `sure`, it is ours only after the block's first `check`: over a network
        that is one more question, which can be asked beside those that change nothing.

        Raises:
            LockTimeoutError: it stayed busy; names the holder.
        """
        limit = self._timeout_s if timeout_s is None else timeout_s
        started = self._clock.monotonic()
        gate = self._gate(name)
        turn = _Turn(name, started, limit, stop)
        left_s = max(limit, 0)
        while not gate.mutex.acquire(timeout=min(left_s, _LOOK_S)):
            turn.look()
            left_s -= _LOOK_S
            if left_s <= 0:
                raise LockTimeoutError(name, limit, self._backend.holder(name))
        try:
            held = self._wait(turn, operation, sure=sure)
            waited_us = int((self._clock.monotonic() - started) * 1e6)
            self._counters.add("lock_wait_us", waited_us)
            self._counters.peak("lock_wait_peak_us", waited_us)
            with self._until_released(held):
                yield held
        finally:
            gate.mutex.release()

    @contextlib.contextmanager
    def _until_released(self, held: HeldLock) -> Iterator[None]:
        try:
            yield
        finally:
            self._backend.release(held)

    @contextlib.contextmanager
    def try_hold(self, name: str, operation: str) -> Iterator[HeldLock | None]:
        """Hold a lock if it is free at once; yield None if it is busy."""
        gate = self._gate(name)
        if not gate.mutex.acquire(blocking=False):
            yield None
            return
        try:
            held = self._attempt(name, operation, sure=True)
            if held is None:
                yield None
                return
            with self._until_released(held):
                yield held
        finally:
            gate.mutex.release()

    def show(self) -> list[Holder]:
        """Return every lock that is held now, here or elsewhere."""
        return self._backend.show()

    def break_lock(self, name: str) -> Holder | None:
        """Take a lock away from a holder that is gone; return who held it.

        Raises:
            ConflictError: on disk, the holder is alive: only ending its process frees it.
        """
        return self._backend.break_lock(name)

    def _gate(self, name: str) -> _Gate:
        with self._guard:
            return self._gates.setdefault(name, _Gate())

    def _holder(self, name: str, operation: str) -> Holder:
        return Holder(name, operation, os.getpid(), socket.gethostname(), self._clock.now_us())

    def _attempt(self, name: str, operation: str, *, sure: bool) -> HeldLock | None:
        held = self._backend.attempt(self._holder(name, operation))
        if held is None or not sure:
            return held
        try:
            held.check()
        except LeaseLostError:
            self._backend.release(held)
            return None
        except BaseException:
            self._backend.release(held)
            raise
        return held

    def _wait(self, turn: _Turn, operation: str, *, sure: bool) -> HeldLock:
        pause = _FIRST_WAIT_S
        while True:
            turn.look()
            held = self._attempt(turn.name, operation, sure=sure)
            if held is not None:
                return held
            if self._clock.monotonic() - turn.since >= turn.limit_s:
                raise LockTimeoutError(turn.name, turn.limit_s, self._backend.holder(turn.name))
            self._counters.add("lock_waits")
            self._clock.sleep(max(pause, self._backend.poll_s) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause = min(pause * 2, _LONGEST_WAIT_S)

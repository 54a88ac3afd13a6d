"""One writer at a time, across threads and processes.

On disk a lock is an `flock` on a file that is never removed: it dies with its process and
cannot be split in two. On object stores it is a row of create-only lease objects with rising
epochs; a lease is dead when it has not changed for its time to live *on the observer's
monotonic clock*, and a holder that could not renew stops itself at half of that. Knows nothing
of what is being protected. `fork` of a process that holds a lock is not supported.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import orjson

from omnigraph.base.clock import Clock
from omnigraph.errors import ConflictError, ErrorKind
from omnigraph.storage import layout
from omnigraph.storage.backends import naming
from omnigraph.storage.counters import Counters
from omnigraph.storage.objects import Objects
from omnigraph.storage.options import StorageOptions

REFS_LOCK = "refs"
_FIRST_WAIT_S = 0.0005
_LONGEST_WAIT_S = 0.02
_LEASE_POLL_S = 0.25


def branch_lock_name(branch: str) -> str:
    """Return the name of the lock that protects one graph branch."""
    return f"branch:{branch}"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as far as they said."""

    name: str
    operation: str
    pid: int
    host: str
    since_us: int
    epoch: int = 0

    def __str__(self) -> str:
        return f"{self.operation} in process {self.pid} on {self.host}"


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


class LeaseLostError(ConflictError):
    """Our lease could not be renewed in time; another writer may have taken over."""

    kind = ErrorKind.LOCK_TIMEOUT


class HeldLock:
    """A lock we hold; ask `check` before every durable step."""

    def __init__(self, holder: Holder, *, took_over: bool = False) -> None:
        self.holder = holder
        self.took_over = took_over

    @property
    def epoch(self) -> int:
        """Return the fencing number of this hold; zero where the kernel guards the lock."""
        return self.holder.epoch

    def check(self) -> None:
        """Return only if the lock is surely still ours."""


@dataclass(slots=True)
class _Gate:
    """In-process side of one lock: threads of one store queue here, not at the file."""

    mutex: threading.Lock = field(default_factory=threading.Lock)


class Locks:
    """The locks of one graph."""

    def __init__(
        self, objects: Objects, options: StorageOptions, clock: Clock, counters: Counters
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._counters = counters
        self._timeout_s = options.lock_timeout_s
        self._backend: _FileLocks | _LeaseLocks = (
            _FileLocks(objects)
            if objects.root.is_local
            else _LeaseLocks(objects, clock, options.lease_ttl_s)
        )
        self._guard = threading.Lock()
        self._gates: dict[str, _Gate] = {}

    @contextlib.contextmanager
    def hold(
        self, name: str, operation: str, *, timeout_s: float | None = None
    ) -> Iterator[HeldLock]:
        """Hold a lock for the block; wait for it at most `timeout_s`.

        Raises:
            LockTimeoutError: it stayed busy; names the holder.
        """
        limit = self._timeout_s if timeout_s is None else timeout_s
        started = self._clock.monotonic()
        gate = self._gate(name)
        if not gate.mutex.acquire(timeout=max(limit, 0)):
            raise LockTimeoutError(name, limit, self._backend.holder(name))
        try:
            held = self._wait(name, operation, started, limit)
            waited_us = int((self._clock.monotonic() - started) * 1e6)
            self._counters.add("lock_wait_us", waited_us)
            self._counters.peak("lock_wait_peak_us", waited_us)
            try:
                yield held
            finally:
                self._backend.release(held)
        finally:
            gate.mutex.release()

    @contextlib.contextmanager
    def try_hold(self, name: str, operation: str) -> Iterator[HeldLock | None]:
        """Hold a lock if it is free at once; yield None if it is busy."""
        gate = self._gate(name)
        if not gate.mutex.acquire(blocking=False):
            yield None
            return
        try:
            held = self._backend.attempt(self._holder(name, operation))
            if held is None:
                yield None
                return
            try:
                yield held
            finally:
                self._backend.release(held)
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

    def _wait(self, name: str, operation: str, started: float, limit: float) -> HeldLock:
        pause = _FIRST_WAIT_S
        while True:
            held = self._backend.attempt(self._holder(name, operation))
            if held is not None:
                return held
            if self._clock.monotonic() - started >= limit:
                raise LockTimeoutError(name, limit, self._backend.holder(name))
            self._counters.add("lock_waits")
            self._clock.sleep(max(pause, self._backend.poll_s) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause = min(pause * 2, _LONGEST_WAIT_S)


class _HeldFile(HeldLock):
    def __init__(self, holder: Holder, descriptor: int, *, took_over: bool) -> None:
        super().__init__(holder, took_over=took_over)
        self.descriptor = descriptor


class _FileLocks:
    """Locks on a local file system."""

    poll_s = 0.0

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def attempt(self, holder: Holder) -> _HeldFile | None:
        with naming("lock", layout.lock_file(holder.name)):
            descriptor = self._open(holder.name)
            try:
                return self._take(descriptor, holder)
            except OSError:
                os.close(descriptor)
                raise

    def _take(self, descriptor: int, holder: Holder) -> _HeldFile | None:
        if not _flock(descriptor):
            os.close(descriptor)
            return None
        left_behind = os.pread(descriptor, 4096, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock holds, only unnamed
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _encode(holder), 0)
        return _HeldFile(holder, descriptor, took_over=bool(left_behind))

    def release(self, held: HeldLock) -> None:
        assert isinstance(held, _HeldFile)
        with contextlib.suppress(OSError):  # a full disk must not keep the lock
            os.ftruncate(held.descriptor, 0)
        os.close(held.descriptor)

    def holder(self, name: str) -> Holder | None:
        return _decode(self._objects.find(layout.lock_file(name)))

    def show(self) -> list[Holder]:
        return [
            holder
            for info in self._objects.list(layout.LOCKS_DIR)
            if info.name.endswith(".lock")
            and (holder := _decode(self._objects.find(info.name))) is not None
            and not self._is_free(info.name)
        ]

    def break_lock(self, name: str) -> Holder | None:
        holder = self.holder(name)
        if holder is None:
            return None
        if not self._is_free(layout.lock_file(name)):
            raise ConflictError(
                f"lock '{name}' is held by a live process: {holder}",
                hint=f"end process {holder.pid}; the lock frees itself",
            )
        return holder

    def _is_free(self, file_name: str) -> bool:
        with naming("look at", file_name):
            descriptor = os.open(self._objects.path(file_name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _flock(descriptor)
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int:
        path = self._objects.path(layout.lock_file(name))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o644)


class _HeldLease(HeldLock):
    """A lease with a thread that keeps renewing it."""

    def __init__(self, holder: Holder, leases: _LeaseLocks, *, took_over: bool) -> None:
        super().__init__(holder, took_over=took_over)
        self._leases = leases
        self._renewed_at = leases.clock.monotonic()
        self._lost = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="omnigraph-lease")
        self._thread.start()

    def check(self) -> None:
        age = self._leases.clock.monotonic() - self._renewed_at
        if self._lost or age > self._leases.ttl_s / 2:
            raise LeaseLostError(
                f"the lease on '{self.holder.name}' could not be renewed for {age:.1f} s",
                hint="run the write again",
            )

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    @property
    def lost(self) -> bool:
        return self._lost

    def _keep(self) -> None:
        beat = 0
        while not self._done.wait(self._leases.ttl_s / 4):
            beat += 1
            started = self._leases.clock.monotonic()
            if not self._leases.renew(self.holder, beat):
                self._lost = True
                return
            self._renewed_at = started


class _LeaseLocks:
    """Locks in an object store: `<epoch>-<word>.json`, all create-only."""

    poll_s = _LEASE_POLL_S

    def __init__(self, objects: Objects, clock: Clock, ttl_s: float) -> None:
        self._objects = objects
        self.clock = clock
        self.ttl_s = ttl_s
        self._seen: dict[str, tuple[tuple[str, ...], float]] = {}
        self._released: dict[str, int] = {}

    def attempt(self, holder: Holder) -> _HeldLease | None:
        if (last := self._released.pop(holder.name, None)) is not None:
            # Epochs have no gaps: if the one after ours is still free, nobody was in between.
            held = self._take(holder, last + 1, took_over=False)
            if held is not None:
                return held
        epoch, words = self._newest(holder.name)
        free = epoch == 0 or "released" in words
        dead = not free and ("broken" in words or self._unchanged(holder.name, epoch, words))
        if not (free or dead):
            return None
        return self._take(holder, epoch + 1, took_over=dead)

    def _take(self, holder: Holder, epoch: int, *, took_over: bool) -> _HeldLease | None:
        mine = replace(holder, epoch=epoch)
        if not self._objects.create(self._object(mine.name, epoch, "held"), _encode(mine)):
            return None
        self._seen.pop(holder.name, None)
        return _HeldLease(mine, self, took_over=took_over)

    def release(self, held: HeldLock) -> None:
        assert isinstance(held, _HeldLease)
        held.stop()
        if held.lost:
            return
        name, epoch = held.holder.name, held.epoch
        self._objects.create(self._object(name, epoch, "released"), b"")
        self._released[name] = epoch
        if epoch % 16 == 0:
            self._forget_before(name, epoch)

    def renew(self, holder: Holder, beat: int) -> bool:
        epoch, _ = self._newest(holder.name)
        if epoch != holder.epoch:
            return False
        return self._objects.create(self._object(holder.name, holder.epoch, f"beat{beat:08d}"), b"")

    def holder(self, name: str) -> Holder | None:
        epoch, words = self._newest(name)
        if epoch == 0 or "released" in words:
            return None
        return _decode(self._objects.find(self._object(name, epoch, "held")))

    def show(self) -> list[Holder]:
        folders = {
            info.name.split("/")[1]
            for info in self._objects.list(layout.LOCKS_DIR)
            if info.name.count("/") == 2
        }
        found = []
        for folder in sorted(folders):
            epoch, words = self._newest_in(f"{layout.LOCKS_DIR}/{folder}")
            if epoch and "released" not in words and "broken" not in words:
                data = self._objects.find(f"{layout.LOCKS_DIR}/{folder}/{epoch:012d}-held.json")
                if (holder := _decode(data)) is not None:
                    found.append(holder)
        return found

    def break_lock(self, name: str) -> Holder | None:
        holder = self.holder(name)
        if holder is not None:
            self._objects.create(self._object(name, holder.epoch, "broken"), b"")
        return holder

    def _newest(self, name: str) -> tuple[int, tuple[str, ...]]:
        return self._newest_in(layout.lock_dir(name))

    def _newest_in(self, folder: str) -> tuple[int, tuple[str, ...]]:
        by_epoch: dict[int, list[str]] = {}
        for info in self._objects.list(folder):
            number, _, word = info.name.rpartition("/")[2].removesuffix(".json").partition("-")
            if number.isdigit():
                by_epoch.setdefault(int(number), []).append(word)
        if not by_epoch:
            return 0, ()
        epoch = max(by_epoch)
        return epoch, tuple(sorted(by_epoch[epoch]))

    def _unchanged(self, name: str, epoch: int, words: tuple[str, ...]) -> bool:
        """Whether this observer has watched the lease do nothing for its whole lifetime."""
        fingerprint = (str(epoch), *words)
        seen = self._seen.get(name)
        if seen is None or seen[0] != fingerprint:
            self._seen[name] = (fingerprint, self.clock.monotonic())
            return False
        return self.clock.monotonic() - seen[1] >= self.ttl_s

    def _forget_before(self, name: str, epoch: int) -> None:
        old = [
            info.name
            for info in self._objects.list(layout.lock_dir(name))
            if int(info.name.rpartition("/")[2].partition("-")[0]) < epoch
        ]
        self._objects.delete(*old)

    def _object(self, name: str, epoch: int, word: str) -> str:
        return f"{layout.lock_dir(name)}/{epoch:012d}-{word}.json"


def _flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _encode(holder: Holder) -> bytes:
    return orjson.dumps(
        {
            "name": holder.name,
            "operation": holder.operation,
            "pid": holder.pid,
            "host": holder.host,
            "since_us": holder.since_us,
            "epoch": holder.epoch,
        }
    )


def _decode(data: bytes | None) -> Holder | None:
    try:
        return Holder(**orjson.loads(data)) if data else None
    except (orjson.JSONDecodeError, TypeError):  # a holder died while writing its name
        return None

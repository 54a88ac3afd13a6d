"""Locks in an object store: a row of create-only lease objects with rising epochs.

A lease is dead when it has not changed for its time to live *on the observer's monotonic
clock*, and a holder that could not renew stops itself at half of that: no two clocks are ever
compared. Knows nothing of waiting, nor of what is being protected.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from omnigraph.base.clock import Clock
from omnigraph.errors import ConflictError, ErrorKind, StorageError
from omnigraph.storage import layout
from omnigraph.storage.holders import HeldLock, Holder, decode_holder, encode_holder
from omnigraph.storage.objects import Objects

log = logging.getLogger(__name__)

_LEASE_POLL_S = 0.25


class LeaseLostError(ConflictError):
    """Our lease could not be renewed in time; another writer may have taken over."""

    kind = ErrorKind.LOCK_TIMEOUT


class HeldLease(HeldLock):
    """A lease with a thread that keeps renewing it."""

    def __init__(self, holder: Holder, leases: LeaseLocks) -> None:
        super().__init__(holder)
        self._leases = leases
        self._renewed_at = leases.clock.monotonic()
        self._lost = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="omnigraph-lease")
        self._thread.start()

    def check(self) -> None:
        """Return only if the lease was renewed recently enough to be surely ours."""
        age = self._leases.clock.monotonic() - self._renewed_at
        if self._lost or age > self._leases.ttl_s / 2:
            raise LeaseLostError(
                f"the lease on '{self.holder.name}' could not be renewed for {age:.1f} s",
                hint="run the write again",
            )

    def stop(self) -> None:
        """End the renewing thread."""
        self._done.set()
        self._thread.join()

    @property
    def lost(self) -> bool:
        """Return whether somebody else was seen to have taken over."""
        return self._lost

    def _keep(self) -> None:
        clock, every_s = self._leases.clock, self._leases.ttl_s / 4
        beat, pause_s = 0, every_s
        while not self._done.wait(pause_s):
            beat += 1
            started = clock.monotonic()
            try:
                if not self._leases.renew(self.holder, beat):
                    self._lost = True
                    return
                self._renewed_at = started
            except StorageError as error:  # asked again; `check` ends a hold that stays unrenewed
                log.warning("the lease on '%s' was not renewed: %s", self.holder.name, error)
            # Counted from the beginning of this one: a slow store must not make the next one late.
            pause_s = max(every_s - (clock.monotonic() - started), 0.0)


class LeaseLocks:
    """Locks in an object store: `<epoch>-<word>.json`, all create-only."""

    poll_s = _LEASE_POLL_S

    def __init__(self, objects: Objects, clock: Clock, ttl_s: float) -> None:
        self._objects = objects
        self.clock = clock
        self.ttl_s = ttl_s
        self._seen: dict[str, tuple[tuple[str, ...], float]] = {}
        self._released: dict[str, int] = {}

    def attempt(self, holder: Holder) -> HeldLease | None:
        """Take a lock if it is free or its holder is seen to be dead."""
        if (last := self._released.pop(holder.name, None)) is not None:
            # Epochs have no gaps: if the one after ours is still free, nobody was in between.
            held = self._take(holder, last + 1)
            if held is not None:
                return held
        epoch, words = self._newest(holder.name)
        free = epoch == 0 or "released" in words
        dead = not free and ("broken" in words or self._unchanged(holder.name, epoch, words))
        if not (free or dead):
            return None
        return self._take(holder, epoch + 1)

    def _take(self, holder: Holder, epoch: int) -> HeldLease | None:
        mine = replace(holder, epoch=epoch)
        if not self._objects.create(self._object(mine.name, epoch, "held"), encode_holder(mine)):
            return None
        self._seen.pop(holder.name, None)
        return HeldLease(mine, self)

    def release(self, held: HeldLock) -> None:
        """Let a lock go."""
        assert isinstance(held, HeldLease)
        held.stop()
        if held.lost:
            return
        name, epoch = held.holder.name, held.epoch
        self._objects.create(self._object(name, epoch, "released"), b"")
        self._released[name] = epoch
        if epoch % 16 == 0:
            self._forget_before(name, epoch)

    def renew(self, holder: Holder, beat: int) -> bool:
        """Say that the holder is alive; False if the lease is not its own any more."""
        epoch, _ = self._newest(holder.name)
        if epoch != holder.epoch:
            return False
        return self._objects.create(self._object(holder.name, holder.epoch, f"beat{beat:08d}"), b"")

    def holder(self, name: str) -> Holder | None:
        """Return who holds a lock, as far as they said."""
        epoch, words = self._newest(name)
        if epoch == 0 or "released" in words:
            return None
        return decode_holder(self._objects.find(self._object(name, epoch, "held")))

    def show(self) -> list[Holder]:
        """Return every lock that is held now."""
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
                if (holder := decode_holder(data)) is not None:
                    found.append(holder)
        return found

    def break_lock(self, name: str) -> Holder | None:
        """Declare a lease dead; return who held it."""
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

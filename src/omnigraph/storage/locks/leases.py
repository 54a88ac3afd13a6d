"""Locks in an object store: a row of create-only lease objects with rising epochs.

An epoch is ours alone if we created its object and *afterwards* saw none above it: old epochs are
forgotten only below one that stays, so whoever slept and created a forgotten one again sees that
it was left behind. A lease is dead when it has not changed for its time to live *on the
observer's monotonic clock*, and a holder that could not renew stops itself at half of that: no
two clocks are ever compared. Knows nothing of waiting, nor of what is being protected.
"""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import replace

from omnigraph.base.clock import Clock
from omnigraph.errors import ConflictError, ErrorKind, StorageError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.locks.holders import HeldLock, Holder, decode_holder, encode_holder

log = logging.getLogger(__name__)

_LEASE_POLL_S = 0.25
_FORGET_EVERY = 16
_LAST_SIGN = 0.75
"""Part of a lifetime after which a sign of life comes too late; the rest is for uneven clocks."""
_OVER = ("released", "broken")


class LeaseLostError(ConflictError):
    """Our lease could not be renewed in time; another writer may have taken over."""

    kind = ErrorKind.LOCK_TIMEOUT


class LeaseMissedError(LeaseLostError):
    """The lease was never ours: others went on while we were taking it. Nothing was done."""


def still_ours(lock: HeldLock) -> bool:
    """Whether a lock is surely still ours, for those who need not go on if it is not."""
    try:
        lock.check()
    except LeaseLostError:
        return False
    return True


class HeldLease(HeldLock):
    """A lease with a thread that keeps renewing it."""

    def __init__(self, holder: Holder, leases: LeaseLocks, started: float) -> None:
        """Hold what was created at `started` or later, so that nobody watched it before."""
        super().__init__(holder)
        self._leases = leases
        self._renewed_at = started
        self._beat = 0
        self._lost = False
        self._is_ours = False
        self._asking = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="omnigraph-lease")
        self._thread.start()

    def check(self) -> None:
        """Return only if the lease is ours and was renewed recently enough to be so surely.

        The first call asks the store.

        Raises:
            LeaseMissedError: it never was ours; trying again is safe.
            LeaseLostError: it may be somebody else's by now.
        """
        with self._asking:
            if not self._is_ours:
                self._lost = self._lost or not self._leases.is_newest(self.holder)
                if self._lost:  # also for whoever asks next: nothing was done under it
                    raise LeaseMissedError(
                        f"the lease on '{self.holder.name}' went to others while it was taken",
                        hint="run the write again",
                    )
                self._is_ours = True
        age = self._leases.clock.monotonic() - self._renewed_at
        if self._lost or age > self._leases.ttl_s / 2:
            raise LeaseLostError(
                f"the lease on '{self.holder.name}' could not be renewed for {age:.1f} s, "
                "or was taken over",
                hint="run the write again",
            )

    def renew(self) -> bool:
        """Say that we are alive; False if the lease is not ours any more.

        Observers take over a whole lifetime after the last sign they saw. A sign that landed well
        before that is seen in time; a later one may not be: somebody may have looked for the last
        time and be about to take over, so the lease is given up for good.
        """
        clock = self._leases.clock
        started = clock.monotonic()
        self._beat += 1
        alive = self._leases.renew(self.holder, self._beat)
        if alive and clock.monotonic() - self._renewed_at <= self._leases.ttl_s * _LAST_SIGN:
            self._renewed_at = started
        else:
            self._lost = True
        return not self._lost

    def stop(self) -> None:
        """End the renewing thread."""
        self._done.set()
        self._thread.join()

    @property
    def lost(self) -> bool:
        """Return whether it is not surely ours any more."""
        return self._lost

    def _keep(self) -> None:
        clock, every_s = self._leases.clock, self._leases.ttl_s / 4
        pause_s = every_s
        while not self._done.wait(pause_s):
            started, wanted_s = clock.monotonic(), every_s
            try:
                if not self.renew():
                    return
            except StorageError as error:  # `check` ends a hold that stays unrenewed
                log.warning("the lease on '%s' was not renewed: %s", self.holder.name, error)
                wanted_s = every_s / 4
            # Counted from the beginning of this one: a slow store must not make the next one late.
            pause_s = max(wanted_s - (clock.monotonic() - started), 0.0)


class LeaseLocks:
    """Locks in an object store: `<epoch>-<word>.json`, all create-only."""

    poll_s = _LEASE_POLL_S

    def __init__(self, objects: Objects, clock: Clock, ttl_s: float) -> None:
        self._objects = objects
        self.clock = clock
        self.ttl_s = ttl_s
        self._seen: dict[str, tuple[tuple[str, ...], float]] = {}
        self._released: dict[str, int] = {}
        self._unanswered: dict[str, Holder] = {}

    def attempt(self, holder: Holder) -> HeldLease | None:
        """Take a lock if it is free or its holder is seen to be dead.

        The lease is ours once its `check` has passed.
        """
        if (last := self._released.pop(holder.name, None)) is not None:
            # Epochs have no gaps: if the one after ours is still free, nobody was in between.
            held = self._take(holder, last + 1)
            if held is not None:
                return held
        epoch, words = self._newest(holder.name)
        free = epoch == 0 or "released" in words or self._gave_back(holder.name, epoch)
        dead = not free and ("broken" in words or self._unchanged(holder.name, epoch, words))
        if not (free or dead):
            return None
        return self._take(holder, epoch + 1)

    def _take(self, holder: Holder, epoch: int) -> HeldLease | None:
        mine = replace(holder, epoch=epoch, nonce=uuid.uuid4().hex)
        started = self.clock.monotonic()
        self._unanswered[mine.name] = mine
        is_mine = self._create(mine)
        del self._unanswered[mine.name]
        if not is_mine:
            return None
        self._seen.pop(holder.name, None)
        return HeldLease(mine, self, started)

    def _create(self, mine: Holder) -> bool:
        """Write our lease unless there is one; that an answer was lost does not make it another's.

        Raises:
            StorageError: it is not there, but may still arrive.
        """
        try:
            if self._objects.create(self._held(mine), encode_holder(mine)):
                return True
        except StorageError:
            if self._stored(mine) == mine:
                return True
            raise
        return self._stored(mine) == mine

    def _gave_back(self, name: str, epoch: int) -> bool:
        """Release a lease of ours that arrived after we had given it up."""
        mine = self._unanswered.get(name)
        if mine is None or mine.epoch != epoch or self._stored(mine) != mine:
            return False
        self._objects.create(self._object(name, epoch, "released"), b"")
        del self._unanswered[name]
        return True

    def _stored(self, holder: Holder) -> Holder | None:
        return decode_holder(self._objects.find(self._held(holder)))

    def release(self, held: HeldLock) -> None:
        """Let a lock go; if the store does not hear of it, the lease ends by its lifetime."""
        assert isinstance(held, HeldLease)
        held.stop()
        if held.lost:
            return
        name, epoch = held.holder.name, held.epoch
        try:
            self._objects.create(self._object(name, epoch, "released"), b"")
            self._released[name] = epoch
            if epoch % _FORGET_EVERY == 0:
                self._forget_before(name, epoch)
        except StorageError as error:  # what it protected is done, and must be answered for
            log.warning("the lease on '%s' was not given back: %s", name, error)

    def is_newest(self, holder: Holder) -> bool:
        """Whether an epoch is the newest of all and not over."""
        epoch, words = self._newest(holder.name)
        return epoch == holder.epoch and not any(word in words for word in _OVER)

    def renew(self, holder: Holder, beat: int) -> bool:
        """Say that the holder is alive; False if the lease is not its own any more."""
        if not self.is_newest(holder):
            return False
        # If there is such a beat, it is ours, and only its answer was lost.
        self._objects.create(self._object(holder.name, holder.epoch, f"beat{beat:08d}"), b"")
        return True

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
            epoch, word = _epoch_and_word(info.name)
            by_epoch.setdefault(epoch, []).append(word)
        newest = max(by_epoch, default=0)
        return newest, tuple(sorted(by_epoch.get(newest, ())))

    def _unchanged(self, name: str, epoch: int, words: tuple[str, ...]) -> bool:
        """Whether this observer has watched the lease do nothing for its whole lifetime."""
        fingerprint = (str(epoch), *words)
        seen = self._seen.get(name)
        if seen is None or seen[0] != fingerprint:
            self._seen[name] = (fingerprint, self.clock.monotonic())
            return False
        return self.clock.monotonic() - seen[1] >= self.ttl_s

    def _forget_before(self, name: str, epoch: int) -> None:
        """Remove what lies below an epoch; that one stays, or one above it does."""
        old = [
            info.name
            for info in self._objects.list(layout.lock_dir(name))
            if 0 < _epoch_and_word(info.name)[0] < epoch
        ]
        self._objects.delete(*old)

    def _held(self, holder: Holder) -> str:
        return self._object(holder.name, holder.epoch, "held")

    def _object(self, name: str, epoch: int, word: str) -> str:
        return f"{layout.lock_dir(name)}/{epoch:012d}-{word}.json"


def _epoch_and_word(name: str) -> tuple[int, str]:
    """Return what a lease object stands for; epoch zero for what is not one."""
    number, _, word = name.rpartition("/")[2].removesuffix(".json").partition("-")
    return (int(number), word) if number.isdigit() else (0, "")

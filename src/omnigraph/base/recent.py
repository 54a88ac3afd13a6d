"""A bounded memory of what was made before: what was not used for longest goes first. Thread-safe.

Knows nothing of what it keeps. Making a value twice must be harmless: two threads may do so, and
both are given the one that was kept first. Finding takes no lock and moves nothing: a use leaves a
mark, and who has one is passed over once when room is made.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Kept(Generic[V]):
    __slots__ = ("is_used", "value")

    def __init__(self, value: V) -> None:
        self.value = value
        self.is_used = False


class Recent(Generic[K, V]):
    """At most `capacity` values by key."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._entries: dict[K, _Kept[V]] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    def find(self, key: K) -> V | None:
        """Return what is kept under a key, which counts as a use."""
        kept = self._entries.get(key)
        if kept is None:
            return None
        kept.is_used = True
        return kept.value

    def keep(self, key: K, value: V) -> V:
        """Keep a value, and return what is kept: another thread may have been faster."""
        with self._lock:
            kept = self._entries.setdefault(key, _Kept(value))
            self._make_room()
            return kept.value

    def put(self, key: K, value: V) -> None:
        """Keep a value in place of what was kept under its key."""
        with self._lock:
            self._entries[key] = _Kept(value)
            self._make_room()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def _make_room(self) -> None:
        while len(self._entries) > self.capacity:
            key = next(iter(self._entries))
            kept = self._entries.pop(key)
            if kept.is_used:
                kept.is_used = False
                self._entries[key] = kept

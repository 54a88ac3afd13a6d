"""Pins: objects that keep a snapshot's files from being cleaned, across processes.

Short reads need no pin: cleanup leaves everything younger than its floor alone. A pin expires
by itself unless renewed, so a dead reader does not hold disk space for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import orjson

from omnigraph.base.clock import Clock
from omnigraph.base.ids import BranchName, CommitId, UlidSource
from omnigraph.errors import BadRequestError, ErrorKind, FormatError
from omnigraph.storage import layout
from omnigraph.storage.objects import Objects


@dataclass(frozen=True, slots=True)
class PinRecord:
    """What a stored pin says."""

    id: str
    branch: BranchName
    commit_id: CommitId
    tables: Mapping[str, Sequence[Any]]
    expires_at_us: int
    load: str | None = None
    """The operation id of a bulk load, if the pin is its registration."""
    loading: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Tables that upkeep leaves alone while the load runs."""


@dataclass(slots=True)
class Pin:
    """A held pin; release it when the long read is over."""

    record: PinRecord
    objects: Objects
    clock: Clock

    def renew(self, ttl_s: float) -> None:
        """Move the expiry."""
        expires = _expiry(self.clock.now_us(), ttl_s)
        self.record = replace(self.record, expires_at_us=expires)
        self.objects.put(layout.pin(self.record.id), _encode(self.record))

    def release(self) -> None:
        """Let cleanup have the files; releasing twice is fine."""
        self.objects.delete(layout.pin(self.record.id))

    def __enter__(self) -> Pin:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def create_pin(
    objects: Objects,
    clock: Clock,
    ulids: UlidSource,
    *,
    branch: BranchName,
    commit_id: CommitId,
    tables: Mapping[str, Sequence[Any]],
    ttl_s: float,
    load: str | None = None,
    loading: Mapping[str, Sequence[Any]] | None = None,
) -> Pin:
    """Store a pin and return it."""
    now = clock.now_us()
    expires = _expiry(now, ttl_s)
    record = PinRecord(
        ulids.next(now), branch, commit_id, dict(tables), expires, load, dict(loading or {})
    )
    objects.put(layout.pin(record.id), _encode(record))
    return Pin(record, objects, clock)


def _expiry(now_us: int, ttl_s: float) -> int:
    if not 0 <= ttl_s < math.inf:
        raise BadRequestError(f"a pin cannot live for {ttl_s} seconds", hint="say 0 or more")
    return now_us + int(ttl_s * 1e6)


def live_pins(objects: Objects, clock: Clock) -> list[PinRecord]:
    """Return every pin that has not expired.

    Raises:
        FormatError: a pin cannot be read; cleanup must not guess what it protects.
    """
    now = clock.now_us()
    pins = []
    for info in objects.list(layout.PINS_DIR):
        data = objects.find(info.name)
        if data is not None:
            record = _decode(info.name, data)
            if record.expires_at_us > now:
                pins.append(record)
    return pins


def being_loaded(pins: Iterable[PinRecord]) -> dict[tuple[str, str | None], int]:
    """Return the lineages that registered loads write, with the version each began at."""
    begun: dict[tuple[str, str | None], int] = {}
    for pin in pins:
        for version, branch, _, location in pin.loading.values():
            begun[location, branch] = min(version, begun.get((location, branch), version))
    return begun


def drop_expired_pins(objects: Objects, clock: Clock) -> int:
    """Remove the pins of readers that are long gone; return how many."""
    now = clock.now_us()
    old = [
        info.name
        for info in objects.list(layout.PINS_DIR)
        if (data := objects.find(info.name)) is not None
        and _decode(info.name, data).expires_at_us <= now
    ]
    objects.delete(*old)
    return len(old)


def _encode(record: PinRecord) -> bytes:
    content = {
        "id": record.id,
        "branch": record.branch,
        "commit_id": record.commit_id,
        "tables": dict(record.tables),
        "expires_at_us": record.expires_at_us,
    }
    if record.load is not None:
        content |= {"load": record.load, "loading": dict(record.loading)}
    return orjson.dumps(content)


def _decode(name: str, data: bytes) -> PinRecord:
    try:
        return PinRecord(**orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError) as error:
        failure = FormatError(f"pin '{name}' cannot be read: {error}", hint="remove the file")
        failure.kind = ErrorKind.CORRUPT
        raise failure from error

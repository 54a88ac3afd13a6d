"""Pins: objects that keep a snapshot's files from being cleaned, across processes.

Short reads need no pin: cleanup leaves everything younger than its floor alone. A pin expires
by itself unless renewed, so a dead reader does not hold disk space for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from omnigraph.base.closing import Closing
from omnigraph.base.ids import BranchName, CommitId, UlidSource
from omnigraph.errors import BadRequestError, ErrorKind, FormatError
from omnigraph.storage.files import layout
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.files.records import TableVersion
from omnigraph.storage.files.store_clock import StoreClock


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
class Pin(Closing):
    """A held pin; close it when the long read is over."""

    record: PinRecord
    objects: Objects
    clock: StoreClock

    def renew(self, ttl_s: float) -> None:
        """Move the expiry."""
        expires = _expiry(self.clock, ttl_s)
        self.record = replace(self.record, expires_at_us=expires)
        self.objects.put(layout.pin(self.record.id), _encode(self.record))

    def close(self) -> None:
        """Let cleanup have the files; closing twice is fine."""
        self.objects.delete(layout.pin(self.record.id))


def create_pin(
    objects: Objects,
    clock: StoreClock,
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
    expires = _expiry(clock, ttl_s)
    record = PinRecord(
        ulids.next(clock.now_us()),
        branch,
        commit_id,
        dict(tables),
        expires,
        load,
        dict(loading or {}),
    )
    objects.put(layout.pin(record.id), _encode(record))
    return Pin(record, objects, clock)


def _expiry(clock: StoreClock, ttl_s: float) -> int:
    is_number = isinstance(ttl_s, int | float)
    if not (is_number and 0 <= ttl_s < math.inf):
        raise BadRequestError(f"a pin cannot live for {ttl_s!r} seconds", hint="say 0 or more")
    return clock.latest_us() + int(ttl_s * 1e6)


def live_pins(objects: Objects, clock: StoreClock) -> list[PinRecord]:
    """Return every pin that has not expired.

    Raises:
        FormatError: a pin cannot be read; cleanup must not guess what it protects.
    """
    pins = stored_pins(objects)
    now = clock.now_us() if pins else 0  # which time it is may cost a question to the store
    return [record for record in pins if record.expires_at_us > now]


def stored_pins(objects: Objects) -> list[PinRecord]:
    """Return every pin, whether it has expired or not.

    Raises:
        FormatError: a pin cannot be read.
    """
    return [record for _, record in _stored(objects)]


def being_loaded(pins: Iterable[PinRecord]) -> dict[tuple[str, str | None], int]:
    """Return the lineages that registered loads write, with the version each began at."""
    begun: dict[tuple[str, str | None], int] = {}
    for pin in pins:
        for version, branch, _, location in pin.loading.values():
            begun[location, branch] = min(version, begun.get((location, branch), version))
    return begun


def drop_expired_pins(objects: Objects, clock: StoreClock) -> int:
    """Remove the pins of readers that are long gone; return how many."""
    pins = list(_stored(objects))
    now = clock.now_us() if pins else 0
    old = [name for name, record in pins if record.expires_at_us <= now]
    objects.delete(*old)
    return len(old)


def _stored(objects: Objects) -> Iterator[tuple[str, PinRecord]]:
    for info in objects.list(layout.PINS_DIR):
        data = objects.find(info.name)
        if data is not None:
            yield info.name, _decode(info.name, data)


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
        record = PinRecord(**orjson.loads(data))
        for listed in (record.tables, record.loading):
            for key, stated in listed.items():
                TableVersion.from_list(key, stated)
        int(record.expires_at_us)
        return record
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError) as error:
        failure = FormatError(f"pin '{name}' cannot be read: {error}", hint="remove the file")
        failure.kind = ErrorKind.CORRUPT
        raise failure from error

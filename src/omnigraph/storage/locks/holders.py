"""Who holds a lock: what a holder writes down, and the hold it has.

The words both kinds of locks share. Knows neither files nor leases.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as far as they said."""

    name: str
    operation: str
    pid: int
    host: str
    since_us: int
    epoch: int = 0
    nonce: str = ""
    """Tells two attempts of one process at one epoch apart."""

    def __str__(self) -> str:
        return f"{self.operation} in process {self.pid} on {self.host}"


class HeldLock:
    """A lock we hold; ask `check` before every durable step."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder

    @property
    def epoch(self) -> int:
        """Return the fencing number of this hold; zero where the kernel guards the lock."""
        return self.holder.epoch

    def check(self) -> None:
        """Return only if the lock is surely still ours."""


def encode_holder(holder: Holder) -> bytes:
    """Return what is stored while a lock is held."""
    return orjson.dumps(
        {
            "name": holder.name,
            "operation": holder.operation,
            "pid": holder.pid,
            "host": holder.host,
            "since_us": holder.since_us,
            "epoch": holder.epoch,
            "nonce": holder.nonce,
        }
    )


def decode_holder(data: bytes | None) -> Holder | None:
    """Return who stored it; None if nobody did, or died while doing so."""
    try:
        return Holder(**orjson.loads(data)) if data else None
    except (orjson.JSONDecodeError, TypeError):
        return None

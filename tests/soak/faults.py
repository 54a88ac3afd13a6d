"""What happens to the processes of a soak and to what their graph rests on."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.soak.places import FLOOR_S, LEASE_S

if TYPE_CHECKING:
    from tests.soak.run import Soak

DAY_US = 24 * 3600 * 1_000_000


def kill(soak: Soak, dice: random.Random) -> None:
    """End a process at once, and start another in its place."""
    process = dice.choice(soak.running())
    os.kill(process.pid, signal.SIGKILL)
    process.child.wait()
    soak.start()


def freeze(soak: Soak, dice: random.Random) -> None:
    """Stop a process for longer than a lease lives and cleanup waits; the others go on."""
    process = dice.choice(soak.running())
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(dice.uniform(0.5, 1.5 * max(FLOOR_S, LEASE_S)))
    os.kill(process.pid, signal.SIGCONT)


def fill_disk(soak: Soak, dice: random.Random) -> None:
    """Let no file of one process grow beyond a few bytes for a while."""
    process = dice.choice(soak.running())
    process.order(limit=dice.choice([0, 100, 600, 1500, 3000, 5000]))
    time.sleep(dice.uniform(0.2, 1.5))
    process.order(limit=None)


def jump_clock(soak: Soak, dice: random.Random) -> None:
    """Let the clock of one process be wrong, by seconds or by weeks."""
    process = dice.choice(soak.running())
    process.order(jump_us=dice.choice([-30, -1, 1, 30]) * dice.choice([1_000_000, DAY_US]))


def slow_store(soak: Soak, dice: random.Random) -> None:
    """Hold every answer of the store back for a while."""
    assert soak.place.line is not None
    soak.place.line.delay_s = dice.uniform(0.02, 0.3)
    time.sleep(dice.uniform(0.5, 3.0))
    soak.place.line.delay_s = 0.0


def cut_store(soak: Soak, dice: random.Random) -> None:
    """Break every connection to the store, also between a request and its answer."""
    assert soak.place.line is not None
    soak.place.line.cut()
    time.sleep(dice.uniform(0.0, 2.0))
    soak.place.line.mend()


def kill_store(soak: Soak, dice: random.Random) -> None:
    """Kill the store in the middle of what it does; it is back after some seconds."""
    assert soak.place.server is not None
    soak.place.server.restart()


Fault = Callable[["Soak", random.Random], None]
EVERYWHERE: tuple[Fault, ...] = (kill, freeze, jump_clock)
ON_DISK: tuple[Fault, ...] = (*EVERYWHERE, fill_disk)
ON_S3: tuple[Fault, ...] = (*EVERYWHERE, slow_store, cut_store, kill_store)


def faults_named(names: str, *, on_s3: bool) -> list[Fault]:
    """Return the faults of a place that are asked for: `all`, `none`, or names by comma."""
    known = ON_S3 if on_s3 else ON_DISK
    chosen = names.split(",")
    return [one for one in known if names == "all" or one.__name__ in chosen]

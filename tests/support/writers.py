"""Child tasks for races: writers, readers and cleaners that say what was acknowledged."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from omnigraph.base.clock import SYSTEM_CLOCK
from omnigraph.base.uri import parse_uri
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.storage.counters import Counters
from omnigraph.storage.files.objects import Objects
from omnigraph.storage.locks.by_name import Locks
from omnigraph.storage.locks.leases import HeldLease
from omnigraph.storage.options import DEFAULTS, Retention, StorageOptions
from omnigraph.storage.store import GraphStore, open_store
from omnigraph.storage.tables.failures import SnapshotExpiredError
from omnigraph.storage.upkeep.cleanup import CleanupPolicy
from tests.support.children import Say
from tests.support.storage_model import A, contents, once, rows, write

BUSY = replace(DEFAULTS, durability="os", compact_fragments=4)
"""Automatic upkeep that has something to do all the time."""
TIDY = replace(BUSY, retention=Retention(floor_s=2.0, newest_versions=2))


def when_told(flag: Path) -> None:
    """Wait until the parent lets everybody go at once."""
    while not flag.exists():
        time.sleep(0.0005)


def append_rows(
    say: Say,
    root: str,
    flag: str,
    name: str,
    key: str,
    branch: str,
    count: int,
    options: StorageOptions = BUSY,
) -> None:
    """Append single rows with own keys and say each acknowledged key."""
    with open_store(root, options=options) as store:
        when_told(Path(flag))
        for number in range(count):
            session = store.begin(branch, actor=name)
            session.append(key, rows({f"{name}-{number}": number}))
            session.commit()
            say(f"{name}-{number}")


def count_up(
    say: Say, root: str, flag: str, branch: str, count: int, options: StorageOptions = BUSY
) -> None:
    """Raise one shared counter by strict read-modify-write, retrying on conflict."""
    with open_store(root, options=options) as store:
        when_told(Path(flag))
        for _ in range(count):
            _increment(store, branch)
            say("raised")


def _increment(store: GraphStore, branch: str) -> None:
    while True:
        session = store.begin(branch)
        value = session.base.open(A).by_ids(["counter"])["v"].to_pylist()[0]
        session.upsert(A, rows({"counter": value + 1}), strict=True)
        try:
            session.commit()
        except ConflictError:
            continue
        return


def upsert_shared(say: Say, root: str, flag: str, name: int, count: int) -> None:
    """Upsert the same keys as everybody else, without strictness, and one own key."""
    with open_store(root, options=BUSY) as store:
        when_told(Path(flag))
        for number in range(count):
            write(store, {A: {"shared-1": name, "shared-2": name, f"own-{name}-{number}": 1}})
            say("written")


def first_publish(say: Say, root: str, flag: str, branch: str, name: str) -> None:
    """Make one write on a branch that nobody has written yet."""
    with open_store(root, options=BUSY) as store:
        session = store.begin(branch)
        session.append(A, rows({name: 1}))
        when_told(Path(flag))
        session.commit()
        say(name)


def clean_again_and_again(say: Say, root: str, stop: str, options: StorageOptions = TIDY) -> None:
    """Compact and clean as fast as possible until told to stop."""
    with open_store(root, options=options) as store:
        while not Path(stop).exists():
            store.optimize()
            store.cleanup(CleanupPolicy(keep_versions=2, older_than_s=0))
            say("cleaned")


def branch_from_old_commits(say: Say, root: str, flag: str, name: str, count: int) -> None:
    """Make branches of recent and old commits and write to them; expired ones may be refused."""
    with open_store(root, options=TIDY) as store:
        when_told(Path(flag))
        for number in range(count):
            branch = f"{name}{number}"
            line = store.commits()
            commit = line[max(0, len(line) - 1 - 3 * number)]
            try:
                made = store.branches.create(branch, commit_id=commit.id)
            except SnapshotExpiredError:
                say("expired")
                continue
            seen = contents(made)
            write(store, {A: {branch: number}}, branch)
            expected = {**seen[A], branch: number}
            assert contents(store.snapshot(branch))[A] == expected, "a fork lost rows of its base"
            say(branch)


def append_between_naps(
    say: Say, root: str, options: StorageOptions, name: str, count: int, naps: bool
) -> None:
    """Append single rows; freeze after each, until somebody wakes this process."""
    with open_store(root, options=options) as store:
        for number in range(count):
            session = store.begin(actor=name)
            session.append(A, rows({f"{name}-{number}": number}))
            session.commit()
            say(f"{name}-{number}")
            if naps:
                os.kill(os.getpid(), signal.SIGSTOP)


def enter_alone(
    say: Say, root: str, options: StorageOptions, name: str, count: int, naps: bool
) -> None:
    """Take a lock again and again, and look whether anybody else is inside."""
    counters = Counters()
    objects = Objects(parse_uri(root), options, counters)
    locks = Locks(objects, options, SYSTEM_CLOCK, counters)
    for _ in range(count):
        with locks.hold("race", name) as held:
            assert objects.create("inside", name.encode()), "two are inside"
            held.check()
            objects.delete("inside")
        say(held.epoch)
        if naps:
            os.kill(os.getpid(), signal.SIGSTOP)


def hold_and_commit(
    say: Say, root: str, options: StorageOptions, branch: str, name: str, blind: bool = False
) -> None:
    """Write two tables once; the failpoints decide where this process freezes.

    A `blind` one never notices that its lease is gone, as if it froze between look and leap.
    """
    if blind:
        setattr(HeldLease, "check", lambda _: None)  # noqa: B010 - a method on purpose
    with open_store(root, options=options) as store:
        say("opened")
        session = store.begin(branch, actor=name)
        session.upsert(A, rows({name: 1, "contested": 1}))
        session.upsert("node:B", rows({name: 1}))
        made = session.commit(preconditions=once(name, name))
        say(f"committed {made.outcome}")


def append_blindly(say: Say, root: str, options: StorageOptions, name: str) -> None:
    """Append to two tables without ever noticing that the lease is gone.

    Appends are what Lance rebases without a word: nothing but a fence keeps them out.
    """
    setattr(HeldLease, "check", lambda _: None)  # noqa: B010 - a method on purpose
    with open_store(root, options=options) as store:
        session = store.begin()
        session.append(A, rows({name: 1}))
        session.append("node:B", rows({name: 1}))
        session.commit()
        say("committed")


def only_open(say: Say, root: str, options: StorageOptions) -> None:
    """Open for writing, which heals what others left; the failpoints decide how far it gets."""
    with open_store(root, options=options):
        say("opened")


def read_snapshots(say: Say, root: str, stop: str) -> None:
    """Read heads and re-read them later: a snapshot never changes and tables agree."""
    with open_store(root, read_only=True) as store:
        rounds = 0
        while not Path(stop).exists():
            snapshot = store.snapshot()
            first = contents(snapshot)
            assert contents(snapshot) == first
            rounds += 1
        say(rounds)


def drop_branch(say: Say, root: str, branch: str) -> None:
    """Delete a branch, if somebody else has not."""
    with open_store(root, options=BUSY) as store:
        try:
            store.branches.delete(branch)
            say("deleted")
        except NotFoundError:
            say("gone")

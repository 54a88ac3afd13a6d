"""What a graph commit costs beside raw Lance, young and old: `python -m bench storage`.

Ratios within one run, medians of rounds. `durability="os"` first, then what waiting for the disk
adds. Histories of 10, 100, 1,000 and (with BENCH_COMMITS=10000) 10,000 commits, upkeep on;
BENCH_ONLY=commits,branches,history,s3 chooses parts.

Measured on a shared machine with two cores (os durability; x: to a graph of ten commits):

    commits   point read        cold open         commit            commit / raw append
      1,000   0.80 ms  1.04x    0.52 ms  1.04x    4.90 ms  0.66x    3.41  1.10x
     10,000   1.72 ms  1.29x    0.82 ms  1.02x    9.37 ms  0.57x    1.50  0.59x

    commit over 1 table 2.9 to 3.6 x one raw append, over 3 tables 1.8 to 2.2 x three
    branch create 1.2 to 2.0 x one create_branch, with 1 and with 100 tables
    cold open of 50 tables 2.5 to 3.0 x opening one dataset (0.4 to 0.9 ms)
    S3: 21 requests a commit, 14 one after another, after 10, 100 and 1,000 commits
    disk with keep_versions=16: 2.7 MB after 250 commits, 3.1 MB after 2,000
"""

from __future__ import annotations

import functools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from tests.support.s3 import BUCKET, running_s3

from bench._proxy import watching
from omnigraph.base.ids import TableKey
from omnigraph.storage.files import layout
from omnigraph.storage.files.records import TableSpec
from omnigraph.storage.options import S3Options, StorageOptions
from omnigraph.storage.store import GraphStore, init_store, open_store
from omnigraph.storage.tables.predicate import equals

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
FAST = StorageOptions(durability="os")
SAFE = StorageOptions(durability="full")
ROUNDS = 7
_serial = iter(range(1 << 60))


def main() -> None:
    """Print every measurement, or those that BENCH_ONLY names."""
    parts = {
        "commits": bench_commits,
        "branches": bench_branches_and_opens,
        "history": bench_history,
        "s3": bench_s3,
    }
    chosen = os.environ.get("BENCH_ONLY", ",".join(parts)).split(",")  # noqa: TID251 - a bench setting
    with tempfile.TemporaryDirectory() as place:
        for name in chosen:
            parts[name](Path(place))


def say(text: str) -> None:
    """Print a line at once: a long run should show where it is."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rows(count: int = 1) -> pa.Table:
    """Return rows with ids nobody else has."""
    ids = [f"r{next(_serial)}" for _ in range(count)]
    return pa.table({"id": ids, "n": list(range(count))}, schema=SCHEMA)


def store_with(root: Path, name: str, tables: int, options: StorageOptions) -> GraphStore:
    """Return a new graph with empty tables."""
    specs = [TableSpec(TableKey(f"node:T{number}"), SCHEMA) for number in range(tables)]
    return init_store(str(root / name), specs, {"_schema.pg": b""}, options)


def commit(store: GraphStore, tables: int) -> None:
    """Commit one row to each of some tables."""
    session = store.begin()
    for number in range(tables):
        session.append(f"node:T{number}", rows())
    session.commit()


def raw_tables(root: Path, name: str, count: int) -> list[str]:
    """Return fresh Lance datasets like those of a graph."""
    places = [str(root / f"{name}{number}.lance") for number in range(count)]
    for place in places:
        lance.write_dataset(SCHEMA.empty_table(), place, enable_stable_row_ids=True)
    return places


def append_raw(handles: list[Any]) -> None:
    """Append one row to each dataset, on handles that stay open like a graph's do."""
    for handle in handles:
        handle.insert(rows())


def median_ms(work: Callable[[], object], calls: int = 20) -> float:
    """Return the median milliseconds of one call."""
    taken = []
    for _ in range(calls):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e3


def ratio_rounds(title: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """Time both in turn, round by round; print medians and the median ratio."""
    for _ in range(3):
        ours()
        theirs()
    found = [(median_ms(ours), median_ms(theirs)) for _ in range(ROUNDS)]
    mine, other = (statistics.median(part) for part in zip(*found, strict=True))
    ratio = statistics.median(a / b for a, b in found)
    say(f"{title:44} {mine:8.2f} ms   raw {other:8.2f} ms   ratio {ratio:5.2f}")


def bench_commits(root: Path) -> None:
    """Compare one commit over 1 and 3 tables with as many raw appends."""
    for tables in (1, 3):
        with store_with(root, f"commit{tables}", tables, FAST) as store:
            handles = [lance.dataset(place) for place in raw_tables(root, f"raw{tables}_", tables)]

            def ours(store: GraphStore = store, tables: int = tables) -> None:
                commit(store, tables)

            def theirs(handles: list[Any] = handles) -> None:
                append_raw(handles)

            ratio_rounds(f"commit over {tables} table(s), os", ours, theirs)
            with store_with(root, f"safe{tables}", tables, SAFE) as safe:
                before = safe.counters.as_dict().get("fsyncs", 0)
                full = median_ms(lambda safe=safe, tables=tables: commit(safe, tables), 15)  # type: ignore[misc]
                after = safe.counters.as_dict().get("fsyncs", 0)
                quick = median_ms(ours, 15)
            say(
                f"  waiting for the disk: {full:.2f} ms instead of {quick:.2f} ms, "
                f"{(after - before) / 15:.0f} fsyncs a commit"
            )


def bench_branches_and_opens(root: Path) -> None:
    """Compare branch creation and cold opens with one raw dataset."""
    (place,) = raw_tables(root, "ref", 1)
    lance.dataset(place).insert(rows())
    for tables in (1, 100):
        with store_with(root, f"branch{tables}", tables, FAST) as store:
            commit(store, 1)

            def ours(store: GraphStore = store) -> None:
                store.branches.create(f"b{next(_serial)}")

            def theirs() -> None:
                lance.dataset(place).create_branch(f"b{next(_serial)}")

            ratio_rounds(f"branch create, {tables} table(s)", ours, theirs)
    with store_with(root, "open50", 50, FAST) as store:
        for _ in range(20):
            commit(store, 3)
    where = str(root / "open50")

    def open_ours() -> None:
        with open_store(where, read_only=True, options=FAST) as opened:
            opened.snapshot()

    ratio_rounds("cold open, 50 tables", open_ours, lambda: lance.dataset(place))


def bench_history(root: Path) -> None:
    """Compare an ageing graph and an equally old raw table with ones that are ten commits old.

    Old and young take turns within one run, over several rounds of upkeep, so that neither a
    busy machine nor the moment between two compactions decides.
    """
    last = int(os.environ.get("BENCH_COMMITS", "1000"))  # noqa: TID251 - a bench setting
    old = Pair(root, "old")
    for goal in (10, 100, 1_000, 10_000):
        if goal > last:
            break
        started = time.perf_counter()
        old.age_to(goal)
        speed = time.perf_counter() - started
        young = Pair(root, f"young{goal}")
        young.age_to(10)
        mine, other = measured_in_turns(old, young)
        parts = [f"{name} {mine[name]:.2f} ms ({mine[name] / other[name]:.2f}x)" for name in mine]
        ratio = (mine["commit"] / mine["raw append"]) / (other["commit"] / other["raw append"])
        say(f"after {goal:6} commits: {'  '.join(parts)}  (in brackets: to a graph of 10 commits)")
        say(
            f"    commit / raw append {mine['commit'] / mine['raw append']:.2f}, {ratio:.2f}x; "
            f"disk {old.disk_mb():.1f} MB, {old.files()}; reached in {speed:.0f} s"
        )
        young.close()
    old.close()


class Pair:
    """A graph and a raw table that are written alike."""

    def __init__(self, root: Path, name: str) -> None:
        self.place = root / name
        self.store = store_with(root, name, 1, FAST)
        (self.raw_place,) = raw_tables(root, f"{name}_raw", 1)
        self.raw = lance.dataset(self.raw_place)
        self.done = 0

    def write(self) -> tuple[float, float]:
        """Commit and append once; return the seconds each took."""
        started = time.perf_counter()
        commit(self.store, 1)
        between = time.perf_counter()
        self.raw.insert(rows())
        ended = time.perf_counter()
        self.done += 1
        if self.done % 32 == 0:
            self.raw.optimize.compact_files()
        if self.done % 256 == 0:
            self.raw.cleanup_old_versions(retain_versions=64)
        return between - started, ended - between

    def age_to(self, commits: int) -> None:
        """Write until there are so many commits, and let upkeep finish."""
        while self.done < commits:
            self.write()
        self.store.wait_for_upkeep(60)

    def read(self) -> None:
        """Read one row by its key, at the newest commit."""
        self.store.snapshot().open("node:T0").scan(where=equals("id", self.known))

    @functools.cached_property
    def known(self) -> str:
        """Return the key of some row."""
        return str(self.store.snapshot().open("node:T0").scan(["id"], limit=1)["id"][0])

    def open_cold(self) -> None:
        """Open the graph anew and read its head."""
        with open_store(str(self.place), read_only=True, options=FAST) as opened:
            opened.snapshot()

    def disk_mb(self) -> float:
        """Return the size of the graph."""
        return sum(file.stat().st_size for file in self.place.rglob("*") if file.is_file()) / 1e6

    def files(self) -> str:
        """Return the numbers that decide what reads cost."""
        table = self.store.snapshot().tables[TableKey("node:T0")]
        handle = self.store.kernel.tables.open(*table.place)
        manifest = self.place / layout.version_file(*table.place)
        return f"{handle.fragment_count} fragments, manifest {manifest.stat().st_size} bytes"

    def close(self) -> None:
        """Remove both."""
        self.store.close()
        shutil.rmtree(self.place)
        shutil.rmtree(self.raw_place)


def measured_in_turns(*pairs: Pair) -> list[dict[str, float]]:
    """Return the median milliseconds of each operation, per pair."""
    taken: list[dict[str, list[float]]] = [
        {"point read": [], "cold open": [], "commit": [], "raw append": []} for _ in pairs
    ]
    turns = list(zip(pairs, taken, strict=True))
    for number in range(64):
        for pair, found in turns if number % 2 else reversed(turns):
            own, raw = pair.write()
            found["commit"].append(own)
            found["raw append"].append(raw)
            pair.store.wait_for_upkeep(60)  # or it is measured as somebody else's work
            for name, work in (("point read", pair.read), ("cold open", pair.open_cold)):
                work()  # the first read of a version opens it
                started = time.perf_counter()
                work()
                found[name].append(time.perf_counter() - started)
    return [
        {name: statistics.median(times) * 1e3 for name, times in found.items()} for found in taken
    ]


def bench_s3(root: Path) -> None:
    """Count the requests of a one-table commit on an object store, young and old."""
    last = 1_000 if int(os.environ.get("BENCH_COMMITS", "1000")) >= 1_000 else 100  # noqa: TID251
    with running_s3(root / "s3") as server, watching(server.endpoint) as traffic:
        settings = server.options() | {"endpoint": traffic.endpoint}
        s3 = S3Options(
            endpoint=settings["endpoint"],
            access_key_id=settings["access_key_id"],
            secret_access_key=settings["secret_access_key"],
            region=settings["region"],
            allow_http=True,
        )
        options = StorageOptions(s3=s3)
        specs = [TableSpec(TableKey("node:T0"), SCHEMA)]
        store = init_store(f"s3://{BUCKET}/bench/g", specs, {"_schema.pg": b""}, options)
        done = 0
        for goal in (10, 100, last):
            while done < goal:
                commit(store, 1)
                done += 1
            store.wait_for_upkeep(60)
            traffic.requests.clear()
            traffic.delay_s = 0.03
            started = time.perf_counter()
            commit(store, 1)
            taken = (time.perf_counter() - started) * 1e3
            traffic.delay_s = 0.0
            found = list(traffic.requests)
            if goal == 10:
                for request in found:
                    begun, ended = request.started - started, request.ended - started
                    say(f"    {begun * 1e3:6.0f} to {ended * 1e3:6.0f} ms  {request.line[:90]}")
            say(
                f"S3 after {goal:5} commits: {len(found)} requests, "
                f"{traffic.serial()} one after another, {taken:.0f} ms at 30 ms each"
            )
        store.close()


if __name__ == "__main__":
    main()

"""Upkeep beside what Lance does by itself: `python -m bench maintain`.

- a segment of a sorted index over 10,000 new rows, and the whole index over a million;
- compaction of a thousand fragments of a hundred rows, beside `compact_files` on a copy;
  both wait for the disk;
- `verify --deep` of a graph, beside SHA-256 of the same files one after the other.

`x` is the first divided by the second, the median of five rounds.

Measured on a shared machine with two cores:

    segment over 10,000 rows              0.05 x the index over a million (6 ms and 125 ms)
    the same with its durable commit      0.13 x where the disk rests
    optimize of 1,000 fragments           1.5 x compact_files
    verify --deep                         1.0 x the time of SHA-256 alone, 1.8 GB/s
"""

from __future__ import annotations

import hashlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa

import omnigraph
from bench._rounds import ROUNDS, sync
from omnigraph.graph import Graph, GraphOptions
from omnigraph.storage.files.layout import MAIN
from omnigraph.storage.manifest.digests import stated_digests
from omnigraph.storage.options import DEFAULTS
from omnigraph.storage.tables.index import IndexSpec, write_index

SCHEMA = "node P {\n  pid: String @key\n  n: I64\n}\n"
KEY = "node:P"
QUIET = GraphOptions(storage=replace(DEFAULTS, maintenance="manual"), embedder=None)
ROWS, NEW = 1_000_000, 10_000
FRAGMENTS, EACH = 1_000, 100

Rounds = list[tuple[list[float], Callable[[], object]]]


def main() -> None:
    """Run all three."""
    with tempfile.TemporaryDirectory() as folder:
        segments(Path(folder))
        compaction(Path(folder))
        checking(Path(folder))


def segments(place: Path) -> None:
    """One segment, and the whole."""
    spec = IndexSpec("id", "BTREE", "by_id")
    whole: list[float] = []
    part: list[float] = []
    published: list[float] = []
    with omnigraph.init(place / "segments", SCHEMA, options=QUIET) as graph:
        graph.load({"P": _rows(0, ROWS)}, "append")
        store = graph.store
        store.build_index(KEY, spec)
        for number in range(ROUNDS):
            graph.load({"P": _rows(ROWS + number * NEW, NEW)}, "append")
            own, tables = store.snapshot().handle(KEY), store.kernel.tables
            whole.append(_timed(partial(write_index, tables, own, spec)))
            part.append(_timed(partial(write_index, tables, own, spec, adds=True)))
            published.append(_timed(partial(store.build_index, KEY, spec, adds=True)))
    full = statistics.median(whole)
    _say("segment over 10k rows, index over 1M", statistics.median(part), full)
    _say("the same with its durable commit", statistics.median(published), full)


def compaction(place: Path) -> None:
    """Fewer files of the same rows."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        with _fragmented(place / f"small{number}") as graph:
            home = Path(graph.store.snapshot().handle(KEY).dataset.uri)
            copied = place / f"copy{number}"
            shutil.copytree(home, copied)
            rounds: Rounds = [
                (ours, partial(graph.optimize, tables=[KEY])),
                (theirs, partial(_compacted, copied)),
            ]
            for found, work in rounds if number % 2 else reversed(rounds):
                found.append(_timed(work))
            assert len(lance.dataset(str(copied)).get_fragments()) == 1
            assert graph.store.snapshot().handle(KEY).fragment_count == 1
    _say("optimize 1,000 fragments, compact_files", *map(statistics.median, (ours, theirs)))


def _compacted(place: Path) -> None:
    """Compact a copy and wait for the disk, as ours does."""
    before = {path for path in place.rglob("*") if path.is_file()}
    lance.dataset(str(place)).optimize.compact_files()
    for path in place.rglob("*"):
        if path.is_file() and path not in before:
            sync(path)


def _fragmented(place: Path) -> Graph:
    """A graph whose table lies in a thousand fragments, by one commit."""
    storage = replace(QUIET.storage, max_rows_per_file=EACH)
    with omnigraph.init(place, SCHEMA, options=replace(QUIET, storage=storage)) as graph:
        graph.load({"P": _rows(0, FRAGMENTS * EACH)}, "append", engine="inline")
    return omnigraph.connect(place, options=QUIET)


def checking(place: Path) -> None:
    """The same bytes, hashed."""
    ours: list[float] = []
    theirs: list[float] = []
    with omnigraph.init(place / "checked", SCHEMA, options=QUIET) as graph:
        graph.load({"P": _rows(0, 5 * ROWS)}, "append", engine="inline")
        graph.ensure_indices()
        store = graph.store
        stated = stated_digests(store._heads.current(MAIN).handle)
        names = [place / "checked" / one.name for one in stated]
        size = sum(path.stat().st_size for path in names)
        for number in range(ROUNDS):
            rounds: Rounds = [
                (ours, store.check_files),
                (theirs, partial(_hashed, names)),
            ]
            for found, work in rounds if number % 2 else reversed(rounds):
                found.append(_timed(work))
    _say("verify --deep, sha256 of its files", *map(statistics.median, (ours, theirs)))
    speed = size / statistics.median(ours) / 1e6
    sys.stdout.write(f"{'':44} {speed:9.0f} MB/s of {size / 1e6:.0f} MB\n")


def _hashed(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, "sha256").hexdigest()


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"pid": [f"p{number:08d}" for number in numbers], "n": list(numbers)})


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _say(title: str, ours: float, theirs: float) -> None:
    told = f"{1e3 * ours:9.1f} ms   {1e3 * theirs:9.1f} ms   x {ours / theirs:.3f}"
    sys.stdout.write(f"{title:44} {told}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Reads that are not warm, and reads beside each other: `python -m bench fresh`.

The first query of a new process; a lookup after a write, in the writing process and in another
one; two threads. Whole processes are compared by the processor time they and their threads take,
which other work on the machine does not change.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance

import omnigraph
from bench import _data, read
from bench._rounds import ROUNDS, process_cpu
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions

INSERT = """query m($k: String) {
  insert Person { key: $k, name: "new", age: 1, city: "here" }
}"""
OPTIONS = GraphOptions(storage=StorageOptions(durability="os"))
WRITES = 20


def main() -> None:
    """Measure at the size given by BENCH_PERSONS (100,000 unless said)."""
    persons = int(os.environ.get("BENCH_PERSONS", "100000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons, docs=0)
    with tempfile.TemporaryDirectory() as place:
        graph = read.load_ours(data, Path(place))
        graph.ensure_indices()
        person = graph.snapshot().table("node:Person")
        raw = f"{graph.uri}/{person.table_path}"
        first_query(graph.uri, raw, data.seeds[0])
        after_a_write_here(graph, data.seeds)
        after_a_write_elsewhere(graph, raw, data.seeds)
        threads(graph, data.seeds)
        graph.close()


def say(title: str, text: str) -> None:
    """Print one row."""
    sys.stdout.write(f"{title:44} {text}\n")
    sys.stdout.flush()


def first_query(uri: str, raw: str, key: str) -> None:
    """Compare a whole process that opens a graph and looks a node up with one that opens Lance."""
    ours = f"""
import omnigraph
graph = omnigraph.connect({uri!r}, read_only=True)
assert len(graph.query({read.LOOKUP!r}, params={{"k": {key!r}}})) == 1
"""
    theirs = f"import lance; lance.dataset({raw!r})"
    pairs = [
        (process_cpu([sys.executable, "-c", ours]), process_cpu([sys.executable, "-c", theirs]))
        for _ in range(ROUNDS)
    ]
    mine, other = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    say(
        "first query of a process",
        f"{mine * 1e3:7.0f} ms   import lance + open {other * 1e3:.0f} ms  ratio {ratio:.2f}",
    )


def after_a_write_here(graph: omnigraph.Graph, seeds: list[str]) -> None:
    """Time the first lookup after inserting a node in this process."""
    ask = read.asker(graph, read.LOOKUP)
    for key in seeds:
        ask(key)
    warm = statistics.median(_seconds(ask, key) for key in seeds * 5)
    rested, after = [], []
    for number in range(WRITES):
        time.sleep(0.02)  # as long as a write takes: processor caches cool down meanwhile
        rested.append(_seconds(ask, seeds[number % len(seeds)]))
        graph.mutate(INSERT, params={"k": f"here{number}"})
        after.append(_seconds(ask, seeds[number % len(seeds)]))
    took, idle = statistics.median(after), statistics.median(rested)
    say(
        "lookup after an insert, same process",
        f"{took * 1e6:7.0f} us   warm {warm * 1e6:.0f} us  ratio {took / warm:.2f}"
        f"   after a pause {idle * 1e6:.0f} us  ratio {took / idle:.2f}",
    )


def after_a_write_elsewhere(graph: omnigraph.Graph, raw: str, seeds: list[str]) -> None:
    """Time the first lookup of another process after this one inserted a node."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_reader, args=(there, graph.uri, seeds), daemon=True)
    child.start()
    here.recv()
    asked, opened = [], []
    for number in range(WRITES):
        graph.mutate(INSERT, params={"k": f"there{number}"})
        version = graph.snapshot().table("node:Person").table_version
        started = time.perf_counter()
        newer = lance.dataset(raw, version=version)
        newer.delta(begin_version=version - 1, end_version=version).get_inserted_rows().read_all()
        opened.append(time.perf_counter() - started)
        here.send(seeds[number % len(seeds)])
        asked.append(here.recv())
    here.send(None)
    child.join(30)
    took, other = statistics.median(asked), statistics.median(opened)
    say(
        "lookup after an insert, another process",
        f"{took * 1e6:7.0f} us   Lance open + delta {other * 1e6:.0f} us  ratio {took / other:.2f}",
    )


def _reader(pipe: Any, uri: str, seeds: list[str]) -> None:
    graph = omnigraph.connect(uri, read_only=True, options=OPTIONS)
    ask = read.asker(graph, read.LOOKUP)
    for key in seeds * 2:
        ask(key)
    pipe.send("ready")
    while (key := pipe.recv()) is not None:
        pipe.send(_seconds(ask, key))


def _seconds(ask: Callable[[Any], object], value: object) -> float:
    started = time.perf_counter()
    ask(value)
    return time.perf_counter() - started


def threads(graph: omnigraph.Graph, seeds: list[str]) -> None:
    """Compare queries per second of two threads with those of one."""
    for title, text, name, count in (
        ("lookups", read.LOOKUP, "k", 4_000),
        ("2 hops", read.HOP2, "k", 2_000),
        ("3 hops", read.HOP3, "k", 400),
        ("group-by over edges", read.GROUPS, None, 20),
    ):
        ask = read.asker(graph, text, name)
        inputs = [seeds[at % len(seeds)] for at in range(count)]
        _run_all(ask, inputs[:10])
        ratios, alone = [], 0.0
        for _ in range(ROUNDS):
            alone = count / _run_all(ask, inputs)
            both = 2 * count / _run_all(ask, inputs, inputs)
            ratios.append(both / alone)
        say(
            f"{title}, 2 threads",
            f"{alone:7.0f}/s alone   ratio {statistics.median(ratios):.2f}",
        )


def _run_all(ask: Callable[[Any], object], *shares: list[str]) -> float:
    def work(share: list[str]) -> None:
        for one in share:
            ask(one)

    workers = [threading.Thread(target=work, args=(share,)) for share in shares]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

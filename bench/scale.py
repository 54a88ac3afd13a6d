"""Large graphs from a standing start: `python -m bench scale`.

First queries of fresh processes with their images mapped from files, beside the same without, and
beside Ladybug if it is here; the worst query while an image is built; the first write; memory of
several processes; a narrow filter in front of `nearest`. Sizes by BENCH_PERSONS (100,000 unless
said), ten acquaintances each.

A child imports first and then measures from opening on, so rows are without imports; whole commands
are a row of their own. "Cold" drops the pages of the files, not those of the machine.
Where the machine is shared, CPU is the number to trust.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph
from bench import _data
from bench._rounds import process_cpu
from omnigraph.base.background import BACKGROUND
from omnigraph.engine.image.vectors import build_vectors
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions

ROUNDS = 4
OPTIONS = GraphOptions(storage=StorageOptions(durability="os"), cache=None)
LOOKUP = """query q($k: String) {
  match { $p: Person { key: $k } }
  return { $p.name as name, $p.age as age, $p.city as city }
}"""
HOP2 = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g }
  return { count(distinct $g) as n }
}"""
GROUPS = """query q() {
  match { $p: Person }
  return { $p.city as city, count($p) as n }
  order { city }
}"""
INSERT = """query m($k: String, $o: String) {
  insert Person { key: $k, name: "new", city: "here" }
  insert Knows { from: $k, to: $o, since: 2026 }
}"""
DELETE = "query m($k: String) { delete Person where key = $k }"
SHAPES = {
    "2 hops": (
        HOP2,
        "MATCH (a:Person {key: $k})-[:Knows]->(:Person)-[:Knows]->(c:Person) "
        "RETURN count(DISTINCT c.key)",
    ),
    "lookup": (LOOKUP, "MATCH (p:Person {key: $k}) RETURN p.name, p.age, p.city"),
    "group by": (GROUPS, "MATCH (p:Person) RETURN p.city, count(p.key) ORDER BY p.city"),
}

OURS = """
import json, sys, time
import omnigraph
from omnigraph.graph import GraphOptions
import omnigraph.engine.read.reader, omnigraph.compiler.query.parser, lark, pyarrow.compute
said = json.loads(sys.argv[1])
w, c = time.perf_counter(), time.process_time()
graph = omnigraph.connect(said["uri"], read_only=True, options=GraphOptions(cache=said["cache"]))
params = {"k": said["key"]} if "$k" in said["text"] else {}
found = graph.query(said["text"], params=params).to_tuples()
print(json.dumps([time.perf_counter() - w, time.process_time() - c, found]))
"""
THEIRS = """
import json, sys, time
import ladybug
said = json.loads(sys.argv[1])
w, c = time.perf_counter(), time.process_time()
connection = ladybug.Connection(ladybug.Database(said["uri"], read_only=True))
params = {"k": said["key"]} if "$k" in said["text"] else {}
found = [list(row) for row in connection.execute(said["text"], params).get_all()]
print(json.dumps([time.perf_counter() - w, time.process_time() - c, found]))
"""
READER = """
import json, sys, time
import omnigraph
from omnigraph.graph import GraphOptions
said = json.loads(sys.argv[1])
if said["uri"]:
    options = GraphOptions(cache=said["cache"])
    graph = omnigraph.connect(said["uri"], read_only=True, options=options)
    for key in said["keys"]:
        graph.query(said["text"], params={"k": key})
else:
    import omnigraph.engine.read.reader, omnigraph.graph.graph, lance
print("ready", flush=True)
sys.stdin.readline()
started = time.process_time()
for key in said["keys"] if said["uri"] else ():
    graph.query(said["text"], params={"k": key})
print(time.process_time() - started, flush=True)
sys.stdin.readline()
"""


def main() -> None:
    """Measure everything at one size."""
    persons = int(os.environ.get("BENCH_PERSONS", "100000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons, docs=0)
    say("size", f"{persons} persons, {data.tables['edge:Knows'].num_rows} acquaintances")
    with tempfile.TemporaryDirectory() as folder:
        place, cache = Path(folder), Path(folder) / "derived"
        uri = str(place / "g.omni")
        with omnigraph.init(uri, _data.SCHEMA, options=OPTIONS) as graph:
            session = graph.store.begin()
            for key, rows in data.tables.items():
                session.append(key, rows)
            session.commit()
            graph.ensure_indices()
        build(uri, cache, data.seeds)
        load_ladybug(data, place / "bug.db")
        first_queries(uri, place / "bug.db", cache, data.seeds)
        command(uri, place, data.seeds[0])
        worst_while_building(uri, data.seeds)
        writes(uri, data.seeds)
        processes(uri, cache, data.seeds)
    narrow_filter()


def load_ladybug(data: _data.Data, place: Path) -> None:
    """Load the same rows into Ladybug, if it is here."""
    if find_spec("ladybug") is None:
        say("ladybug", "is not installed: rows without it")
        return
    ladybug = import_module("ladybug")
    connection = ladybug.Connection(ladybug.Database(str(place)))
    connection.execute(
        "CREATE NODE TABLE Person(key STRING PRIMARY KEY, name STRING, age INT32, city STRING)"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
    person = data.tables["node:Person"].select(["key", "name", "age", "city"])  # noqa: F841 - by name
    knows = data.tables["edge:Knows"].select(["src", "dst", "since"])  # noqa: F841 - by name
    connection.execute("COPY Person FROM person")
    connection.execute("COPY Knows FROM knows")


def say(title: str, text: str) -> None:
    """Print one row."""
    sys.stdout.write(f"{title:40} {text}\n")
    sys.stdout.flush()


def build(uri: str, cache: Path, seeds: Sequence[str]) -> None:
    """Make what the queries map, as the processes before them did."""
    with omnigraph.connect(uri, options=replace(OPTIONS, cache=cache)) as graph:
        started = time.process_time()
        graph.build_cache()
        took = time.process_time() - started
        for _ in range(3):
            for text, _ in SHAPES.values():
                graph.query(text, params={"k": seeds[0]} if "$k" in text else {})
            BACKGROUND.wait()
        graph._state.reader.cache.store()
    held = sum(path.stat().st_size for path in cache.rglob("*.data"))
    say("images in files", f"{held >> 20} MiB, built in {took:.1f} s CPU")


def first_queries(uri: str, bug: Path, cache: Path, seeds: Sequence[str]) -> None:
    """Compare opening and one query in fresh processes."""
    for title, (text, cypher) in SHAPES.items():
        for pages in ("warm", "cold"):
            found: dict[str, list[Any]] = {"mapped": [], "without": [], "ladybug": []}
            for key in seeds[:ROUNDS]:
                if pages == "cold":
                    evict([*cache.rglob("*.data"), *files_of(bug), *files_of(Path(uri))])
                asked = {"text": text, "key": key}
                found["mapped"].append(child(OURS, uri=uri, cache=str(cache), **asked))
                found["without"].append(child(OURS, uri=uri, cache=None, **asked))
                if bug.exists():
                    found["ladybug"].append(child(THEIRS, uri=str(bug), text=cypher, key=key))
                answers = [one[-1][2] for one in found.values() if one]
                if any(one != answers[0] for one in answers):
                    raise SystemExit(f"{title}: answers differ: {answers}")
            say(f"first {title}, {pages} pages", beside(found))


def beside(found: dict[str, list[Any]]) -> str:
    """Return the least wall and CPU time of every contender, and ratios to each."""
    least = {name: [best(some, at) for at in (0, 1)] for name, some in found.items() if some}
    mine = least["mapped"]
    parts = [f"mapped {mine[0]:.0f} wall {mine[1]:.0f} CPU ms"]
    for name, (wall, cpu) in least.items():
        if name != "mapped":
            ratios = f"ratio {mine[0] / wall:.2f} {mine[1] / cpu:.2f}"
            parts.append(f"{name} {wall:.0f} {cpu:.0f} {ratios}")
    return "   ".join(parts)


def command(uri: str, place: Path, key: str) -> None:
    """Compare a whole command with importing Lance."""
    (place / "q.gq").write_text(LOOKUP)
    ours = [
        sys.executable,
        "-m",
        "omnigraph",
        "read",
        uri,
        "-q",
        str(place / "q.gq"),
        "-p",
        f"k={key}",
    ]
    pairs = [
        (process_cpu(ours), process_cpu([sys.executable, "-c", "import lance"]))
        for _ in range(ROUNDS)
    ]
    mine, theirs = (min(one) for one in zip(*pairs, strict=True))
    say(
        "whole `omnigraph read`",
        f"{mine * 1e3:.0f} ms   import lance {theirs * 1e3:.0f} ms   ratio {mine / theirs:.2f} CPU",
    )


def worst_while_building(uri: str, seeds: Sequence[str]) -> None:
    """Time every query from the first on, until the image is there and some more."""
    with omnigraph.connect(uri, options=OPTIONS) as graph:
        took: list[float] = []
        until = None
        while until is None or len(took) < until:
            started = time.perf_counter()
            graph.query(HOP2, params={"k": seeds[len(took) % len(seeds)]})
            took.append(time.perf_counter() - started)
            if until is None and len(took) > 2 and BACKGROUND.wait(0):
                until = len(took) + 20
    meanwhile = took[: len(took) - 20]
    middle = statistics.median(meanwhile)
    say(
        "worst 2 hops while the image is built",
        f"{max(took) * 1e3:.0f} ms of {len(meanwhile)}   median {middle * 1e3:.0f} ms   "
        f"ratio {max(took) / middle:.1f}   afterwards {statistics.median(took[-20:]) * 1e3:.2f} ms",
    )


def writes(uri: str, seeds: Sequence[str]) -> None:
    """Time the first write to tables that are in memory, later ones, and deletes."""
    with omnigraph.connect(uri, options=OPTIONS) as graph:
        for _ in range(3):
            graph.query(HOP2, params={"k": seeds[0]})
            BACKGROUND.wait()
        inserted = [
            timed(graph, INSERT, {"k": f"new{number}", "o": seeds[number]}) for number in range(9)
        ]
        deleted = [timed(graph, DELETE, {"k": f"new{number}"}) for number in range(9)]
    later = statistics.median(inserted[1:])
    say(
        "first node + edge, CPU",
        f"{inserted[0] * 1e3:.0f} ms   later {later * 1e3:.0f} ms   "
        f"ratio {inserted[0] / later:.1f}",
    )
    say(
        "delete of a node, CPU",
        f"first {deleted[0] * 1e3:.0f} ms   later "
        f"{statistics.median(deleted[1:]) * 1e3:.0f} ms   ratio to insert "
        f"{statistics.median(deleted[1:]) / later:.1f}",
    )


def timed(graph: omnigraph.Graph, text: str, params: dict[str, str]) -> float:
    """Return the CPU seconds of a mutation and of the next query."""
    started = time.process_time()
    graph.mutate(text, params=params)
    graph.query(HOP2, params={"k": next(iter(params.values()))})
    return time.process_time() - started


def processes(uri: str, cache: Path, seeds: Sequence[str]) -> None:
    """Compare the memory and the CPU of several readers with those of one."""
    said = {"uri": uri, "cache": str(cache), "text": HOP2, "keys": list(seeds) * 10}
    idle = measured([{**said, "uri": None}])
    one, four = measured([said]), measured([said] * 4)
    limit = one[0] + 3 * (idle[0] + 32)
    say(
        "memory (PSS) of 4 processes",
        f"{four[0]:.0f} MiB   one {one[0]:.0f}   idle {idle[0]:.0f}   "
        f"one + 3 x (idle + 32) = {limit:.0f}",
    )
    two = measured([said] * 2)
    per = [found[1] / (len(said["keys"]) * count) * 1e6 for found, count in ((one, 1), (two, 2))]
    say(
        "CPU per 2 hops, 2 processes",
        f"{per[1]:.0f} us   one {per[0]:.0f} us   ratio {per[1] / per[0]:.2f}",
    )


def measured(readers: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the MiB that readers hold together, and the CPU seconds of a second round."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", READER, json.dumps(one)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for one in readers
    ]
    held, took = 0.0, 0.0
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in running:
        text = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
        held += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    for one in running:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in running:
        assert one.stdout is not None
        took += float(one.stdout.readline())
        one.communicate("\n")
    return held / 1_024, took


def narrow_filter(rows: int = 100_000, dim: int = 256) -> None:
    """Compare `nearest` behind a filter that leaves 1 % with the plain products of those."""
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal((rows, dim)).astype(np.float32)
    vectors = build_vectors(pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dim))
    allowed = np.flatnonzero(rng.random(rows) < 0.01)
    norms = np.linalg.norm(matrix, axis=1)

    def floor(query: Any) -> None:
        scores = (matrix[allowed] @ query) / norms[allowed]
        np.argpartition(scores, len(scores) - 10)

    took = []
    for ask in (lambda q: vectors.nearest(q, 10, allowed), floor, lambda q: vectors.nearest(q, 10)):
        started = time.process_time()
        for at in range(40):
            ask(matrix[at])
        took.append((time.process_time() - started) / 40 * 1e3)
    say(
        f"nearest 10 of {rows} x {dim}, 1 % filter",
        f"{took[0]:.2f} ms CPU   gather and multiply "
        f"{took[1]:.2f}   ratio {took[0] / took[1]:.2f}   without a filter {took[2]:.1f}",
    )


def child(script: str, **said: Any) -> Any:
    """Run a script in a fresh process and return what it prints."""
    command = [sys.executable, "-c", script, json.dumps(said)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def best(found: Iterable[Any], which: int) -> float:
    """Return the least milliseconds."""
    return float(min(one[which] for one in found)) * 1e3


def files_of(place: Path) -> list[Path]:
    """Return all files at or below a place."""
    return [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]


def evict(paths: Iterable[Path]) -> None:
    """Drop the pages of files from memory."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


if __name__ == "__main__":
    main()

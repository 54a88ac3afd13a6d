"""Diff and merge beside doltlite: `python -m bench merge`.

doltlite is SQL with branches in one file; it runs in a process of its own, because it replaces
the SQLite of the process it is in. Both make the same rows and the same changes, both wait for the
disk, and what both find is compared:

- diff of 200, 2,000 and 20,000 changed rows among 100,000, with values before and after;
- three-way merge of 100, 1,000 and 10,000 changed rows a side into 100,000.

Then alone, where there is nobody to compare with: one row changed among a million and among ten
thousand; 100 rows merged into a million and into ten thousand; eight types with a row changed a
side; a branch with a million new rows; tag, revert, history of one row.

`x` is ours divided by theirs, the median of five rounds.

Measured on a shared machine with two cores:

    diff of 200 / 2,000 / 20,000 rows of 100,000      6.2 / 0.98 / 0.32 x doltlite
    merge of 100 / 1,000 / 10,000 rows a side          7.1 / 6.9 / 4.4 x doltlite
    diff of 1 row of a million                         6 ms, 1.5 x of one of ten thousand
    merge of 100 rows a side into a million            1.9 x of into ten thousand
    merge of 1 row a side, 8 types, 100,000 rows       21 ms
    merge of a million new rows                        0.08 s, disk + 0.1 %
    history of 13 versions of a row                    50 ms of 10,000 rows, 57 ms of a million
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph
from bench._rounds import ROUNDS
from omnigraph.graph import Graph

SCHEMA = "node P {\n  pid: String @key\n  name: String\n  age: I64\n  score: F64\n}\n"
BETWEEN = """query q($a: String, $b: String) {
  match { $p: P  $p.pid >= $a  $p.pid < $b }
  return { $p.pid as pid, $p.name as name, $p.age as age, $p.score as score }
}"""
ROWS = 100_000
DIFFS = (200, 2_000, 20_000)
MERGES = (100, 1_000, 10_000)

_PEER = """
import doltlite, sqlite3, sys, json, time, os
con = sqlite3.connect(sys.argv[1], isolation_level=None)
def ask(text): return con.execute(text).fetchall()
ask("create table p(pid text primary key, name text, age integer, score real)")
def change(first, count, by):
    ask("begin")
    con.executemany("update p set age = age + ? where pid = ?",
                    ((by, f"p{i:08d}") for i in range(first, first + count)))
    ask("commit")
def commit(text): ask(f"select dolt_commit('-A', '-m', '{text}')")
ask("begin")
con.executemany("insert into p values (?, ?, ?, ?)",
                ((f"p{i:08d}", f"n{i}", i % 90, i / 2) for i in range(int(sys.argv[2]))))
ask("commit"); commit("base")
for line in sys.stdin:
    what, count, number = json.loads(line)
    name = f"b{number}"
    ask(f"select dolt_branch('{name}')"); ask(f"select dolt_checkout('{name}')")
    change(number * 100, count, 1); commit("there")
    ask("select dolt_checkout('main')")
    if what == "diff":
        began = time.perf_counter()
        found = len(ask(f"select * from dolt_diff_p where from_ref = 'main' and to_ref = '{name}'"))
    else:
        change(50000 + number * 100, count, 1); commit("here")
        began = time.perf_counter()
        ask(f"select dolt_merge('{name}')")
        found = ask("select sum(age) from p")[0][0]
    print(json.dumps([time.perf_counter() - began, found]), flush=True)
"""


def rows(first: int, count: int, by: int = 0) -> pa.Table:
    at = np.arange(first, first + count)
    return pa.table(
        {
            "pid": pa.array([f"p{i:08d}" for i in at]),
            "name": pa.array([f"n{i}" for i in at]),
            "age": pa.array(at % 90 + by),
            "score": pa.array(at / 2),
        }
    )


def main() -> None:
    """Measure all of it."""
    with tempfile.TemporaryDirectory() as place:
        beside_peer(Path(place))
    for alone in (sizes, many_types, many_new_rows, single_commits):
        with tempfile.TemporaryDirectory() as place:
            alone(Path(place))


def beside_peer(place: Path) -> None:
    """Both do each operation in turn, on branches of their own."""
    (place / "peer.py").write_text(_PEER)
    command = [sys.executable, str(place / "peer.py"), str(place / "peer.db"), str(ROWS)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer,
        graph_of(place / "graph", ROWS) as graph,
    ):
        number = 0
        for what, counts in (("diff", DIFFS), ("merge", MERGES)):
            for count in counts:
                ratios, ours, theirs = [], [], []
                for _ in range(ROUNDS):
                    number += 1
                    mine, found = ours_once(graph, what, count, number)
                    other, expected = told(peer, what, count, number)
                    assert found == expected, f"{what} of {count}: {found} and {expected} differ"
                    ratios.append(mine / other)
                    ours.append(mine)
                    theirs.append(other)
                unit = "rows" if what == "diff" else "rows a side"
                mine, other = 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs)
                times = statistics.median(ratios)
                say(
                    f"{what} of {count:,} {unit} of {ROWS:,}",
                    f"{mine:8.1f} ms   doltlite {other:8.1f} ms   x {times:.2f}",
                )
        assert peer.stdin is not None
        peer.stdin.close()


def ours_once(graph: Graph, what: str, count: int, number: int) -> tuple[float, Any]:
    """Change a branch, and main for a merge; return the seconds the operation took."""
    name = f"b{number}"
    graph.branches.create(name)
    bump(graph, number * 100, count, name)
    if what == "diff":
        seconds, found = timed(partial(diffed, graph, name))
        return seconds, found
    bump(graph, 50_000 + number * 100, count, "main")
    seconds, _ = timed(lambda: graph.branches.merge(name))
    total = graph.query("query q() { match { $p: P } return { sum($p.age) as n } }")
    return seconds, total.to_dicts()[0]["n"]


def diffed(graph: Graph, branch: str) -> int:
    """Return how many rows differ, all of them fetched with both images."""
    return int(graph.diff("main", branch, images="both").to_arrow().num_rows)


def history_of(graph: Graph, key: str) -> list[Any]:
    """Return the versions of one row."""
    return list(graph.entity_history("node:P", key).versions)


def bump(graph: Graph, first: int, count: int, branch: str) -> None:
    """Raise the age of some rows by one."""
    low, high = f"p{first:08d}", f"p{first + count:08d}"
    found = graph.query(BETWEEN, params={"a": low, "b": high}, branch=branch).to_arrow()
    age = found["age"].to_numpy() + 1
    fresh = found.set_column(found.schema.get_field_index("age"), "age", pa.array(age))
    graph.load({"P": fresh}, "merge", branch=branch)


def told(peer: subprocess.Popen[str], what: str, count: int, number: int) -> tuple[float, Any]:
    """Let doltlite do the same; return its seconds and what it found."""
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(json.dumps([what, count, number]) + "\n")
    peer.stdin.flush()
    seconds, found = json.loads(peer.stdout.readline())
    return seconds, found


def sizes(place: Path) -> None:
    """The same change in a small and in a large table."""
    took: dict[tuple[str, int], list[float]] = {}
    for size in (10_000, 1_000_000):
        with graph_of(place / str(size), size) as graph:
            for number in range(ROUNDS):
                for what, count in (("diff", 1), ("merge", 100)):
                    name = f"{what}{number}"
                    graph.branches.create(name)
                    graph.load({"P": rows(number * 100, count, 1)}, "merge", branch=name)
                    if what == "diff":
                        seconds, _ = timed(partial(diffed, graph, name))
                    else:
                        graph.load({"P": rows(5_000 + number * 100, count, 1)}, "merge")
                        seconds, _ = timed(partial(graph.branches.merge, name))
                    took.setdefault((what, size), []).append(seconds)
    for what, told_as in (("diff", "diff of 1 row"), ("merge", "merge of 100 rows a side")):
        small, large = (statistics.median(took[what, size]) for size in (10_000, 1_000_000))
        say(
            f"{told_as}, 10k and 1M rows",
            f"{1e3 * small:8.1f} ms   {1e3 * large:8.1f} ms   x {large / small:.2f}",
        )


def many_types(place: Path) -> None:
    """One row a side, eight types, 100,000 rows in all."""
    names = [f"T{number}" for number in range(8)]
    schema = "".join(f"node {name} {{\n  pid: String @key\n  age: I64\n}}\n" for name in names)
    took = []
    with omnigraph.init(place / "graph", schema) as graph:
        graph.load({name: rows(0, 12_500).select(["pid", "age"]) for name in names}, "append")
        for number in range(ROUNDS):
            graph.branches.create(f"b{number}")
            for branch, key in ((f"b{number}", number), ("main", 6_000 + number)):
                one = rows(key, 1, 1 + number).select(["pid", "age"])
                graph.load({"T3": one}, "merge", branch=branch)
            took.append(timed(partial(graph.branches.merge, f"b{number}"))[0])
    say("merge of 1 row a side, 8 types", f"{1e3 * statistics.median(took):8.1f} ms")


def many_new_rows(place: Path) -> None:
    """A branch with a million new rows."""
    with graph_of(place / "graph", ROWS) as graph:
        graph.branches.create("big")
        graph.load({"P": rows(ROWS, 1_000_000)}, "append", branch="big")
        before = on_disk(place)
        seconds, _ = timed(lambda: graph.branches.merge("big"))
        grown = 100 * (on_disk(place) - before) / before
        count = graph.query("query q() { match { $p: P } return { count($p) as n } }")
        assert count.to_dicts()[0]["n"] == ROWS + 1_000_000
    say("merge of 1,000,000 new rows", f"{1e3 * seconds:8.1f} ms   disk + {grown:.1f} %")


def single_commits(place: Path) -> None:
    """What is done with one commit or one row."""
    for size in (10_000, 1_000_000):
        with graph_of(place / str(size), size) as graph:
            made = graph.load({"P": rows(0, 1_000, 1)}, "merge")
            tag, _ = timed(partial(graph.tags.create, "v1"))
            revert, _ = timed(partial(graph.revert, str(made.commit_id)))
            for number in range(12):
                graph.load({"P": rows(7, 1, 2 + number)}, "merge")
            history, found = timed(partial(history_of, graph, "p00000007"))
            told_ms = [
                f"{name} {1e3 * value:.1f} ms"
                for name, value in (
                    ("tag", tag),
                    ("revert of 1,000 rows", revert),
                    ("history", history),
                )
            ]
            say(f"{size:,} rows", "   ".join([*told_ms, f"{len(found)} versions"]))


def graph_of(place: Path, size: int) -> Graph:
    """Return a graph with so many rows in ten files."""
    graph = omnigraph.init(place, SCHEMA)
    for first in range(0, size, max(size // 10, 1)):
        graph.load({"P": rows(first, max(size // 10, 1))}, "append")
    return graph


def on_disk(place: Path) -> int:
    """Return the bytes all files take; a file with two names counts once."""
    stats = (path.stat() for path in place.rglob("*") if path.is_file())
    return sum({stat.st_ino: stat.st_blocks * 512 for stat in stats}.values())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of one call, and what it returned."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def say(what: str, told_as: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{what:42} {told_as}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

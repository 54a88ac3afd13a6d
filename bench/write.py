"""Mutations through the public API beside raw Lance: `python -m bench write`.

Per size, tables of 1,000 and 100,000 rows (and 1,000,000 with BENCH_ROWS=1000000; only one of
another size with BENCH_SIZE=200) after `ensure_indices`:

- `durability="os"` beside raw Lance, which does not wait for the disk either;
- the same writes with `durability="full"` beside "os", and how many files and folders a commit
  syncs: what it costs to have a commit on disk before it is acknowledged.

Then the price of age: inserts into a graph of 10, 1,000 and, with BENCH_COMMITS=10000, 10,000
commits beside a young graph and beside raw tables that got the same rows and the same upkeep. A
line each says how much slower age made ours and theirs. Ageing stops after BENCH_MINUTES (20), and
the row then says how old the graph got. At last a lookup by the command, whole process.

Measured on a shared machine with two cores, at 1,000 / 100,000 / 1,000,000 rows, to raw Lance:

    insert a node and an edge   1.6 to 2.7   1.8 to 2.1   2.1
    update one row by key       1.3 to 1.4   0.9 to 1.0   0.29
    delete one node             2.2 to 2.3   1.2 to 1.3   0.30
    many rows in one query      2.0 to 2.7   1.4          1.5
    waiting for the disk        1.0 to 1.5 x, 16 syncs (an update 12)
    inserts after 10,000 commits 0.88 x of a young graph; age cost raw tables 1.33 x
    `omnigraph read` 2.1 to 2.2 x `import lance`
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import lance
import pyarrow as pa

import omnigraph
from bench._rounds import ROUNDS, compare, process_cpu
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions

SCHEMA = """node Person {
  key: String @key
  name: String
  age: I32?
}

edge Knows: Person -> Person {
  since: I32?
}
"""
INSERT = """query m($k: String) {
  insert Person { key: $k, name: "new", age: 1 }
  insert Knows { from: $k, to: "p0", since: 2026 }
}"""
UPDATE = "query m($k: String) { update Person set { age: 2 } where key = $k }"
DELETE = "query m($k: String) { delete Person where key = $k }"
UPDATE_MANY = 'query m() { update Person set { name: "x" } where age < 10 }'

_fresh: Iterator[int] = iter(range(1 << 60))


def main() -> None:
    """Measure at every size up to BENCH_ROWS (100,000 unless said)."""
    largest = setting("BENCH_ROWS", 100_000)
    sizes = (1_000, 100_000, 1_000_000)
    for rows in [setting("BENCH_SIZE", 0)] if setting("BENCH_SIZE", 0) else sizes:
        if rows <= largest:
            sys.stdout.write(f"-- {rows} rows\n")
            with tempfile.TemporaryDirectory() as place:
                run(rows, Path(place))
            with tempfile.TemporaryDirectory() as place:
                durable(rows, Path(place))
    with tempfile.TemporaryDirectory() as place:
        history(Path(place))


def setting(name: str, usual: int) -> int:
    """Return a number from the environment."""
    return int(os.environ.get(name, usual))  # noqa: TID251 - a bench setting


def filled(
    place: Path, people: pa.Table, knows: pa.Table, durability: Literal["os", "full"] = "os"
) -> omnigraph.Graph:
    """Return a graph with these rows and its indices."""
    options = GraphOptions(storage=StorageOptions(durability=durability))
    graph = omnigraph.init(str(place), SCHEMA, options=options)
    session = graph.store.begin()
    session.append("node:Person", people)
    session.append("edge:Knows", knows)
    session.commit()
    graph.ensure_indices()
    return graph


def durable(rows: int, place: Path) -> None:
    """Compare writes that wait for the disk with writes that leave it to the system."""
    people, knows = tables(rows)
    graphs = {
        "full": filled(place / "full.omni", people, knows, "full"),
        "os": filled(place / "os.omni", people, knows, "os"),
    }
    doomed = {name: iter(range(1, rows)) for name in graphs}
    works: dict[str, Callable[[str], object]] = {
        "insert": lambda name: graphs[name].mutate(INSERT, params={"k": f"n{next(_fresh)}"}),
        "update": lambda name: graphs[name].mutate(UPDATE, params={"k": "p0"}),
        "delete": lambda name: graphs[name].mutate(DELETE, params={"k": f"p{next(doomed[name])}"}),
    }
    for title, work in works.items():
        compare(
            f"{title}, on disk or not",
            {name: partial(on, work, name) for name in graphs},
            [None] * 10,
        )
        counters = graphs["full"].store.counters
        graphs["full"].store.wait_for_upkeep(60)
        counters.reset()
        work("full")
        sys.stdout.write(f"{'':34} full syncs {len(counters.recent_syncs())} files and folders\n")
    for graph in graphs.values():
        graph.close()


def on(work: Callable[[str], object], name: str, _: Any) -> None:
    """Do something on one of several graphs."""
    work(name)


class Aged:
    """A graph and a raw table that got the same inserts, both with upkeep."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        people, knows = tables(1_000)
        self.graph = filled(place / "g.omni", people, knows)
        self.raw = [raw_table(place / "p.lance", people), raw_table(place / "k.lance", knows)]
        self.raw.append(lance.write_dataset(people.slice(0, 1), str(place / "third.lance")))
        self.done = 0

    def insert(self, _: Any = None) -> None:
        """Insert a node and an edge."""
        self.graph.mutate(INSERT, params={"k": f"n{next(_fresh)}"})
        self.done += 1

    def append(self, _: Any = None) -> None:
        """Append as many rows to as many raw tables."""
        row = one_person(f"n{next(_fresh)}")
        for table, rows in zip(self.raw, (row, one_edge(), row), strict=True):
            table.insert(rows)
        if self.done % 32 == 0:
            for table in self.raw:
                table.optimize.compact_files()
                table.optimize.optimize_indices()
                table.cleanup_old_versions(retain_versions=64)

    def age_to(self, commits: int, deadline: float) -> None:
        """Write until there are so many commits or time is up, and let upkeep finish."""
        while self.done < commits and time.monotonic() < deadline:
            self.insert()
            self.append()
        self.graph.store.wait_for_upkeep(60)


def history(place: Path) -> None:
    """Compare inserts into an old graph with those into a young one, and with raw tables alike."""
    deadline = time.monotonic() + 60 * setting("BENCH_MINUTES", 20)
    old = Aged(place / "old")
    for goal in (10, 1_000, 10_000):
        if goal <= setting("BENCH_COMMITS", 1_000):
            old.age_to(goal, deadline)
            young = Aged(place / f"young{goal}")  # measuring ages a graph too
            young.age_to(10, deadline)
            late = "" if old.done >= goal else ", time is up"
            found = compare(
                f"insert after {old.done} commits{late}",
                {
                    "old": old.insert,
                    "young": young.insert,
                    "old raw": old.append,
                    "young raw": young.append,
                },
                [None] * 15,
            )
            ours, raw = found["old"] / found["young"], found["old raw"] / found["young raw"]
            sys.stdout.write(
                f"{'':34} age costs ours {ours:.2f} times, raw {raw:.2f} times, "
                f"ours to raw {ours / raw:.2f}\n"
            )
            young.graph.close()
            if late:
                break
    command(old.graph.uri)
    old.graph.close()


def command(uri: str) -> None:
    """Compare `omnigraph read` of a lookup with `import lance`, by processor time."""
    query = "query q($k: String) { match { $p: Person { key: $k } } return { $p.name as n } }"
    ours = [str(Path(sys.executable).parent / "omnigraph"), "read", "-e", query]
    ours += ["--params", '{"k": "p1"}', uri]
    theirs = [sys.executable, "-c", "import lance"]
    pairs = [(process_cpu(ours), process_cpu(theirs)) for _ in range(ROUNDS)]
    mine, other = (statistics.median(one) for one in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    sys.stdout.write(
        f"omnigraph read, whole process {mine * 1e3:.0f} ms   import lance {other * 1e3:.0f} ms"
        f"  ratio {ratio:.2f}\n"
    )


def run(rows: int, place: Path) -> None:
    """Compare single writes and one large one."""
    people, knows = tables(rows)
    graph = filled(place / "g.omni", people, knows)
    raw = [raw_table(place / "people.lance", people), raw_table(place / "knows.lance", knows)]
    raw.append(lance.write_dataset(people.slice(0, 1), str(place / "third.lance")))

    def insert_raw(_: Any) -> None:
        row = one_person(f"n{next(_fresh)}")
        raw[0].insert(row)
        raw[1].insert(one_edge())
        raw[2].insert(row)

    compare(
        "insert a node and an edge",
        {
            "omnigraph": lambda _: graph.mutate(INSERT, params={"k": f"n{next(_fresh)}"}),
            "3 appends": insert_raw,
        },
        [None] * 15,
    )
    keys = [f"p{number}" for number in range(rows // 2, rows // 2 + 15)]
    compare(
        "update one row by key",
        {
            "omnigraph": lambda key: graph.mutate(UPDATE, params={"k": key}),
            "lance update": lambda key: raw[0].update({"age": "2"}, where=f"id = '{key}'"),
        },
        keys,
    )
    doomed = iter(f"p{number}" for number in range(1, rows // 2))
    condemned = iter(f"p{number}" for number in range(1, rows // 2))
    compare(
        "delete one node with its edges",
        {
            "omnigraph": lambda _: graph.mutate(DELETE, params={"k": next(doomed)}),
            "lance delete": lambda _: raw[0].delete(f"id = '{next(condemned)}'"),
        },
        [None] * 10,
    )
    bulk = raw[0].to_table(filter="age < 10")

    def merge(_: Any) -> None:
        raw[0].merge_insert("id").when_matched_update_all().execute(bulk)

    compare(
        f"update {bulk.num_rows} rows at once",
        {"omnigraph": lambda _: graph.mutate(UPDATE_MANY), "merge_insert": merge},
        [None] * 3,
    )
    graph.close()


def tables(rows: int) -> tuple[pa.Table, pa.Table]:
    """Return persons and one acquaintance each."""
    ids = [f"p{number}" for number in range(rows)]
    ages = pa.array([number % 100 for number in range(rows)], pa.int32())
    people = pa.table({"id": ids, "key": ids, "name": ids, "age": ages})
    knows = pa.table(
        {
            "id": [f"k{number}" for number in range(rows)],
            "src": ids,
            "dst": [*ids[1:], ids[0]],
            "since": pa.array([2000] * rows, pa.int32()),
        }
    )
    return people, knows


def raw_table(place: Path, rows: pa.Table) -> Any:
    """Return an indexed Lance dataset with the same rows."""
    dataset = lance.write_dataset(rows, str(place), enable_stable_row_ids=True)
    dataset.create_scalar_index("id", "BTREE")
    return dataset


def one_person(key: str) -> pa.Table:
    """Return one person's row."""
    age = pa.array([1], pa.int32())
    return pa.table({"id": [key], "key": [key], "name": ["new"], "age": age})


def one_edge() -> pa.Table:
    """Return one edge's row."""
    since = pa.array([2026], pa.int32())
    return pa.table({"id": [f"e{next(_fresh)}"], "src": ["p0"], "dst": ["p0"], "since": since})


if __name__ == "__main__":
    main()

"""What an object store that is 20 ms away costs: `python -m bench s3`.

A real S3 server on loopback behind a proxy that holds every answer back by 20 ms and counts. Time
follows from the requests that wait for each other, so these are counted; bytes are all that the
store answered. BENCH_ROWS persons (20,000) with a text each, sorted indexes built.

- cold: a fresh handle opens the graph for writing and answers its first lookup; the first one also
  brings the tables that show commits to other programs up to date;
- warm: another lookup, with nothing new; and after another process committed;
- a commit to one table, creating a branch, and merging ten rows from it.

Measured on a shared machine with two cores:

                                      requests   one after another      kB
    cold open after other writers           73                  45     310
    cold open and a lookup                  43                  26     249
    a lookup, warm                           2                   1       1
    a lookup after a commit elsewhere       14                  11      45
    commit to one table                     30                  18      50
    create a branch                         23                  21      12
    merge ten rows                         208                  53     585
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.s3 import BUCKET, running_s3

import omnigraph
from bench._proxy import Traffic, watching
from omnigraph.graph import Graph, GraphOptions
from omnigraph.storage.options import S3Options, StorageOptions

DELAY_S = 0.02
SCHEMA = """
node Person {
  name: String @key
  age: I32
  about: String
}
"""
LOOKUP = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age, $p.about } }"
BIRTHDAY = "query b($n: String) { update Person set { age: 7 } where name = $n }"
ROWS = int(os.environ.get("BENCH_ROWS", "20000"))  # noqa: TID251 - a bench setting


def main() -> None:
    """Print a line for each operation."""
    with (
        tempfile.TemporaryDirectory() as place,
        running_s3(Path(place)) as server,
        watching(server.endpoint) as traffic,
    ):
        settings = server.options() | {"endpoint": traffic.endpoint, "allow_http": True}
        s3 = S3Options(**settings)  # type: ignore[arg-type]
        options = GraphOptions(storage=StorageOptions(s3=s3), embedder=None)
        uri = f"s3://{BUCKET}/bench/people"
        with omnigraph.init(uri, SCHEMA, options=options) as graph:
            graph.load({"Person": people()}, "append")
            graph.ensure_indices()
        operations(uri, options, traffic)


def operations(uri: str, options: GraphOptions, traffic: Traffic) -> None:
    """Do what users do, each on the wire alone."""
    told("cold open after other writers", traffic, lambda: opened(uri, options)).close()
    with told("cold open and a lookup", traffic, lambda: opened(uri, options)) as graph:
        told("the same lookup, warm", traffic, lambda: lookup(graph, 5))
        told("another lookup, warm", traffic, lambda: lookup(graph, 6))
        with omnigraph.connect(uri, options=options) as other:
            birthday(other, 7)
        told("a lookup after a commit elsewhere", traffic, lambda: lookup(graph, 7))
        birthday(graph, 8)
        told("commit to one table", traffic, lambda: birthday(graph, 9))
        told("create a branch", traffic, lambda: graph.branches.create("review"))
        for number in range(10, 20):
            birthday(graph, number, branch="review")
        birthday(graph, 30)
        told("merge ten rows", traffic, lambda: graph.branches.merge("review"))


def told(what: str, traffic: Traffic, work: Callable[[], Any]) -> Any:
    """Do something behind the delay, and print what it asked of the store."""
    traffic.clear()
    traffic.delay_s = DELAY_S
    started = time.perf_counter()
    found = work()
    taken = 1e3 * (time.perf_counter() - started)
    traffic.delay_s = 0.0
    sys.stdout.write(
        f"{what:36} {len(traffic.requests):4} requests, {traffic.serial():3} one after another, "
        f"{traffic.received / 1e3:8.1f} kB, {taken:6.0f} ms\n"
    )
    sys.stdout.flush()
    return found


def people() -> pa.Table:
    """Return the rows, of one kind and different."""
    numbers = range(ROWS)
    return pa.table(
        {
            "name": [f"p{number:08d}" for number in numbers],
            "age": pa.array([number % 90 for number in numbers], pa.int32()),
            "about": [
                f"person {number} of this graph, who likes {number * 7}" for number in numbers
            ],
        }
    )


def opened(uri: str, options: GraphOptions) -> Graph:
    """Return a fresh handle that has answered once."""
    graph = omnigraph.connect(uri, options=options)
    lookup(graph, 4)
    return graph


def lookup(graph: Graph, number: int) -> None:
    """Ask for one person."""
    found = graph.query(LOOKUP, params={"n": f"p{number:08d}"}).to_dicts()
    assert len(found) == 1, found


def birthday(graph: Graph, number: int, branch: str = "main") -> None:
    """Change one person."""
    graph.mutate(BIRTHDAY, params={"n": f"p{number:08d}"}, branch=branch)


if __name__ == "__main__":
    main()

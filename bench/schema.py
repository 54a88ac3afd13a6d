"""Changing schemas: `python -m bench schema`.

- add, rename and drop a property on two types, with a million rows each and with none: what is
  metadata costs the same;
- a new required property with a backfill over a million rows, beside Lance's own `add_columns` of
  the same values from the same column; both wait for the disk.

`x` is the first divided by the second, the median of five rounds.

Measured on a shared machine with two cores:

    add + rename + drop                   1.0 x of two empty types (10 ms)
    backfill over a million rows          1.8 to 2.7 x add_columns
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa

import omnigraph
from bench._rounds import ROUNDS, sync
from omnigraph.graph import Graph

ROWS = 1_000_000
BOTH = ("P", "Q")

Rounds = list[tuple[list[float], Callable[[], object]]]


def main() -> None:
    """Run both."""
    with tempfile.TemporaryDirectory() as folder:
        metadata(Path(folder))
        backfill(Path(folder))


def metadata(place: Path) -> None:
    """Add, rename and drop a property of two types."""
    graphs = {size: _graph(place / f"meta{size}", size) for size in (ROWS, 0)}
    took: dict[int, list[float]] = {size: [] for size in graphs}
    for number in range(ROUNDS):
        for size, graph in graphs.items():
            took[size].append(_timed(partial(_apply, graph, number)))
    for graph in graphs.values():
        graph.close()
    full, empty = (statistics.median(took[size]) for size in graphs)
    _say("add + rename + drop, 2 x 1M and 2 x 0", full, empty)


def _apply(graph: Graph, number: int) -> None:
    """Every round takes out what the round before has added, and renames one more time."""
    before = f"name{number - 1}" if number else "first"
    named = f'  name{number}: String @rename_from("{before}")\n'
    added = f"  extra{number}: I64?\n"
    text = "".join(f"node {name} {{\n  pid: String @key\n{named}{added}}}\n" for name in BOTH)
    done = graph.apply_schema(text, allow_data_loss=True)
    assert done.applied


def backfill(place: Path) -> None:
    """Fill one more column of a million rows."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(ROUNDS):
        with _graph(place / f"fill{number}", ROWS) as graph:
            text = graph.schema.replace("node P {\n", "node P {\n  age: I64 @backfill(n)\n")
            where = graph.store.snapshot().handle("node:P")
            copied = lance.write_dataset(
                where.dataset.to_table(), str(place / f"raw{number}"), max_rows_per_file=100_000
            )
            rounds: Rounds = [
                (ours, partial(graph.apply_schema, text)),
                (theirs, partial(_add_column, copied)),
            ]
            for found, work in rounds if number % 2 else reversed(rounds):
                found.append(_timed(work))
    _say("backfill over 1M rows, Lance add_columns", *map(statistics.median, (ours, theirs)))


def _add_column(dataset: lance.LanceDataset) -> None:
    before = {path for path in Path(dataset.uri).rglob("*") if path.is_file()}

    @lance.batch_udf()
    def more(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch["n"]], names=["age"])

    dataset.add_columns(more, read_columns=["n"], batch_size=16_384)
    for path in Path(dataset.uri).rglob("*"):
        if path.is_file() and path not in before:
            sync(path)


def _graph(place: Path, size: int) -> Graph:
    fields = (
        "  pid: String @key\n  n: I64\n"
        if "fill" in place.name
        else "  pid: String @key\n  first: String\n"
    )
    graph = omnigraph.init(place, "".join(f"node {name} {{\n{fields}}}\n" for name in BOTH))
    if size:
        keys = [f"p{number:08d}" for number in range(size)]
        other = list(range(size)) if "fill" in place.name else keys
        rows = pa.table({"pid": keys, "n" if "fill" in place.name else "first": other})
        graph.load(dict.fromkeys(BOTH, rows), "append")
        graph.store.wait_for_upkeep()
    return graph


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _say(title: str, ours: float, theirs: float) -> None:
    told = f"{1e3 * ours:9.1f} ms   {1e3 * theirs:9.1f} ms   x {ours / theirs:.2f}"
    sys.stdout.write(f"{title:44} {told}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

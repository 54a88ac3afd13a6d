"""Bulk loads and exports beside raw Lance, in one run: `python -m bench pipeline`.

BENCH_EDGES edges (1,000,000 unless said), a tenth as many nodes, a twentieth as many texts;
BENCH_ONLY=lines,tables,export,embed,start,spark,growth chooses parts. Contenders take turns, ratios
are taken within a round, medians over rounds; CPU seconds are told beside wall seconds, because
they do not depend on who else uses the machine. Sessions of Spark start outside the clock and are
told apart. Nothing waits for the disk (`durability="os"`), on either side.

What to look for: lines <= 1.7 x raw, Parquet <= 1.5 x raw + BTREE, export <= 2 x load; vectors from
text <= 1.25 x the time of the bare model; Spark on two threads <= 3 x inline at 1M edges, and
<= 1.3 x at 10M; its start to the first task <= 1.1 x that of a bare SparkSession with the same
settings (of which a session took 6.3 s and its first Python job 2.4 s on Java 17 when the bar was
set); one thread >= 1.5 x two; growth per edge within 1.1 from 100,000 to 10,000,000 edges.

Measured on two idle cores: lines 1.59, Parquet 0.89, export 0.89 x load, vectors from text 1.15 and
1.03, start 0.84; Spark on two threads 1.06 x inline at 1M edges and 0.80 x at 10M, one thread 1.55
and 1.57 x two; per edge 1.65, 1.32 and 1.75 us at 100k, 1M and 10M edges: 1.06 from end to end.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import wordllama

import omnigraph
from omnigraph.graph import GraphOptions
from omnigraph.pipeline.inputs.row_ids import generated_ids
from omnigraph.pipeline.model import SparkSettings
from omnigraph.pipeline.run.spark import OwnSpark, spark_conf
from omnigraph.storage.options import StorageOptions

ROUNDS = 3
FILE_ROWS = 100_000
SCHEMA = """node Person {
  name: String @key
  email: String? @unique
  age: I32?
  city: String?
}

edge Knows: Person -> Person {
  since: Date?
  weight: F64?
}
"""
DOCS = """node Doc {
  slug: String @key
  text: String
  vector: Vector(256)? @embed("text")
}
"""
# Both load PySpark, start Java with the same flags and settings, and run one task in Python.
OUR_START = """
import ast, sys, time
started = time.perf_counter()
conf, master, memory = ast.literal_eval(sys.argv[1])
from omnigraph.pipeline.model import SparkSettings
from omnigraph.pipeline.run.spark import OwnSpark
own = OwnSpark(SparkSettings(master, memory))
assert own.context().parallelize([-1], 1).map(abs).collect() == [1]
print(time.perf_counter() - started)
own.stop()
"""
BARE_START = """
import ast, sys, time
started = time.perf_counter()
conf, master, memory = ast.literal_eval(sys.argv[1])
from pyspark.sql import SparkSession
flags = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
builder = SparkSession.builder.config("spark.driver.extraJavaOptions", flags)
for name, value in {**conf, "spark.driver.memory": memory}.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
assert session.sparkContext.parallelize([-1], 1).map(abs).collect() == [1]
print(time.perf_counter() - started)
session.stop()
"""
_LOCAL = SparkSettings("local[2]", "1g")
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()
_OPERATION = "01J0000000000000000000ABCD"


def main() -> None:
    """Measure everything at BENCH_EDGES edges."""
    edges = int(os.environ.get("BENCH_EDGES", "1000000"))  # noqa: TID251 - a bench setting
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as name:
        folder = Path(name)
        sys.stdout.write(f"-- {edges:,} edges, {edges // 10:,} nodes\n")
        write_inputs(folder, edges)
        parts: dict[str, Callable[[], None]] = {
            "lines": lambda: inline_lines(folder),
            "tables": lambda: inline_tables(folder),
            "export": lambda: exports(folder),
            "embed": lambda: embedding(folder, max(edges // 20, 1_000)),
            "start": cold_start,
            "spark": lambda: on_spark(folder),
            "growth": lambda: growth(folder, edges),
        }
        chosen = os.environ.get("BENCH_ONLY", ",".join(parts))  # noqa: TID251 - a bench setting
        for part in chosen.split(","):
            parts[part]()


def write_inputs(folder: Path, edges: int) -> None:
    """Write the same graph as JSON lines (one file per kind) and as Parquet."""
    people, knows = tables(edges)
    pq.write_table(people, folder / "Person.parquet")
    pq.write_table(knows, folder / "Knows.parquet")
    with (folder / "people.jsonl").open("w") as out:
        for row in people.to_pylist():
            out.write(
                f'{{"type":"Person","data":{{"name":"{row["name"]}","email":"{row["email"]}",'
                f'"age":{row["age"]},"city":"{row["city"]}"}}}}\n'
            )
    with (folder / "knows.jsonl").open("w") as out:
        for batch in knows.to_batches(100_000):
            for row in batch.to_pylist():
                out.write(
                    f'{{"edge":"Knows","from":"{row["from"]}","to":"{row["to"]}",'
                    f'"data":{{"since":"{row["since"]}","weight":{row["weight"]}}}}}\n'
                )


def tables(edges: int) -> tuple[pa.Table, pa.Table]:
    """Return people and who knows whom, without ids."""
    nodes = max(edges // 10, 1)
    rng = np.random.default_rng(1)
    names = pa.array([f"p{at}" for at in range(nodes)])
    people = pa.table(
        {
            "name": names,
            "email": pa.array([f"p{at}@x.org" for at in range(nodes)]),
            "age": pa.array(np.arange(nodes, dtype=np.int32) % 90),
            "city": pa.array([f"city{at % 100}" for at in range(nodes)]),
        }
    )
    days = pa.array((np.arange(edges) % 20_000).astype(np.int32)).cast(pa.date32())
    knows = pa.table(
        {
            "from": names.take(pa.array(rng.integers(0, nodes, edges))),
            "to": names.take(pa.array(rng.integers(0, nodes, edges))),
            "since": days,
            "weight": pa.array((np.arange(edges) % 1_000) / 8),
        }
    )
    return people, knows


def fresh_graph(place: Path) -> omnigraph.Graph:
    """Return an empty graph."""
    options = GraphOptions(storage=StorageOptions(durability="os"), embedder=None)
    return omnigraph.init(str(place), SCHEMA, options=options)


def inline_lines(folder: Path) -> None:
    """JSON lines: parsed, checked and committed, beside parsed and written."""
    compare(
        "JSON lines -> graph, inline",
        {
            "omnigraph": lambda place: load_lines(folder, place),
            "raw": lambda p: raw_lines(folder, p),
        },
        folder,
    )


def load_lines(folder: Path, place: Path, engine: str = "inline", spark: object = None) -> None:
    """Load the JSON lines into a fresh graph."""
    with fresh_graph(place) as graph:
        data = [folder / "people.jsonl", folder / "knows.jsonl"]
        if spark is None:
            graph.load(data, engine=engine)  # type: ignore[arg-type]  # one of the words
        else:
            graph.load(data, spark=spark)


def raw_lines(folder: Path, place: Path) -> None:
    """Parse with Arrow and write with Lance: the same columns, ids and file sizes."""
    person = pa.struct(
        [("name", pa.string()), ("email", pa.string()), ("age", pa.int32()), ("city", pa.string())]
    )
    knows = pa.struct([("since", pa.string()), ("weight", pa.float64())])
    people = read_json(folder / "people.jsonl", [("type", pa.string()), ("data", person)])
    edges = read_json(
        folder / "knows.jsonl",
        [("edge", pa.string()), ("from", pa.string()), ("to", pa.string()), ("data", knows)],
    )
    data = people["data"].combine_chunks()
    names = data.field("name")
    write_raw(place / "people", pa.table({"id": names, **fields(data)}))
    data = edges["data"].combine_chunks()
    ids = generated_ids(_OPERATION, 1, np.arange(len(data), dtype=np.int64))
    ends = {"src": edges["from"], "dst": edges["to"]}
    inside = {**fields(data), "since": data.field("since").cast(pa.date32())}
    write_raw(place / "knows", pa.table({"id": ids, **ends, **inside}))


def fields(data: pa.StructArray) -> dict[str, pa.Array]:
    """Return the columns of a struct."""
    return {data.type.field(at).name: data.field(at) for at in range(data.type.num_fields)}


def read_json(path: Path, columns: list[tuple[str, pa.DataType]]) -> pa.Table:
    """Parse a file of one kind of record."""
    schema = pa.schema(columns)
    return pj.read_json(
        path,
        pj.ReadOptions(block_size=2 << 20),
        pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def write_raw(place: Path, rows: pa.Table, *, indexed: bool = False) -> None:
    """Write a dataset as a graph's tables are written."""
    made = lance.write_dataset(
        rows, str(place), enable_stable_row_ids=True, max_rows_per_file=FILE_ROWS
    )
    if indexed:
        made.create_scalar_index("id", "BTREE")


def inline_tables(folder: Path) -> None:
    """Parquet: read, checked and committed, beside read, written and indexed."""

    def ours(place: Path) -> None:
        with fresh_graph(place) as graph:
            graph.load([folder / "Person.parquet", folder / "Knows.parquet"], engine="inline")

    def raw(place: Path) -> None:
        people = pq.read_table(folder / "Person.parquet")
        write_raw(place / "people", people.add_column(0, "id", people["name"]), indexed=True)
        knows = pq.read_table(folder / "Knows.parquet").rename_columns(
            ["src", "dst", "since", "weight"]
        )
        ids = generated_ids(_OPERATION, 1, np.arange(len(knows), dtype=np.int64))
        write_raw(place / "knows", knows.add_column(0, "id", ids), indexed=True)

    compare("Parquet -> graph, inline", {"omnigraph": ours, "raw + BTREE": raw}, folder)


def exports(folder: Path) -> None:
    """Write the graph out again, beside loading it."""
    with fresh_graph(folder / "source.omni") as graph:
        graph.load([folder / "people.jsonl", folder / "knows.jsonl"], engine="inline")
        compare(
            "graph -> JSON lines",
            {
                "export": lambda place: graph.export(place),
                "load": lambda place: load_lines(folder, place),
            },
            folder,
        )


def embedding(folder: Path, count: int) -> None:
    """Texts per second of a load that fills `@embed`, and of filling a graph, beside the model."""
    texts = words(count)
    pq.write_table(
        pa.table({"slug": [f"d{at}" for at in range(count)], "text": texts}),
        folder / "Doc.parquet",
    )
    home = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=home, disable_download=True)
    options = GraphOptions(storage=StorageOptions(durability="os"))

    def load(place: Path) -> None:
        with omnigraph.init(str(place), DOCS, options=options) as graph:
            assert graph.load(folder / "Doc.parquet", engine="inline").embedded == count

    def bare(_: Path) -> None:
        assert model.embed(texts, norm=True).shape == (count, 256)

    compare("texts -> graph with vectors", {"load": load, "bare model": bare}, folder)
    with omnigraph.init(str(folder / "docs.omni"), DOCS, options=options) as graph:
        graph.load(folder / "Doc.parquet", engine="inline")

        def embed(_: Path) -> None:
            assert graph.embed(mode="reembed_all").embedded == {"Doc.vector": count}

        compare("vectors of a graph made again", {"embed": embed, "bare model": bare}, folder)


def words(count: int) -> list[str]:
    """Return different texts of forty words each."""
    rng = np.random.default_rng(2)
    known = np.array([f"{one}{two}" for one in _SYLLABLES for two in _SYLLABLES])
    return [" ".join(known[row]) for row in rng.integers(0, len(known), (count, 40))]


def cold_start() -> None:
    """From nothing to the first Python task, in processes of their own; told by their clocks."""
    told = repr((spark_conf(_LOCAL), _LOCAL.master, _LOCAL.memory))
    found: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        for name, program in (("ours", OUR_START), ("bare", BARE_START)):
            command = [sys.executable, "-W", "ignore", "-c", program, told]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name].append(float(done.stdout.split()[-1]))
    ratio = statistics.median(
        ours / bare for ours, bare in zip(found["ours"], found["bare"], strict=True)
    )
    shown = "   ".join(f"{name} {statistics.median(took):6.2f} s" for name, took in found.items())
    sys.stdout.write(f"{'start to first task':34} {shown}   ratio {ratio:.2f}\n")
    sys.stdout.flush()


def on_spark(folder: Path) -> None:
    """The same load on Spark, started before, beside inline; then one thread beside two."""
    taken: list[float] = []
    for threads in (1, 2):
        started = time.perf_counter()
        own = OwnSpark(SparkSettings(f"local[{threads}]", "1g"))
        try:
            context = own.context()
            waited = time.perf_counter() - started
            context.parallelize([1], 1).map(abs).collect()
            first = time.perf_counter() - started
            sys.stdout.write(
                f"local[{threads}] ready after {waited:.1f} s, first task {first:.1f} s\n"
            )
            warm = folder / f"warm{threads}"
            warm.mkdir()
            load_lines(folder, warm / "g.omni", spark=context)
            first_wall = compare(
                f"JSON lines -> graph, local[{threads}]",
                {
                    "spark": lambda place, context=context: load_lines(  # type: ignore[misc]  # bound now
                        folder, place, spark=context
                    ),
                    "inline": lambda place: load_lines(folder, place),
                },
                folder,
            )
            taken.append(first_wall)
        finally:
            own.stop()
    sys.stdout.write(f"{'one thread of Spark, to two':34} {taken[0] / taken[1]:.2f}\n")


def growth(folder: Path, edges: int) -> None:
    """Time per edge at a hundredth, a tenth and the whole of the size, to that of the first."""
    first: tuple[float, float] | None = None
    for size in (edges // 100, edges // 10, edges):
        place = folder
        if size != edges:
            place = folder / f"edges{size}"
            place.mkdir()
            write_inputs(place, size)
        found = timed(lambda made, place=place: load_lines(place, made), folder)  # type: ignore[misc]  # bound now
        each = (found[0] / size, found[1] / size)
        text = f"{each[0] * 1e6:6.3f} us (cpu {each[1] * 1e6:6.3f})"
        first = first or each
        text += f"   ratio {each[0] / first[0]:.3f} (cpu {each[1] / first[1]:.3f})"
        sys.stdout.write(f"{f'per edge of {size:,}, inline':34} {text}\n")
        sys.stdout.flush()


def timed(work: Callable[[Path], object], folder: Path) -> tuple[float, float]:
    """Return the median wall and CPU seconds of a job in a fresh folder."""
    walls, cpus = zip(*(once(work, folder) for _ in range(ROUNDS)), strict=True)
    return statistics.median(walls), statistics.median(cpus)


def once(work: Callable[[Path], object], folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds (of this process) of one run."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        wall, cpu = time.perf_counter(), cpu_seconds()
        work(Path(place) / "made")
        return time.perf_counter() - wall, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return the CPU time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compare(title: str, contenders: Mapping[str, Callable[[Path], object]], folder: Path) -> float:
    """Time all contenders in turn; print medians, and ratios of the first to the others.

    Returns the median wall seconds of the first.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            found[name].append(once(work, folder))
    first = next(iter(contenders))
    parts = []
    for name, runs in found.items():
        wall, cpu = (statistics.median(run[at] for run in runs) for at in (0, 1))
        parts.append(f"{name} {wall:6.2f} s (cpu {cpu:6.2f})")
        if name != first:
            ratios = [
                statistics.median(
                    ours[at] / theirs[at] for ours, theirs in zip(found[first], runs, strict=True)
                )
                for at in (0, 1)
            ]
            parts.append(f"ratio {ratios[0]:.2f} (cpu {ratios[1]:.2f})")
    sys.stdout.write(f"{title:34} {'   '.join(parts)}\n")
    sys.stdout.flush()
    return statistics.median(wall for wall, _ in found[first])


if __name__ == "__main__":
    main()

"""Large loads under a hard limit: memory does not follow the size of the input.

Only for `make prove`: these write and read gigabytes.
"""

import gzip
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(3_600)]

LIMIT = 2 << 30
LINE = 1 << 30
SCHEMA = """node Person {
  name: String @key
  text: String?
}

edge Knows: Person -> Person {
  weight: F64?
}
"""
PROGRAM = """
    import resource, sys
    place, data, engine, memory, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    import omnigraph
    from omnigraph.pipeline.model import SparkSettings
    with omnigraph.init(place, open(place + ".pg").read()) as graph:
        spark = SparkSettings("local[2]", memory) if engine == "spark" else None
        result = graph.load(data, engine=engine, spark=spark)
        print(result.engine, sum(result.nodes_loaded.values()), sum(result.edges_loaded.values()))
        print({name: round(value, 1) for name, value in result.seconds.items()}, file=sys.stderr)
"""


REFUSED = """
    import resource, sys
    place, data, engine, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    import omnigraph
    from omnigraph.engine.write.violations import ConstraintError
    from omnigraph.pipeline.model import SparkSettings
    with omnigraph.init(place, open(place + ".pg").read()) as graph:
        spark = SparkSettings("local[2]", "512m") if engine == "spark" else None
        try:
            graph.load(data, engine=engine, spark=spark)
        except ConstraintError as error:
            print(error.total, *(f"{one.rule}|{one}" for one in error.violations), sep="\\n")
        print(graph.snapshot().table("node:Person").row_count)
"""


def write_edges(path, edges):
    """A tenth as many nodes as edges, in blocks, so that writing is not the test."""
    nodes = edges // 10
    with path.open("w") as out:
        for start in range(0, nodes, 10_000):
            out.writelines(
                f'{{"type":"Person","data":{{"name":"p{at}"}}}}\n'
                for at in range(start, min(start + 10_000, nodes))
            )
        for start in range(0, edges, 10_000):
            out.writelines(
                f'{{"edge":"Knows","from":"p{at % nodes}","to":"p{at * 7 % nodes}",'
                f'"data":{{"weight":{at % 1000}}}}}\n'
                for at in range(start, min(start + 10_000, edges))
            )


def write_texts(path, size):
    """Nodes with long texts until the file is as large as asked for."""
    line = '{"type":"Person","data":{"name":"p%d","text":"' + "lorem ipsum " * 80 + '"}}\n'
    count = size // len(line)
    with path.open("w") as out:
        for start in range(0, count, 1_000):
            out.writelines(line % at for at in range(start, min(start + 1_000, count)))
    return count


def load(folder, data, engine, memory="512m"):
    """Load in a process whose private memory the kernel limits; return what it said."""
    said, peak = run(PROGRAM, folder, data, engine, memory, str(LIMIT))
    return said.split(), peak


def run(program, folder, data, *words):
    """Run a program that is given a place for a graph and data; return what it said, and its peak.

    The schema lies beside the place.
    """
    place = folder / "g.omni"
    Path(f"{place}.pg").write_text(SCHEMA)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(place), str(data), *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    peak = Peak(process.pid)
    said, _ = process.communicate(timeout=3_000)
    assert process.returncode == 0
    return said, peak.bytes


class Peak:
    """The most private memory that a process and its children had at the same time."""

    def __init__(self, pid):
        self.bytes = 0
        self._pid = pid
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while Path(f"/proc/{self._pid}").exists():
            self.bytes = max(self.bytes, sum(map(_private, _below(self._pid))))
            time.sleep(0.2)


def _below(pid):
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _private(pid):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in text.splitlines() if line.startswith("RssAnon")]
    return int(lines[0].split()[1]) << 10 if lines else 0


@pytest.mark.parametrize("engine", ["inline", "spark"])
def test_ten_million_edges_load_within_two_gigabytes(tmp_path, engine):
    edges = int(os.environ.get("PROVE_EDGES", "10000000"))  # noqa: TID251 - a test setting
    write_edges(tmp_path / "x.jsonl", edges)
    said, peak = load(tmp_path, tmp_path / "x.jsonl", engine)
    assert said == [engine, str(edges // 10), str(edges)]
    sys.stderr.write(f"\n{engine}: {edges:,} edges, peak {peak / 2**20:,.0f} MiB\n")
    assert peak < LIMIT


def test_five_gigabytes_of_text_load_within_two(tmp_path):
    size = int(os.environ.get("PROVE_BYTES", str(5 << 30)))  # noqa: TID251 - a test setting
    count = write_texts(tmp_path / "x.jsonl", size)
    said, peak = load(tmp_path, tmp_path / "x.jsonl", "auto")
    assert said[1:] == [str(count), "0"]
    assert peak < LIMIT


@pytest.mark.parametrize("kind", ["plain", "gzip", "spark"])
def test_a_line_of_a_gigabyte_is_named_and_never_held(tmp_path, kind):
    path = tmp_path / ("x.jsonl.gz" if kind == "gzip" else "x.jsonl")
    write_long_line(path, LINE)
    started = time.monotonic()
    engine = "spark" if kind == "spark" else "inline"
    said, peak = run(REFUSED, tmp_path, path, engine, str(LIMIT))
    seconds = time.monotonic() - started
    lines = said.splitlines()
    assert (lines[0], lines[-1]) == ("2", "0")
    assert lines[1] == f"record|{path}:2: the line is longer than {64 << 20} bytes"
    assert lines[2].startswith(f"record|{path}:4: ")
    sys.stderr.write(
        f"\n{kind}: {LINE >> 20} MiB line, {seconds:.1f} s, peak {peak / 2**20:,.0f} MiB\n"
    )
    assert peak < (1 << 30 if kind == "spark" else 512 << 20)


def write_long_line(path, size):
    """A good record, a line as long as asked for, a good record, and one that is none.

    The long line costs no disk where it can be a hole in the file: nulls are bytes like others.
    """
    packed = path.suffix == ".gz"
    good = b'{"type":"Person","data":{"name":"%s"}}\n'
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as out:
        out.write(good % b"ada")
        out.write(b'{"type":"Person","data":{"name":"long","text":"')
        if packed:
            for _ in range(size >> 20):
                out.write(b"x" * (1 << 20))
        else:
            out.seek(size, os.SEEK_CUR)
        out.write(b'"}}\n' + good % b"bob" + b"{}\n")

"""A server beside bare ones, over loopback: `python -m bench server`.

A client in this process keeps some connections busy with requests made once, so what is compared is
the servers; both share the processors, so ratios count and rates do not. Behind each rate stands
what it cost the serving process.

- hello: the same runtime with an application that answers a constant; and FastAPI on uvicorn, with
  uvloop and httptools.
- lookups and two hops come with a token, under a policy.
- rows: 100,000 of six columns, as lines against `orjson` of Python rows, and as Arrow.
- beside each other: lookups and commits alone, and with a heavy query and two writers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

import omnigraph
from bench import _data
from omnigraph.api.access import AccessRequest, Action
from omnigraph.api.visibility import RowRules
from omnigraph.base.ids import BranchName
from omnigraph.graph import GraphOptions
from omnigraph.policy.load import load_policy
from omnigraph.server.options import ServeOptions
from omnigraph.server.row_text import arrow_pieces, ndjson
from omnigraph.server.runtime import granian
from omnigraph.storage.options import StorageOptions

SECONDS: Final = 3.0
ROUNDS: Final = 3
CLIENTS: Final = 64
LOOKUP = """query q($k: String) {
  match { $p: Person { key: $k } } return { $p.name as name, $p.age as age, $p.city as city }
}"""
HOPS = """query q($k: String) {
  match { $p: Person { key: $k }  $p knows $f  $f knows $g }
  return { $g.key as key, $g.name as name } limit 100
}"""
HEAVY = """query q() {
  match { $p: Person  $p.age < 20  $p knows $f  $f knows $g  $g.age > 40 }
  return { $g.city as city, count(distinct $g) as n }
}"""
ROWS = """query q() {
  match { $p: Person }
  return { $p.key as key, $p.name as name, $p.age as age, $p.city as city, $p.id as id }
}"""
PUT = 'query m($k: String) { insert Person { key: $k, name: "n", age: 1, city: "c" } }'
POLICY = """version: 1
groups: { team: [act-a] }
protected_branches: [main]
rules:
  - id: team
    allow: { actors: { group: team }, actions: [read, export, change], branch_scope: any }
"""
OPTIONS = GraphOptions(storage=StorageOptions(durability="os"))


@dataclass(frozen=True)
class Served:
    """A server under way: its port, and the process that answers."""

    port: int
    worker: int

    def cpu_s(self) -> float:
        """Return the processor seconds the worker has taken so far."""
        words = Path(f"/proc/{self.worker}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Rate:
    """What came of some seconds of requests."""

    count: int
    seconds: float
    cpu_s: float
    took: list[float]

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.count / self.seconds

    def __str__(self) -> str:
        p50, p99 = (sorted(self.took)[int(len(self.took) * part)] for part in (0.5, 0.99))
        cpu = self.cpu_s / max(self.count, 1) * 1e6
        return (
            f"{self.per_second:8.0f}/s  p50 {p50 * 1e3:6.2f} ms  p99 {p99 * 1e3:7.2f} ms"
            f"  {cpu:6.0f} us cpu"
        )


def main() -> None:
    """Measure with as many persons as BENCH_PERSONS says (20,000 unless said)."""
    persons = int(os.environ.get("BENCH_PERSONS", "20000"))  # noqa: TID251 - a bench setting
    data = _data.make(persons, docs=0)
    with tempfile.TemporaryDirectory() as base:
        place = Path(base)
        with omnigraph.init(place / "graph", _data.SCHEMA, options=OPTIONS) as graph:
            session = graph.store.begin()
            for key, table in data.tables.items():
                session.append(key, table)
            session.commit()
        (place / "policy.yaml").write_text(POLICY)
        requests(place, data.seeds)
        beside_each_other(place, data.seeds)
        with omnigraph.connect(place / "graph", options=OPTIONS) as graph:
            rows(graph)
            rules(graph, place)
            exports(place, graph)


def say(title: str, text: str) -> None:
    """Print one row."""
    sys.stdout.write(f"{title:34} {text}\n")
    sys.stdout.flush()


# Servers.


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
            del message
        await send({"type": "lifespan.shutdown.complete"})
        return
    head = [(b"content-type", b"application/json"), (b"content-length", b"17")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b'{"hello":"world"}'})


def _load_hello(*_: object) -> Any:
    return _hello


def serve_hello(port: int) -> None:
    """Run the bare application under the runtime of our server, as that runs it."""
    granian.load_app = _load_hello  # type: ignore[assignment] # what workers are given
    granian.run(ServeOptions("hello", port=port))


def serve_fastapi(port: int) -> None:
    """Run the same as a FastAPI application on uvicorn."""
    import fastapi
    import uvicorn

    app = fastapi.FastAPI()

    @app.get("/hello")  # type: ignore[untyped-decorator]
    async def hello() -> dict[str, str]:
        return {"hello": "world"}

    uvicorn.run(app, port=port, log_level="error", loop="uvloop", http="httptools")


@contextlib.contextmanager
def process(code: str, place: Path, port: int, **env: str) -> Iterator[Served]:
    """Run a server as a process of its own until the block ends."""
    inherited = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), **env}  # noqa: TID251 - of a child
    with (place / "notes").open("w") as notes:
        child = subprocess.Popen(
            [sys.executable, "-c", code], cwd=place, env=inherited, stdout=notes, stderr=notes
        )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        yield Served(port, _worker_of(child.pid))
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def served_graph(place: Path) -> contextlib.AbstractContextManager[Served]:
    """Run our server with a token and a policy."""
    port = _free_port()
    code = f"from omnigraph.cli.app import serve; serve(['graph', '--bind', '127.0.0.1:{port}'])"
    code = code.replace("serve([", "import sys; sys.argv[1:] = [").replace("])", "]; serve()")
    return process(
        code,
        place,
        port,
        OMNIGRAPH_POLICY_FILE="policy.yaml",
        OMNIGRAPH_SERVER_BEARER_TOKENS_JSON='{"act-a": "token-a"}',
    )


def bare(name: str, place: Path) -> contextlib.AbstractContextManager[Served]:
    """Run one of the servers that say hello."""
    port = _free_port()
    return process(f"import bench.server; bench.server.{name}({port})", place, port)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _worker_of(parent: int) -> int:
    """Return the child that serves; of a server without children, itself."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            above = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(above) == parent and "spawn_main" in (folder / "cmdline").read_text():
                return int(folder.name)
    return parent


# Clients.


def get(path: str) -> bytes:
    """Return a whole request without a body."""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def post(path: str, body: dict[str, Any]) -> bytes:
    """Return a whole request with a body and a token."""
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer token-a\r\n"
        f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def reads(text: str, keys: Sequence[str]) -> list[bytes]:
    """Return one request of a query for each key."""
    return [post("/read", {"query_source": text, "params": {"k": key}}) for key in keys]


async def _keep_busy(port: int, asked: Sequence[bytes], stop: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    at = 0
    try:
        while time.monotonic() < stop:
            started = time.perf_counter()
            writer.write(asked[at % len(asked)])
            at += 1
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200"):
                if head.startswith(b"HTTP/1.1 429"):
                    await asyncio.sleep(0.05)
                    continue
                raise RuntimeError(head.decode())
            took.append(time.perf_counter() - started)
    finally:
        writer.close()


def load(
    served: Served, *groups: tuple[Sequence[bytes], int], seconds: float = SECONDS
) -> list[Rate]:
    """Keep a server busy with groups of requests, each from so many clients; return their rates."""
    found: list[list[float]] = [[] for _ in groups]

    async def run() -> None:
        stop = time.monotonic() + seconds
        await asyncio.gather(
            *(
                _keep_busy(served.port, asked[number:] or asked, stop, found[at])
                for at, (asked, clients) in enumerate(groups)
                for number in range(clients)
            )
        )

    before, started = served.cpu_s(), time.monotonic()
    asyncio.run(run())
    took, cpu = time.monotonic() - started, served.cpu_s() - before
    return [Rate(len(one), took, cpu, one) for one in found]


# What is measured.


def requests(place: Path, seeds: Sequence[str]) -> None:
    """Compare rates with those of bare servers, in turn."""
    rates: dict[str, list[Rate]] = {}
    with (
        bare("serve_hello", place) as hello,
        bare("serve_fastapi", place) as fast,
        served_graph(place) as served,
    ):
        asked: dict[str, tuple[Served, list[bytes]]] = {
            "hello, same runtime": (hello, [get("/hello")]),
            "hello, FastAPI on uvicorn": (fast, [get("/hello")]),
            "lookup, token and policy": (served, reads(LOOKUP, seeds)),
            "2 hops, 100 rows": (served, reads(HOPS, seeds)),
        }
        for target, texts in asked.values():
            load(target, (texts, 8), seconds=1.0)
        for _ in range(ROUNDS):
            for name, (target, texts) in asked.items():
                rates.setdefault(name, []).extend(load(target, (texts, CLIENTS)))
    names = list(asked)
    for name in names:
        middle = sorted(rates[name], key=lambda one: one.per_second)[ROUNDS // 2]
        bare_rate, fastapi_rate = (_faster(rates[name], rates[other]) for other in names[:2])
        say(name, f"{middle}   {bare_rate:.2f} x hello  {fastapi_rate:.2f} x FastAPI")


def _faster(ours: Sequence[Rate], theirs: Sequence[Rate]) -> float:
    """Return how much faster one is than another, as the median of all rounds."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(one.per_second / other.per_second for one, other in pairs)


def beside_each_other(place: Path, seeds: Sequence[str]) -> None:
    """Compare lookups and commits alone with those beside a heavy query and each other."""
    numbers = iter(range(1_000_000))

    def writes() -> list[bytes]:
        return [
            post("/change", {"query_source": PUT, "params": {"k": f"new{next(numbers)}"}})
            for _ in range(2_000)
        ]

    lookups, heavy = reads(LOOKUP, seeds), [post("/read", {"query_source": HEAVY})]
    alone: list[float] = []
    commits: list[float] = []
    mixed: list[tuple[float, float]] = []
    with served_graph(place) as served:
        load(served, (lookups, 8), (heavy, 1), seconds=1.0)
        for _ in range(ROUNDS):
            alone.append(load(served, (lookups, CLIENTS))[0].per_second)
            commits.append(load(served, (writes(), 2))[0].per_second)
            ask, _, write = load(served, (lookups, CLIENTS), (heavy, 1), (writes(), 2))
            mixed.append((ask.per_second, write.per_second))
    asked = statistics.median(both[0] / one for both, one in zip(mixed, alone, strict=True))
    wrote = statistics.median(both[1] / one for both, one in zip(mixed, commits, strict=True))
    say(
        "beside a heavy query, 2 writers",
        f"lookups {asked:.2f} x of {statistics.median(alone):.0f}/s alone   "
        f"commits {wrote:.2f} x of {statistics.median(commits):.0f}/s alone",
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def rows(graph: omnigraph.Graph) -> None:
    """Compare layouts of 100,000 rows with `orjson` of Python rows."""
    once = graph.query(ROWS).table
    table = pa.concat_tables([once] * (100_000 // len(once) + 1)).slice(0, 100_000)
    batches = table.combine_chunks().to_batches(8_192)

    def python() -> None:
        orjson.dumps(table.to_pylist())

    def lines() -> None:
        for batch in batches:
            ndjson(batch)

    def arrow() -> None:
        for _ in arrow_pieces(batches, {}, packed=False):
            pass

    times = {one.__name__: [_seconds(one) for _ in range(ROUNDS)] for one in (python, lines, arrow)}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times["python"], found, strict=True))
        for name, found in times.items()
    }
    took = statistics.median(times["python"])
    say(
        "100,000 rows",
        f"orjson(to_pylist()) {took * 1e3:.0f} ms   lines {ratios['lines']:.1f} x"
        f"   Arrow {ratios['arrow']:.0f} x as fast",
    )


def rules(graph: omnigraph.Graph, place: Path) -> None:
    """Time a decision, and compare a query under a rule with the same filter by hand."""
    judge = load_policy(place / "policy.yaml", "bench")
    request = AccessRequest("act-a", Action.READ, BranchName("main"))
    took = min(_seconds(lambda: [judge.decide(request) for _ in range(10_000)]) for _ in range(5))
    say("policy decision", f"{took / 10_000 * 1e6:.2f} us")
    shown = {"Person": frozenset({"$n.age >= 40"}), "Knows": None}
    seen = graph.under(RowRules.of(shown))
    pairs = {
        "row rule, count": (
            "match { $p: Person } return { count(*) as n }",
            "match { $p: Person  $p.age >= 40 } return { count(*) as n }",
        ),
        "row rule, 2 hops": (
            "match { $p: Person  $p knows $f  $f knows $g } return { count(*) as n }",
            "match { $p: Person  $p.age >= 40  $p knows $f  $f.age >= 40  $f knows $g "
            "$g.age >= 40 } return { count(*) as n }",
        ),
    }
    for name, (plain, by_hand) in pairs.items():
        ask, filtered = partial(seen.query, plain), partial(graph.query, by_hand)
        assert ask().scalar() == filtered().scalar()
        times = [(_seconds(ask), _seconds(filtered)) for _ in range(9)]
        mine, other = (statistics.median(one) for one in zip(*times, strict=True))
        say(name, f"{mine * 1e3:.2f} ms   by hand {other * 1e3:.2f} ms  ratio {mine / other:.2f}")


def exports(place: Path, graph: omnigraph.Graph) -> None:
    """Compare an export over HTTP with one of the graph itself."""

    def local() -> None:
        for _ in graph.iter_export():
            pass

    with served_graph(place) as served:
        remote_graph = omnigraph.connect(f"http://127.0.0.1:{served.port}", token="token-a")

        def remote() -> None:
            for _ in remote_graph.iter_export():
                pass

        with remote_graph:
            times = [(_seconds(local), _seconds(remote)) for _ in range(ROUNDS)]
    ratio = statistics.median(a / b for a, b in times)
    took = statistics.median(a for a, _ in times)
    say("export", f"local {took * 1e3:.0f} ms   over HTTP {ratio:.2f} x as fast")

"""Many clients of one server at once: reading, writing, branching, leaving in the middle.

Each client has a row of its own, whose value it only ever raises, and adds rows nobody else names.
So everything that was acknowledged can be told from what was not, whatever happened to the server
in between: it is killed and started again on the same port, and told to read its rules again.
Readers under a rule never see a row that it hides.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import signal
import socket
import statistics
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph
from omnigraph import aio
from omnigraph.client.errors import ServerBusyError, ServerUnreachableError
from omnigraph.errors import ConflictError, NotFoundError, OmniGraphError
from tests.soak.judge import Verdict
from tests.support.servers import ServerProcess, server_process

SCHEMA = """
node P { k: String @key
 v: I64
 open: Bool }
edge E: P -> P
"""
QUERIES = """
query put($k: String, $v: I64) { insert P { k: $k, v: $v, open: true } }
query link($a: String, $b: String) { insert E { from: $a, to: $b } }
query one($k: String) { match { $p: P { k: $k } } return { $p.v } }
query all() { match { $p: P } return { $p.k, $p.v, $p.open } }
query heavy() { match { $p: P  $p e $m  $m e $o } return { count(*) as n, max($o.v) as m } }
"""
POLICY = """version: 1
groups: {{ whole: {whole}, some: {some} }}
rules:
  - id: whole
    allow: {{ actors: {{ group: whole }}, actions: [read, export, change], branch_scope: any }}
  - id: branches
    allow:
      actors: {{ group: whole }}
      actions: [branch_create, branch_delete, branch_merge]
      target_branch_scope: any
  - id: some
    allow:
      actors: {{ group: some }}
      actions: [read, export]
      branch_scope: any
      types: [P, E]
      where: $n.id != "hidden"
"""
_FLAT = 1.35
"""What the memory of a worker may grow by, from the first half of a run to its end."""
_SPARE_KIB = 96 << 10
_OWN_BRANCH = 8


@dataclass
class Client:
    """One client and what it was told: the newest value it knows of, and any it may have set."""

    number: int
    sees_all: bool
    value: int = 0
    maybe: set[int] = field(default_factory=set)
    added: set[str] = field(default_factory=set)
    may_be_added: set[str] = field(default_factory=set)

    @property
    def key(self) -> str:
        return f"c{self.number}"


@dataclass
class Load:
    """The clients of a run and everything they do."""

    address: str
    deadline: float
    verdict: Verdict
    dice: random.Random
    numbers: Counter[str] = field(default_factory=Counter)

    async def work(self, client: Client) -> None:
        """Do one thing after another until the time is over."""
        asked = [(self.look, 30), (self.every_row, 4), (self.leave, 2), (self.export, 1)]
        asked += [(self.heavy, 1)] if client.number % 16 == 1 else []
        if client.sees_all:
            asked += [(self.put, 6), (self.add, 1), (self.branch, 1)]
        jobs, weights = zip(*asked, strict=True)
        async with aio.connect(self.address, token=f"token-{client.number}") as graph:
            while time.monotonic() < self.deadline:
                (job,) = self.dice.choices(jobs, weights)
                await self._do(job, graph, client)

    async def _do(
        self,
        job: Callable[[aio.AsyncGraph, Client], Awaitable[None]],
        graph: aio.AsyncGraph,
        client: Client,
    ) -> None:
        try:
            await job(graph, client)
            self.verdict.seen[job.__name__] += 1
        except (ServerBusyError, ServerUnreachableError) as error:
            self.verdict.seen[type(error).__name__] += 1
            await asyncio.sleep(0.1)
        except (ConflictError, NotFoundError) as error:
            self.verdict.seen[type(error).__name__] += 1
            if job.__name__ in ("look", "every_row", "put", "export"):
                self.verdict.wrong.append(f"{job.__name__}: {error}")
        except OmniGraphError as error:
            self.verdict.wrong.append(f"{job.__name__}: {type(error).__name__}: {error}")
        except Exception:  # noqa: BLE001 - whatever has no type is a defect
            self.verdict.wrong.append(f"{job.__name__}: {traceback.format_exc()}")

    async def put(self, graph: aio.AsyncGraph, client: Client) -> None:
        """Raise the client's value, and read what was written."""
        value = max((client.value, *client.maybe)) + 1
        client.maybe.add(value)
        await graph.mutate(QUERIES, "put", {"k": client.key, "v": value})
        client.value, client.maybe = value, set()
        await self.look(graph, client)

    async def look(self, graph: aio.AsyncGraph, client: Client) -> None:
        found = await graph.query(QUERIES, "one", {"k": client.key})
        known = {client.value, *client.maybe} - {0}
        (row,) = found.to_dicts() or [{"p.v": 0}]
        if row["p.v"] not in known | ({0} if not client.value else set()):
            self.verdict.wrong.append(f"{client.key} is {row['p.v']}, not one of {known}")

    async def every_row(self, graph: aio.AsyncGraph, client: Client) -> None:
        found = await graph.query(QUERIES, "all")
        keys = [row["p.k"] for row in found.to_dicts()]
        if len(set(keys)) != len(keys):
            self.verdict.wrong.append("a key is there twice")
        if ("hidden" in keys) != client.sees_all:
            self.verdict.wrong.append(f"{client.key} sees what is hidden, or does not see it all")

    async def heavy(self, graph: aio.AsyncGraph, _: Client) -> None:
        await graph.query(QUERIES, "heavy")

    async def leave(self, graph: aio.AsyncGraph, _: Client) -> None:
        """Ask for something and do not wait for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.dice.uniform(0.001, 0.05)):
                await graph.query(QUERIES, "heavy")

    async def export(self, graph: aio.AsyncGraph, client: Client) -> None:
        """Take an export, or only its beginning."""
        size = 0
        async with contextlib.aclosing(graph.iter_export()) as pieces:
            async for piece in pieces:
                size += len(piece)
                if b'"hidden"' in piece and not client.sees_all:
                    self.verdict.wrong.append(f"{client.key} exports what is hidden")
                if self.dice.random() < 0.2:
                    return

    async def add(self, graph: aio.AsyncGraph, client: Client) -> None:
        """Load a few new rows, and an edge between two of them."""
        self.numbers[client.key] += 1
        names = [f"{client.key}.{self.numbers[client.key]}.{at}" for at in range(3)]
        client.may_be_added |= {*names}
        lines = [{"type": "P", "data": {"k": name, "v": 0, "open": True}} for name in names]
        edge = {"edge": "E", "from": names[0], "to": names[1], "data": {}}
        data = "\n".join(map(json.dumps, [*lines, edge])).encode()
        await graph.load(data, "merge")
        client.added |= {*names}

    async def branch(self, graph: aio.AsyncGraph, client: Client) -> None:
        """Write on a branch and bring it home."""
        self.numbers["branch"] += 1
        name = f"b{client.number % _OWN_BRANCH}/{self.numbers['branch']}"
        await graph.branches.create(name)
        row = f"{client.key}.{name}"
        client.may_be_added.add(row)
        await graph.mutate(QUERIES, "put", {"k": row, "v": 0}, branch=name)
        done = await graph.branches.merge(name)
        assert done.outcome in ("merged", "fast_forward")
        client.added.add(row)
        await graph.branches.delete(name)


def soak_clients(
    *, seed: int, seconds: float, clients: int = 64, faults: bool = True, folder: Path | None = None
) -> Verdict:
    """Load a server for some seconds and return what was wrong."""
    verdict = Verdict()
    with tempfile.TemporaryDirectory(prefix="omnigraph-soak-") as base:
        place = Path(base)
        everybody = [Client(number, sees_all=number % 4 != 3) for number in range(clients)]
        with omnigraph.init(place / "graph", SCHEMA) as graph:
            graph.mutate('insert P { k: "hidden", v: 0, open: false }')
        whole = [f"a{one.number}" for one in everybody if one.sees_all]
        some = [f"a{one.number}" for one in everybody if not one.sees_all]
        policy = POLICY.format(whole=json.dumps(whole), some=json.dumps(some))
        (place / "policy.yaml").write_text(policy)
        sizes = _run(place, everybody, verdict, seed, seconds, faults=faults)
        _judge(place, everybody, verdict)
        _judge_sizes(sizes, verdict)
        notes = "".join(one.read_text() for one in sorted(place.glob("notes.*")))
        for word in ("Traceback", "token-"):
            if word in notes:
                at = notes.index(word)
                verdict.wrong.append(f"the log has {word!r}: {notes[max(at - 300, 0) : at + 1500]}")
        if folder is not None:
            shutil.copytree(place, folder / "server", dirs_exist_ok=True)
    return verdict


def _run(
    place: Path,
    everybody: list[Client],
    verdict: Verdict,
    seed: int,
    seconds: float,
    *,
    faults: bool,
) -> list[list[int]]:
    """Run the clients; return the sizes of each life of the server."""
    dice = random.Random(seed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tokens = json.dumps({f"a{one.number}": f"token-{one.number}" for one in everybody})
    deadline = time.monotonic() + seconds
    load = Load(f"http://127.0.0.1:{port}", deadline, verdict, dice)
    sizes: list[list[int]] = []

    async def serve() -> None:
        while time.monotonic() < deadline:
            with server_process(
                place,
                "graph",
                "--bind",
                f"127.0.0.1:{port}",
                OMNIGRAPH_POLICY_FILE="policy.yaml",
                OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens,
            ) as server:
                await asyncio.to_thread(server.hear_address)
                verdict.seen["lives of the server"] += 1
                # The last life is long enough to tell whether memory is flat.
                left = deadline - time.monotonic()
                life = left if not faults or left < seconds / 2 else dice.uniform(3, left / 3)
                sizes.append(await _watch(server, time.monotonic() + life))
                if time.monotonic() < deadline:
                    server.kill_all()
                elif server.stop() != 0:
                    verdict.wrong.append("the server did not end well")

    async def run() -> None:
        jobs = [asyncio.create_task(load.work(one)) for one in everybody]
        await serve()
        await asyncio.gather(*jobs)

    asyncio.run(run())
    return sizes


async def _watch(server: ServerProcess, until: float) -> list[int]:
    """Return the memory of the worker, looked at now and then; it reads its rules again, too."""
    found: list[int] = []
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(0.5, left))
        with contextlib.suppress(OSError, ValueError):
            found.append(sum(map(_resident_kib, server.workers())))
        if len(found) % 8 == 4:
            server.tell(signal.SIGHUP)
    return found


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _judge_sizes(sizes: list[list[int]], verdict: Verdict) -> None:
    """Memory grows while tables are read for the first time, and then no more."""
    longest = max(sizes, key=len, default=[])
    if len(longest) < 40:
        return
    half = longest[len(longest) // 4 : len(longest) // 2]
    before, after = statistics.median(half), statistics.median(longest[-len(longest) // 8 :])
    verdict.seen["MiB of memory, at half"] = int(before) >> 10
    verdict.seen["MiB of memory, at the end"] = int(after) >> 10
    if after > _FLAT * before + _SPARE_KIB:
        verdict.wrong.append(f"memory grew from {before} to {after} KiB")


def _judge(place: Path, everybody: list[Client], verdict: Verdict) -> None:
    """Compare what is there with what clients were told."""
    with omnigraph.connect(place / "graph") as graph:
        rows = {row["p.k"]: row["p.v"] for row in graph.query(QUERIES, "all").to_dicts()}
        verdict.seen["rows at the end"] = len(rows)
        if rows.pop("hidden", None) != 0:
            verdict.wrong.append("the row of nobody is gone")
        for one in everybody:
            value = rows.pop(one.key, 0)
            if value not in {one.value, *one.maybe}:
                verdict.wrong.append(f"{one.key} is {value}, told {one.value}, maybe {one.maybe}")
            missing = one.added - rows.keys()
            if missing:
                verdict.wrong.append(f"lost: {sorted(missing)}")
            for name in one.may_be_added & rows.keys():
                del rows[name]
        if rows:
            verdict.wrong.append(f"nobody wrote {sorted(rows)}")
        verdict.wrong += [f"verify: {one}" for one in graph.verify() if not one.harmless]

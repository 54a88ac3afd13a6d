"""Many clients at once, reading and writing: nothing is lost, and every refusal has a type."""

import asyncio
import contextlib

import pytest

from omnigraph import aio
from omnigraph.client.errors import ServerBusyError
from tests.server.conftest import ADD
from tests.support.servers import server_process

COUNT = "match { $p: Person } return { count($p) as n }"
ONE = "query one($n: String) { match { $p: Person $p.name = $n } return { $p.name } }"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_was_acknowledged_is_there_and_readers_see_a_growing_graph(people, workers):
    clients, each = 16, 3

    async def writer(address, number):
        made = 0
        async with aio.connect(address) as graph:
            for turn in range(each):
                name = f"w{number}.{turn}"
                await graph.mutate(ADD, params={"name": name})
                made += 1
                found = await graph.query(ONE, params={"n": name})
                assert len(found) == 1  # what was answered is read by the next question
        return made

    async def reader(address, stop):
        seen = []
        async with aio.connect(address) as graph:
            while not stop.is_set():
                with contextlib.suppress(ServerBusyError):  # told to come again, and it did
                    seen.append((await graph.query(COUNT)).scalar())
        return seen

    async def run(address):
        stop = asyncio.Event()
        readers = [asyncio.create_task(reader(address, stop)) for _ in range(4)]
        made = await asyncio.gather(*(writer(address, number) for number in range(clients)))
        stop.set()
        for seen in await asyncio.gather(*readers):
            if workers == "1":
                assert seen == sorted(seen)
        async with aio.connect(address) as graph:
            return sum(made), (await graph.query(COUNT)).scalar()

    with server_process(
        people, "people.omni", "--bind", "127.0.0.1:0", "--workers", workers
    ) as server:
        made, there = asyncio.run(run(server.hear_address()))
        assert made == clients * each
        assert there == made + 3
        assert server.stop() == 0
        assert "Traceback" not in server.notes.read_text()

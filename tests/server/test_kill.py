"""A server that is killed around a write: the same key makes it once, whenever it died."""

import contextlib
import threading

import httpx2
import pytest

import omnigraph
from tests.server.conftest import ADD
from tests.support.servers import server_process

BIND = ("--bind", "127.0.0.1:0")


@pytest.mark.crash
@pytest.mark.parametrize(
    "delay_ms",
    [5, 20, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in (0, 10, 40, 80))],
)
def test_a_write_under_a_key_is_there_once_after_a_kill(people, http, delay_ms):
    asked = {"query_source": ADD, "params": {"name": "Dan"}}
    key = {"idempotency-key": "once"}
    with server_process(people, "people.omni", *BIND) as server:
        address = server.hear_address()
        assert http.get(f"{address}/readyz").status_code == 200
        killer = threading.Timer(delay_ms / 1_000, server.kill_all)
        killer.start()
        with contextlib.suppress(httpx2.TransportError):  # it may have died anywhere
            http.post(f"{address}/change", json=asked, headers=key)
        killer.join()
        server.process.wait(120)
    with server_process(people, "people.omni", *BIND) as server:
        address = server.hear_address()
        done = http.post(f"{address}/change", json=asked, headers=key)
        assert done.status_code == 200, done.text
        assert done.json()["affected_nodes"] == 1
        assert server.stop() == 0
    with omnigraph.connect(people / "people.omni") as graph:
        found = graph.query("match { $p: Person } return { $p.name }")
        assert [row["p.name"] for row in found].count("Dan") == 1
        assert all(one.harmless for one in graph.verify())

"""The async shell asks the same questions."""

import asyncio

import pytest

from omnigraph import aio
from omnigraph.compiler.diagnostics import DiagnosticsError
from omnigraph.errors import BadRequestError
from tests.cli.conftest import QUERIES
from tests.client.test_same_behaviour import ALL


def ask(address, question):
    async def run():
        async with aio.connect(address) as graph:
            return await question(graph)

    return asyncio.run(run())


def test_reads_and_writes_are_awaited(address):
    async def question(graph):
        done = await graph.mutate(QUERIES, "add", {"name": "Dan"})
        found = await graph.query(ALL)
        commits = await graph.commits.list(limit=1)
        assert commits[0].graph_commit_id == done.commit_id == found.commit_id
        loaded = await graph.load(b'{"type":"Person","data":{"name":"Eve"}}\n', "append")
        assert loaded.nodes_loaded == {"Person": 1}
        await graph.branches.create("dev")
        return await graph.branches.list()

    assert ask(address, question) == ["main", "dev"]


def test_many_questions_go_at_once(address):
    async def question(graph):
        return await asyncio.gather(*(graph.query(ALL) for _ in range(4)))

    assert [len(one) for one in ask(address, question)] == [3] * 4


def test_what_comes_in_pieces_is_iterated(address):
    async def question(graph):
        batches = [batch async for batch in graph.stream(ALL)]
        lines = b"".join([piece async for piece in graph.iter_export()])
        groups = [group async for group in graph.changes()]
        return sum(map(len, batches)), len(lines.splitlines()), len(groups)

    assert ask(address, question) == (3, 4, 5)


def test_errors_are_the_same(address):
    async def question(graph):
        with pytest.raises(DiagnosticsError):
            await graph.query("query q() { match { $p: Persn } return { $p.name } }")
        with pytest.raises(BadRequestError, match="from the token"):
            await graph.mutate(QUERIES, "add", {"name": "x"}, actor="me")
        await graph.close()
        with pytest.raises(BadRequestError, match="closed"):
            await graph.schema()

    ask(address, question)

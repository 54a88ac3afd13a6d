"""Bodies have a clock and a bound of their own, whatever the runtime does."""

import asyncio

import pytest

from omnigraph.server import http
from omnigraph.server.call import preferred
from omnigraph.server.http import Exchange, Flow, GoneError, Reply, packed, packed_flow, segments
from omnigraph.server.problems import ProblemError


def exchange(messages, headers=None, then=None):
    left = iter(messages)

    async def receive():
        message = next(left, then)
        if message is None:
            await asyncio.Event().wait()
        return message

    return Exchange("POST", "/read", b"", headers or {}, receive, "id")


def piece(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def test_a_body_is_put_together():
    found = exchange([piece(b"a"), piece(b"b"), piece(b"", more=False)])
    assert run(found.body(10)) == b"ab"
    assert found.was_read


def test_a_body_that_pauses_too_long_is_408_and_ends_the_connection(monkeypatch):
    monkeypatch.setattr(http, "_SILENCE_S", 0.01)
    with pytest.raises(ProblemError) as caught:
        run(exchange([piece(b"a")]).body(10))
    assert (caught.value.status, caught.value.closes) == (408, True)


def test_a_body_that_drips_is_408(monkeypatch):
    monkeypatch.setattr(http, "_SILENCE_S", 0.0001)
    ticks = iter(range(1_000))
    monkeypatch.setattr(http.time, "monotonic", lambda: float(next(ticks)))

    async def at_once():
        found = exchange([piece(b"x")] * 10)
        monkeypatch.setattr(http.asyncio, "timeout", lambda _: _Patient())
        return await found.body(100)

    with pytest.raises(ProblemError) as caught:
        asyncio.run(at_once())
    assert caught.value.status == 408


class _Patient:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return False


@pytest.mark.parametrize(
    ("messages", "headers"),
    [
        ([], {b"content-length": b"11"}),
        ([piece(b"x" * 6), piece(b"x" * 6)], {b"transfer-encoding": b"chunked"}),
        ([piece(b"x" * 6), piece(b"x" * 6)], {b"content-length": b"nonsense"}),
    ],
)
def test_a_body_beyond_its_bound_is_413(messages, headers):
    with pytest.raises(ProblemError) as caught:
        run(exchange(messages, headers).body(10))
    assert (caught.value.status, caught.value.closes) == (413, True)


def test_a_client_that_leaves_in_the_middle_is_gone():
    with pytest.raises(GoneError):
        run(exchange([piece(b"a"), {"type": "http.disconnect"}]).body(10))


def test_what_nobody_wants_is_read_on_for_a_while(monkeypatch):
    monkeypatch.setattr(http, "_DRAIN_BYTES", 100)
    found = exchange([piece(b"x" * 60)] * 2, then=None)
    run(found.drain())
    assert not found.was_read
    whole = exchange([piece(b"x", more=False)])
    run(whole.drain())
    assert whole.was_read


@pytest.mark.parametrize(
    ("accept", "layout"),
    [
        (None, "json"),
        ("*/*", "json"),
        ("application/json, application/x-ndjson", "json"),
        ("application/x-ndjson", "ndjson"),
        ("application/json;q=0.5, application/x-ndjson", "ndjson"),
        ("application/vnd.apache.arrow.stream", "arrow"),
        ("text/html", "json"),
        ("application/x-ndjson;q=nonsense", "json"),
    ],
)
def test_the_layout_is_what_is_wanted_most(accept, layout):
    assert preferred(accept) == layout


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        (None, None),
        ("identity", None),
        ("gzip, deflate", b"gzip"),
        ("gzip, zstd", b"zstd"),
        ("gzip;q=0", None),
        ("zstd;q=0.0, gzip", b"gzip"),
    ],
)
def test_an_answer_is_packed_as_the_client_takes_it(accept, encoding):
    headers = dict(packed(Reply(b"x" * 10_000), accept).headers)
    assert headers.get(b"content-encoding") == encoding
    assert packed(Reply(b"small"), accept).body == b"small"


def test_a_packed_stream_holds_no_piece_back_and_lets_go_of_its_source():
    import zlib

    closed = []

    def pieces():
        try:
            yield b"first"
            yield b"second"
        finally:
            closed.append(1)

    flow = packed_flow(Flow(pieces(), b"text/plain"), "gzip")
    unpacker = zlib.decompressobj(31)
    assert unpacker.decompress(next(flow.pieces)) == b"first"
    flow.pieces.close()
    assert closed == [1]


def test_words_of_a_path_are_decoded_once():
    assert segments("/branches/review%2Fx") == ["branches", "review/x"]
    assert segments("/branches/a%252Fb") == ["branches", "a%2Fb"]
    with pytest.raises(ProblemError):
        segments("/branches/%ff")

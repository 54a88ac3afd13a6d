"""What is only true of a graph on a server: addresses, tokens, retries, and what it cannot do."""

import asyncio
import importlib
import inspect
import pkgutil
import socket
import threading

import pytest

import omnigraph
from omnigraph import GraphOptions
from omnigraph.base.budget import QueryCancelledError
from omnigraph.client import wire
from omnigraph.client.errors import HOMES, ServerUnreachableError, error_of
from omnigraph.client.wire import Ask, pause_before, place_of
from omnigraph.errors import BadRequestError, DeniedError, InternalError, OmniGraphError
from tests.cli.conftest import QUERIES
from tests.client.test_same_behaviour import ALL

READ = Ask("POST", "/read", lambda answer: answer)
MERGE = Ask("POST", "/branches/merge", lambda answer: answer, is_repeatable=False)


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http://me:pw@x", "http://x?y=1", "x"])
def test_an_address_is_one_of_a_server_and_has_no_secret(address):
    with pytest.raises(BadRequestError, match="address"):
        place_of(address, None)


def test_a_base_may_have_a_path_and_slashes_at_its_end():
    place = place_of("http://host/graphs/spike//", " token ")
    assert place.url(READ) == "http://host/graphs/spike/read"
    assert place.headers(READ)["authorization"] == "Bearer token"
    assert "authorization" not in place_of("http://host", " ").headers(READ)
    assert "token" not in repr(place)


@pytest.mark.parametrize(
    ("attempt", "ask", "status", "sent", "again"),
    [
        pytest.param(1, READ, None, True, True, id="a read whose answer was lost"),
        pytest.param(3, READ, None, True, False, id="the third time"),
        pytest.param(1, MERGE, None, True, False, id="a write whose answer was lost"),
        pytest.param(1, MERGE, None, False, True, id="a write that never left"),
        pytest.param(1, MERGE, 429, True, True, id="a write that was not let in"),
        pytest.param(1, MERGE, 503, True, False, id="a write that may be pending"),
        pytest.param(1, READ, 503, True, True, id="a read while the server starts"),
        pytest.param(1, READ, 500, True, False, id="a failure"),
        pytest.param(1, READ, 404, True, False, id="a refusal"),
    ],
)
def test_only_what_is_safe_is_sent_again(attempt, ask, status, sent, again):
    assert (pause_before(attempt, ask, status, {}, sent=sent) is not None) == again


def test_a_server_says_how_long_to_wait():
    assert pause_before(1, READ, 429, {"retry-after": "3"}, sent=True) == 3
    assert pause_before(1, READ, 429, {"retry-after": "600"}, sent=True) == wire._LONGEST_PAUSE_S


def test_every_error_that_may_come_is_known_by_name():
    for module in pkgutil.walk_packages(omnigraph.__path__, "omnigraph."):
        if not module.name.startswith(("omnigraph.server.runtime", "omnigraph.graph.spark")):
            importlib.import_module(module.name)

    def below(one):
        for found in one.__subclasses__():
            yield found
            yield from below(found)

    for name, home in HOMES.items():
        found = getattr(importlib.import_module(home), name)
        assert inspect.isclass(found)
        assert issubclass(found, OmniGraphError)
    left = {
        one.__name__
        for one in below(OmniGraphError)
        if one.__module__.startswith("omnigraph.") and one.__module__ != "omnigraph.errors"
    } - HOMES.keys()
    never_sent = {
        "UsageError", "ConfigError", "NotRemoteError", "ServerBusyError", "ServerUnreachableError",
        "SparkError", "NoJavaError", "FailpointTriggeredError", "ForkedProcessError",
        "CacheFolderError",
        "MissingExtraError", "CedarError", "NoColumnError", "LocalStackError",
        "NotConvergedError", "NoPathError", "StreamModeError", "UnsupportedOnSparkError",
        "WeightError",
        # Told to agents, as results of tools.
        "BusyError", "CursorError", "NoSuchToolError",
        # Told as a failure of the server, without their names.
        "DamagedError", "HeadRowsError", "LostIndexError", "MovedGraphError", "RecoveryError",
        "SidecarError", "StagingError", "StoreSilentError", "UnreadableError",
        "UnreadableTextError", "UnwritableError",
    }  # fmt: skip
    assert left <= never_sent, "say in client.errors.HOMES where they are"


def test_an_answer_of_somebody_else_is_told_as_it_is():
    error = error_of(502, b"<html>Bad gateway</html>")
    assert isinstance(error, InternalError)
    assert str(error).startswith("server returned 502: <html>")
    unknown = error_of(409, b'{"error":"odd","kind":"conflict","class":"OddError"}')
    assert (unknown.kind, unknown.message) == ("conflict", "odd")
    assert isinstance(error_of(401, b'{"error":"invalid bearer token"}'), DeniedError)


def test_nobody_at_the_address_is_one_clear_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        port = taken.getsockname()[1]
        with (
            omnigraph.connect(f"http://127.0.0.1:{port}") as graph,
            pytest.raises(ServerUnreachableError, match="does not answer"),
        ):
            graph.query(ALL)


def test_nobody_is_named_to_a_server(address):
    with omnigraph.connect(address) as graph:
        with pytest.raises(BadRequestError, match="from the token"):
            graph.mutate(QUERIES, "add", {"name": "x"}, actor="me")
        with pytest.raises(BadRequestError, match="from the token"):
            graph.as_actor("me")


def test_what_needs_the_graph_itself_says_so(address, tmp_path):
    with omnigraph.connect(address) as graph:
        for name in ("store", "spark", "run"):
            with pytest.raises(BadRequestError, match=f"a graph on a server has no '{name}'"):
                getattr(graph, name)
        assert not hasattr(graph, "nonsense")
        with pytest.raises(BadRequestError, match="does not export parquet"):
            graph.export(tmp_path, format="parquet")
        with pytest.raises(BadRequestError, match="does not load with Spark"):
            graph.load(b"", engine="spark")
    with pytest.raises(BadRequestError, match="opened here"):
        omnigraph.connect(address, read_only=True)
    with pytest.raises(BadRequestError, match="opened here"):
        omnigraph.connect(address, options=GraphOptions())
    with pytest.raises(BadRequestError, match="a token is for"):
        omnigraph.connect(tmp_path / "x.omni", token="t")


def test_a_cancelled_query_hangs_up(address):
    cancel = threading.Event()
    with omnigraph.connect(address) as graph:
        assert len(graph.query(ALL, cancel=cancel)) == 3
        cancel.set()
        with pytest.raises(QueryCancelledError):
            list(graph.stream(ALL, cancel=cancel))


def test_a_query_whose_answer_does_not_come_is_given_up_when_cancelled():
    """The other side takes the request and stays silent; so the event alone can end it."""
    cancel = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hung_up = threading.Event()

        def listen():
            connection, _ = silent.accept()
            with connection:
                connection.recv(1 << 16)
                cancel.set()
                while connection.recv(1 << 16):
                    pass
                hung_up.set()

        thread = threading.Thread(target=listen)
        thread.start()
        with (
            omnigraph.connect(f"http://127.0.0.1:{port}") as graph,
            pytest.raises(QueryCancelledError),
        ):
            graph.query(ALL, cancel=cancel)
        thread.join(60)
        assert hung_up.is_set()


def test_a_remote_graph_may_be_asked_inside_an_event_loop(address):
    async def run():
        with omnigraph.connect(address) as graph:
            return len(graph.query(ALL, cancel=threading.Event()))

    assert asyncio.run(run()) == 3


def test_an_answer_that_breaks_off_is_no_answer():
    """A server that dies in the middle of an export must not look like a short one."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as dying:

        def listen():
            connection, _ = dying.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(head + b"5\r\nhalf\n\r\n")

        thread = threading.Thread(target=listen)
        thread.start()
        with (
            omnigraph.connect(f"http://127.0.0.1:{dying.getsockname()[1]}") as graph,
            pytest.raises(ServerUnreachableError, match="broke off"),
        ):
            list(graph.iter_export())
        thread.join(60)

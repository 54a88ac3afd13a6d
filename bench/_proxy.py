"""A loopback proxy that notes when each HTTP request started and ended.

It can hold every answer back for a while, like a store that is far away: only then do requests
that need not wait for each other really overlap.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_METHODS = (b"GET ", b"PUT ", b"HEAD ", b"POST ", b"DELETE ")


@dataclass(slots=True)
class Request:
    """One request on the wire; `ended` is when the answer began to arrive."""

    line: str
    started: float
    ended: float = 0.0


@dataclass
class Traffic:
    """Everything that went through, in order of its start."""

    endpoint: str
    delay_s: float = 0.0
    requests: list[Request] = field(default_factory=list)
    received: int = 0
    """Bytes that the store answered, headers included."""

    def clear(self) -> None:
        """Forget what went through."""
        self.requests.clear()
        self.received = 0

    def serial(self) -> int:
        """Return the longest chain of requests of which each began after the one before ended."""
        chain, free_at = 0, 0.0
        for request in sorted(self.requests, key=lambda request: request.ended or request.started):
            if request.started >= free_at:
                chain += 1
                free_at = request.ended or request.started
        return chain


@contextlib.contextmanager
def watching(endpoint: str) -> Iterator[Traffic]:
    """Forward loopback traffic to `endpoint` until the block ends."""
    host, _, port = endpoint.removeprefix("http://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    traffic = Traffic(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed: the block ended
                return
            server = socket.create_connection((host, int(port)))
            pending: list[Request] = []
            for work in (_requests, _answers):
                thread = threading.Thread(target=work, args=(client, server, pending, traffic))
                thread.daemon = True
                thread.start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield traffic
    finally:
        listener.close()


def _requests(
    client: socket.socket, server: socket.socket, pending: list[Request], traffic: Traffic
) -> None:
    while data := _received(client):
        if data.startswith(_METHODS):
            line = data.split(b"\r\n", 1)[0].decode("ascii", "replace")
            request = Request(line, time.perf_counter())
            pending.append(request)
            traffic.requests.append(request)
        server.sendall(data)
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_WR)


def _answers(
    client: socket.socket, server: socket.socket, pending: list[Request], traffic: Traffic
) -> None:
    while data := _received(server):
        traffic.received += len(data)
        if data.startswith(b"HTTP/1.1 ") and pending and not data.startswith(b"HTTP/1.1 100"):
            time.sleep(traffic.delay_s)
            pending.pop(0).ended = time.perf_counter()
        with contextlib.suppress(OSError):
            client.sendall(data)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_WR)


def _received(side: socket.socket) -> bytes:
    try:
        return side.recv(1 << 16)
    except OSError:
        return b""

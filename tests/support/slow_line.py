"""A loopback line to a server that can be slow, and can be cut in the middle of an answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Line:
    """Where it listens; `delay_s` holds every answer back, `cut` lets none through."""

    endpoint: str
    delay_s: float = 0.0
    is_cut: bool = False
    open: set[socket.socket] = field(default_factory=set)
    broken: threading.Event = field(default_factory=threading.Event)

    def cut(self) -> None:
        """Break every connection, whatever was asked on it, and take no new one."""
        self.is_cut = True
        self.broken.set()
        for side in list(self.open):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        self.is_cut = False
        self.broken.clear()


@contextlib.contextmanager
def slow_line(endpoint: str) -> Iterator[Line]:
    """Forward loopback traffic to `endpoint` until the block ends."""
    host, _, port = endpoint.removeprefix("http://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    line = Line(f"http://127.0.0.1:{listener.getsockname()[1]}")

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed: the block ended
                return
            if line.is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                client.close()
                continue
            line.open |= {client, server}
            for source, sink, is_answer in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=_forward, args=(line, source, sink, is_answer), daemon=True
                ).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield line
    finally:
        listener.close()
        line.cut()


def _forward(line: Line, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            if is_answer and line.delay_s:
                line.broken.wait(line.delay_s)
            if line.is_cut:
                break
            sink.sendall(data)
    for side in (source, sink):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
    line.open.discard(source)
    source.close()

"""A loopback server that answers like embedding services do, and fails on request."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from omnigraph.embedders.mock import MockEmbedder

Fault = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, body: bytes = b"busy", **headers: str) -> Fault:
    """Answer with a status."""

    def fail(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return fail


def silence(seconds: float) -> Fault:
    """Answer nothing for a while."""
    return lambda handler: time.sleep(seconds)  # noqa: ARG005 - the fault is not to use it


@dataclass
class Service:
    """What the server was asked, and what it is still to do wrong."""

    url: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    width: int | None = None
    """Answer with so many dimensions instead of the asked ones."""
    pause_s: float = 0.0
    """Think so long before a good answer."""

    @property
    def texts(self) -> list[str]:
        """Every text that was embedded, in order."""
        found: list[str] = []
        for _, _, body in self.requests:
            given = body.get("input")
            if given is None:
                found.append(body["content"]["parts"][0]["text"])
            else:
                found += given
        return found


@contextlib.contextmanager
def embedding_service() -> Iterator[Service]:
    """Run a server on loopback; its vectors are three times those of the mock embedder."""
    service: Service

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.requests.append((self.path, dict(self.headers), body))
            if service.faults:
                service.faults.pop(0)(self)
                return
            time.sleep(service.pause_s)
            answer = json.dumps(_answer(self.path, body, service.width)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Service(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _answer(path: str, body: Any, width: int | None) -> Any:
    mock = MockEmbedder()
    if path.endswith("/embeddings"):
        rows = mock.embed_queries(body["input"], width or body["dimensions"]) * np.float32(3)
        data = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(rows)]
        return {"data": data[::-1]}
    text = body["content"]["parts"][0]["text"]
    row = mock.embed_queries([text], width or body["outputDimensionality"])[0] * np.float32(3)
    return {"embedding": {"values": row.tolist()}}

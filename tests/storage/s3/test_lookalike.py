"""A store that looks like S3 but ignores create-only writes is refused before it loses commits."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.options import DEFAULTS, S3Options
from tests.support.storage_model import empty_graph

EMPTY_LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<Name>graphs</Name><Prefix></Prefix><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys>
<IsTruncated>false</IsTruncated></ListBucketResult>"""


class Lookalike(BaseHTTPRequestHandler):
    """Takes every PUT, whatever its conditions."""

    protocol_version = "HTTP/1.1"
    written: list[str]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.written.append(self.path)
        self._answer(200, b"", ETag='"1"')

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, EMPTY_LISTING)
        else:
            self._answer(404, b"")

    do_HEAD = do_GET  # noqa: N815 - the name http.server calls

    def do_DELETE(self) -> None:
        self._answer(204, b"")

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        keys = b"".join(
            b"<Deleted>%s</Deleted>" % key for key in re.findall(b"<Key>.*?</Key>", asked)
        )
        self._answer(200, b"<DeleteResult>%s</DeleteResult>" % keys)

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def lookalike() -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (Lookalike,), {"written": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_store_that_ignores_create_only_writes_is_refused(lookalike):
    endpoint = f"http://127.0.0.1:{lookalike.server_port}"
    s3 = S3Options(endpoint, "key", "secret", region="us-east-1", allow_http=True)
    with pytest.raises(StorageError, match="create-only"):
        empty_graph("s3://graphs/g", replace(DEFAULTS, s3=s3))
    written = lookalike.RequestHandlerClass.written
    assert written, "nothing was probed"
    assert all("probe" in path for path in written), "something was written before the refusal"
